"""Messages prefetched for polling threads: each is returned once and in order."""

from __future__ import annotations

import pytest

from rocketmq_py.client.consumer.lite_pull import handoff
from rocketmq_py.client.consumer.lite_pull.handoff import Handoff
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.consumer.lite_pull import MessageCache
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue, RecordHead
from rocketmq_py.wire.record import decode_records, encode_record

QUEUE = MessageQueue("T", "b", 0)


def messages(first: int, end: int) -> list[MessageExt]:
    heads = [RecordHead(0, 0, 0, 0, 0, i, 1000 + i, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0) for i in range(first, end)]
    return decode_records(b"".join(encode_record(head, "T", b"x", b"") for head in heads), "b")


class Bench:
    """A cache with messages of one queue in batches of two, and a handoff."""

    def __init__(self, batches: int) -> None:
        self.cache = MessageCache(FlowLimits(), 10_000, 2)
        self.process = ProcessQueue(QUEUE, now=0.0)
        self.cache.positions[QUEUE] = 0
        for i in range(batches):
            self.cache.put(self.process, messages(2 * i, 2 * i + 2), 2 * batches)
        self.handoff = Handoff()
        self.consumed: list[MessageQueue] = []

    def reclaim(self) -> int:
        self.handoff.reclaim(self.cache, self.consumed.append)
        return self.cache.positions[QUEUE]

    def poll(self, upto: int = 2) -> list[int]:
        batch = self.handoff.take()
        if batch is None:
            return []
        begin, batch.at = batch.at, upto
        self.handoff.taken(batch)
        return [message.queue_offset for message in batch.messages[begin:upto]]


@pytest.fixture
def now(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(handoff, "monotonic", lambda: clock[0])
    return clock


def test_poll_returns_only_prefetched_messages(now):
    bench = Bench(2)
    assert bench.poll() == []
    bench.handoff.fill(bench.cache)
    assert (bench.poll(), bench.poll(), bench.poll()) == ([0, 1], [2, 3], [])
    assert bench.reclaim() == 4
    assert bench.consumed == [QUEUE, QUEUE]


def test_reclaimed_messages_are_returned_again_in_order(now):
    bench = Bench(3)
    bench.handoff.fill(bench.cache)
    assert bench.poll() == [0, 1]
    assert bench.reclaim() == 2
    assert [bench.cache.take()[0].queue_offset for _ in range(2)] == [2, 4]


def test_prefetched_messages_expire(now):
    bench = Bench(2)
    bench.handoff.fill(bench.cache)
    assert bench.poll() == [0, 1]
    now[0] += 0.2
    assert bench.poll() == []
    assert bench.reclaim() == 2
    bench.handoff.fill(bench.cache)
    assert bench.poll() == [2, 3]


def test_the_rest_of_a_batch_comes_before_the_next(now):
    bench = Bench(2)
    bench.handoff.fill(bench.cache)
    assert bench.poll(upto=1) == [0]
    assert bench.poll() == []
    assert bench.reclaim() == 1
    bench.handoff.fill(bench.cache)
    assert (bench.poll(), bench.poll()) == ([1], [2, 3])


def test_messages_of_a_removed_queue_are_skipped(now):
    bench = Bench(2)
    bench.handoff.fill(bench.cache)
    bench.process.dropped = True
    assert bench.poll() == []
    bench.reclaim()
    assert bench.cache.empty


def test_sixteen_batches_are_ready_at_most_for_a_tenth_of_a_second(now):
    bench = Bench(18)
    bench.handoff.fill(bench.cache)
    now[0] += 0.0999
    polled = [bench.poll() for _ in range(17)]
    assert polled == [[2 * number, 2 * number + 1] for number in range(16)] + [[]]
    bench.reclaim()
    bench.handoff.fill(bench.cache)
    now[0] += 0.1001
    assert bench.poll() == []
