"""The rules of registration, expiry and routes, with a clock that stands still."""

import gc
import time

import pytest

from rocketmq_py.errors import BrokerError
from rocketmq_py.namesrv import registry as registry_module
from rocketmq_py.namesrv.registry import BROKER_EXPIRY_MS, BrokerKey, Leaving, MinIdChanged
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import QueueData
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.headers.namesrv import RegisterBroker
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


def test_brokers_that_leave_together_leave_although_one_of_them_is_unknown(site):
    site.register()
    site.register("broker-b", address="10.0.0.9:10911")
    leaving = [
        ("X", "10.0.0.9:1", "broker-x"),
        ("C", "10.0.0.1:10911", "broker-a"),
        ("C", "10.0.0.9:10911", "broker-b"),
    ]
    site.registry.unregister([Leaving(cluster, address, name, 0) for cluster, address, name in leaving])
    assert site.registry.cluster_info().cluster_addr_table == {}


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


def test_at_the_limit_one_more_broker_is_refused_and_the_text_is_java_s_code(site, monkeypatch):
    monkeypatch.setattr(registry_module, "MAX_BROKERS", 1)
    site.register("b-0", address="10.0.1.0:1")
    with pytest.raises(BrokerError) as refused:
        site.register("b-1", address="10.0.1.1:1")
    assert refused.value.code == 1
    assert set(site.registry.cluster_info().cluster_addr_table) == {"C"}


def test_the_limits_hold_what_a_cluster_needs():
    assert (registry_module.MAX_BROKERS, registry_module.MAX_BROKERS_OF_CONNECTION) == (10_000, 128)


# -- what a registration changes, and what it leaves alone


def test_a_registration_leaves_other_brokers_and_clusters_alone(site):
    site.register("broker-a")
    site.register("broker-b", address="10.0.1.1:1", cluster="D", topics=("T", "V"), queues=2)
    site.register("broker-a", topics=("T", "W"), counter=2, queues=8)
    assert {name: queue.read_queue_nums for name, queue in site.queues("T").items()} == {"broker-a": 8, "broker-b": 2}
    assert site.registry.cluster_info().cluster_addr_table == {"C": ["broker-a"], "D": ["broker-b"]}


def test_a_zone_and_the_mode_of_a_slave_are_those_of_the_last_registration(site):
    site.register(zone_name="z", enable_acting_master=True)
    broker = site.registry.cluster_info().broker_addr_table["broker-a"]
    assert (broker.cluster, broker.zone_name, broker.enable_acting_master) == ("C", "z", True)
    site.register()
    broker = site.registry.cluster_info().broker_addr_table["broker-a"]
    assert (broker.zone_name, broker.enable_acting_master) == (None, False)


def test_a_first_registration_may_have_no_topic_or_two_but_not_one(site):
    for topics, accepted in (((), True), (("T",), False), (("T", "U"), True)):
        registered = site.register("broker-x", address="10.9.9.9:1", topics=topics)
        assert (registered is not None) is accepted
        if accepted:
            site.leave("broker-x", address="10.9.9.9:1")


def test_a_refused_first_registration_keeps_the_other_ids_of_its_name(site):
    site.register(broker_id=0)
    assert site.register(broker_id=1, topics=("T",)) is None
    assert site.addresses() == {"broker-a": {0: "10.0.0.1:10911"}}
    assert site.registry.cluster_info().cluster_addr_table == {"C": ["broker-a"]}


def test_a_single_topic_of_a_known_broker_is_taken(site):
    site.register()
    assert site.register(topics=("V",), counter=2) is not None
    assert set(site.registry.all_topics().topic_list) == {"T", "U", "V"}


@pytest.mark.parametrize(("ours", "theirs", "replaces"), [(1, 0, False), (1, 1, True), (1, 2, True)])
def test_the_newer_state_holds_an_id(site, ours, theirs, replaces):
    site.register(state=ours)
    assert site.register(address="10.0.0.9:10911", state=theirs) == (None, None)
    held = "10.0.0.9:10911" if replaces else "10.0.0.1:10911"
    assert site.addresses() == {"broker-a": {0: held}}


