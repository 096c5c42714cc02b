import pytest

from rocketmq_py.core.pop.receipts import (
    ALL_QUEUES,
    GIVE_BACK,
    RENEW_AT,
    BrokerClock,
    PoppedMessage,
    PopQueue,
    PopRun,
    are_retries_used_up,
    attach_receipts,
    batch_acks,
    init_mode,
    missing_offsets,
    pop_numbers,
    retry_delay,
    split_by_queue,
)
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import ConsumeFromWhere, MessageExt, MessageQueue
from rocketmq_py.protocol.headers.pop import PopResponse
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode, decode_bits

ALL = MessageQueue("T", "b", -1)


def message(offset, queue_id=0, topic="T", properties=b"", body=b"x"):
    return MessageExt((0, 0, 0, queue_id, 0, offset, 0, 0, 0, b"", 0, b"", 0, 0, 1), topic, body, properties)


def answer(**more):
    return PopResponse(pop_time=1000, invisible_time=60000, revive_qid=3, rest_num=0, **more)


def popped(*messages, **more):
    return attach_receipts(messages, "T", "b", answer(**more), order=False)


# -- when a failed message comes again


@pytest.mark.parametrize(
    ("times", "level", "seconds"),
    [(0, 0, 10), (1, 0, 30), (15, 0, 7200), (16, 0, 7200), (99, 0, 7200), (0, 1, 30), (5, 3, 120), (0, 18, 7200)],
)
def test_retry_delays_grow_unless_the_listener_sets_one(times, level, seconds):
    assert retry_delay(times, level) == seconds


def test_a_message_is_dead_after_its_last_retry_or_when_the_listener_decides():
    assert not are_retries_used_up(15, 16, 0)
    assert are_retries_used_up(16, 16, 0)
    assert are_retries_used_up(0, 16, -1)


@pytest.mark.parametrize(
    ("most", "at_once", "numbers"),
    [(1, 1, [1]), (32, 4, [32]), (33, 1, [32]), (33, 2, [32, 1]), (100, 3, [32, 32, 32]), (0, 2, [])],
)
def test_pops_ask_for_32_messages_each_and_no_more_than_are_wanted(most, at_once, numbers):
    assert pop_numbers(most, at_once) == numbers


def test_a_new_group_starts_at_the_configured_offset():
    assert init_mode(ConsumeFromWhere.FIRST_OFFSET) is InitMode.MIN
    assert init_mode(ConsumeFromWhere.LAST_OFFSET) is InitMode.MAX
    assert init_mode(ConsumeFromWhere.TIMESTAMP) is InitMode.MAX


# -- receipts


def test_receipts_contain_the_start_offset_of_their_queue():
    messages = [message(5, 0), message(7, 0), message(9, 1)]
    found = popped(*messages, start_offset_info="0 0 4;0 1 9", msg_offset_info="0 0 5,7;0 1 9")
    assert [one.receipt for one in found] == [
        ExtraInfo(4, 1000, 60000, 3, "0", "b", 0, 5),
        ExtraInfo(4, 1000, 60000, 3, "0", "b", 0, 7),
        ExtraInfo(9, 1000, 60000, 3, "0", "b", 1, 9),
    ]
    assert messages[0].properties["POP_CK"] == "4 1000 60000 3 0 b 0 5"
    assert messages[0].properties["1ST_POP_TIME"] == "1000"


def test_a_retried_message_keeps_the_receipt_of_the_broker():
    stored = b"POP_CK\x012 900 60000 1 1 b 0 2\x021ST_POP_TIME\x01500\x02"
    [one] = popped(message(2, properties=stored), start_offset_info="1 0 2")
    assert one.receipt == ExtraInfo(2, 900, 60000, 1, "1", "b", 0, 2)
    assert one.message.properties["1ST_POP_TIME"] == "500"


def test_a_property_whose_name_ends_like_that_of_the_receipt_is_none():
    [one] = popped(message(2, properties=b"XPOP_CK\x01x\x02"), start_offset_info="0 0 2")
    assert one.receipt == ExtraInfo(2, 1000, 60000, 3, "0", "b", 0, 2)


@pytest.mark.parametrize("text", [b"nonsense", b"1 2 3 4 5 b 0 x", b"1 2 3"])
def test_a_receipt_that_is_none_costs_no_other_message(text):
    """Producers can set the property in the messages of a batch."""
    first, second = popped(message(2, properties=b"POP_CK\x01%b\x02" % text), message(3), start_offset_info="0 0 2")
    assert first.receipt == ExtraInfo(2, 1000, 60000, 3, "0", "b", 0, 2)
    assert first.message.properties["POP_CK"] == "2 1000 60000 3 0 b 0 2"
    assert second.receipt.offset == 3


