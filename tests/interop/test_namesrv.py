"""Our name server and Java's, asked the same: every request of a name server, answer by answer.

The brokers are played by the test, so that it can be any broker: a slave, an acting master, one of another cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode as Code
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
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.server.rawpeer import RawPeer

V4_9_3, V5_3_3 = 399, 479


class Answer(NamedTuple):
    """What can be compared of an answer; a body of JSON without regard to the order of lists of names."""

    code: int
    remark: str | None
    ext: dict[str, str]
    body: Any


class Player:
    """Plays brokers and clients of one name server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = RawPeer(address)
        self._brokers: dict[str, RawPeer] = {}

    def ask(self, code: int, header: Any = None, body: bytes = b"", version: int = V5_3_3, **ext: str) -> Answer:
        fields = {**(header.to_ext() if header is not None else {}), **ext}
        return comparable(self.admin.ask(code, fields, body, version=version))

    def register(
        self, name: str = "broker-a", broker_id: int = 0, cluster: str = "C", port: int = 1, topics: str = "T U",
        counter: int = 1, state: int = 0, perm: int = 6, **more: Any,
    ) -> Answer:  # fmt: skip
        """A broker registers, over a connection of its own."""
        address = f"127.0.0.1:{port}"
        peer = self._brokers.get(address) or RawPeer(self.address)
        self._brokers[address] = peer
        header = RegisterBroker(
            broker_name=name, broker_addr=address, cluster_name=cluster, ha_server_addr=f"127.0.0.1:{port + 1}",
            broker_id=broker_id, **more,
        )  # fmt: skip
        table = {
            topic: TopicConfig(topic_name=topic, perm=perm, read_queue_nums=4, write_queue_nums=4)
            for topic in topics.split()
        }
        version = DataVersion(counter=counter, state_version=state, timestamp=1)
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigTable(topic_config_table=table, data_version=version)
        )
        return comparable(peer.ask(Code.REGISTER_BROKER, header.to_ext(), body.encode(), version=V5_3_3))

    def leave(self, port: int) -> None:
        """A broker's connection breaks."""
        self._brokers.pop(f"127.0.0.1:{port}").close()

    def route(self, topic: str = "T", **more: Any) -> Answer:
        return self.ask(Code.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=topic), **more)

    def cluster(self) -> Answer:
        return self.ask(Code.GET_BROKER_CLUSTER_INFO)

    def configure(self, **settings: str) -> Answer:
        return self.ask(Code.UPDATE_NAMESRV_CONFIG, body="".join(f"{k}={v}\n" for k, v in settings.items()).encode())

    def close(self) -> None:
        """All connections end, and with them all brokers."""
        for peer in self._brokers.values():
            peer.close()
        eventually(self.cluster, lambda answer: not answer.body["brokerAddrTable"])
        self.admin.close()


def comparable(answer: Command) -> Answer:
    remark = None if answer.remark == "not set any response code" else answer.remark  # a slip of Java's, with code 0
    return Answer(answer.code, remark, answer.ext, _plain(answer.body))


def _plain(body: bytes) -> Any:
    if body[:1] not in b"{[" or not body:
        return body.decode()
    return _sorted(fastjson.loads(body))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _sorted(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=repr)
    return value


@pytest.fixture(scope="module")
def addresses(java: JavaPeer, servers: OurServers) -> tuple[str, str]:
    return servers.namesrv().namesrv, java.namesrv().address


@pytest.fixture
def players(addresses: tuple[str, str]) -> Iterator[Both]:
    both = Both(Player(addresses[0]), Player(addresses[1]))
    yield both
    both.ours.close()
    both.theirs.close()


class Both(NamedTuple):
    """The same done at both."""

    ours: Player
    theirs: Player

    def do(self, act: Callable[[Player], Answer]) -> Answer:
        """The answer both give."""
        ours, theirs = act(self.ours), act(self.theirs)
        assert ours == theirs
        return ours

    def become(self, look: Callable[[Player], Answer], wanted: Callable[[Answer], Any]) -> Answer:
        """The answer both come to give."""
        eventually(lambda: look(self.theirs), wanted)
        eventually(lambda: look(self.ours), wanted)
        return self.do(look)


