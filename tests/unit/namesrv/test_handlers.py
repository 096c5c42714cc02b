"""Handlers called as methods: response codes, remarks, dialects."""

import asyncio
import json
import struct
import zlib

import pytest

from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.namesrv import NamesrvConfig
from rocketmq_py.namesrv.handlers import BrokerHandlers, ConfigHandlers, RouteHandlers, TopicHandlers
from rocketmq_py.namesrv.kv_config import ORDER_TOPICS, KvConfig
from rocketmq_py.namesrv.registration import checksum
from rocketmq_py.namesrv.settings import NamesrvSettings
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import QueueData, TopicRouteData
from rocketmq_py.protocol.codes import ResponseCode, Version
from rocketmq_py.protocol.headers.namesrv import (
    BrokerHeartbeat,
    BrokerMemberGroup,
    BrokerNameHeader,
    ClusterName,
    KvConfigKey,
    KvNamespace,
    PutKvConfig,
    QueryDataVersion,
    RegisterBroker,
    UnregisterBroker,
)
from rocketmq_py.protocol.headers.topic import DeleteTopicInNamesrv, GetRouteInfo, TopicName
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer
from rocketmq_py.testing import ManualClock


class Desk:
    """All handlers over one registry, asked as the server asks them."""

    def __init__(self, site, **settings):
        self.clock = ManualClock(site.now)
        self.kv = KvConfig()
        self.settings = NamesrvSettings(NamesrvConfig(**settings))
        self.routes = RouteHandlers(site.registry, self.kv, self.settings, self.clock)
        self.brokers = BrokerHandlers(site.registry, self.kv, self.settings, self.clock)
        self.topics = TopicHandlers(site.registry, self.settings)
        self.config = ConfigHandlers(self.kv, self.settings)
        self.peer = Peer()

    def ask(self, method, header=None, body=b"", version=Version.V5_3_3):
        answer = method(self.peer, Request(header=header, version=version), body)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


@pytest.fixture
def desk(site):
    site.register()
    return Desk(site)


ROUTE = GetRouteInfo(topic="T")
REGISTER = RegisterBroker(
    broker_name="broker-b", broker_addr="10.0.0.9:10911", cluster_name="C", ha_server_addr="10.0.0.9:10912", broker_id=0
)
BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},'
    b'"topicConfigTable":{"V":{"topicName":"V"},"W":{"topicName":"W"}}}}'
)


@pytest.mark.parametrize(
    ("version", "only_json", "strict"), [(400, None, False), (401, None, True), (400, True, True), (317, False, False)]
)  # fmt: skip
def test_the_json_dialect_of_a_route_depends_on_the_client(desk, version, only_json, strict):
    header = GetRouteInfo(topic="T", accept_standard_json_only=only_json)
    body = desk.ask(desk.routes.route, header, version=version).body
    assert (b'{"0":"10.0.0.1:10911"}' if strict else b'{0:"10.0.0.1:10911"}') in body


def test_an_unknown_topic_is_answered_with_code_17(desk):
    with pytest.raises(BrokerError, match="No topic route info in name server for the topic: X") as caught:
        desk.ask(desk.routes.route, GetRouteInfo(topic="X"))
    assert caught.value.code == 17


def test_routes_wait_for_brokers_when_configured(site):
    site.register()
    desk = Desk(site, need_wait_for_service=True, wait_seconds_for_service=45)
    desk.clock.advance(44.9)
    with pytest.raises(BrokerError, match="not ready"):
        desk.ask(desk.routes.route, ROUTE)
    desk.clock.advance(0.1)
    assert desk.ask(desk.routes.route, ROUTE).body


def test_the_order_of_a_topic_is_part_of_its_route_when_configured(site):
    site.register()
    desk = Desk(site, order_message_enable=True)
    desk.kv.put(ORDER_TOPICS, "T", "broker-a:4")
    assert json.loads(desk.ask(desk.routes.route, ROUTE).body)["orderTopicConf"] == "broker-a:4"


def test_a_registration_is_answered_with_the_order_topics(desk):
    assert desk.ask(desk.brokers.register, REGISTER, BODY).body == b""
    desk.kv.put(ORDER_TOPICS, "V", "broker-b:4")
    assert json.loads(desk.ask(desk.brokers.register, REGISTER, BODY).body) == {"table": {"V": "broker-b:4"}}


def test_a_registration_with_a_wrong_checksum_is_refused(desk):
    checked = RegisterBroker.from_ext(REGISTER.to_ext() | {"bodyCrc32": str(checksum(BODY))})
    desk.ask(desk.brokers.register, checked, BODY)
    with pytest.raises(BrokerError, match="crc32 not match"):
        desk.ask(desk.brokers.register, checked, BODY + b" ")


