"""Lets small ranges of a micro-batch share a task, since a task costs tens of milliseconds however little it reads.

Large ranges keep a task of their own; small ones are collected in the order of their queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.datasource import InputPartition

from rocketmq_py.spark.source.reader import QueuePartition

WORTH_A_TASK = 5000
"""Messages: with these, reading takes about as long as starting the task does."""


class SharedPartition(InputPartition):
    """Ranges of several queues, read one after the other, in few batches."""

    def __init__(self, members: Sequence[QueuePartition]) -> None:
        super().__init__(", ".join(str(member.range.queue) for member in members))
        self.members = tuple(members)


def share(partitions: Iterable[InputPartition], enough: int = WORTH_A_TASK) -> list[InputPartition]:
    """Combine small ranges.

    :param enough: number of messages from which on a partition gets a task of its own.
    """
    shared: list[InputPartition] = []
    small: list[QueuePartition] = []
    for partition in partitions:
        if not isinstance(partition, QueuePartition) or partition.range.size >= enough:
            shared.append(partition)
            continue
        small.append(partition)
        if sum(member.range.size for member in small) >= enough:
            shared.append(SharedPartition(small))
            small = []
    if small:
        shared.append(small[0] if len(small) == 1 else SharedPartition(small))
    return shared


def members(partition: InputPartition) -> Sequence[InputPartition]:
    """The ranges of a partition: several if they share a task, else the partition itself."""
    return partition.members if isinstance(partition, SharedPartition) else (partition,)
