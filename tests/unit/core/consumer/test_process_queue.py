import pytest

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


def test_the_commit_offset_is_the_smallest_held_offset(messages):
    held, pulled = ProcessQueue(QUEUE, 0.0), messages(3, 4, 5)
    held.put(pulled)
    assert held.ack([pulled[1]]) == 3
    assert held.ack([pulled[0]]) == 5
    assert held.ack([pulled[2]]) == 6
    assert held.ack([pulled[2]]) is None


def test_count_size_and_span_follow_what_is_held(messages):
    held, pulled = ProcessQueue(QUEUE, 0.0), messages(10, 11, 30, body=b"1234567")
    held.put(pulled, queue_end=40)
    assert (held.count, held.size, held.span, held.min_offset, held.accumulated) == (3, 21, 20, 10, 10)
    held.ack(pulled[:2])
    assert (held.count, held.size, held.span, held.min_offset) == (1, 7, 0, 30)
    held.ack(pulled)
    assert (held.count, held.size, held.span, held.min_offset) == (0, 0, 0, -1)


def test_a_repeated_message_counts_once(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(1, 2))
    held.put(messages(2, 3))
    assert (held.count, held.size, held.max_offset) == (3, 12, 3)


def test_late_offsets_are_sorted_in(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(8, 9))
    held.put(messages(4))
    assert held.min_offset == 4
    assert held.span == 5
    assert held.oldest().queue_offset == 4


def test_a_queue_without_pulls_for_two_minutes_is_expired():
    held = ProcessQueue(QUEUE, 100.0)
    assert not held.is_pull_expired(220.0)
    assert held.is_pull_expired(220.1)


def test_its_repr_shows_the_held_messages(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(8, 9))
    assert repr(held) == "ProcessQueue(T@broker-a:0, 2 messages from 8)"
    held.dropped = True
    assert repr(held) == "ProcessQueue(T@broker-a:0, dropped)"
    assert 8 in held


def test_a_new_queue_is_empty_and_counts_as_pulled_and_consumed_now():
    held = ProcessQueue(QUEUE, 12.5)
    assert (held.count, held.size, held.span, held.min_offset, held.max_offset) == (0, 0, 0, -1, -1)
    assert (held.accumulated, held.dropped, held.pulled_at, held.consumed_at) == (0, False, 12.5, 12.5)
    assert held.oldest() is None
    assert held.ack([]) is None
    assert not ProcessQueue.has_invisible_time


def test_messages_of_a_queue_are_held_until_acked(messages):
    held, pulled = ProcessQueue(QUEUE, 0.0), messages(0, 1)
    held.put(pulled)
    assert (0 in held, 1 in held, 2 in held) == (True, True, False)
    held.ack(pulled[:1])
    assert (held.holds(pulled[0]), held.holds(pulled[1])) == (False, True)
    assert held.oldest() is pulled[1]


def test_pulled_messages_are_usable_at_any_time_and_have_no_receipt(messages):
    held, [pulled] = ProcessQueue(QUEUE, 0.0), messages(1)
    held.put([pulled])
    assert held.is_usable(1e9)
    assert held.is_fresh(pulled, 1e9)
    assert held.release(pulled, 0.0) is None
    assert held.holds(pulled)


def test_an_empty_pull_changes_nothing(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(5), queue_end=9)
    held.put([], queue_end=99)
    assert (held.count, held.max_offset, held.accumulated) == (1, 5, 4)


@pytest.mark.parametrize(("end", "accumulated"), [(0, 0), (5, 0), (6, 1), (105, 100)])
def test_accumulated_messages_are_those_behind_the_last_pulled_one(messages, end, accumulated):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(5), end)
    assert held.accumulated == accumulated


def test_offsets_pulled_again_do_not_lower_the_offset_to_commit(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(8, 9))
    held.put(messages(4))
    assert held.max_offset == 9
    assert held.ack(messages(4, 8, 9)) == 10


def test_messages_that_are_not_held_do_not_change_the_size(messages):
    held = ProcessQueue(QUEUE, 0.0)
    held.put(messages(5, body=b"abc"))
    assert held.ack(messages(4, 6, body=b"abc")) == 5
    assert (held.count, held.size) == (1, 3)
