"""Lag and rates of a group."""

from rocketmq_py.cli.group import lag
from rocketmq_py.cli.group.lag import LagSnapshot
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def states(*pairs):
    return {q: OffsetWrapper(broker_offset=end, consumer_offset=at) for q, (at, end) in zip((Q0, Q1), pairs)}  # noqa: B905


def test_lag_and_rates_are_computed_from_two_snapshots():
    before = LagSnapshot(10.0, states((0, 100), (50, 50)))
    now = LagSnapshot(12.0, states((60, 110), (50, 50)))
    first, second = lag.lag_rows(now, before)
    assert (first["lag"], first["inPerS"], first["outPerS"]) == (50, 5.0, 30.0)
    assert (second["lag"], second["inPerS"], second["outPerS"]) == (0, 0.0, 0.0)
    assert lag.summary("g", [first, second]) == (
        "g: 50 messages wait in 2 queues, 5.0/s in, 30.0/s out, done in about 2s"
    )


def test_a_single_snapshot_has_no_rates():
    rows = lag.lag_rows(LagSnapshot(10.0, states((0, 3))), None)
    assert rows[0]["inPerS"] is None
    assert lag.summary("g", rows) == "g: 3 messages wait in 1 queues"
    new_queue = lag.lag_rows(LagSnapshot(12.0, states((0, 3), (0, 1))), LagSnapshot(10.0, states((0, 3))))
    assert [row["inPerS"] for row in new_queue] == [0.0, None]


def test_a_growing_lag_is_reported():
    rows = lag.lag_rows(LagSnapshot(2.0, states((1, 30))), LagSnapshot(1.0, states((0, 10))))
    assert lag.summary("g", rows).endswith("20.0/s in, 1.0/s out, it falls behind")
