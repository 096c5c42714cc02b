"""Brokers as rows."""

from rocketmq_py.cli.cluster import broker_row, first_rate


def test_a_broker_becomes_a_row():
    state = {
        "putTps": "3.25 1 0", "getTransferredTps": "7.0 ", "msgPutTotalTodayNow": "9", "msgPutTotalTodayMorning": "4",
        "commitLogDiskRatio": "0.25", "bootTimestamp": "1", "brokerVersionDesc": "V5_5_0",
    }  # fmt: skip
    row = broker_row("c", "b", 1, "h:1", state, None)
    assert (row["role"], row["inTps"], row["outTps"], row["inToday"]) == ("slave", 3.2, 7.0, 5)
    assert (row["diskRatio"], row["outToday"], row["version"]) == (0.25, None, "V5_5_0")
    assert broker_row("c", "b", 0, "h:1", {}, "gone")["error"] == "gone"
    assert first_rate("") is None