def test_registrations_are_answered_alike(players: Both) -> None:
    assert players.do(lambda p: p.route()).code == 17
    assert players.do(lambda p: p.register()).code == 0
    assert players.do(lambda p: p.register("broker-b", port=11, topics="T V W")).code == 0
    assert players.do(lambda p: p.register("broker-c", cluster="D", port=21)).code == 0
    assert players.do(lambda p: p.register("broker-a", 1, port=31)).ext["masterAddr"] == "127.0.0.1:1"
    assert len(players.do(lambda p: p.route()).body["brokerDatas"]) == 3
    assert players.do(lambda p: p.route(version=V4_9_3)).code == 0
    assert players.do(lambda p: p.route("V", version=V4_9_3, acceptStandardJsonOnly="true")).code == 0
    assert players.do(lambda p: p.route("nowhere")).code == 17
    assert set(players.do(Player.cluster).body["clusterAddrTable"]) == {"C", "D"}
    group = BrokerMemberGroup(cluster_name="C", broker_name="broker-a")
    members = players.do(lambda p: p.ask(Code.GET_BROKER_MEMBER_GROUP, group))
    assert len(members.body["brokerMemberGroup"]["brokerAddrs"]) == 2
    nobody = BrokerMemberGroup(cluster_name="C", broker_name="broker-x")
    players.do(lambda p: p.ask(Code.GET_BROKER_MEMBER_GROUP, nobody))


def test_topics_are_listed(players: Both) -> None:
    players.do(lambda p: p.register(topics="T U V"))
    players.do(lambda p: p.register("broker-b", cluster="D", port=11))
    assert players.do(lambda p: p.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body["topicList"] == ["T", "U", "V"]
    for cluster in ("C", "D", "nowhere"):
        players.do(lambda p, cluster=cluster: p.ask(Code.GET_TOPICS_BY_CLUSTER, ClusterName(cluster=cluster)))
    for code in (
        Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):  # fmt: skip
        players.do(lambda p, code=code: p.ask(code))
    system = [player.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS).body for player in players]
    assert system[0]["topicList"] == system[1]["topicList"]
    assert system[0].keys() == system[1].keys()  # which broker's address it names is nobody's promise


def test_a_single_topic_is_registered_only_after_all(players: Both) -> None:
    assert players.do(lambda p: p.register(topics="T")).remark == "register broker failed"
    players.do(lambda p: p.register(topics="T U"))
    assert players.do(lambda p: p.register(topics="V", counter=2)).code == 0
    for topic in "TUV":
        assert players.do(lambda p, topic=topic: p.route(topic)).code == 0


def test_single_topics_are_registered_and_deleted_alike(players: Both) -> None:
    players.do(lambda p: p.register())
    players.do(lambda p: p.register("broker-b", cluster="D", port=11))

    def add(*brokers: str) -> Callable[[Player], Answer]:
        queues = [
            {"brokerName": b, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 0} for b in brokers
        ]
        body = fastjson.dumps({"queueDatas": queues})
        return lambda p: p.ask(Code.REGISTER_TOPIC_IN_NAMESRV, TopicName(topic="apart"), body)

    assert players.do(add("broker-x")).code == 0
    assert players.do(lambda p: p.route("apart")).code == 17
    players.do(add("broker-a", "broker-b"))
    assert len(players.do(lambda p: p.route("apart")).body["queueDatas"]) == 2
    players.do(lambda p: p.ask(Code.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrv(topic="apart", cluster_name="D")))
    assert len(players.do(lambda p: p.route("apart")).body["queueDatas"]) == 1
    players.do(lambda p: p.ask(Code.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrv(topic="apart")))
    assert players.do(lambda p: p.route("apart")).code == 17


