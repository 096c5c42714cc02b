"""Which messages brokers are asked for: all, those with certain tags, those that fulfil an SQL expression. Pure."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.core.consumer.subscription import ALL, SQL92, TAG


class MessageFilter(NamedTuple):
    """What a pull subscribes to.

    :ivar expression: in the language of ``kind``.
    :ivar tags: the tags themselves: brokers compare their hashes only.
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