def test_an_outdated_broker_is_not_alive(site):
    site.register(address="10.0.0.9:10911", broker_id=1, state=0)
    site.register(state=5)
    site.register(address="10.0.0.9:10911", broker_id=0, state=0)
    assert site.registry.data_version(BrokerKey("C", "10.0.0.9:10911")) is None
    assert site.registry.data_version(BrokerKey("C", "10.0.0.1:10911")) is not None


def test_the_same_address_may_go_back_to_an_older_state(site):
    site.register(state=5)
    site.register(state=1, counter=7, topics=("T", "W"))
    assert "W" in site.registry.all_topics().topic_list


def test_a_held_id_is_free_when_its_holder_is_gone(site):
    site.register(state=5)
    site.registry.disconnected(["10.0.0.1:10911"])
    assert site.register(address="10.0.0.9:10911", state=0) is not None
    assert site.addresses() == {"broker-a": {0: "10.0.0.9:10911"}}


def test_the_timeout_of_a_registration_is_its_own(site):
    site.register("broker-a", heartbeat_timeout_millis=1000)
    site.register("broker-b", address="10.0.1.1:1", heartbeat_timeout_millis=0)
    site.register("broker-c", address="10.0.1.2:1")
    assert site.registry.expire(site.now + 1000) == []
    assert site.registry.expire(site.now + 1001) == ["10.0.0.1:10911"]
    assert site.registry.expire(site.now + 120_000) == []
    assert sorted(site.registry.expire(site.now + 120_001)) == ["10.0.1.1:1", "10.0.1.2:1"]


def test_filter_servers_are_those_of_the_last_registration(site):
    site.register(filters=("f:1",))
    assert site.registry.route("T").filter_server_table == {"10.0.0.1:10911": ["f:1"]}
    site.register("broker-b", address="10.0.1.1:1", filters=("f:2",))
    site.register()
    assert site.registry.route("T").filter_server_table == {"10.0.1.1:1": ["f:2"]}
    site.leave("broker-b", address="10.0.1.1:1")
    site.register("broker-b", address="10.0.1.1:1")
    assert site.registry.route("T").filter_server_table == {}


def test_the_address_of_a_lost_master_is_not_given_to_slaves(site):
    site.register(broker_id=0)
    assert site.register(broker_id=1) == ("10.0.0.1:10911", "ha-of-10.0.0.1:10911")
    assert site.register(broker_id=0) == (None, None)
    site.leave(broker_id=0)
    assert site.register(broker_id=1) == (None, None)


def test_a_master_of_another_cluster_is_not_given_to_slaves(site):
    site.register(broker_id=0)
    assert site.register(broker_id=1, cluster="D") == (None, None)


# -- topics that a broker sends


MAPPED = {"V": {"bname": "other", "epoch": 1}, "W": {"epoch": 2}}


def with_mappings(site, mappings, counter=1, topics=("V", "W")):
    head = RegisterBroker(
        broker_name="broker-a", broker_addr="10.0.0.1:1", cluster_name="C", ha_server_addr="h", broker_id=0
    )
    wrapper = TopicConfigTable(
        topic_config_table={topic: TopicConfig(topic_name=topic) for topic in topics},
        data_version=DataVersion(counter=counter), topic_queue_mapping_info_map=mappings,
    )  # fmt: skip
    return result_of(
        site.registry.register(head, RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), "owner", site.now)
    )


def test_mappings_of_static_topics_belong_to_the_broker_that_they_name(site):
    with_mappings(site, MAPPED)
    assert site.registry.route("V").topic_queue_mapping_by_broker == {"other": MAPPED["V"]}
    assert site.registry.route("W").topic_queue_mapping_by_broker == {"broker-a": MAPPED["W"]}
    with_mappings(site, {"V": {"bname": "other", "epoch": 9}})
    assert site.registry.route("V").topic_queue_mapping_by_broker == {"other": MAPPED["V"]}, "the version is the same"
    with_mappings(site, {"V": {"bname": "other", "epoch": 9}}, counter=2)
    assert site.registry.route("V").topic_queue_mapping_by_broker["other"]["epoch"] == 9
    site.registry.delete_topic("V")
    with_mappings(site, None, counter=3)
    assert site.registry.route("V").topic_queue_mapping_by_broker is None


