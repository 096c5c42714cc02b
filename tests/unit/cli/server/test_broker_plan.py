"""Names, ports and directories of the brokers of ``rocketmq serve --brokers N``."""

import os
from pathlib import Path

import pytest

from rocketmq_py.cli.server.broker_plan import (
    MOST,
    PlannedBroker,
    broker_count,
    check_left_out,
    check_settings,
    plan,
)
from rocketmq_py.errors import ConfigError

FIRST = PlannedBroker("broker-a", Path("/store"), 10911, 0)


def test_the_first_broker_is_the_one_that_serve_runs_alone():
    assert plan(1, FIRST) == [FIRST]


def test_further_brokers_have_names_ports_and_directories_of_their_own():
    assert plan(3, FIRST) == [
        FIRST,
        PlannedBroker("broker-b", Path("/store/broker-b"), 10921, 0),
        PlannedBroker("broker-c", Path("/store/broker-c"), 10931, 0),
    ]


def test_a_port_for_slaves_that_is_set_moves_with_the_port():
    second = plan(2, FIRST._replace(ha_port=12000))[1]
    assert second.ha_port == 12010


def test_ports_of_metrics_and_health_move_with_the_port_unless_there_is_none():
    first = FIRST._replace(metrics_port=5557, health_port=5558, grpc_port=8081)
    third = plan(3, first)[2]
    assert (third.metrics_port, third.health_port, third.grpc_port) == (5577, 5578, 8101)
    assert (plan(2, FIRST)[1].health_port, plan(2, FIRST)[1].grpc_port) == (-1, -1)


def test_free_ports_stay_free_ports():
    assert [broker.port for broker in plan(3, FIRST._replace(port=0))] == [0, 0, 0]


def test_a_name_without_a_letter_is_kept_and_its_siblings_get_letters():
    assert [broker.name for broker in plan(3, FIRST._replace(name="orders"))] == ["orders", "orders-b", "orders-c"]


def test_all_names_ports_and_directories_differ():
    brokers = plan(MOST, FIRST)
    for field in ("name", "store", "port"):
        assert len({getattr(broker, field) for broker in brokers}) == 26
    assert brokers[-1].name == "broker-z"


def test_auto_is_one_broker_per_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    assert broker_count("auto") == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert broker_count("auto") == 26


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("26", 26)])
def test_a_number_is_taken_as_it_is(text, count):
    assert broker_count(text) == count


@pytest.mark.parametrize("text", ["0", "27", "-1", "two", "", "²"])
def test_other_numbers_are_refused(text):
    with pytest.raises(ConfigError, match=r"a number from 1 to 26 is expected, or auto"):
        broker_count(text)


def test_a_store_with_messages_is_not_left_out():
    full = {Path("/store/broker-c")}
    check_left_out(FIRST, 3, full.__contains__)
    for count in (1, 2):
        with pytest.raises(ConfigError, match=rf"/store/broker-c has messages, and with --brokers {count} no broker"):
            check_left_out(FIRST, count, full.__contains__)


@pytest.mark.parametrize("key", ["storePathCommitLog", "storePathIndex", "brokerConfigPath"])
def test_a_setting_that_names_one_place_is_refused(key):
    with pytest.raises(ConfigError, match=f"{key}=/x names one place for all brokers"):
        check_settings({key: "/x"})


def test_slaves_are_refused_and_masters_are_not():
    with pytest.raises(ConfigError, match="runs masters"):
        check_settings({"brokerRole": "SLAVE"})
    check_settings({"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH"})
