"""Small ranges share a task, large ones do not."""

from __future__ import annotations

import pickle

from hypothesis import given, strategies as st

from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.ranges import QueueRange
from rocketmq_py.spark.remoting.queues import Addresses
from rocketmq_py.spark.source.reader import QueuePartition
from rocketmq_py.spark.source.task_sharing import members, share


def partitions(*sizes: int) -> list[QueuePartition]:
    queues = [MessageQueue("t", "a", number) for number in range(len(sizes))]
    return [
        QueuePartition(QueueRange(queue, 10, 10 + size), Addresses()) for queue, size in zip(queues, sizes, strict=True)
    ]


def sizes(shared) -> list[list[int]]:
    return [[member.range.size for member in members(one)] for one in shared]


def test_a_few_messages_of_many_queues_are_one_task() -> None:
    assert sizes(share(partitions(3, 2, 3, 2))) == [[3, 2, 3, 2]]


def test_large_ranges_get_their_own_task_and_small_ones_share() -> None:
    assert sizes(share(partitions(2500, 9000, 2500, 1, 2500), 5000)) == [[9000], [2500, 2500], [1, 2500]]


def test_a_single_partition_is_not_shared() -> None:
    (one,) = partitions(1)
    assert share([one]) == [one]
    assert share([]) == []


def test_a_shared_partition_can_be_pickled() -> None:
    (shared,) = share(partitions(1, 2))
    assert sizes([pickle.loads(pickle.dumps(shared))]) == [[1, 2]]


@given(st.lists(st.integers(1, 100), max_size=20), st.integers(1, 120))
def test_sharing_keeps_all_ranges_and_makes_large_tasks(given_sizes: list[int], enough: int) -> None:
    shared = sizes(share(partitions(*given_sizes), enough))
    assert sorted(size for one in shared for size in one) == sorted(given_sizes)
    assert all(sum(one) >= enough for one in shared[:-1])
