"""Narrow a batch read by the filters that Spark pushes down, on queues, offsets, store times and tags.

No IO. Spark checks every filter again, so filters that this module does not support are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.model import MessageQueue

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEYOND = 1 << 62

_EQUAL = ("EqualTo", "EqualNullSafe")
_SETS = ("topic", "brokerName", "queueId", "tags")


@dataclass(slots=True)
class Pruning:
    """The combination of all pushed-down filters.

    :ivar among: the values that a column may have, by column name; other columns are not restricted.
    :ivar offsets: queue offsets, from the first up to, not including, the second.
    :ivar times: store times in ms since 1970, from the first up to, not including, the second.
    """

    among: dict[str, frozenset[Any]] = field(default_factory=dict)
    offsets: tuple[int, int] = (0, _BEYOND)
    times: tuple[int, int] = (0, _BEYOND)

    def add(self, column: str, name: str, value: Any) -> None:
        """Add a condition, which all rows must meet in addition; one that is not supported changes nothing.

        :param name: name of PySpark's filter class, such as ``EqualTo``, ``In`` or ``GreaterThan``.
        """
        if column in _SETS and name in (*_EQUAL, "In"):
            values = frozenset(value if name == "In" else (value,))
            self.among[column] = self.among.get(column, values) & values
        elif column == "queueOffset" and type(value) is int:
            self.offsets = _within(self.offsets, name, value, value)
        elif column == "storeTimestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            exact = (value - _EPOCH) / timedelta(milliseconds=1)
            low = (value - _EPOCH) // timedelta(milliseconds=1)
            self.times = _within(self.times, name, low, low if exact == low else low + 1)

    def wants(self, queue: MessageQueue) -> bool:
        """Return True if the filters allow rows of ``queue``."""
        values = {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
        return all(value in self.among.get(column, (value,)) for column, value in values.items())

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags by which brokers should filter; empty if tags are not restricted or no expression can name them."""
        tags = sorted(tag for tag in self.among.get("tags", ()) if tag is not None)
        return tuple(tags) if all(_plain(tag) for tag in tags) else ()

    @property
    def by_time(self) -> bool:
        """True if the filters restrict the store time."""
        return self.times != (0, _BEYOND)

    def narrow(self, start: Offsets, stop: Offsets, since: Offsets, before: Offsets) -> tuple[Offsets, Offsets]:
        """Return the start and stop offsets of each queue, narrowed by the filters on offsets and times.

        :param since: by queue, the offset of the first message stored at or after the start of :attr:`times`.
        :param before: by queue, the offset of the first message stored at or after the end of :attr:`times`. Queues
            missing in ``since`` or ``before`` are not narrowed by time.
        """
        first, last = self.offsets
        return (
            {queue: max(offset, first, since.get(queue, 0)) for queue, offset in start.items()},
            {queue: min(offset, last, before.get(queue, _BEYOND)) for queue, offset in stop.items()},
        )


def _plain(tag: str) -> bool:
    """Return True if a tag can be written in a tag expression ``a || b``."""
    return bool(tag.strip()) and tag == tag.strip() and "|" not in tag and tag != "*"


def prune(conditions: Iterable[Any]) -> Pruning:
    """Combine the filter objects that PySpark pushes down, which are connected by AND."""
    pruning = Pruning()
    for condition in conditions:
        column = ".".join(getattr(condition, "attribute", ()))
        pruning.add(column, type(condition).__name__, getattr(condition, "value", None))
    return pruning


def _within(span: tuple[int, int], name: str, low: int, high: int) -> tuple[int, int]:
    """Return a range of numbers, narrowed by one filter.

    :param span: first number, and number after the last.
    :param name: name of PySpark's filter class, such as ``GreaterThan``.
    :param low: the value of the filter, rounded down to a whole number.
    :param high: the value of the filter, rounded up.
    """
    first, last = span
    if name in _EQUAL:
        return max(first, low), min(last, high + 1)
    lower: Mapping[str, int] = {"GreaterThan": low + 1, "GreaterThanOrEqual": high}
    upper: Mapping[str, int] = {"LessThan": high, "LessThanOrEqual": low + 1}
    return max(first, lower.get(name, first)), min(last, upper.get(name, last))
