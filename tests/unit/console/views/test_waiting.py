"""What waits: timers by the hour, pops in flight, half messages."""

from rocketmq_py.console.views.waiting import HOUR_MS, due_by_hour, pops_in_flight, timer_rows, transaction_row
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.pop_checkpoint import AckRecord, BatchAckRecord, CheckPoint
from tests.unit.console.memory import NOW, message

REVIVE = MessageQueue("rmq_sys_REVIVE_LOG_c", "b", 0)


def test_timers_are_counted_by_hour_once_and_without_those_that_are_due():
    def timed(due, key):
        return message(TIMER_OUT_MS=str(due), REAL_TOPIC="t", UNIQ_KEY=key)

    found = [timed(NOW + 1, "a"), timed(NOW + HOUR_MS, "b"), timed(NOW + HOUR_MS, "b"), timed(NOW, "c"),
             timed(NOW + 24 * HOUR_MS, "d"), message(TIMER_OUT_MS="x")]  # fmt: skip
    hours, later = due_by_hour(found, NOW)
    assert [(row["due"], row["topics"]) for row in hours[:3]] == [(1, {"t": 1}), (1, {"t": 1}), (0, {})]
    assert later == 1
    assert timer_rows({"t": {"a": 1, "b": 2}}) == [{"topic": "t", "waiting": 3}]


def point(start, count, **more):
    return CheckPoint(broker_name="b", group="g", invisible_ms=60_000, count=count, pop_time=NOW - 30_000, queue_id=0,
                      start_offset=start, topic="t", **more)  # fmt: skip


def record(offset, tag, body):
    return message(REVIVE, offset, body.encode(), TAGS=tag)


def test_pops_whose_messages_are_not_all_acked_are_in_flight():
    place = {"broker_name": "b", "group": "g", "pop_time": NOW - 30_000, "queue_id": 0, "topic": "t"}
    records = [
        record(0, "ck", point(0, 3)), record(1, "ck", point(10, 1)), record(2, "ck", point(20, 2)),
        record(3, "ack", AckRecord(offset=1, start_offset=0, **place)),
        record(4, "bAck", BatchAckRecord(offset_list=[20, 21], start_offset=20, **place)),
        record(5, "ack", AckRecord(offset=99, start_offset=90, **place)), message(REVIVE, 6, b"x", TAGS="ck"),
    ]  # fmt: skip
    rows = pops_in_flight(records, NOW)
    assert [(row["firstOffset"], row["unacked"], row["overdue"]) for row in rows] == [(0, 2, False), (10, 1, False)]
    assert pops_in_flight(records, NOW + 31_000)[0]["overdue"]
    assert pops_in_flight(records, NOW + 2 * HOUR_MS) == []


def test_a_half_message_says_whose_it_is():
    half = message(REAL_TOPIC="t", PGROUP="p", TRANSACTION_CHECK_TIMES="2")
    assert {"topic": "t", "group": "p", "checks": 2, "since": NOW}.items() <= transaction_row(half, {"x": 1}).items()
    assert transaction_row(message(), {})["checks"] == 0


def test_an_hour_shows_ten_topics_and_the_sum_of_all():
    timed = [message(TIMER_OUT_MS=str(NOW + 5), REAL_TOPIC=f"t{number}", UNIQ_KEY=f"U{number}") for number in range(11)]
    timed += [message(TIMER_OUT_MS=str(NOW + 5), UNIQ_KEY="V"), message(TIMER_OUT_MS=str(NOW + 5), UNIQ_KEY="W")]
    hours, later = due_by_hour(timed, NOW)
    assert (hours[0]["due"], len(hours[0]["topics"]), hours[0]["topics"]["?"], later) == (13, 10, 2, 0)
    assert [(row["from"], row["due"]) for row in hours[1:]] == [(NOW + hour * HOUR_MS, 0) for hour in range(1, 24)]
    assert HOUR_MS == 3_600_000
    assert due_by_hour([message(TIMER_OUT_MS="9" * 18), message(TIMER_OUT_MS="9" * 19)], NOW)[1] == 1


def test_pops_are_overdue_at_their_time_and_gone_an_hour_later():
    rows = [record(0, "ck", point(0, 1))]
    until = NOW + 30_000
    for now, overdue in ((until, False), (until + 1, True), (until + HOUR_MS, True)):
        [row] = pops_in_flight(rows, now)
        assert row["overdue"] is overdue
    assert pops_in_flight(rows, until + HOUR_MS + 1) == []
    assert pops_in_flight(rows, NOW) == [
        {"topic": "t", "broker": "b", "queue": 0, "group": "g", "popped": NOW - 30_000, "until": until,
         "overdue": False, "count": 1, "unacked": 1, "firstOffset": 0}
    ]  # fmt: skip


def test_a_long_invisible_time_keeps_a_pop_for_as_long():
    long = point(0, 1)
    long.invisible_ms = 3 * HOUR_MS
    until = NOW - 30_000 + 3 * HOUR_MS
    assert len(pops_in_flight([record(0, "ck", long)], until + 3 * HOUR_MS)) == 1
    assert pops_in_flight([record(0, "ck", long)], until + 3 * HOUR_MS + 1) == []


def test_acks_add_up_and_bits_of_java_are_signed():
    place = {"broker_name": "b", "group": "g", "pop_time": NOW - 30_000, "queue_id": 0, "topic": "t"}
    acks = [record(number, "ack", AckRecord(offset=number - 1, start_offset=0, **place)) for number in (1, 2)]
    [row] = pops_in_flight([*reversed(acks), record(0, "ck", point(0, 3))], NOW)
    assert row["unacked"] == 1, "records are read in the order of their times"
    [row] = pops_in_flight([record(0, "ck", point(0, 32, bit_map=-(2**31)))], NOW)
    assert row["unacked"] == 31
    [row] = pops_in_flight([record(0, "ck", point(0, 3, bit_map=1)), acks[0]], NOW)
    assert row["unacked"] == 2, "the same message twice"


def test_the_pop_that_is_visible_next_is_first():
    early = point(9, 1)
    early.pop_time -= 5
    rows = pops_in_flight([record(0, "ck", point(0, 1)), record(1, "ck", early)], NOW)
    assert [row["firstOffset"] for row in rows] == [9, 0]


def test_numbers_of_checks_that_are_none_count_as_zero():
    for text, checks in (("x", 0), ("", 0), ("0", 0), ("-1", 0), ("9" * 19, 0), ("9" * 18, 10**18 - 1)):
        assert transaction_row(message(TRANSACTION_CHECK_TIMES=text or "x"), {})["checks"] == checks