def test_a_single_topic_of_an_unknown_broker_is_refused(desk):
    with pytest.raises(BrokerError, match="register broker failed") as caught:
        desk.ask(desk.brokers.register, REGISTER, BODY.replace(b',"W":{"topicName":"W"}', b""))
    assert caught.value.code == 1


def test_a_registering_slave_gets_the_address_of_its_master(desk):
    slave = RegisterBroker.from_ext(REGISTER.to_ext() | {"brokerId": "1", "brokerAddr": "10.0.0.10:1"})
    desk.ask(desk.brokers.register, REGISTER, BODY)
    answer = desk.ask(desk.brokers.register, slave, BODY).header
    assert (answer.master_addr, answer.ha_server_addr) == ("10.0.0.9:10911", "10.0.0.9:10912")


def test_a_broker_can_query_whether_it_must_register(desk):
    key = {"broker_name": "broker-a", "broker_addr": "10.0.0.1:10911", "cluster_name": "C", "broker_id": 0}
    same = desk.ask(desk.brokers.query_data_version, QueryDataVersion(**key), DataVersion(counter=1).encode())
    newer = desk.ask(desk.brokers.query_data_version, QueryDataVersion(**key), DataVersion(counter=2).encode())
    assert (same.header.changed, newer.header.changed) == (False, True)
    assert DataVersion.decode(same.body) == DataVersion(counter=1)
    unknown = QueryDataVersion(**key | {"broker_addr": "10.0.0.9:1"})
    assert desk.ask(desk.brokers.query_data_version, unknown, DataVersion().encode()).body == b""


def test_brokers_send_heartbeats_and_unregister(desk, site):
    beat = BrokerHeartbeat(cluster_name="C", broker_addr="10.0.0.1:10911", broker_name="broker-a")
    assert desk.ask(desk.brokers.heartbeat, beat).code == 0
    leave = UnregisterBroker(broker_name="broker-a", broker_addr="10.0.0.1:10911", cluster_name="C", broker_id=0)
    assert desk.ask(desk.brokers.unregister, leave).code == 0
    assert site.queues() is None


def test_clusters_and_members_are_listed(desk):
    assert b'{0:"10.0.0.1:10911"}' in desk.ask(desk.brokers.cluster_info).body
    members = BrokerMemberGroup(cluster_name="C", broker_name="broker-a")
    assert b'{0:"10.0.0.1:10911"}' in desk.ask(desk.brokers.members, members).body


def test_topics_are_listed(desk):
    assert json.loads(desk.ask(desk.topics.all_topics).body) == {"topicList": ["T", "U"]}
    of_cluster = desk.ask(desk.topics.topics_of_cluster, ClusterName(cluster="C"))
    assert json.loads(of_cluster.body) == {"topicList": ["T", "U"]}
    assert json.loads(desk.ask(desk.topics.system_topics).body)["topicList"] == ["C", "broker-a"]


def test_unit_topics_are_listed(site):
    site.register(topics=("A", "B"), sys_flag=1)
    site.register("broker-b", address="10.0.0.9:1", topics=("C", "D"), sys_flag=2)
    site.register("broker-c", address="10.0.0.8:1", topics=("E", "F"), sys_flag=3)
    desk = Desk(site)
    lists = [desk.topics.unit_topics, desk.topics.unit_sub_topics, desk.topics.unit_sub_only_topics]
    assert [json.loads(desk.ask(method).body)["topicList"] for method in lists] == [
        ["A", "B", "E", "F"], ["C", "D", "E", "F"], ["C", "D"],
    ]  # fmt: skip


def test_topic_lists_can_be_disabled(site):
    desk = Desk(site, enable_all_topic_list=False, enable_topic_list=False)
    for method in (desk.topics.all_topics, desk.topics.unit_topics):
        with pytest.raises(BrokerError, match="disable"):
            desk.ask(method)


def test_a_topic_is_registered_and_deleted(desk, site):
    queue = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    desk.ask(desk.topics.register_topic, TopicName(topic="V"), TopicRouteData(queue_datas=[queue]).encode())
    assert site.queues("V").keys() == {"broker-a"}
    desk.ask(desk.topics.register_topic, TopicName(topic="W"))
    desk.ask(desk.topics.delete_topic, DeleteTopicInNamesrv(topic="V"))
    assert site.queues("V") is None