def test_a_message_with_the_name_of_a_retry_topic_gets_the_requested_topic():
    [one] = popped(message(2, topic="%RETRY%g_T"), start_offset_info="1 0 2;0 0 7")
    assert one.message.topic == "T"
    assert (one.receipt.retry, one.receipt.start_offset) == ("1", 2)


def test_without_starts_each_queue_begins_at_its_first_message():
    found = popped(message(5, 0), message(6, 0), message(9, 1))
    assert [one.receipt.start_offset for one in found] == [5, 5, 9]


def test_reconsume_times_of_an_orderly_pop_are_of_the_message_or_its_queue():
    messages = [message(5, 0), message(6, 0), message(7, 1)]
    told = answer(start_offset_info="0 0 5;0 1 7", order_count_info="0 qo0%5 2;0 0 1")
    attach_receipts(messages, "T", "b", told, order=True)
    assert [m.reconsume_times for m in messages] == [2, 1, 0]
    unordered = message(5, 0)
    attach_receipts([unordered], "T", "b", told, order=False)
    assert unordered.reconsume_times == 0


def test_a_malformed_pop_answer_is_refused():
    with pytest.raises(BadHeader):
        popped(message(5), start_offset_info="0 0")


def test_acks_of_one_pop_and_queue_are_batched():
    one = popped(message(4, 0), message(7, 0), message(9, 1), start_offset_info="0 0 4;0 1 9")
    later = attach_receipts([message(8, 0)], "T", "b", answer(start_offset_info="0 0 8"), order=False)
    other_topic = [PoppedMessage(message(4, 0, topic="U"), one[0].receipt)]
    acks = batch_acks("g", [*one, *later, *other_topic])
    assert [(ack.topic, ack.queue_id, ack.start_offset, list(decode_bits(ack.bits))) for ack in acks] == [
        ("T", 0, 4, [0, 3]), ("T", 1, 9, [0]), ("T", 0, 8, [0]), ("U", 0, 4, [0]),
    ]  # fmt: skip
    assert (acks[0].consumer_group, acks[0].revive_queue_id, acks[0].pop_time, acks[0].invisible_time) == (
        "g", 3, 1000, 60000,
    )  # fmt: skip


# -- the broker's clock


def test_the_clock_offset_of_a_broker_comes_from_its_fastest_answer():
    clock = BrokerClock()
    receipt = ExtraInfo(0, 100_000, 5000, 0, "0", "b", 0, 0)
    assert clock.overdue(receipt, 50.0) is None
    clock.observe(100_000, 52.0)  # two seconds under way
    clock.observe(101_000, 51.1)
    assert clock.overdue(receipt, 50.1) == pytest.approx(-5.0)
    assert clock.overdue(receipt, 56.1) == pytest.approx(1.0)
    clock.observe(120_000, 80.0)  # slower than the best: says nothing new
    assert clock.overdue(receipt, 56.1) == pytest.approx(1.0)


def test_a_broker_clock_that_was_set_back_is_detected():
    clock = BrokerClock()
    clock.observe(1_000_000, 10.0)
    clock.observe(500_000, 11.0)
    assert clock.overdue(ExtraInfo(0, 500_000, 5000, 0, "0", "b", 0, 0), 12.0) == pytest.approx(-4.0)


# -- what is held


def held(*messages, visible_at=60.0):
    queue = PopQueue(ALL, 0.0)
    found = popped(*messages)
    queue.take(found, visible_at)
    return queue, found


def test_messages_of_several_queues_are_distinguished():
    first, second = message(5, 0, body=b"ab"), message(5, 1, body=b"c")
    queue, _ = held(first, second)
    assert (queue.count, queue.size) == (2, 3)
    queue.ack([first])
    assert (queue.count, queue.size) == (1, 1)
    assert not queue.holds(first)
    assert queue.holds(second)


def test_a_consumed_message_is_acked_once_and_moves_no_offset():
    one, other = message(5), message(6)
    queue, found = held(one, other)
    assert queue.ack([one]) is None
    assert queue.ack([one]) is None
    assert queue.to_ack() == [(found[0], 60.0)]
    assert queue.to_ack() == []


