"""Partitions on their way to executors."""

from __future__ import annotations

import pickle
import pickletools

import pytest

pytest.importorskip("pyspark")

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.source.partitions import SharedPartition, members, packed, partition


def located(
    queue_id: int, broker: str = "a", topic: str = "t", at: Addresses | None = None,
    span: tuple[int, int] | None = None,
) -> LocatedRange:  # fmt: skip
    queue = MessageQueue(topic, broker, queue_id)
    return LocatedRange(QueueRange(queue, 5, 5 + queue_id), at or Addresses(f"{broker}:1", ((1, "b:1"),), broker), span)


def test_ranges_arrive_as_they_were_sent() -> None:
    ranges = [
        located(1), located(2), located(3, topic="u"), located(4, "b"), located(5, "b", at=Addresses("c:1")),
        located(6, "b", at=Addresses("c:1"), span=(7, 8)), located(7),
    ]  # fmt: skip
    sent = partition(ranges)
    assert isinstance(sent, SharedPartition)
    arrived = pickle.loads(pickle.dumps(sent))
    assert members(arrived) == ranges
    assert arrived.value == sent.value
    assert [type(one) for one in arrived.members] == [LocatedRange] * len(ranges)
    assert [len(numbers) for *_, numbers in packed(ranges)] == [2, 1, 1, 1, 1, 1]


def test_a_single_range_arrives_too() -> None:
    assert members(pickle.loads(pickle.dumps(partition([located(3)])))) == [located(3)]


def test_what_many_ranges_share_is_sent_once() -> None:
    """A driver sends thousands of ranges with each task, and a worker makes them before it asks for the first one."""
    text = pickletools.genops(pickle.dumps(partition([located(number) for number in range(1, 1000)])))
    named = [argument for _, argument, _ in text if argument in ("t", "a", "a:1")]
    assert len(named) <= 4
