from __future__ import annotations

from rocketmq_py.core.metrics import counters
from rocketmq_py.core.metrics.counters import DELAY, FIFO, NORMAL, TRANSACTION, MessageCounts, RpcKey, RpcLatency
from rocketmq_py.protocol import names


def test_messages_count_by_topic_and_type_as_in_java():
    counts = MessageCounts()
    counts.sent("t", "t", "a\x01b\x02", 100)
    counts.sent("t", "t", "__SHARDINGKEY\x01s\x02", 100)
    counts.sent("t", names.SCHEDULE_TOPIC, None, 100)
    counts.sent("t", names.TIMER_TOPIC, None, 100)
    counts.sent("t", names.HALF_TOPIC, None, 100)
    counts.sent_many("t", NORMAL, 32, 3200, 1)
    assert {key: (flow.messages, flow.size, flow.sizes.count) for key, flow in counts.received.items()} == {
        ("t", NORMAL): (33, 3300, 2),
        ("t", FIFO): (1, 100, 1),
        ("t", DELAY): (1, 100, 1),
        (names.TIMER_TOPIC, DELAY): (1, 100, 1),
        (names.HALF_TOPIC, TRANSACTION): (1, 100, 1),
    }
    assert counts.open_halves == {"t": 1}


def test_ended_transactions_leave_the_open_ones_and_rollbacks_have_no_latency():
    counts = MessageCounts()
    counts.sent_halves("t", 3, 300)
    counts.ended("t", 2.0, commit=True, count=2)
    counts.ended("t", 9.0, commit=False)
    counts.ended("u", 1.0, commit=False)
    assert (counts.committed, counts.rolled_back, counts.open_halves) == ({"t": 2}, {"t": 1, "u": 1}, {"t": 0})
    assert (counts.finish_seconds["t"].count, counts.finish_seconds["t"].total) == (2, 4.0)
    counts.remove_topic("t")
    assert (counts.committed, counts.rolled_back, counts.open_halves, counts.finish_seconds) == ({}, {"u": 1}, {}, {})


def test_the_requests_of_a_read_are_counted_by_codes():
    latency = RpcLatency()
    latency.observe_read([(310, 0, False), (310, 0, False), (310, 1, False), (35, 0, True)], 4.0)
    assert {key: spans.count for key, spans in latency.spans.items()} == {
        RpcKey(310, 0, False, "success"): 2, RpcKey(310, 1, False, "success"): 1, RpcKey(35, 0, False, "oneway"): 1,
    }  # fmt: skip


def test_half_messages_that_are_stored_together_count_once_in_the_histogram():
    counts = MessageCounts()
    counts.sent_halves("t", 3, 300)
    counts.sent_halves("t", 1, 50)
    assert counts.open_halves == {"t": 4}
    [flow] = counts.received.values()
    assert (flow.messages, flow.size, flow.sizes.count, flow.sizes.total) == (4, 350, 2, 150)
    counts.sent_halves("t", 2, 20, 2)
    assert (flow.messages, flow.size, flow.sizes.count, flow.sizes.total) == (6, 370, 4, 170)


def test_the_bounds_of_histograms_are_those_of_java():
    assert counters.FINISH_BOUNDS == (5, 60, 600, 3600, 43200, 86400)
    assert counters.SIZE_BOUNDS == (1024, 4096, 524288, 1048576, 2097152, 4194304)
    assert counters.RPC_BOUNDS == (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)


def test_a_request_is_counted_once():
    latency = RpcLatency()
    latency.observe(RpcKey(310, 0, False, "success"), 4.0)
    [spans] = latency.spans.values()
    assert (spans.count, spans.total) == (1, 4.0)


def test_more_ends_than_open_transactions_leave_none_open():
    counts = MessageCounts()
    counts.sent_halves("t", 1, 100)
    counts.ended("t", 1.0, commit=True, count=2)
    assert counts.open_halves == {"t": 0}
    counts.ended("t", 3.0, commit=True)
    assert (counts.committed["t"], counts.finish_seconds["t"].count, counts.finish_seconds["t"].total) == (3, 3, 5.0)


def test_a_deleted_topic_is_forgotten_in_all_its_kinds():
    counts = MessageCounts()
    for kind in (NORMAL, FIFO, DELAY, TRANSACTION):
        counts.sent_many("t", kind, 1, 10, 1)
        counts.sent_many("u", kind, 1, 10, 1)
    counts.remove_topic("t")
    assert list(counts.received) == [("u", kind) for kind in (NORMAL, FIFO, DELAY, TRANSACTION)]
