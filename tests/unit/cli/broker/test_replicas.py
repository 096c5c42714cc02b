"""``rocketmq broker replicas``: slaves as rows, and which of them are missing."""

from __future__ import annotations

import json

import pytest

from rocketmq_py.cli.broker.replicas import missing_slaves, replica_rows
from rocketmq_py.protocol.bodies.admin import HaStatus, SlaveConnection
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo


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


IN_SYNC = HaStatus(
    master_commit_log_max_offset=100, in_sync_slave_nums=1,
    ha_connection_info=[SlaveConnection(addr="h2:5", diff=7, in_sync=True, transferred_byte_in_second=9)],
)  # fmt: skip


@pytest.fixture
def masters(admin):
    """Master a has a slave in sync, b has none, c is a slave whose master is away."""
    brokers = {"b": {0: "h3:1"}, "a": {0: "h1:1", 1: "h2:1"}, "c": {1: "h4:1"}}
    admin.info = ClusterInfo(
        broker_addr_table={name: BrokerData(broker_name=name, broker_addrs=ids) for name, ids in brokers.items()}
    )
    admin.replicas = {"h1:1": IN_SYNC, "h3:1": HaStatus(master_commit_log_max_offset=50)}
    return admin


def test_all_masters_are_listed(masters, run):
    result = run("broker replicas -o json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == [
        {"broker": "a", "master": "h1:1", "slave": "h2:5", "logEnd": 100, "behind": 7, "inSync": True, "bytesPerS": 9},
        {"broker": "b", "master": "h3:1", "slave": None, "logEnd": 50, "behind": None, "inSync": None,
         "bytesPerS": None},
    ]  # fmt: skip
    assert run("broker replicas").output.splitlines()[0].split() == [
        "broker", "master", "slave", "logEnd", "behind", "inSync", "bytesPerS"
    ]  # fmt: skip


def test_a_named_master_needs_a_slave(masters, run):
    assert run("broker replicas a").exit_code == 0
    result = run("broker replicas a b -o jsonl")
    assert (result.exit_code, result.stderr) == (4, "broker b: 0 of 1 slave in sync\n")
    assert [json.loads(line)["broker"] for line in result.stdout.splitlines()] == ["a", "b"]


def test_a_registered_slave_that_is_not_in_sync_is_named(masters, run):
    masters.replicas["h1:1"] = HaStatus(master_commit_log_max_offset=100)
    result = run("broker replicas")
    assert (result.exit_code, result.stderr) == (4, "broker a: 0 of 1 slave in sync\n")


@pytest.mark.parametrize("name", ["c", "nix"])
def test_a_master_that_is_not_registered_is_not_found(masters, run, name):
    refused = run(f"broker replicas a {name}")
    assert refused.exit_code == 3
    assert f"no master of broker {name} is registered. Registered masters: a, b" in refused.output


def test_a_cluster_without_masters_says_so(admin, run):
    admin.info = ClusterInfo()
    assert "Registered masters: none" in run("broker replicas a").output
    assert run("broker replicas").exit_code == 0
