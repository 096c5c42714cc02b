"""The message filter of a read: all messages, some tags, or an SQL92 expression. Pure."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.core.consumer.subscription import ALL, SQL92, TAG


class MessageFilter(NamedTuple):
    """What a pull subscribes to.

    :ivar expression: in the language of ``kind``.
    :ivar tags: the tags themselves. Brokers compare hashes only, so readers compare them again.
    """

    expression: str = ALL
    kind: str = TAG
    tags: frozenset[str] = frozenset()

    @property
    def takes_all(self) -> bool:
        """Whether every message is wanted."""
        return self.kind == TAG and self.expression == ALL


EVERYTHING = MessageFilter()


def message_filter(tags: tuple[str, ...], sql: str | None) -> MessageFilter:
    """The filter of options ``tags`` and ``sql``."""
    if sql is not None:
        return MessageFilter(sql, SQL92)
    return MessageFilter(" || ".join(tags), TAG, frozenset(tags)) if tags else EVERYTHING