def test_write_permission_is_removed_and_restored(desk, site):
    name = BrokerNameHeader(broker_name="broker-a")
    assert desk.ask(desk.topics.wipe_write_permission, name).header.wipe_topic_count == 2
    assert desk.ask(desk.topics.add_write_permission, name).header.add_topic_count == 2


def test_key_value_pairs_are_stored_and_deleted(desk):
    key = {"namespace": "N", "key": "k"}
    desk.ask(desk.config.put, PutKvConfig(**key, value="v"))
    assert desk.ask(desk.config.get, KvConfigKey(**key)).header.value == "v"
    assert json.loads(desk.ask(desk.config.namespace, KvNamespace(namespace="N")).body) == {"table": {"k": "v"}}
    desk.ask(desk.config.delete, KvConfigKey(**key))
    with pytest.raises(BrokerError, match="No config item, Namespace: N Key: k") as caught:
        desk.ask(desk.config.get, KvConfigKey(**key))
    assert caught.value.code == 22
    with pytest.raises(BrokerError, match="No config item, Namespace: M"):
        desk.ask(desk.config.namespace, KvNamespace(namespace="M"))


def test_settings_are_shown_and_changed(desk):
    desk.ask(desk.config.update_settings, body=b"enableTopicList=false")
    assert b"enableTopicList=false\n" in desk.ask(desk.config.settings).body


def test_a_topic_with_too_many_queues_is_not_registered(desk, site):
    queues = QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=2**31 - 1, perm=6)
    body = TopicRouteData(queue_datas=[queues]).encode()
    with pytest.raises(
        BrokerError, match="broker broker-a: writeQueueNums of topic N is 2147483647: 0 to 8192"
    ) as caught:
        desk.ask(desk.topics.register_topic, TopicName(topic="N"), body)
    assert caught.value.code == 29
    assert site.queues("N") is None


def test_settings_that_are_not_utf_8_are_refused_with_one_log_line(desk, caplog):
    caplog.set_level("INFO")
    desk.ask(desk.config.update_settings, None, b"a=\xff\x0b" + "\u2028b".encode() + b"c" * 5_000)
    [line] = [message for message in caplog.messages if "changes settings" in message]
    assert len(line.splitlines()) == 1
    assert len(line) < 1_200


@pytest.mark.parametrize("mapping", ['"text"', "[]", "1", '{"bname":[]}', '{"bname":{}}'])
def test_a_registration_with_a_malformed_mapping_is_refused(desk, mapping):
    mappings = b'"topicQueueMappingInfoMap":{"V":%s},"topicConfigTable"' % mapping.encode()
    with pytest.raises(BadHeader, match="topicQueueMappingInfoMap: V is "):
        desk.ask(desk.brokers.register, REGISTER, BODY.replace(b'"topicConfigTable"', mappings))


def test_a_setting_with_a_wrong_value_is_refused_by_name(desk):
    with pytest.raises(BrokerError, match="orderMessageEnable is 'maybe'") as caught:
        desk.ask(desk.config.update_settings, body=b"orderMessageEnable=maybe")
    assert caught.value.code == ResponseCode.INVALID_PARAMETER


def test_a_large_registration_does_not_hold_the_loop(desk):
    """Others get their turn many times while the topics are decompressed, decoded and taken in."""
    count = 100_000
    blocks = [b'{"counter":2}', *(b"topic-%d 4 4 6 SINGLE_TAG" % i for i in range(count)), b"[]"]
    raw = [struct.pack(">i", len(block)) + block for block in blocks]
    raw.insert(1, struct.pack(">i", count))
    body = zlib.compress(b"".join(raw) + struct.pack(">i", 0))
    turns = 0

    async def scenario():
        nonlocal turns
        request = Request(header=REGISTER, version=Version.V5_3_3)
        registering = asyncio.ensure_future(desk.brokers.register(desk.peer, request, body))
        while not registering.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await registering).code == 0

    asyncio.run(scenario())
    assert len(desk.topics._registry.all_topics().topic_list) > count
    assert turns > 5


def test_of_many_registrations_one_is_taken_in_each_turn(desk):
    registered = []

    async def register():
        await desk.brokers.register(desk.peer, Request(header=REGISTER, version=Version.V5_3_3), BODY)
        registered.append(True)

    async def scenario():
        tasks = [asyncio.create_task(register()) for _ in range(20)]
        while len(registered) < len(tasks):
            before = len(registered)
            await asyncio.sleep(0)
            assert len(registered) - before <= 1

    asyncio.run(scenario())


# -- every request has an answer


