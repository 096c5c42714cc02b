"""Narrows a batch read by the conditions of the query: queues, offsets, store times and tags.

Pure. Spark checks every condition again, so conditions that are not understood are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.options.offsets import Offsets

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEYOND = 1 << 62

_EQUAL = ("EqualTo", "EqualNullSafe")
_SETS = ("topic", "brokerName", "queueId", "tags")


@dataclass(slots=True)
class Pruning:
    """What is left to read under all conditions.

    :ivar among: values a column must be one of.
    :ivar offsets: offsets from the first up to, not including, the second.
    :ivar times: store times, in ms since 1970, likewise.
    """

    among: dict[str, frozenset[Any]] = field(default_factory=dict)
    offsets: tuple[int, int] = (0, _BEYOND)
    times: tuple[int, int] = (0, _BEYOND)

    def wants(self, queue: MessageQueue) -> bool:
        """True if a queue can hold a row."""
        values = {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
        return all(value in self.among.get(column, (value,)) for column, value in values.items())

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags to ask brokers for; none if brokers cannot filter by them."""
        tags = sorted(tag for tag in self.among.get("tags", ()) if tag is not None)
        return tuple(tags) if all(_plain(tag) for tag in tags) else ()

    @property
    def by_time(self) -> bool:
        """True if the store time is bounded."""
        return self.times != (0, _BEYOND)

    def narrow(self, start: Offsets, stop: Offsets, since: Offsets, before: Offsets) -> tuple[Offsets, Offsets]:
        """The start and stop of each queue.

        :param since: the offset of the first message of ``times``, of queues where that is known.
        :param before: the offset behind the last one.
        """
        first, last = self.offsets
        return (
            {queue: max(offset, first, since.get(queue, 0)) for queue, offset in start.items()},
            {queue: min(offset, last, before.get(queue, _BEYOND)) for queue, offset in stop.items()},
        )


def _plain(tag: str) -> bool:
    """True if a tag can be part of a tag expression."""
    return bool(tag.strip()) and tag == tag.strip() and "|" not in tag and tag != "*"


def prune(conditions: Iterable[Any]) -> Pruning:
    """Combine the filters that PySpark pushes down, all of which must hold."""
    pruning = Pruning()
    for condition in conditions:
        column = ".".join(getattr(condition, "attribute", ()))
        name = type(condition).__name__
        value: Any = getattr(condition, "value", None)
        if column in _SETS and name in (*_EQUAL, "In"):
            values = frozenset(value if name == "In" else (value,))
            pruning.among[column] = pruning.among.get(column, values) & values
        elif column == "queueOffset" and type(value) is int:
            pruning.offsets = _within(pruning.offsets, name, value, value)
        elif column == "storeTimestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            exact = (value - _EPOCH) / timedelta(milliseconds=1)
            low = (value - _EPOCH) // timedelta(milliseconds=1)
            pruning.times = _within(pruning.times, name, low, low if exact == low else low + 1)
    return pruning


def _within(span: tuple[int, int], name: str, low: int, high: int) -> tuple[int, int]:
    """``span`` under a condition on a whole number; ``low`` and ``high`` are its value rounded down and up."""
    first, last = span
    if name in _EQUAL:
        return max(first, low), min(last, high + 1)
    lower: Mapping[str, int] = {"GreaterThan": low + 1, "GreaterThanOrEqual": high}
    upper: Mapping[str, int] = {"LessThan": high, "LessThanOrEqual": low + 1}
    return max(first, lower.get(name, first)), min(last, upper.get(name, last))
