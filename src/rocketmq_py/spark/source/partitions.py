"""The partitions of a read, as Spark sends them to its executors: one range of a queue, or several in one task."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from rocketmq_py.spark.ranges import QueueRange
from rocketmq_py.spark.remoting.queues import Addresses, QueueRoutes


class QueuePartition(InputPartition):
    """A range of one queue, and the addresses the driver knew for it."""

    def __init__(self, wanted: QueueRange, addresses: Addresses) -> None:
        super().__init__(str(wanted.queue))
        self.range = wanted
        self.addresses = addresses


class SharedPartition(InputPartition):
    """Ranges of several queues, read one after the other, in few batches."""

    def __init__(self, members: Sequence[QueuePartition]) -> None:
        first, last = members[0].range.queue, members[-1].range.queue
        super().__init__(f"{len(members)} ranges, {first} to {last}")
        self.members = tuple(members)


def partition(together: Sequence[QueueRange], queues: QueueRoutes) -> InputPartition:
    """The partition of ranges that share a task, at least one."""
    parts = [QueuePartition(one, queues.addresses.get(one.queue, Addresses())) for one in together]
    return parts[0] if len(parts) == 1 else SharedPartition(parts)


def members(one: InputPartition) -> list[QueuePartition]:
    """The ranges of a partition; none for the placeholder that Spark uses for "no partition".

    :raises TypeError: it is neither that nor a partition of this source.
    """
    if isinstance(one, SharedPartition):
        return list(one.members)
    if isinstance(one, QueuePartition):
        return [one]
    if one.value is not None:
        raise TypeError(f"a partition of this source is expected, not {one!r}")
    return []
