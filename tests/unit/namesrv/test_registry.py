"""The rules of registration, expiry and routes, with a clock that stands still."""

import gc
import time

import pytest

from rocketmq_py.errors import BrokerError
from rocketmq_py.namesrv import registry as registry_module
from rocketmq_py.namesrv.registry import BROKER_EXPIRY_MS, BrokerKey, MinIdChanged
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import QueueData
from tests.unit.namesrv.conftest import result_of


def test_a_topic_has_a_route_once_its_broker_is_registered(site):
    assert site.registry.route("T") is None
    site.register()
    assert site.addresses() == {"broker-a": {0: "10.0.0.1:10911"}}
    queue = site.queues()["broker-a"]
    assert (queue.read_queue_nums, queue.write_queue_nums, queue.perm) == (4, 4, 6)


def test_two_brokers_share_a_topic(site):
    site.register()
    site.register("broker-b", address="10.0.0.9:10911", queues=2)
    assert {name: queue.read_queue_nums for name, queue in site.queues().items()} == {"broker-a": 4, "broker-b": 2}
    info = site.registry.cluster_info()
    assert info.cluster_addr_table == {"C": ["broker-a", "broker-b"]}
    assert set(info.broker_addr_table) == {"broker-a", "broker-b"}


def test_a_single_topic_needs_its_broker_to_be_known(site):
    assert site.register(topics=("T",)) is None
    assert site.registry.route("T") is None
    site.register()
    assert site.register(topics=("V",), counter=2) is not None
    assert site.queues("V").keys() == {"broker-a"}
    assert site.queues("T").keys() == {"broker-a"}


def test_topics_change_only_with_their_version(site):
    site.register(queues=4, counter=1)
    site.register(queues=8, counter=1)
    assert site.queues()["broker-a"].read_queue_nums == 4
    site.register(queues=8, counter=2)
    assert site.queues()["broker-a"].read_queue_nums == 8


def test_a_new_topic_is_taken_although_the_version_is_the_same(site):
    site.register()
    site.register(topics=("T", "U", "V"))
    assert site.queues("V").keys() == {"broker-a"}


def test_unlisted_topics_are_kept_unless_configured_otherwise(site, make_site):
    for kept, place in ((True, site), (False, make_site(delete_missing_topics=True))):
        place.register(topics=("T", "U", "V"))
        place.register(topics=("T", "U"), counter=2)
        assert (place.queues("V") is not None) == kept


# -- masters and slaves


def test_a_slave_adds_its_address_but_no_queues(site):
    site.register(queues=4)
    site.register(broker_id=1, queues=16)
    assert site.addresses() == {"broker-a": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}}
    assert site.queues()["broker-a"].read_queue_nums == 4


def test_a_slave_gets_the_address_of_its_live_master(site):
    assert site.register(broker_id=1) == (None, None)
    assert site.register() == (None, None)
    assert site.register(broker_id=1) == ("10.0.0.1:10911", "ha-of-10.0.0.1:10911")
    site.leave("broker-a", 0, "10.0.0.1:10911", cluster="C")
    assert site.register(broker_id=1) == (None, None)


def test_only_a_slave_that_can_act_as_master_brings_queues(site, make_site):
    site.register(broker_id=1)
    assert site.queues() is None
    acting = make_site()
    acting.register(broker_id=1, enable_acting_master=True)
    assert acting.queues()["broker-a"].perm == 4


def test_queues_of_an_acting_master_are_read_only(make_site):
    site = make_site(support_acting_master=True)
    for broker_id in (0, 1, 2):
        site.register(broker_id=broker_id, enable_acting_master=True)
    site.leave("broker-a", 0, "10.0.0.1:10911", cluster="C")
    assert site.queues()["broker-a"].perm == 4
    assert site.addresses() == {"broker-a": {0: "10.0.0.2:10911", 2: "10.0.0.3:10911"}}
    members = site.registry.members("C", "broker-a")
    assert members.broker_addrs == {1: "10.0.0.2:10911", 2: "10.0.0.3:10911"}


