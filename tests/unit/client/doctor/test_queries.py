"""Which servers ``rocketmq doctor`` asks, and what it makes of their answers and of silence."""

import asyncio

import pytest

from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.client.doctor import queries
from rocketmq_py.errors import BrokerError, ConnectError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import HaStatus
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo
from tests.unit.cli.memory_admin import MASTER, MemoryAdmin

STATE = {
    "brokerVersionDesc": "V5_5_0", "commitLogDiskRatio": "0.10", "bootTimestamp": "1000",
    "runtime": "[ 0 days, 0 hours, 0 minutes, 1 seconds ]",
}  # fmt: skip


@pytest.fixture
def clusters(monkeypatch):
    """Clusters in memory by the name servers that a target names."""
    by_namesrv = {}

    def connected(target, *, skip_silent=False):
        assert not skip_silent
        return by_namesrv[target.namesrv]

    monkeypatch.setattr(Target, "admin", connected)
    monkeypatch.setattr(queries, "now_ms", lambda: 2000)
    yield by_namesrv
    assert all(admin.opened == admin.closed for admin in by_namesrv.values())


def healthy(name="broker-a", address=MASTER):
    admin = MemoryAdmin()
    admin.info = ClusterInfo(
        broker_addr_table={name: BrokerData(cluster="c", broker_name=name, broker_addrs={0: address})}
    )
    admin.states[address] = STATE
    admin.configs[address] = {"brokerPermission": "6"}
    return admin


def open_admin(namesrv):
    return Target(namesrv, "--namesrv").admin()


def examined(namesrv, topic=None, group=None):
    found = asyncio.run(queries.examine(open_admin, namesrv, topic, group))
    return [(check.check, check.target, check.status) for check in found]


BROKER = [(name, "broker-a:0", "ok") for name in ("broker", "version", "clock", "disk", "permission")]


def test_a_healthy_cluster_passes_every_check(clusters):
    clusters["h:1"] = healthy()
    assert examined("h:1") == [("nameserver", "h:1", "ok"), *BROKER]


def test_every_name_server_is_asked_and_brokers_through_those_that_answer(clusters):
    clusters["h:1"], clusters["h:2"], clusters["h:3"] = healthy(), healthy(), healthy("other", "h:9")
    clusters["h:2"].failures["cluster"] = ConnectError("refused")
    clusters["h:1;h:3"] = healthy()
    assert examined("h:1;h:2;h:3") == [
        ("nameserver", "h:1", "ok"), ("nameserver", "h:2", "fail"), ("nameserver", "h:3", "ok"),
        ("nameservers", "all", "warn"), *BROKER,
    ]  # fmt: skip


def test_without_a_name_server_nothing_else_is_asked(clusters):
    clusters["h:1"] = healthy()
    clusters["h:1"].failures["cluster"] = ConnectError("refused")
    assert examined("h:1", "t", "g") == [("nameserver", "h:1", "fail")]


def test_a_broker_that_does_not_answer_fails_alone(clusters):
    admin = clusters["h:1"] = healthy()
    admin.info.broker_addr_table["b"] = BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:9"})
    admin.states["h:9"] = ConnectError("refused")
    assert examined("h:1") == [("nameserver", "h:1", "ok"), ("broker", "b:0", "fail"), *BROKER]


def test_a_broker_that_keeps_its_settings_to_itself_is_a_warning(clusters):
    clusters["h:1"] = healthy()
    clusters["h:1"].configs[MASTER] = BrokerError(16, "no permission")
    [permission] = [
        check for check in asyncio.run(queries.examine(open_admin, "h:1", None, None)) if check.check == "permission"
    ]
    assert (permission.status, permission.detail) == ("warn", "unknown: the broker does not report its settings")


def test_versions_of_all_brokers_are_compared(clusters):
    admin = clusters["h:1"] = healthy()
    admin.info.broker_addr_table["b"] = BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:9"})
    admin.states["h:9"] = {**STATE, "brokerVersionDesc": "V4_9_4"}
    assert [row for row in examined("h:1") if row[0] == "version"] == [
        ("version", "b:0", "warn"), ("version", "broker-a:0", "warn")
    ]  # fmt: skip
    admin.states["h:9"] = {name: value for name, value in STATE.items() if name != "brokerVersionDesc"}
    assert ("version", "broker-a:0", "ok") in examined("h:1")


@pytest.mark.parametrize(
    ("answer", "status"),
    [(HaStatus(in_sync_slave_nums=1), "ok"), (HaStatus(), "warn"), (ConnectError("refused"), "warn")],
)
def test_slaves_of_a_master_are_checked(clusters, answer, status):
    admin = clusters["h:1"] = healthy()
    admin.info.broker_addr_table["broker-a"].broker_addrs[1] = "h:8"
    admin.states["h:8"] = STATE
    admin.replicas[MASTER] = answer
    found = examined("h:1")
    assert [row[1] for row in found if row[0] == "broker"] == ["broker-a:0", "broker-a:1"]
    assert found[-1] == ("replication", "broker-a", status)


def test_slaves_without_a_master_are_named(clusters):
    admin = clusters["h:1"] = healthy()
    admin.info.broker_addr_table["b"] = BrokerData(cluster="c", broker_name="b", broker_addrs={1: "h:8", 2: "h:9"})
    found = examined("h:1")
    assert found[-1] == ("master", "b", "fail")
    assert not any(row[0] == "replication" for row in found)


def test_a_topic_is_checked_if_it_is_named(clusters):
    admin = clusters["h:1"] = healthy()
    admin.add_topic("t", 2)
    assert examined("h:1", "t")[-2:] == [("topic read", "t", "ok"), ("topic write", "t", "ok")]
    assert examined("h:1", "nix")[-1] == ("topic", "nix", "fail")


def test_a_group_is_checked_if_it_is_named(clusters):
    admin = clusters["h:1"] = healthy()
    admin.add_group("g")
    admin.commit("g", MessageQueue("t", "broker-a", 0), 1, 4)
    admin.commit("g", MessageQueue("t", "broker-a", 1), 1, 3)

    def group_check(name):
        return asyncio.run(queries.examine(open_admin, "h:1", None, name))[-1]

    assert group_check("g")[2:4] == ("warn", "no member is connected, 5 messages wait")
    admin.connected["g"] = ConsumerConnection(
        connection_set=[ConnectionInfo(client_id="c", client_addr="h", language="JAVA", version=1)]
    )
    assert group_check("g")[2:4] == ("ok", "1 connected, 5 messages wait")
    assert group_check("nix")[:4] == ("group", "nix", "fail", "no broker has it")


def test_times_are_in_milliseconds(clusters, monkeypatch):
    clusters["h:1"] = healthy()
    now = iter(range(100))
    monkeypatch.setattr(queries.time, "monotonic", lambda: next(now))
    assert queries._millis(-1.5) == 1500.0


def test_a_clock_is_compared_with_the_time_of_the_answer(clusters, monkeypatch):
    clusters["h:1"] = healthy()
    monkeypatch.setattr(queries, "now_ms", lambda: 2000 + 3600_000)
    assert ("clock", "broker-a:0", "warn") in examined("h:1")