def test_permissions_and_versions_are_handled_alike(players: Both) -> None:
    players.do(lambda p: p.register())
    for code in (Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER):
        for name in ("broker-a", "broker-x"):
            header = BrokerNameHeader(broker_name=name)
            players.do(lambda p, code=code, header=header: p.ask(code, header))
        players.do(lambda p: p.route())
    players.do(lambda p: p.register(perm=4, counter=1))
    assert players.do(lambda p: p.route()).body["queueDatas"][0]["perm"] == 6
    players.do(lambda p: p.register(perm=4, counter=2))
    assert players.do(lambda p: p.route()).body["queueDatas"][0]["perm"] == 4
    for port, counter in ((1, 2), (1, 3), (77, 2)):
        header = QueryDataVersion(
            broker_name="broker-a", broker_addr=f"127.0.0.1:{port}", cluster_name="C", broker_id=0
        )
        body = DataVersion(counter=counter, timestamp=1).encode()
        players.do(lambda p, header=header, body=body: p.ask(Code.QUERY_DATA_VERSION, header, body))
    beat = BrokerHeartbeat(cluster_name="C", broker_addr="127.0.0.1:1", broker_name="broker-a")
    assert players.do(lambda p: p.ask(Code.BROKER_HEARTBEAT, beat)).code == 0


def test_key_values_and_order_topics_are_handled_alike(players: Both) -> None:
    order = "ORDER_TOPIC_CONFIG"

    def put(namespace: str, key: str, value: str) -> None:
        players.do(lambda p: p.ask(Code.PUT_KV_CONFIG, PutKvConfig(namespace=namespace, key=key, value=value)))

    assert players.do(lambda p: p.ask(Code.GET_KVLIST_BY_NAMESPACE, KvNamespace(namespace="n"))).code == 22
    put("n", "k", "v ä")
    for key in ("k", "missing"):
        players.do(lambda p, key=key: p.ask(Code.GET_KV_CONFIG, KvConfigKey(namespace="n", key=key)))
    players.do(lambda p: p.ask(Code.GET_KVLIST_BY_NAMESPACE, KvNamespace(namespace="n")))
    players.do(lambda p: p.ask(Code.DELETE_KV_CONFIG, KvConfigKey(namespace="n", key="k")))
    players.do(lambda p: p.ask(Code.GET_KVLIST_BY_NAMESPACE, KvNamespace(namespace="n")))
    put(order, "T", "broker-a:4")
    assert players.do(lambda p: p.register()).body == {"table": {"T": "broker-a:4"}}
    assert "orderTopicConf" not in players.do(lambda p: p.route()).body
    players.do(lambda p: p.configure(orderMessageEnable="true"))
    assert players.do(lambda p: p.route()).body["orderTopicConf"] == "broker-a:4"
    players.do(lambda p: p.configure(orderMessageEnable="false", returnOrderTopicConfigToBroker="false"))
    assert players.do(lambda p: p.register()).body == ""
    players.do(lambda p: p.configure(returnOrderTopicConfigToBroker="true"))
    players.do(lambda p: p.ask(Code.DELETE_KV_CONFIG, KvConfigKey(namespace=order, key="T")))


def test_acting_masters_are_handled_alike(players: Both) -> None:
    acting = {"enable_acting_master": True, "heartbeat_timeout_millis": 600_000}
    players.do(lambda p: p.register(**acting))
    players.do(lambda p: p.register(broker_id=1, port=11, **acting))
    players.do(lambda p: p.register(broker_id=2, port=21, **acting))
    for player in players:
        player.leave(1)
    players.become(lambda p: p.route(), lambda answer: "0" not in answer.body["brokerDatas"][0]["brokerAddrs"])
    players.do(lambda p: p.configure(supportActingMaster="true"))
    route = players.do(lambda p: p.route())
    assert route.body["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:11", "2": "127.0.0.1:21"}
    assert route.body["queueDatas"][0]["perm"] == 4
    players.do(lambda p: p.register(**acting))
    assert players.do(lambda p: p.route()).body["queueDatas"][0]["perm"] == 6
    players.do(lambda p: p.configure(supportActingMaster="false"))


def test_brokers_that_change_id_or_address_are_handled_alike(players: Both) -> None:
    players.do(lambda p: p.register(broker_id=1))
    players.do(lambda p: p.register(broker_id=0))  # the slave has become master
    players.do(Player.cluster)
    players.do(lambda p: p.register(port=11, state=5))  # another one, of a later state
    players.do(lambda p: p.register(port=1, state=3))  # the old one is ignored
    assert players.do(Player.cluster).body["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": "127.0.0.1:11"}


