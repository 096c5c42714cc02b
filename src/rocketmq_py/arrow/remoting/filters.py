"""The message filter of a read: all messages, some tags, or an SQL92 expression. No IO."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.core.consumer.subscription import ALL, SQL92, TAG


class MessageFilter(NamedTuple):
    """The filter that brokers apply to the messages of a pull.

    :ivar expression: the filter expression.
    :ivar kind: the type of the expression: TAG or SQL92.
    :ivar tags: the tags of the expression, by which readers filter again, since brokers compare hashes only.
    """

    expression: str = ALL
    kind: str = TAG
    tags: frozenset[str] = frozenset()

    @property
    def takes_all(self) -> bool:
        """True if all messages match."""
        return self.kind == TAG and self.expression == ALL


EVERYTHING = MessageFilter()


def message_filter(tags: tuple[str, ...], sql: str | None) -> MessageFilter:
    """Return the filter for the values of options ``tags`` and ``sql``; all messages match if both are empty."""
    if sql is not None:
        return MessageFilter(sql, SQL92)
    return MessageFilter(" || ".join(tags), TAG, frozenset(tags)) if tags else EVERYTHING
