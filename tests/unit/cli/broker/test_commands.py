"""``rocketmq broker``: how answers of brokers are shown."""

from __future__ import annotations

import pytest

from rocketmq_py.cli.broker.commands import address_of, ignored_setting
from rocketmq_py.cli.broker.replicas import missing_slaves, replica_rows
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.protocol.bodies.admin import HaStatus, SlaveConnection
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo

PAIR = ClusterInfo(
    broker_addr_table={
        "a": BrokerData(cluster="c", broker_name="a", broker_addrs={0: "h1:1", 1: "h2:2"}),
        "b": BrokerData(cluster="c", broker_name="b", broker_addrs={2: "h3:3"}),
    },
    cluster_addr_table={"c": ["a", "b"]},
)


@pytest.mark.parametrize(
    ("meant", "address"), [("a", "h1:1"), ("a:0", "h1:1"), ("a:1", "h2:2"), ("b:2", "h3:3"), ("h3:3", "h3:3")]
)
def test_a_broker_is_a_name_a_name_with_an_id_or_an_address(meant: str, address: str) -> None:
    assert address_of(PAIR, meant) == address


@pytest.mark.parametrize("meant", ["b", "a:7", "h1:9", "", "x"])
def test_an_unknown_broker_name_lists_the_registered_brokers(meant: str) -> None:
    with pytest.raises(CommandFailure, match="Registered: a:0 at h1:1, a:1 at h2:2, b:2 at h3:3") as refused:
        address_of(PAIR, meant)
    assert refused.value.exit_code == Status.NOT_FOUND


def test_a_cluster_without_brokers_is_reported() -> None:
    with pytest.raises(CommandFailure, match="Registered: none"):
        address_of(ClusterInfo(), "a")


@pytest.mark.parametrize(
    ("value", "before", "now", "words"),
    [
        ("1", {"key": "0"}, {"key": "1"}, None),
        ("+1", {"key": "0"}, {"key": "1"}, None),
        ("TRUE", {"key": "true"}, {"key": "true"}, None),
        ("1", {}, {"key": "1"}, None),
        ("x", {"key": "0"}, {"key": "0"}, "key is still '0'"),
        ("1", {"kay": "0"}, {"kay": "0"}, "unknown setting 'key'; did you mean 'kay'?"),
    ],
)
def test_a_setting_without_effect_is_reported(
    value: str, before: dict[str, str], now: dict[str, str], words: str | None
) -> None:
    assert ignored_setting("key", value, before, now) == words


def test_a_master_has_a_row_for_each_slave() -> None:
    slaves = [SlaveConnection(addr="h2:5", diff=7, in_sync=True), SlaveConnection(addr="h3:6", diff=-1)]
    status = HaStatus(master_commit_log_max_offset=100, ha_connection_info=slaves)
    rows = replica_rows("a", "h1:1", status)
    assert [(row["slave"], row["behind"], row["inSync"], row["logEnd"]) for row in rows] == [
        ("h2:5", 7, True, 100), ("h3:6", 0, False, 100),
    ]  # fmt: skip
    [alone] = replica_rows("a", "h1:1", HaStatus(master_commit_log_max_offset=100))
    assert (alone["master"], alone["slave"], alone["logEnd"]) == ("h1:1", None, 100)


@pytest.mark.parametrize(
    ("in_sync", "registered", "at_least", "words"),
    [
        (0, 0, 0, None),
        (1, 1, 1, None),
        (2, 1, 1, None),
        (0, 0, 1, "broker a: 0 of 1 slave in sync"),
        (1, 2, 0, "broker a: 1 of 2 slaves in sync"),
    ],
)
def test_missing_slaves_of_a_master_are_reported(
    in_sync: int, registered: int, at_least: int, words: str | None
) -> None:
    assert missing_slaves("a", HaStatus(in_sync_slave_nums=in_sync), registered, at_least=at_least) == words