def test_leaving_brokers_are_handled_alike(players: Both) -> None:
    players.do(lambda p: p.register())
    players.do(lambda p: p.register("broker-b", port=11))
    leaving = UnregisterBroker(broker_name="broker-b", broker_addr="127.0.0.1:11", cluster_name="C", broker_id=0)
    assert players.do(lambda p: p.ask(Code.UNREGISTER_BROKER, leaving)).code == 0
    players.become(Player.cluster, lambda answer: list(answer.body["brokerAddrTable"]) == ["broker-a"])
    players.do(lambda p: p.register("broker-b", port=21, heartbeat_timeout_millis=1))
    players.become(Player.cluster, lambda answer: list(answer.body["brokerAddrTable"]) == ["broker-a"])


def test_unlisted_topics_are_handled_alike(players: Both) -> None:
    players.do(lambda p: p.configure(deleteTopicWithBrokerRegistration="true"))
    players.do(lambda p: p.register(topics="T U V"))
    players.do(lambda p: p.register(topics="T V", counter=2))
    assert players.do(lambda p: p.route("U")).code == 17
    players.do(lambda p: p.configure(deleteTopicWithBrokerRegistration="false"))


def test_settings_are_handled_alike(players: Both) -> None:
    players.do(lambda p: p.register())
    assert players.do(lambda p: p.configure(kvConfigPath="/nowhere")).code == 16
    players.do(lambda p: p.configure(needWaitForService="true", waitSecondsForService="100000"))
    assert players.do(lambda p: p.route()).remark == "name server not ready"
    players.do(lambda p: p.configure(needWaitForService="false"))
    players.do(lambda p: p.configure(enableTopicList="false", enableAllTopicList="false"))
    assert players.do(lambda p: p.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).remark == "disable"
    players.do(lambda p: p.ask(Code.GET_TOPICS_BY_CLUSTER, ClusterName(cluster="C")))
    players.do(lambda p: p.ask(Code.GET_UNIT_TOPIC_LIST))
    players.do(lambda p: p.configure(enableTopicList="true", enableAllTopicList="true"))
    ours, theirs = (p.ask(Code.GET_NAMESRV_CONFIG).body.splitlines() for p in players)
    assert {line.partition("=")[0] for line in ours} <= {line.partition("=")[0] for line in theirs}


def test_unknown_names_are_answered_alike(players: Both) -> None:
    for code in (Code.SEND_MESSAGE_V2, Code.HEART_BEAT, Code.GET_BROKER_RUNTIME_INFO, 9999):
        assert players.do(lambda p, code=code: p.ask(code)).code == 3


def test_brokers_of_both_kinds_look_alike_at_both_name_servers(
    addresses: tuple[str, str], java: JavaPeer, servers: OurServers
) -> None:
    """Each registers at both name servers."""
    both = Both(Player(addresses[0]), Player(addresses[1]))
    namesrv = ";".join(addresses)
    theirs = java.broker(namesrv, name="broker-j")
    ours = servers.serve(None, "--namesrv", namesrv, "--name", "broker-o")
    names = {"broker-j", "broker-o"}
    cluster = both.become(Player.cluster, lambda answer: set(answer.body["brokerAddrTable"]) == names)
    assert cluster.body["brokerAddrTable"]["broker-o"]["brokerAddrs"] == {"0": ours.broker}
    java.admin("updateTopic", "-n", namesrv, "-c", "DefaultCluster", "-t", "shared", "-r", "3", "-w", "2")
    for topic in ("TBW102", "DefaultCluster", "broker-o", "broker-j", "SCHEDULE_TOPIC_XXXX", "shared"):
        wanted = 1 if topic.startswith("broker") else 2
        route = both.become(
            lambda p, topic=topic: p.route(topic),
            lambda answer, wanted=wanted: not answer.code and len(answer.body["queueDatas"]) == wanted,
        )
        queues = {queue["brokerName"]: queue for queue in route.body["queueDatas"]}
        if wanted == 2 and topic != "SCHEDULE_TOPIC_XXXX":
            assert {**queues["broker-o"], "brokerName": ""} == {**queues["broker-j"], "brokerName": ""}
    ours.stop()
    both.become(Player.cluster, lambda answer: set(answer.body["brokerAddrTable"]) == {"broker-j"})
    theirs.process.kill()
    both.ours.close()
    both.theirs.close()


def test_a_body_with_a_wrong_checksum_is_refused(players: Both) -> None:
    assert players.do(lambda p: p.register(body_crc32=1)).remark == "crc32 not match"
