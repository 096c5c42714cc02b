"""A name server on a real socket: registration, routes, lists, closed connections, bad bodies."""

import asyncio
import json
import time
import zlib

import msgspec
import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.namesrv import RegisterBroker
from rocketmq_py.remoting.portal import Portal
from rocketmq_py.server.runner import started
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.server.rawpeer import RawPeer

CONFIG = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")


@pytest.fixture(scope="module")
def portal():
    portal = Portal()
    yield portal
    portal.stop()


@pytest.fixture
def namesrv(portal):
    async def start():
        server = NameServer(CONFIG)
        await server.start()
        return server

    server = portal.run(start())
    yield server
    portal.run(server.stop())


@pytest.fixture
def peer(namesrv):
    with RawPeer(namesrv.address) as peer:
        yield peer


def registration(*topics: str) -> bytes:
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics}
    return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable(topic_config_table=table)).encode()


def register(peer: RawPeer, name="broker-a", broker_id=0, address="10.0.0.1:10911", topics=("T", "U"), body=None):
    body = registration(*topics) if body is None else body
    header = RegisterBroker(
        broker_name=name, broker_addr=address, cluster_name="C", ha_server_addr="10.0.0.1:10912", broker_id=broker_id,
        body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
    )  # fmt: skip
    return peer.ask(Code.REGISTER_BROKER, header.to_ext(), body)


def route(peer: RawPeer, topic="T", version=479):
    return peer.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, version=version)


def test_a_registered_broker_is_found(peer):
    assert route(peer).code == 17
    assert register(peer).code == 0
    answer = route(peer)
    assert json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911"}


def test_an_old_client_is_answered_in_its_dialect(peer):
    register(peer)
    body = route(peer, version=317).body
    assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in body
    assert fastjson.loads(body) == json.loads(route(peer).body)


def test_cluster_info_has_bare_broker_ids(peer):
    register(peer)
    body = peer.ask(Code.GET_BROKER_CLUSTER_INFO).body
    assert b'{0:"10.0.0.1:10911"}' in body
    assert fastjson.loads(body)["clusterAddrTable"] == {"C": ["broker-a"]}


def test_topics_are_listed(peer):
    register(peer)
    assert json.loads(peer.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)["topicList"] == ["T", "U"]
    assert json.loads(peer.ask(Code.GET_TOPICS_BY_CLUSTER, {"cluster": "C"}).body)["topicList"] == ["T", "U"]


def test_a_broker_can_unregister(peer):
    register(peer)
    leave = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "brokerId": "0"}
    assert peer.ask(Code.UNREGISTER_BROKER, leave).code == 0
    assert route(peer).code == 17


def test_a_closed_connection_removes_its_broker(namesrv, peer):
    with RawPeer(namesrv.address) as broker:
        register(broker)
        assert route(peer).code == 0
        broker.leave()
        assert route(peer).code == 17


def test_a_oneway_request_is_executed_but_not_answered(peer):
    put = {"namespace": "N", "key": "k", "value": "v"}
    peer.send(encode_command(Command(Code.PUT_KV_CONFIG, opaque=1, flag=ONEWAY_FLAG, ext=put)))
    end = time.monotonic() + 60
    while (answer := peer.ask(Code.GET_KV_CONFIG, {"namespace": "N", "key": "k"}, opaque=2)).code:
        assert answer.opaque == 2
        assert time.monotonic() < end, "the value is there when it is on disk"
    assert (answer.opaque, answer.ext) == (2, {"value": "v"})


def test_settings_are_shown_and_changed(peer):
    assert peer.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false\n").code == 0
    assert b"enableAllTopicList=false" in peer.ask(Code.GET_NAMESRV_CONFIG).body
    assert peer.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).remark == "disable"
    assert peer.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/x\n").code == 16


@pytest.mark.parametrize("body", [b"{", b"\x78\x9c\x00", b"[]", b"\xff\xff"], ids=["json", "zlib", "list", "bytes"])
def test_a_malformed_registration_is_refused_and_the_name_server_keeps_running(peer, body):
    answer = register(peer, body=body)
    assert answer.code == 1
    assert answer.remark
    assert register(peer).code == 0


def test_a_missing_field_is_named(peer):
    answer = peer.ask(Code.GET_ROUTEINFO_BY_TOPIC)
    assert answer.code == 1
    assert "topic" in answer.remark


def test_a_request_for_brokers_is_refused_by_a_name_server(peer):
    assert peer.ask(Code.HEART_BEAT).remark == " request type 34 not supported"


def test_a_port_in_use_is_named(namesrv):
    async def start_another():
        other = NameServer(NamesrvConfig(listen_port=namesrv.port, bind_address="127.0.0.1"))
        try:
            await other.start()
        finally:
            await other.stop()

    with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{namesrv.port}: another process listens"):
        asyncio.run(start_another())


def test_a_stop_closes_connections_and_can_be_repeated(portal):
    server = NameServer(CONFIG)
    portal.run(server.start())
    with RawPeer(server.address) as peer:
        route(peer)
        portal.run(server.stop())
        peer.wait_closed()
    portal.run(server.stop())


class BrokerPort:
    """Where a broker would serve: takes what it is told."""

    async def __aenter__(self):
        self._told = asyncio.Queue()
        self._taking = []
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def _take(self, reader, writer):
        frames = FrameDecoder()
        self._taking.append(asyncio.current_task())
        while data := await reader.read(1 << 16):
            for frame in frames.feed(data):
                self._told.put_nowait(decode_command(frame))
        writer.close()
        await writer.wait_closed()

    async def told(self):
        async with asyncio.timeout(240):
            return await self._told.get()

    async def __aexit__(self, *_):
        self._server.close()
        await asyncio.gather(*self._taking)


def acting(name, broker_id, address):
    body = registration("T", "U")
    header = RegisterBroker(
        broker_name=name, broker_addr=address, cluster_name="C", ha_server_addr="ha", broker_id=broker_id,
        enable_acting_master=True,
    )  # fmt: skip
    return encode_command(Command(Code.REGISTER_BROKER, ext=header.to_ext(), body=body))


@pytest.mark.parametrize("notify", [True, False])
def test_brokers_are_notified_of_the_smallest_id_if_configured(caplog, notify):
    caplog.set_level("INFO")

    async def scenario():
        config = msgspec.structs.replace(CONFIG, notify_min_broker_id_changed=notify)
        async with BrokerPort() as slave, started(NameServer(config)) as namesrv:
            host, _, port = namesrv.address.rpartition(":")
            connections = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
            brokers = ("b", 0, "127.0.0.1:1"), ("b", 1, slave.address), ("b", 2, "127.0.0.1:2")
            for (reader, writer), broker in zip(connections, brokers, strict=True):
                writer.write(acting(*broker))
                assert await reader.read(1 << 16)
            connections[0][1].close()
            if notify:
                told = await slave.told()
                assert (told.code, told.is_oneway) == (905, True)
                assert told.ext == {
                    "brokerName": "b", "minBrokerId": "1", "minBrokerAddr": slave.address,
                    "offlineBrokerAddr": "127.0.0.1:1",
                }  # fmt: skip
            else:
                reader, writer = connections[1]
                while "id 0) at 127.0.0.1:1 is lost" not in caplog.text:
                    writer.write(encode_command(Command(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)))
                    assert await reader.read(1 << 16)
                assert not namesrv._notifier._telling.runs
            for _, writer in connections:
                writer.close()
                await writer.wait_closed()

    asyncio.run(scenario())