def test_a_message_is_held_until_it_expires_or_has_a_result():
    one = message(5)
    queue, _ = held(one, visible_at=10.0)
    assert queue.is_fresh(one, 9.9)
    assert not queue.is_fresh(one, 10.0)
    queue.ack([one])
    assert not queue.is_fresh(one, 9.9)


def test_a_released_message_is_not_acked():
    one, other = message(5), message(6)
    queue, found = held(one, other, visible_at=10.0)
    assert queue.release(one, 9.0) == found[0]
    assert queue.release(one, 9.0) is None
    assert queue.release(other, 10.0) is None
    queue.ack([one, other])
    assert queue.to_ack() == []
    assert (queue.count, queue.size) == (0, 0)


def test_its_repr_shows_the_held_messages():
    queue, _ = held(message(1))
    assert "1 messages" in repr(queue)
    queue.dropped = True
    assert "dropped" in repr(queue)


def test_a_renewed_receipt_replaces_the_one_of_a_held_message():
    one, other = message(5), message(6)
    queue, found = held(one, other, visible_at=10.0)
    renewed = found[0].receipt._replace(pop_time=2000)
    queue.renew(one, renewed, 20.0)
    assert (queue.is_fresh(one, 19.9), queue.is_fresh(one, 20.0), queue.is_fresh(other, 10.0)) == (True, False, False)
    assert [receipt for _, receipt in queue.receipts([one, other])] == [renewed, found[1].receipt]
    queue.ack([one])
    assert queue.to_ack() == [(PoppedMessage(one, renewed), 20.0)]
    queue.renew(one, renewed, 30.0)
    assert not queue.holds(one)
    assert queue.receipts([one, other]) == found[1:]


def test_popped_messages_are_invisible_to_other_clients():
    assert PopQueue.has_invisible_time
    assert PopRun.has_invisible_time


def test_messages_that_only_the_header_lists_are_missing():
    told = answer(start_offset_info="0 0 4;1 0 2", msg_offset_info="0 0 5,7;1 0 2,3")
    found = attach_receipts([message(7), message(2, topic="%RETRY%g_T")], "T", "b", told, order=False)
    assert missing_offsets(found, told) == [(("0", 0), 5), (("1", 0), 3)]
    assert missing_offsets(found[:0], told) == [(("0", 0), 5), (("0", 0), 7), (("1", 0), 2), (("1", 0), 3)]
    assert missing_offsets(found, answer()) == []


def test_the_constants_of_a_pop():
    assert (ALL_QUEUES, GIVE_BACK, RENEW_AT) == (-1, 1.0, 0.4)


def test_a_clock_set_back_by_up_to_a_minute_is_not_believed():
    clock, receipt = BrokerClock(), ExtraInfo(0, 100_000, 5000, 0, "0", "b", 0, 0)
    clock.observe(100_000, 0.0)
    clock.observe(40_000, 0.0)  # exactly a minute less
    assert clock.overdue(receipt, 0.0) == -5.0
    clock.observe(39_999, 0.0)
    assert clock.overdue(receipt, 0.0) == pytest.approx(-65.001)


# -- orderly pops


def runs(*messages, visible_at=60.0):
    queue, found = held(*messages, visible_at=visible_at)
    return queue, split_by_queue(queue, found, 1.0, visible_at)


def test_an_orderly_pop_is_split_by_queue():
    messages = [message(5, 0, body=b"ab"), message(9, 1), message(6, 0)]
    queue, (first, second) = runs(*messages)
    assert [run.queue for run in (first, second)] == [messages[0].queue, messages[1].queue]
    assert (first.waiting(), second.waiting()) == ([messages[0], messages[2]], [messages[1]])
    assert (first.count, first.size, first.pulled_at, first.owner is queue) == (2, 3, 1.0, True)
    assert not first.needs_lock


def test_an_orderly_pop_is_usable_until_its_messages_are_visible_again():
    _, [run] = runs(message(5), visible_at=10.0)
    assert (run.is_usable(9.9), run.may_commit(9.9)) == (True, True)
    assert (run.is_usable(10.0), run.may_commit(10.0)) == (False, False)


@pytest.mark.parametrize("way", ["commit", "keep", "discard"])
def test_consumed_messages_of_an_orderly_pop_are_acked_at_once(way):
    one, other = message(5, body=b"ab"), message(6)
    _, [run] = runs(one, other)
    getattr(run, way)([one])
    assert (run.waiting(), run.size, run.kept) == ([other], 1, [])
    assert run.take_done() == [one]
    assert run.take_done() == []
