"""The role of a broker, and the master it follows."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.cluster.role import NO_MASTER, Master, Role
from rocketmq_py.broker.config.broker_config import BrokerConfig


def slave(**config: object) -> Role:
    return Role(BrokerConfig(broker_role="SLAVE", broker_id=1, **config), 10911)  # type: ignore[arg-type]


def test_slaves_fetch_the_log_from_the_advertised_address() -> None:
    assert Role(BrokerConfig(broker_ip1="10.0.0.1"), 10911).ha_address == "10.0.0.1:10912"
    assert Role(BrokerConfig(broker_ip2="10.9.0.1", ha_listen_port=7), 10911).ha_address == "10.9.0.1:7"
    assert Role(BrokerConfig(broker_ip1="::1"), 10911).ha_address == "[::1]:10912"


def test_a_master_has_no_master() -> None:
    role = Role(BrokerConfig(ha_master_address="h:1"), 10911)
    assert role.master == NO_MASTER
    role.update_master("n:1", "m:1", "m:2")
    assert role.master == NO_MASTER
    assert not role.is_slave


def test_watchers_get_the_current_master_and_its_changes() -> None:
    role, heard = slave(), list[Master]()
    role.add_master_listener(heard.append)
    role.update_master("n:1", "m:1", "m:2")
    role.update_master("n:1", "m:1", "m:2")
    assert heard == [NO_MASTER, Master("m:1", "m:2")]


def test_the_log_source_is_kept_when_the_master_is_gone() -> None:
    role = slave()
    role.update_master("n:1", "m:1", "m:2")
    role.update_master("n:1", None, None)
    assert role.master == Master(None, "m:2")


def test_one_answering_name_server_suffices_and_the_last_answer_counts() -> None:
    role = slave()
    role.update_master("n:1", "m:1", "m:2")
    role.update_master("n:2", None, None)
    assert role.master == Master("m:1", "m:2")
    role.update_master("n:2", "x:1", "x:2")
    assert role.master == Master("x:1", "x:2")
    role.update_master("n:1", "m:1", "m:2")
    assert role.master == Master("m:1", "m:2")


def test_a_configured_address_takes_precedence_for_the_log_only() -> None:
    role = slave(ha_master_address="h:1")
    assert role.master == Master(None, "h:1")
    role.update_master("n:1", "m:1", "m:2")
    assert role.master == Master("m:1", "h:1")


def test_a_slave_acts_while_it_has_the_smallest_id() -> None:
    role, heard = slave(enable_slave_acting_master=True), list[bool]()
    role.add_acting_listener(heard.append)
    role.update_master("n:1", "m:1", "m:2")
    assert not role.is_acting
    assert not role.update_smallest_id(0, "m:1"), "no news"
    assert role.update_smallest_id(1, "s:1")
    assert role.is_acting
    assert role.master == Master(None, "m:2"), "the master is not there, its log is where it was"
    assert not role.update_smallest_id(1, "s:1")
    assert role.update_smallest_id(0, "m:1")
    assert not role.is_acting
    assert heard == [True, False]


def test_only_one_of_two_slaves_acts() -> None:
    first, second = (
        Role(BrokerConfig(broker_role="SLAVE", broker_id=number, enable_slave_acting_master=True), 10911)
        for number in (1, 2)
    )
    for role in (first, second):
        role.update_smallest_id(1, "s:1")
    assert (first.is_acting, second.is_acting) == (True, False)
    second.update_smallest_id(2, "s:2")
    assert second.is_acting


def test_a_slave_that_may_not_act_does_not_act() -> None:
    off, master = slave(), Role(BrokerConfig(enable_slave_acting_master=True), 10911)
    assert not off.update_smallest_id(1, "s:1")
    assert not master.update_smallest_id(1, "s:1")
    assert not off.is_acting
    assert not master.is_acting


def test_names_and_ids_are_those_of_the_settings() -> None:
    assert (slave().name, slave().broker_id, slave().is_slave) == ("SLAVE", 1, True)
    role = Role(BrokerConfig(broker_role="SYNC_MASTER", total_replicas=3), 10911)
    assert (role.name, role.broker_id, role.is_slave, role.alive_replicas) == ("SYNC_MASTER", 0, False, 3)
    assert (role.ha_port, Role(BrokerConfig(ha_listen_port=7), 10911).ha_port) == (10912, 7)


def test_only_a_new_address_of_the_master_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    role = slave()
    with caplog.at_level("INFO"):
        role.update_master("one", "m:1", "m:2")
        role.update_master("one", "m:1", "m:3")
        role.update_master("one", None, None)
    assert [record.message for record in caplog.records] == [
        "the master of broker-a is m:1", "the master of broker-a is unknown",
    ]  # fmt: skip
    assert role.master == Master(None, "m:3")


def test_a_slave_with_the_smallest_id_acts_until_a_smaller_one_is_back(caplog: pytest.LogCaptureFixture) -> None:
    role, heard = slave(enable_slave_acting_master=True), list[bool]()
    role.add_acting_listener(heard.append)
    role.update_master("one", "m:1", "m:2")
    assert not role.is_acting
    assert not role.update_smallest_id(0, "m:1"), "nothing new"
    assert role.update_smallest_id(1, "s:1")
    assert (role.is_acting, heard, role.master) == (True, [True], Master(None, "m:2"))
    assert not role.update_smallest_id(1, "s:1")
    assert role.update_smallest_id(2, "x:1")
    assert (role.is_acting, heard) == (False, [True, False])
    assert role.update_smallest_id(3, "y:1")
    assert heard == [True, False], "nothing changed for this one"
    assert role.update_smallest_id(1, "s:1")
    role.update_master("one", "m:1", "m:2")
    assert role.update_smallest_id(0, "m:1")
    assert (role.is_acting, heard) == (False, [True, False, True, False])
    assert role.master == Master("m:1", "m:2"), "the master has reported already"
    said = [record.message for record in caplog.records]
    assert said[:2] == ["broker broker-a: the smallest id is now 1, at s:1", "broker broker-a (id 1) acts as master"]
    assert said.count("broker broker-a (id 1) does not act as master any more") == 2
    assert said.count("broker broker-a (id 1) acts as master") == 2
