"""The cache of a lite pull consumer: returned and consumed messages, and when pulling waits."""

import pytest

from rocketmq_py.core.consumer.flow_control import FlowLimits, PullStep
from rocketmq_py.core.consumer.lite_pull import PULL_FLAGS, MessageCache
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.wire.record import decode_records, encode_record

A, B = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def messages(first, end):
    heads = [RecordHead(0, 0, 0, 0, 0, i, 1000 + i, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0) for i in range(first, end)]
    return decode_records(b"".join(encode_record(head, "T", b"x", b"") for head in heads), "b")


def offsets(found):
    return [message.queue_offset for message in found]


@pytest.fixture
def cache():
    return MessageCache(FlowLimits(), 10000, 10)


@pytest.fixture
def a():
    return ProcessQueue(A, 0.0)


@pytest.fixture
def b():
    return ProcessQueue(B, 0.0)


def admitted(cache, process, **more):
    return cache.decide_pull(process, running=True, **more)


def test_batches_are_returned_whole_and_in_order(cache, a, b):
    cache.put(a, messages(0, 3), 9)
    cache.put(b, messages(5, 6), 9)
    assert [offsets(cache.take()) for _ in range(3)] == [[0, 1, 2], [5], []]
    assert cache.positions == {A: 3, B: 6}
    assert cache.empty


def test_the_position_is_the_first_unreturned_message(cache, a):
    cache.put(a, messages(0, 2), 9)
    cache.put(a, messages(4, 6), 9)
    assert cache.take_one().queue_offset == 0
    assert cache.positions == {A: 1}
    assert offsets(cache.take()) == [1]
    assert cache.positions == {A: 4}
    assert [cache.take_one().queue_offset for _ in range(2)] == [4, 5]
    assert (cache.positions, cache.take_one()) == ({A: 6}, None)


def test_filtered_messages_move_the_position_only_of_an_empty_queue(cache, a):
    cache.skip(a, 4)
    assert cache.positions == {A: 4}
    cache.put(a, messages(4, 5), 9)
    cache.skip(a, 8)
    assert cache.positions == {A: 4}
    cache.take()
    cache.skip(a, 9)
    assert cache.positions == {A: 9}


def test_the_rest_of_a_batch_is_returned_next(cache, a, b):
    cache.put(a, messages(0, 3), 9)
    cache.put(b, messages(0, 1), 9)
    lent = cache.borrow_batch()
    lent.at = 2
    assert cache.positions == {}
    cache.settle(lent)
    assert cache.positions == {A: 2}
    assert [offsets(cache.take()) for _ in range(2)] == [[2], [0]]
    assert cache.borrow_batch() is None


def test_messages_of_a_lost_queue_are_neither_returned_nor_counted(cache, a, b):
    cache.put(a, messages(0, 3), 9)
    cache.put(b, messages(0, 1), 9)
    lent = cache.borrow_batch()
    a.dropped = True
    cache.forget(a)
    cache.settle(lent)
    cache.put(a, messages(3, 4), 9)
    cache.skip(a, 5)
    assert offsets(cache.take()) == [0]
    assert (cache.positions, cache.take()) == ({B: 1}, [])


def test_a_dropped_queue_is_skipped(cache, a, b):
    cache.put(a, messages(0, 1), 9)
    cache.put(b, messages(0, 1), 9)
    a.dropped = True
    assert cache.take()[0].queue_id == 0  # records say 0 whatever queue they are put into
    assert cache.positions == {B: 1}


def test_a_seek_drops_held_messages_and_keeps_the_pause(cache, a):
    cache.put(a, messages(0, 3), 9)
    cache.paused.add(A)
    new = ProcessQueue(A, 0.0)
    cache.move(a, new, 7)
    assert a.dropped
    assert (cache.empty, cache.positions, cache.paused) == (True, {A: 7}, {A})
    cache.move(new, ProcessQueue(A, 0.0), 1)
    assert cache.positions == {A: 1}


def test_pulling_waits_in_the_cases_of_java(a, b):
    cache = MessageCache(FlowLimits(count=5, span=100), 20, 10)
    assert admitted(cache, a).step is PullStep.PULL
    assert cache.decide_pull(a, running=False).reason == "not running"
    cache.paused.add(A)
    assert (admitted(cache, a).reason, admitted(cache, b).step) == ("suspended", PullStep.PULL)
    cache.paused.clear()
    assert admitted(cache, a, coming=6).reason == "count"
    for first in range(3):
        assert admitted(cache, a).step is PullStep.PULL
        cache.put(b, messages(first, first + 1), 9)
    assert admitted(cache, a).reason == "count"  # 3 batches of 10 are more than 20
    cache.take()
    assert admitted(cache, a).step is PullStep.PULL
    a.dropped = True
    assert admitted(cache, a).step is PullStep.DROP


def test_the_flags_of_a_lite_pull_are_suspend_subscription_and_lite():
    assert PULL_FLAGS == 0x16
