"""The stopwatch of listeners: looks instead of notes."""

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.stuck_listeners import StuckCallDetector, call_position
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.model import MessageExt, MessageQueue

A = ProcessQueue(MessageQueue("T", "b", 0), 0.0)
B = ProcessQueue(MessageQueue("T", "b", 1), 0.0)


def message(offset: int, queue_id: int = 0) -> MessageExt:
    return MessageExt((0, 0, 0, queue_id, 0, offset, offset, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"", "b")


M1, M2, M5 = message(1), message(2), message(5)


def test_a_long_call_is_reported_as_stuck_once() -> None:
    watch = StuckCallDetector(10.0)
    assert watch.inspect([(A, M1), (B, M5)], 100.0) == ([], [])
    assert watch.inspect([(A, M1)], 109.9) == ([], [])
    [one] = watch.inspect([(A, M1), (A, M2)], 110.0).stuck
    assert one == ((A, M1), 10.0)
    assert watch.inspect([(A, M1), (A, M2)], 115.0) == ([], [])
    assert watch.stuck(120.0) == [((A, M1), 20.0)]
    assert [one.key for one in watch.inspect([(A, M1), (A, M2)], 121.0).stuck] == [(A, M2)]
    assert [one.key for one in watch.stuck(121.0)] == [(A, M1), (A, M2)], "the longest first"


def test_only_the_end_of_a_stuck_call_is_reported() -> None:
    watch = StuckCallDetector(10.0)
    watch.inspect([(A, M1), (A, M2)], 0.0)
    watch.inspect([(A, M1)], 10.0)
    looked = watch.inspect([], 12.0)
    assert looked.ended == [((A, M1), 12.0)]
    assert watch.inspect([], 13.0) == ([], [])
    assert watch.stuck(13.0) == []


def test_a_repeated_call_is_timed_from_its_own_start() -> None:
    watch = StuckCallDetector(10.0)
    watch.inspect([(A, M1)], 0.0)
    assert watch.since(A, M1) == 0.0
    watch.inspect([], 5.0)
    assert watch.since(A, M1) is None
    watch.inspect([(A, M1)], 6.0)
    assert watch.inspect([(A, M1)], 15.0).stuck == []
    assert watch.since(A, M1) == 6.0
    assert watch.since(B, M1) is None


def test_a_call_is_identified_by_the_queue_of_its_message() -> None:
    assert call_position((B, M5)) == (B.queue, 5)
    popped = PopQueue(MessageQueue("T", "b", -1), 0.0)
    assert call_position((popped, message(7, 3))) == (MessageQueue("T", "b", 3), 7)
