"""Filters of a subscription: by the tags code in a consume queue entry, or by an SQL expression on a stored message.

Brokers compare the hashes of tags; clients compare the tags themselves, because two tags may have the same hash.
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
"""Limit for the cost of all evaluations of one request, in nodes of expressions; they take about 30 ms. It allows 125
nodes for each of 800 messages, the number that Java brokers scan at most.
"""

TagsCodeFilter = Callable[[int], bool]
"""Filter by tags code: returns True if a message with this tags code matches."""

RecordFilter = Callable[[bytes], bool]
"""Filter by content: returns True if a stored record matches."""


def is_tag_type(expression_type: str | None) -> bool:
    """Return True if an expression type means tags: None, empty or ``TAG``."""
    return not expression_type or expression_type == TAG


def tag_filter(subscription: SubscriptionData) -> TagsCodeFilter | None:
    """Return a subscription's filter by tags code; None if it does not filter by tags."""
    by_tag = is_tag_type(subscription.expression_type) and not subscription.class_filter_mode
    if subscription.sub_string == ALL or not by_tag:
        return None
    return _membership(frozenset(subscription.code_set))


@lru_cache(maxsize=1024)
def _membership(codes: frozenset[int]) -> TagsCodeFilter:
    # A stored code is the signed 32-bit hash extended to 64 bits, so it equals the code of the subscription.
    return codes.__contains__


@lru_cache(maxsize=1024)
def parse_subscription(topic: str, expression: str | None, expression_type: str | None) -> SubscriptionData:
    """Build the subscription from the fields of a pull request; results are cached.

    :raises BadHeader: the expression consists of separators only.
    """
    return SubscriptionData.parse(topic, expression, 0, expression_type or TAG)


def differences(these: Iterable[SubscriptionData], those: Iterable[SubscriptionData]) -> list[str]:
    """Return a description of each topic in which the subscriptions of two members of a group differ; empty if none.

    A broker keeps one subscription per group and topic, the newest. If members subscribe differently, each loses
    messages that are filtered by the subscription of the other.
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
    """Return True if a filter accepts at least one of the tags codes; None as filter accepts every message."""
    return accepts is None or any(map(accepts, tags_codes))


class SqlRecords:
    """A filter of records by an SQL expression, for one request; made by :func:`sql_filter`.

    It limits the cost of all evaluations of the request together, because a pop reads many queues with one filter.
    """

    __slots__ = ("_cost", "_find", "_left")

    def __init__(self, find: Callable[[Mapping[str, str]], SqlFilter | None], cost: int) -> None:
        self._find = find
        self._cost = cost
        self._left = _COST_OF_A_REQUEST

    @property
    def most_records(self) -> int:
        """Maximum number of records that the next read of this request may evaluate; at least 1."""
        return max(1, self._left // self._cost)

    @property
    def is_spent(self) -> bool:
        """True if the request has reached its limit of evaluations, so that it should read no more records."""
        return self._left < self._cost

    def __call__(self, record: bytes) -> bool:
        self._left -= self._cost
        try:
            properties = decode_properties(record_properties(record))
        except CorruptRecord:
            return True  # the consumer that decodes the record reports the damage
        asked = self._find(properties)
        return asked is None or asked.matches(properties)


def sql_filter(find: Callable[[Mapping[str, str]], SqlFilter | None], cost: int = 1) -> SqlRecords:
    """Return a filter of records by SQL expression, for one request.

    :param find: returns the expression to evaluate for a message with these properties; None accepts the message.
    :param cost: maximum cost of one evaluation; see :class:`~rocketmq_py.core.sql92.SqlFilter`.
    """
    return SqlRecords(find, cost)