def test_a_registration_with_mappings_deletes_no_topic(make_site):
    site = make_site(delete_missing_topics=True)
    with_mappings(site, {}, topics=("T", "U", "V"))
    with_mappings(site, MAPPED, counter=2, topics=("T", "U"))
    assert site.queues("V") is not None
    with_mappings(site, {}, counter=3, topics=("T", "U"))
    assert site.queues("V") is None


def test_a_topic_that_a_broker_stops_to_send_stays_at_the_others(make_site):
    site = make_site(delete_missing_topics=True)
    for name, address in (("broker-a", "10.0.0.1:1"), ("broker-b", "10.0.0.2:1")):
        site.register(name, address=address, topics=("T", "U", "V"))
    site.register("broker-a", address="10.0.0.1:1", topics=("T", "U"), counter=2)
    assert set(site.queues("V")) == {"broker-b"}
    assert set(site.queues("T")) == {"broker-a", "broker-b"}


@pytest.mark.parametrize(
    ("broker_id", "acting", "perm"), [(0, None, 6), (0, False, 6), (0, True, 6), (1, True, 4), (1, False, 6)]
)
def test_queues_of_a_slave_that_may_act_are_read_only(site, broker_id, acting, perm):
    site.register(broker_id=broker_id, enable_acting_master=acting)
    assert site.queues()["broker-a"].perm == perm


def test_a_slave_defines_topics_only_with_the_smallest_id(site):
    site.register(broker_id=1, enable_acting_master=True)
    site.register(broker_id=2, enable_acting_master=True, topics=("X", "Y"))
    assert set(site.registry.all_topics().topic_list) == {"T", "U"}


def test_queues_and_flags_are_those_of_the_topic(site):
    site.register(topics=("T", "U"), queues=3, perm=4, sys_flag=5)
    queue = site.queues()["broker-a"]
    assert (queue.read_queue_nums, queue.write_queue_nums, queue.perm, queue.topic_sys_flag) == (3, 3, 4, 5)


# -- leaving


def test_a_connection_owns_its_latest_registrations(site):
    site.register("broker-a", owner="one")
    site.register("broker-b", address="10.0.1.1:1", owner="one")
    site.register("broker-a", owner="two")
    site.registry.disconnected(["one"])
    assert set(site.registry.cluster_info().broker_addr_table) == {"broker-a"}
    site.registry.disconnected(["one", "two"])
    assert site.registry.cluster_info().broker_addr_table == {}
    assert (site.registry._owned, site.registry._live, site.registry._filters) == ({}, {}, {})


def test_a_slave_that_leaves_changes_no_queue(site):
    for broker_id in (0, 1):
        site.register(broker_id=broker_id, **ACTING)
    site.leave(broker_id=1)
    assert site.queues()["broker-a"].perm == 6
    assert site.addresses() == {"broker-a": {0: "10.0.0.1:10911"}}


def test_the_cluster_stays_while_it_has_a_broker(site):
    site.register("broker-a")
    site.register("broker-b", address="10.0.1.1:1")
    site.leave("broker-a")
    assert site.registry.cluster_info().cluster_addr_table == {"C": ["broker-b"]}
    site.leave("broker-b", address="10.0.1.1:1")
    assert site.registry.cluster_info().cluster_addr_table == {}


def test_a_master_that_leaves_makes_only_its_own_queues_read_only(site):
    for name, subnet in (("broker-a", 0), ("broker-b", 1)):
        for broker_id in (0, 1):
            site.register(name, broker_id, f"10.0.{subnet}.{broker_id}:1", **ACTING)
    site.leave("broker-a", 0, "10.0.0.0:1")
    assert {name: queue.perm for name, queue in site.queues().items()} == {"broker-a": 4, "broker-b": 6}


def test_why_a_broker_left_is_logged(site, caplog):
    caplog.set_level("INFO", logger="rocketmq_py.namesrv.registry")
    site.register()
    assert caplog.messages == ["broker broker-a (id 0) at 10.0.0.1:10911 registered"]
    site.register(counter=2)
    assert len(caplog.messages) == 1
    site.leave()
    site.register()
    site.registry.disconnected(["10.0.0.1:10911"])
    site.register()
    site.registry.expire(site.now + 120_001)
    ends = [(record.levelname, record.getMessage()) for record in caplog.records if "registered" not in record.msg]
    lost = "broker broker-a (id 0) at 10.0.0.1:10911 is lost:"
    assert ends == [
        ("WARNING", f"{lost} its connection was lost: check whether it is running"),
        ("WARNING", f"{lost} no heartbeat in time: check whether it hangs"),
    ]  # fmt: skip


