"""The partitions of a read, which Spark sends to its executors: one range of a queue, or several ranges."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from rocketmq_py.arrow.remoting.queues import LocatedRange


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