def test_an_acting_master_is_listed_only_if_configured(make_site):
    site = make_site()
    for broker_id in (0, 1):
        site.register(broker_id=broker_id, enable_acting_master=True)
    site.leave("broker-a", 0, "10.0.0.1:10911", cluster="C")
    assert site.addresses() == {"broker-a": {1: "10.0.0.2:10911"}}


def test_without_acting_masters_the_queues_of_a_lost_master_keep_their_permission(site):
    site.register()
    site.register(broker_id=1)
    site.leave("broker-a", 0, "10.0.0.1:10911", cluster="C")
    assert site.queues()["broker-a"].perm == 6


def test_a_slave_that_becomes_master_has_one_id_only(site):
    site.register(broker_id=1, address="10.0.0.7:10911")
    site.register(broker_id=0, address="10.0.0.7:10911")
    assert site.addresses() == {"broker-a": {0: "10.0.0.7:10911"}}


def test_an_older_state_does_not_replace_the_live_holder_of_an_id(site):
    site.register(state=5)
    assert site.register(address="10.0.0.9:10911", state=4) == (None, None)
    assert site.addresses() == {"broker-a": {0: "10.0.0.1:10911"}}
    site.register(address="10.0.0.9:10911", state=6)
    assert site.addresses() == {"broker-a": {0: "10.0.0.9:10911"}}


# -- brokers that go


def test_queues_are_removed_with_the_last_broker_of_their_name(site):
    site.register()
    site.register("broker-b", address="10.0.0.9:10911", topics=("T", "W"))
    site.leave("broker-a", 0, "10.0.0.1:10911", cluster="C")
    assert site.queues("T").keys() == {"broker-b"}
    assert site.queues("U") is None
    site.leave("broker-b", 0, "10.0.0.9:10911", cluster="C")
    assert site.registry.all_topics().topic_list == []
    assert site.registry.cluster_info().cluster_addr_table == {}


def test_unregistering_an_unknown_broker_changes_nothing(site):
    site.register()
    site.leave("broker-a", 0, "10.0.0.9:1", cluster="C")
    site.leave("broker-x", 0, "10.0.0.9:1", cluster="X")
    assert site.queues().keys() == {"broker-a"}


def test_a_closed_connection_removes_its_broker(site):
    site.register(owner="first connection")
    site.registry.disconnected({"first connection"})
    assert site.queues() is None


def test_closing_an_old_connection_keeps_a_registered_broker(site):
    site.register(owner="first connection")
    site.register(owner="second connection")
    site.registry.disconnected({"first connection"})
    assert site.queues().keys() == {"broker-a"}


def test_a_silent_broker_expires_and_its_connection_is_returned(site):
    site.register(owner="connection")
    assert site.registry.expire(site.now + BROKER_EXPIRY_MS) == []
    assert site.registry.expire(site.now + BROKER_EXPIRY_MS + 1) == ["connection"]
    assert site.queues() is None


@pytest.mark.parametrize("known", [True, False])
def test_a_heartbeat_keeps_a_known_broker_alive(site, known):
    if known:
        site.register()
    site.registry.heartbeat("C", "10.0.0.1:10911", site.now + 100_000)
    site.registry.expire(site.now + BROKER_EXPIRY_MS + 1)
    assert (site.queues() is not None) == known


def test_a_broker_can_set_its_own_expiry(site):
    site.register(heartbeat_timeout_millis=10_000, owner="connection")
    assert site.registry.expire(site.now + 10_001) == ["connection"]


def test_data_versions_are_compared_on_request(site):
    key = BrokerKey("C", "10.0.0.1:10911")
    assert site.registry.has_changed(key, DataVersion(counter=1))
    site.register(counter=1)
    assert not site.registry.has_changed(key, DataVersion(counter=1))
    assert site.registry.has_changed(key, DataVersion(counter=2))
    assert site.registry.data_version(key) == DataVersion(counter=1)


# -- topics


def test_write_permission_is_revoked_and_granted(site):
    site.register()
    assert site.registry.wipe_write_permission("broker-a") == 2
    assert site.queues()["broker-a"].perm == 4
    assert site.registry.add_write_permission("broker-a") == 2
    assert site.queues()["broker-a"].perm == 6
    assert site.registry.wipe_write_permission("broker-x") == 0