@pytest.mark.parametrize("steps_done", [1, 5, 10])
def test_a_broker_that_comes_back_while_it_registers_ends_the_first_registration(site, steps_done):
    steps = site.steps(topics=[f"T{number}" for number in range(10)])
    for _ in range(steps_done):
        next(steps)
    site.leave()
    site.register(topics=("U", "V"))
    assert result_of(steps) is None
    assert set(site.registry.all_topics().topic_list) == {"U", "V"}


# -- topics by administrators


def test_a_topic_is_replaced_at_its_broker_and_kept_at_the_others(site):
    site.register("broker-a")
    site.register("broker-b", address="10.0.1.1:1")
    queue = QueueData(broker_name="broker-a", read_queue_nums=9, write_queue_nums=9, perm=6)
    site.registry.add_topic("T", [queue])
    assert {name: found.read_queue_nums for name, found in site.queues().items()} == {"broker-a": 9, "broker-b": 4}
    site.registry.add_topic("none", [])
    assert "none" not in site.registry.all_topics().topic_list


def test_a_topic_deleted_in_one_cluster_stays_in_another(site):
    site.register("broker-a")
    site.register("broker-b", address="10.0.1.1:1", cluster="D")
    site.registry.delete_topic("T", "nix")
    site.registry.delete_topic("T", "C")
    assert set(site.queues("T")) == {"broker-b"}
    assert set(site.queues("U")) == {"broker-a", "broker-b"}
    site.registry.delete_topic("U", "")
    assert site.queues("U") is None


def test_permissions_of_one_broker_change(site):
    site.register("broker-a", perm=4)
    site.register("broker-b", address="10.0.1.1:1")
    assert site.registry.wipe_write_permission("broker-b") == 2
    assert {name: queue.perm for name, queue in site.queues().items()} == {"broker-a": 4, "broker-b": 4}
    assert site.registry.add_write_permission("broker-b") == 2
    assert {name: queue.perm for name, queue in site.queues("U").items()} == {"broker-a": 4, "broker-b": 6}
    assert site.registry.wipe_write_permission("nix") == 0


# -- acting masters


def acting_site(make_site, **options):
    site = make_site(support_acting_master=True, **options)
    for broker_id in (0, 1, 2):
        site.register(broker_id=broker_id, **ACTING, topics=("T", "rmq_sys_SYNC_BROKER_MEMBER_broker-a"))
    return site


def test_the_smallest_id_acts_in_routes_and_nowhere_else(make_site):
    site = acting_site(make_site)
    assert sorted(site.addresses()["broker-a"]) == [0, 1, 2]
    site.leave(broker_id=0)
    assert site.addresses() == {"broker-a": {0: "10.0.0.2:10911", 2: "10.0.0.3:10911"}}
    assert sorted(site.registry.members("C", "broker-a").broker_addrs) == [1, 2]
    assert sorted(site.addresses("rmq_sys_SYNC_BROKER_MEMBER_broker-a")["broker-a"]) == [1, 2]


def test_a_slave_of_writable_queues_does_not_act(make_site):
    site = acting_site(make_site)
    site.leave(broker_id=0)
    site.registry.add_write_permission("broker-a")
    assert sorted(site.addresses()["broker-a"]) == [1, 2]


def test_lists_are_in_order(site):
    for number, cluster in ((2, "D"), (1, "C"), (0, "C")):
        site.register(f"b-{number}", address=f"10.0.1.{number}:1", cluster=cluster, topics=("b", "a"))
    assert site.registry.topics_of_cluster("C").topic_list == ["a", "b"]
    assert site.registry.topics_of_cluster("nix").topic_list == []
    system = site.registry.system_topics()
    assert (system.topic_list, system.broker_addr) == (["D", "b-2", "C", "b-0", "b-1"], "10.0.1.2:1")
    assert site.registry.cluster_info().cluster_addr_table == {"D": ["b-2"], "C": ["b-0", "b-1"]}
