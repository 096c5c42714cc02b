"""``rocketmq cluster``: brokers as rows, in the order of their names, and which do not answer."""

import json

import pytest

from rocketmq_py.cli import cluster
from rocketmq_py.cli.cluster import broker_row, first_rate
from rocketmq_py.errors import ConnectError
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo
from tests.unit.cli.memory_admin import MASTER

STATE = {
    "putTps": "3.25 1 0", "getTransferredTps": "7.0 ", "msgPutTotalTodayNow": "9", "msgPutTotalTodayMorning": "4",
    "msgGetTotalTodayNow": "8", "msgGetTotalTodayMorning": "1", "commitLogDiskRatio": "0.25", "bootTimestamp": "1000",
    "brokerVersionDesc": "V5_5_0",
}  # fmt: skip


def test_a_broker_becomes_a_row():
    assert broker_row("c", "b", 1, "h:1", STATE, None) == {
        "cluster": "c", "broker": "b", "id": 1, "role": "slave", "address": "h:1", "version": "V5_5_0", "inTps": 3.2,
        "outTps": 7.0, "inToday": 5, "outToday": 7, "diskRatio": 0.25, "bootTimestamp": 1000, "error": None,
    }  # fmt: skip
    silent = broker_row("c", "b", 0, "h:1", {}, "gone")
    assert (silent["role"], silent["error"]) == ("master", "gone")
    assert [silent[name] for name in ("version", "inTps", "outTps", "inToday", "diskRatio", "bootTimestamp")] == (
        [None] * 6
    )
    assert first_rate("") is None


def test_old_brokers_spell_a_rate_in_another_way():
    assert broker_row("c", "b", 0, "h:1", {"getTransferedTps": "1.26"}, None)["outTps"] == 1.3
    assert broker_row("c", "b", 0, "h:1", {"msgPutTotalTodayNow": "9"}, None)["inToday"] == 9


@pytest.fixture
def brokers(admin):
    admin.info = ClusterInfo(
        broker_addr_table={
            "b": BrokerData(cluster="own", broker_name="b", broker_addrs={0: "h:3"}),
            "a": BrokerData(cluster="own", broker_name="a", broker_addrs={1: "h:2", 0: MASTER}),
        },
        cluster_addr_table={"c": ["a"]},
    )
    admin.states = {MASTER: STATE, "h:2": {}, "h:3": {}}
    return admin


def test_brokers_are_listed_by_name_and_id(brokers, run):
    result = run("cluster -o json")
    assert result.exit_code == 0
    assert [(row["cluster"], row["broker"], row["id"], row["address"]) for row in json.loads(result.stdout)] == [
        ("c", "a", 0, MASTER), ("c", "a", 1, "h:2"), ("own", "b", 0, "h:3")
    ]  # fmt: skip
    assert brokers.skips_silent is False


def test_a_table_has_disk_and_uptime(brokers, run, monkeypatch):
    monkeypatch.setattr(cluster, "now_ms", lambda: 66_000)
    lines = run("cluster").output.splitlines()
    assert lines[0].split() == [
        "cluster", "broker", "id", "role", "address", "version", "inTps", "outTps", "inToday", "outToday", "disk", "up"
    ]  # fmt: skip
    assert lines[1].split()[3:] == ["master", MASTER, "V5_5_0", "3.2", "7.0", "5", "7", "25%", "1m05s"]
    assert lines[2].split()[-2:] == ["-", "-"]
    monkeypatch.setattr(cluster, "now_ms", lambda: 0)
    assert run("cluster").output.splitlines()[1].endswith(" 0ms")


def test_a_broker_that_does_not_answer_is_named(brokers, run):
    brokers.states["h:2"] = ConnectError("refused")
    result = run("cluster -o jsonl")
    assert (result.exit_code, result.stderr) == (4, "broker a at h:2: refused\n")
    assert [json.loads(line)["error"] for line in result.stdout.splitlines()] == [None, "refused", None]
