"""Filters of a subscription, on the tags code of a consume queue entry or on the stored message.

Brokers compare tags by hash; clients compare the tags themselves, because two tags may have one hash. SQL expressions
are evaluated on stored properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from rocketmq_py.core.sql92 import SqlFilter
from rocketmq_py.errors import CorruptRecord, shortened
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.wire.record import record_properties

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"

_COST_OF_A_REQUEST = 100_000
"""About 30 ms: a read of 800 messages, the most that Java's brokers scan, evaluates about 125 nodes for each."""

TagsCodeFilter = Callable[[int], bool]
"""True if the message with a tags code matches."""

RecordFilter = Callable[[bytes], bool]
"""True if a stored record matches."""


def is_tag_type(expression_type: str | None) -> bool:
    """True if an expression type means tags: it is absent, empty or ``TAG``."""
    return not expression_type or expression_type == TAG


def tag_filter(subscription: SubscriptionData) -> TagsCodeFilter | None:
    """Return a subscription's filter on tags codes; None if every message matches."""
    by_tag = is_tag_type(subscription.expression_type) and not subscription.class_filter_mode
    if subscription.sub_string == ALL or not by_tag:
        return None
    return _membership(frozenset(subscription.code_set))


@lru_cache(maxsize=1024)
def _membership(codes: frozenset[int]) -> TagsCodeFilter:
    # A stored code is the 32-bit hash extended to 64 bits: both sides compare as plain integers.
    return codes.__contains__


@lru_cache(maxsize=1024)
def parse_subscription(topic: str, expression: str | None, expression_type: str | None) -> SubscriptionData:
    """Return the subscription that a pull request carries.

    :raises BadHeader: the expression names no tag.
    """
    return SubscriptionData.parse(topic, expression, 0, expression_type or TAG)


def differences(these: Iterable[SubscriptionData], those: Iterable[SubscriptionData]) -> list[str]:
    """Describe how the subscriptions of two members of a group differ; empty if they agree.

    A broker keeps one subscription per group, the newest. Members that differ take messages from each other and lose
    them.
    """
    mine, others = ({one.topic: one for one in side} for side in (these, those))
    return [
        f"topic {topic}: {_said(mine.get(topic))} here, {_said(others.get(topic))} there"
        for topic in sorted(mine.keys() | others.keys())
        if _meaning(mine.get(topic)) != _meaning(others.get(topic))
    ]


def _meaning(subscription: SubscriptionData | None) -> object:
    if subscription is None:
        return None
    if is_tag_type(subscription.expression_type):
        return frozenset(subscription.tags_set)
    return subscription.expression_type, subscription.sub_string


def _said(subscription: SubscriptionData | None) -> str:
    return "not subscribed" if subscription is None else repr(shortened(subscription.sub_string, 200))


def accepts_any(accepts: TagsCodeFilter | None, tags_codes: Iterable[int]) -> bool:
    """True if one of several new messages matches."""
    return accepts is None or any(map(accepts, tags_codes))


class SqlRecords:
    """A filter of records by expression; see :func:`sql_filter`.

    It serves one request and adds up its cost, because a pop reads many queues with one filter.
    """

    __slots__ = ("_cost", "_find", "_left")

    def __init__(self, find: Callable[[Mapping[str, str]], SqlFilter | None], cost: int) -> None:
        self._find = find
        self._cost = cost
        self._left = _COST_OF_A_REQUEST

    @property
    def most_records(self) -> int:
        """The most further records a read may evaluate, at least one; the rest is left for the next request."""
        return max(1, self._left // self._cost)

    @property
    def is_spent(self) -> bool:
        """True if the request has evaluated as many records as it may."""
        return self._left < self._cost

    def __call__(self, record: bytes) -> bool:
        self._left -= self._cost
        try:
            properties = decode_properties(record_properties(record))
        except CorruptRecord:
            return True  # the reader of the record reports the fault
        asked = self._find(properties)
        return asked is None or asked.matches(properties)


def sql_filter(find: Callable[[Mapping[str, str]], SqlFilter | None], cost: int = 1) -> SqlRecords:
    """Return a filter of records by expression.

    :param find: returns the expression for a message with these properties; None if every such message matches.
    :param cost: upper bound of the expression's cost; see :class:`~rocketmq_py.core.sql92.SqlFilter`.
    """
    return SqlRecords(find, cost)
