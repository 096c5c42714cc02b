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