def queue(broker, queues=1):
    return QueueData(broker_name=broker, read_queue_nums=queues, write_queue_nums=queues, perm=6)


def test_a_topic_is_registered_for_known_brokers_only(site):
    site.register()
    site.registry.add_topic("V", [queue("broker-a")])
    site.registry.add_topic("W", [queue("broker-a"), queue("broker-x")])
    assert site.queues("V").keys() == {"broker-a"}
    assert site.queues("W") is None
    site.registry.add_topic("V", [queue("broker-a", 9)])
    assert site.queues("V")["broker-a"].read_queue_nums == 9


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(site):
    site.register()
    site.register("broker-b", address="10.0.0.9:10911", cluster="D")
    site.registry.delete_topic("T", "D")
    assert site.queues("T").keys() == {"broker-a"}
    site.registry.delete_topic("T", "C")
    site.registry.delete_topic("U")
    assert site.registry.all_topics().topic_list == []
    site.registry.delete_topic("T", "no such cluster")


def test_topics_are_listed_by_cluster_and_flag(site):
    site.register(topics=("T", "U"), sys_flag=1)
    site.register("broker-b", address="10.0.0.9:10911", cluster="D", topics=("V", "W"), sys_flag=2)
    assert site.registry.topics_of_cluster("D").topic_list == ["V", "W"]
    assert site.registry.topics_of_cluster("X").topic_list == []
    assert site.registry.topics_by_flag(lambda flag: flag & 1 != 0).topic_list == ["T", "U"]


def test_system_topics_are_named_after_clusters_and_brokers(site):
    assert site.registry.system_topics().broker_addr is None
    site.register()
    topics = site.registry.system_topics()
    assert (topics.topic_list, topics.broker_addr) == (["C", "broker-a"], "10.0.0.1:10911")


def test_filter_servers_belong_to_the_route_of_their_broker(site):
    site.register(filters=["10.0.0.1:7000"])
    assert site.registry.route("T").filter_server_table == {"10.0.0.1:10911": ["10.0.0.1:7000"]}
    site.register()
    assert site.registry.route("T").filter_server_table == {}


def test_the_members_of_an_unknown_broker_are_none(site):
    assert site.registry.members("C", "broker-x").broker_addrs == {}


ACTING = {"enable_acting_master": True}


def changes(site, act):
    """What is told of smallest ids while something happens."""
    told = []
    site.registry._on_min_id_change = told.append
    act()
    return told


def test_brokers_are_notified_when_the_smallest_id_leaves(site):
    for broker_id in (0, 1, 2):
        site.register(broker_id=broker_id, **ACTING)
    (change,) = changes(site, lambda: site.leave(broker_id=0))
    left = ("10.0.0.2:10911", "10.0.0.3:10911")
    assert change == MinIdChanged("broker-a", 1, left[0], left, offline_address="10.0.0.1:10911")
    assert changes(site, lambda: site.leave(broker_id=2)) == []
    assert changes(site, lambda: site.leave(broker_id=1)) == []


def test_brokers_are_not_notified_without_acting_masters(site):
    for broker_id in (0, 1):
        site.register(broker_id=broker_id)
    assert changes(site, lambda: site.leave(broker_id=0)) == []


def test_brokers_are_notified_when_a_smaller_id_joins(site):
    assert changes(site, lambda: site.register(broker_id=2)) == []
    (change,) = changes(site, lambda: site.register(broker_id=1))
    assert change == MinIdChanged(
        "broker-a", 1, "10.0.0.2:10911", ("10.0.0.3:10911",), ha_address="ha-of-10.0.0.2:10911"
    )
    assert changes(site, lambda: site.register(broker_id=3)) == []


