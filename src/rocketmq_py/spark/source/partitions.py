"""The partitions of a read, which Spark sends to its executors: one range of a queue, or several ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql.datasource import InputPartition

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.model import MessageQueue


class QueuePartition(InputPartition):
    """A range of one queue, and where its messages were when the driver planned the read."""

    def __init__(self, located: LocatedRange) -> None:
        super().__init__(str(located.range.queue))
        self.located = located


class SharedPartition(InputPartition):
    """Several ranges, which one task reads one after the other and merges into few record batches."""

    def __init__(self, members: Sequence[LocatedRange]) -> None:
        first, last = members[0].range.queue, members[-1].range.queue
        super().__init__(f"{len(members)} ranges, {first} to {last}")
        self.members = tuple(members)

    def __reduce__(self) -> tuple[Callable[[Packed], SharedPartition], tuple[Packed]]:
        return unpacked, (packed(self.members),)


Numbers = tuple[int, int, int]
"""Queue id, start and stop of a range."""
Packed = list[tuple[str, str, Addresses, tuple[int, int] | None, list[Numbers]]]
"""Ranges by what consecutive ones share, topic, broker name, addresses and span: a third of the bytes and the time."""


def packed(ranges: Iterable[LocatedRange]) -> Packed:
    """Return ranges, in order, in the form that is sent to executors."""
    found: Packed = []
    last, numbers = None, list[Numbers]()
    for (queue, start, stop), addresses, span in ranges:
        shared = queue.topic, queue.broker_name, addresses, span
        if shared != last:
            last, numbers = shared, []
            found.append((*shared, numbers))
        numbers.append((queue.queue_id, start, stop))
    return found


def unpacked(sent: Packed) -> SharedPartition:
    """Return the partition of what :func:`packed` returned."""
    return SharedPartition([
        LocatedRange(QueueRange(MessageQueue(topic, broker_name, queue_id), start, stop), addresses, span)
        for topic, broker_name, addresses, span, numbers in sent
        for queue_id, start, stop in numbers
    ])  # fmt: skip


def partition(together: Sequence[LocatedRange]) -> InputPartition:
    """Return the partition for one or more ranges that share a task."""
    return QueuePartition(together[0]) if len(together) == 1 else SharedPartition(together)


def members(one: InputPartition) -> list[LocatedRange]:
    """Return the ranges of a partition; empty for the placeholder that Spark reads if there are no partitions.

    :raises TypeError: the partition is of another source.
    """
    if isinstance(one, SharedPartition):
        return list(one.members)
    if isinstance(one, QueuePartition):
        return [one.located]
    if one.value is not None:
        raise TypeError(f"a partition of this source is expected, not {one!r}")
    return []
