"""The stopwatch of listeners: looks instead of notes."""

from rocketmq_py.core.processqueue import ProcessQueue
from rocketmq_py.core.stuck import Stopwatch
from rocketmq_py.model import MessageQueue

A = ProcessQueue(MessageQueue("T", "b", 0), 0.0)
B = ProcessQueue(MessageQueue("T", "b", 1), 0.0)


def test_a_call_is_stuck_once_it_was_seen_for_long_enough_and_told_of_once() -> None:
    watch = Stopwatch(10.0)
    assert watch.look([(A, 1), (B, 5)], 100.0) == ([], [])
    assert watch.look([(A, 1)], 109.9) == ([], [])
    [one] = watch.look([(A, 1), (A, 2)], 110.0).stuck
    assert one == ((A, 1), 10.0)
    assert watch.look([(A, 1), (A, 2)], 115.0) == ([], [])
    assert watch.stuck(120.0) == [((A, 1), 20.0)]
    assert [one.key for one in watch.look([(A, 1), (A, 2)], 121.0).stuck] == [(A, 2)]
    assert [one.key for one in watch.stuck(121.0)] == [(A, 1), (A, 2)], "the longest first"


def test_the_end_of_a_stuck_call_is_told_and_that_of_others_is_not() -> None:
    watch = Stopwatch(10.0)
    watch.look([(A, 1), (A, 2)], 0.0)
    watch.look([(A, 1)], 10.0)
    looked = watch.look([], 12.0)
    assert looked.ended == [((A, 1), 12.0)]
    assert watch.look([], 13.0) == ([], [])
    assert watch.stuck(13.0) == []


def test_a_call_that_comes_again_begins_anew() -> None:
    watch = Stopwatch(10.0)
    watch.look([(A, 1)], 0.0)
    assert watch.since(A, 1) == 0.0
    watch.look([], 5.0)
    assert watch.since(A, 1) is None
    watch.look([(A, 1)], 6.0)
    assert watch.look([(A, 1)], 15.0).stuck == []
    assert watch.since(A, 1) == 6.0
    assert watch.since(B, 1) is None