def test_many_brokers_can_leave_at_once(site):
    for number in range(3):
        site.register(f"broker-{number}", address=f"10.0.0.{number}:1", owner=f"connection {number}", topics=("T", "U"))
        site.register(f"broker-{number}", 1, address=f"10.0.1.{number}:1", owner=f"slave {number}", **ACTING)
    site.registry.disconnected({"connection 0", "slave 0", "connection 1"})
    assert set(site.queues()) == {"broker-1", "broker-2"}
    assert site.queues()["broker-1"].perm == 4
    assert set(site.registry.cluster_info().broker_addr_table) == {"broker-1", "broker-2"}


@pytest.mark.parametrize("queues", [2**31 - 1, -1])
def test_a_topic_with_too_many_queues_is_left_out_and_all_others_are_served(site, caplog, queues):
    site.register(topics=["T"], queues=4)
    site.register(topics=["T", "U"], queues=queues, counter=2)
    assert site.queues("T") is None
    assert f"broker broker-a has 2 invalid topics (ignored): readQueueNums of topic T is {queues}" in caplog.text
    site.register("broker-b", address="10.0.0.9:10911", topics=["T", "V"])
    assert set(site.queues("T")) == {"broker-b"}
    told = len(caplog.messages)
    site.register(topics=["T", "U"], queues=queues, counter=2)
    assert len(caplog.messages) == told
    site.register(topics=["T", "U"], queues=8_192, counter=3)
    assert site.queues("T")["broker-a"].read_queue_nums == 8_192


# -- limits


def test_one_connection_registers_a_limited_number_of_brokers(site, monkeypatch):
    monkeypatch.setattr(registry_module, "MAX_BROKERS_OF_CONNECTION", 3)
    for number in range(3):
        site.register(f"b-{number}", address=f"10.0.1.{number}:1", owner="one")
    with pytest.raises(BrokerError, match="more than 3 brokers over one connection"):
        site.register("b-3", address="10.0.1.3:1", owner="one")
    site.register("b-2", address="10.0.1.2:1", owner="one", counter=2)
    site.register("b-3", address="10.0.1.3:1", owner="two")
    assert len(site.registry.cluster_info().broker_addr_table) == 4


def test_a_name_server_keeps_a_limited_number_of_brokers(site, monkeypatch):
    monkeypatch.setattr(registry_module, "MAX_BROKERS", 3)
    for number in range(3):
        site.register(f"b-{number}", address=f"10.0.1.{number}:1", owner=f"c-{number}")
    with pytest.raises(BrokerError, match="more than 3 brokers are registered"):
        site.register("b-3", address="10.0.1.3:1", owner="c-3")
    site.registry.disconnected(["c-0"])
    site.register("b-3", address="10.0.1.3:1", owner="c-3")
    assert set(site.registry.cluster_info().broker_addr_table) == {"b-1", "b-2", "b-3"}


def test_refused_registrations_leave_nothing_behind(site):
    for number in range(10):
        assert site.register(f"b-{number}", address=f"10.0.1.{number}:1", topics=("T",)) is None
    info = site.registry.cluster_info()
    assert (info.broker_addr_table, info.cluster_addr_table) == ({}, {})


def test_thousands_of_lost_brokers_are_removed_in_time_linear_in_their_number(site, monkeypatch, request):
    monkeypatch.setattr(registry_module.log, "warning", lambda *_: None)

    def seconds(count):
        for number in range(count):
            site.register(f"b-{number}", address=f"10.0.1.{number}:1", owner=f"c-{number}")
        begin = time.thread_time()
        site.registry.disconnected([f"c-{number}" for number in range(count)])
        assert site.registry.cluster_info().broker_addr_table == {}
        return time.thread_time() - begin

    gc.disable()  # a collection of all that other tests left takes longer than what is measured
    request.addfinalizer(gc.enable)
    seconds(100)
    assert seconds(4_000) < 40 * max(seconds(400), 0.001)  # ten times as many; quadratic time would be a hundred times


def test_a_broker_that_leaves_while_it_registers_leaves_nothing_behind(site):
    steps = site.steps(topics=[f"T{i}" for i in range(10)])
    for _ in range(5):
        next(steps)
    site.leave()
    assert result_of(steps) is None
    assert site.registry.all_topics().topic_list == []
    assert site.register(topics=("T", "U")) is not None