def test_requests_without_a_result_are_answered(desk, site):
    queue = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    key = {"namespace": "N", "key": "k"}
    for method, header, body in (
        (desk.topics.register_topic, TopicName(topic="V"), TopicRouteData(queue_datas=[queue]).encode()),
        (desk.topics.register_topic, TopicName(topic="V"), b""),
        (desk.topics.delete_topic, DeleteTopicInNamesrv(topic="V"), b""),
        (desk.config.put, PutKvConfig(**key, value="v"), b""),
        (desk.config.delete, KvConfigKey(**key), b""),
        (desk.config.delete, KvConfigKey(**key), b""),
        (desk.config.update_settings, None, b"enableTopicList=true"),
    ):
        answer = desk.ask(method, header, body)
        assert (answer.code, answer.body) == (0, b"")


BROKER_A = {"broker_name": "broker-a", "broker_addr": "10.0.0.1:10911", "cluster_name": "C"}


@pytest.mark.parametrize(
    ("method", "header", "body"),
    [
        ("heartbeat", BrokerHeartbeat(**BROKER_A), b""),
        ("query_data_version", QueryDataVersion(**BROKER_A, broker_id=0), DataVersion(counter=1).encode()),
    ],
)
def test_a_heartbeat_and_a_query_of_the_version_keep_a_broker_alive(desk, site, method, header, body):
    desk.clock.advance(100)
    assert desk.ask(getattr(desk.brokers, method), header, body).code == 0
    desk.clock.advance(120)
    assert site.registry.expire(desk.clock()) == []
    desk.clock.advance(0.001)
    assert len(site.registry.expire(desk.clock())) == 1


def test_a_registration_on_a_closed_connection_is_removed(desk, site):
    desk.peer.closed = True
    desk.ask(desk.brokers.register, REGISTER, BODY)
    assert "broker-b" not in site.registry.cluster_info().broker_addr_table
    assert "broker-a" in site.registry.cluster_info().broker_addr_table


def test_order_topics_are_not_sent_to_brokers_if_configured(site):
    site.register()
    desk = Desk(site, return_order_topic_config_to_broker=False)
    desk.kv.put(ORDER_TOPICS, "V", "broker-b:4")
    assert desk.ask(desk.brokers.register, REGISTER, BODY).body == b""


def test_without_the_setting_a_route_has_no_order(desk):
    desk.kv.put(ORDER_TOPICS, "T", "broker-a:4")
    assert json.loads(desk.ask(desk.routes.route, ROUTE).body).get("orderTopicConf") is None


def test_changes_of_permissions_are_logged_and_made(desk, site, caplog):
    caplog.set_level("INFO")
    name = BrokerNameHeader(broker_name="broker-a")
    desk.ask(desk.topics.wipe_write_permission, name)
    assert site.queues()["broker-a"].perm == 4
    desk.ask(desk.topics.add_write_permission, name)
    assert site.queues()["broker-a"].perm == 6
    assert [message.partition(" ")[2] for message in caplog.messages] == [
        "took the write permission of broker broker-a, 2 topics", "gave broker broker-a write permission, 2 topics"
    ]  # fmt: skip


def test_a_topic_is_deleted_in_the_named_cluster_only(desk, site):
    site.register("broker-d", address="10.0.0.4:1", cluster="D")
    desk.ask(desk.topics.delete_topic, DeleteTopicInNamesrv(topic="T", cluster_name="D"))
    assert site.queues("T").keys() == {"broker-a"}


@pytest.mark.parametrize("setting", ["enable_all_topic_list", "enable_topic_list"])
def test_lists_of_topics_have_switches_of_their_own(site, setting):
    site.register(sys_flag=3)
    desk = Desk(site, **{setting: False})
    of_cluster = (desk.topics.topics_of_cluster, ClusterName(cluster="C"))
    all_topics = (desk.topics.all_topics, None)
    refused, answered = (all_topics, of_cluster) if setting == "enable_all_topic_list" else (of_cluster, all_topics)
    with pytest.raises(BrokerError) as error:
        desk.ask(*refused)
    assert error.value.code == 1
    assert desk.ask(*answered).body
    assert desk.ask(desk.topics.system_topics).body


def test_the_settings_are_listed_in_order_one_on_a_line(desk):
    lines = desk.ask(desk.config.settings).body.decode().splitlines()
    assert lines == sorted(lines)
    assert "listenPort=9876" in lines
    assert all("=" in line for line in lines)


def test_keys_of_the_black_list_are_not_changed(desk):
    with pytest.raises(BrokerError, match="Can not update config in black list") as refused:
        desk.ask(desk.config.update_settings, body=b"kvConfigPath=/x")
    assert refused.value.code == 16
