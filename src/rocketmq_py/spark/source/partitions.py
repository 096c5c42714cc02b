"""The partitions of a read, which Spark sends to its executors: one range of a queue, or several ranges."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange, QueueRoutes


class QueuePartition(InputPartition):
    """A range of one queue, and the addresses of its broker when the driver planned the read."""

    def __init__(self, wanted: QueueRange, addresses: Addresses) -> None:
        super().__init__(str(wanted.queue))
        self.range = wanted
        self.addresses = addresses


class SharedPartition(InputPartition):
    """Several ranges, which one task reads one after the other and merges into few record batches."""

    def __init__(self, members: Sequence[LocatedRange]) -> None:
        first, last = members[0].range.queue, members[-1].range.queue
        super().__init__(f"{len(members)} ranges, {first} to {last}")
        self.members = tuple(members)


def partition(together: Sequence[QueueRange], queues: QueueRoutes) -> InputPartition:
    """Return the partition for one or more ranges that share a task.

    :param queues: addresses of the brokers; a queue that is missing there is looked up by the task.
    """
    parts = [LocatedRange(one, queues.addresses.get(one.queue, Addresses())) for one in together]
    return QueuePartition(*parts[0]) if len(parts) == 1 else SharedPartition(parts)


def members(one: InputPartition) -> list[LocatedRange]:
    """Return the ranges of a partition; empty for the placeholder that Spark reads if there are no partitions.

    :raises TypeError: the partition is of another source.
    """
    if isinstance(one, SharedPartition):
        return list(one.members)
    if isinstance(one, QueuePartition):
        return [LocatedRange(one.range, one.addresses)]
    if one.value is not None:
        raise TypeError(f"a partition of this source is expected, not {one!r}")
    return []
