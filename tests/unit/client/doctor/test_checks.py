"""The checks of ``rocketmq doctor``, without servers."""

import pytest

from rocketmq_py.client.doctor import checks
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData

NOW = 1_700_000_000_000


def info(*names):
    return ClusterInfo(broker_addr_table={n: BrokerData(broker_name=n, broker_addrs={0: f"{n}:1"}) for n in names})


def test_name_servers_are_checked():
    assert checks.name_server("h:1", info("a", "b"), None, 3.2).detail == "2 brokers registered, 3 ms"
    assert checks.name_server("h:1", info(), None, 1).status == checks.FAIL
    silent = checks.name_server("h:1", None, "cannot connect", 1)
    assert (silent.status, silent.detail) == (checks.FAIL, "cannot connect")


def test_differing_name_servers_are_reported():
    assert checks.agreement({"x": info("a")}) == []
    assert checks.agreement({"x": info("a"), "y": info("a")})[0].status == checks.OK
    (odd,) = checks.agreement({"x": info("a"), "y": info("a", "b"), "z": info()})
    assert odd.status == checks.WARN
    assert "(x: a; y: a, b; z: none)" in odd.detail


def test_an_unreachable_broker_is_reported():
    assert checks.reachable("b", "10.0.0.1:1", None, 2).status == checks.OK
    check = checks.reachable("b", "10.0.0.1:1", "connection refused", 2)
    assert check.status == checks.FAIL
    assert "brokerIP1" in check.advice
    assert "--map 10.0.0.1:1=HOST:PORT" in check.advice


def state(ahead_ms, **more):
    started = NOW - 93_784_000 + ahead_ms
    return {"bootTimestamp": str(started), "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]", **more}


@pytest.mark.parametrize(
    ("ahead", "status", "detail"),
    [
        (0, "ok", "in step"),
        (-900, "ok", "in step"),
        (60_000, "warn", "the broker's clock is 1m00s ahead"),
        (-10_000, "warn", "the broker's clock is 10s behind"),
    ],
)
def test_clock_differences_are_reported(ahead, status, detail):
    check = checks.clock("b", state(ahead), NOW)
    assert check.status == status
    assert detail in check.detail


def test_a_slow_answer_is_no_clock_difference():
    behind = state(-checks.CLOCK_TOLERANCE_MS - 3000)
    assert checks.clock("b", behind, NOW).status == checks.WARN
    assert checks.clock("b", behind, NOW, took_ms=3000).status == checks.OK
    assert checks.clock("b", state(checks.CLOCK_TOLERANCE_MS + 3000), NOW, took_ms=3000).status == checks.WARN


def test_missing_runtime_values_are_skipped():
    assert checks.clock("b", {}, NOW).status == checks.WARN
    assert checks.disk("b", {}).status == checks.WARN
    assert checks.broker_permission("b", None, "no").status == checks.WARN


@pytest.mark.parametrize(("ratio", "status"), [("0.5", "ok"), ("0.75", "warn"), ("0.91", "fail")])
def test_full_disks_are_reported(ratio, status):
    assert checks.disk("b", {"commitLogDiskRatio": ratio}).status == status


def test_differing_versions_are_reported():
    assert checks.version("b", {"brokerVersionDesc": "V5_5_0"}, ["V5_5_0", "V5_5_0"]).status == checks.OK
    assert checks.version("b", {"brokerVersionDesc": "V5_5_0"}, ["V5_5_0", "V4_9_3"]).status == checks.WARN


@pytest.mark.parametrize(
    ("perm", "status", "detail"),
    [("6", "ok", "read and write"), ("4", "warn", "read only"), ("2", "warn", "write only"), ("0", "warn", "neither")],
)
def test_missing_broker_permissions_are_reported(perm, status, detail):
    check = checks.broker_permission("b", {"brokerPermission": perm}, None)
    assert check.status == status
    assert check.detail.startswith(detail)


def route(perm, ids):
    queue = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=perm)
    data = TopicRouteData(queue_datas=[queue], broker_datas=[BrokerData(broker_name="a", broker_addrs=ids)])
    return TopicRoute("t", data)


def test_topics_are_checked_for_reading_and_writing():
    assert [check.status for check in checks.topic("t", route(6, {0: "h:1"}))] == ["ok", "ok"]
    read, write, master = checks.topic("t", route(6, {1: "h:1"}))
    assert (read.status, write.status, master.status) == ("ok", "fail", "warn")
    assert [check.status for check in checks.topic("t", route(2, {0: "h:1"}))] == ["fail", "ok"]


def test_groups_are_checked_for_members_and_lag():
    config = SubscriptionGroupConfig(group_name="g")
    members = ConsumerConnection(connection_set=[ConnectionInfo(client_id="c", client_addr="h")])
    assert [check.status for check in checks.group("g", {"a": config}, members, 5)] == ["ok"]
    assert [check.status for check in checks.group("g", {"a": config}, None, 5)] == ["warn"]
    assert [check.status for check in checks.group("g", {"a": config}, None, 0)] == ["ok"]
    config.consume_enable = False
    assert [check.status for check in checks.group("g", {"a": config}, None, 0)] == ["fail", "ok"]


@pytest.mark.parametrize(
    ("in_sync", "registered", "status"), [(1, 1, "ok"), (2, 1, "ok"), (0, 1, "warn"), (1, 2, "warn")]
)
def test_slaves_out_of_sync_are_reported(in_sync: int, registered: int, status: str) -> None:
    found = checks.replication("broker-a", in_sync, registered)
    assert (found.status, bool(found.advice)) == (status, status == "warn")
    assert found.detail.startswith(f"{in_sync} of {registered} slave")


def test_a_broker_name_without_a_master_is_reported() -> None:
    found = checks.without_master("broker-a", {1: "h:1", 2: "h:2"})
    assert found is not None
    assert (found.status, "only slaves 1, 2:" in found.detail) == ("fail", True)
    assert checks.without_master("broker-a", {0: "h:1"}) is None
