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
