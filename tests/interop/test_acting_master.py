"""A slave acts for its master: ours for a Java master at a Java name server, and a Java slave for ours at ours."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketmq_py.aio import ClientInstance
from rocketmq_py.errors import NetworkError, NoRouteError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.offset import GetMaxOffset, OffsetResponse
from rocketmq_py.protocol.headers.topic import TopicName
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import OurServers
from tests.interop.side import Inbox, eventually, group

pytestmark = pytest.mark.long

N = 20
ACTING = {"enableSlaveActingMaster": "true", "slaveReadEnable": "true"}


@pytest.fixture
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServers]:
    """That may be killed."""
    servers = OurServers(tmp_path_factory.mktemp("acting"))
    yield servers
    servers.close()


def stored(address: str, topic: str) -> int:
    """Where the first queue of a topic ends at a broker."""

    async def ask() -> int:
        instance = ClientInstance("127.0.0.1:1")
        try:
            header = GetMaxOffset(topic=topic, queue_id=0)
            answer = await instance.connections.invoke(address, RequestCode.GET_MAX_OFFSET, header, timeout=30)
            return OffsetResponse.from_ext(answer.ext).offset
        finally:
            await instance.stop()

    return asyncio.run(ask())


def knows(address: str, topic: str) -> bool:
    """Whether a broker has a topic; a Java slave takes topics over ten seconds after its start, then every minute."""

    async def ask() -> bool:
        instance = ClientInstance("127.0.0.1:1")
        try:
            code, header = RequestCode.GET_TOPIC_CONFIG, TopicName(topic=topic)
            return (await instance.connections.invoke(address, code, header, timeout=30, check=False)).code == 0
        finally:
            await instance.stop()

    return asyncio.run(ask())


def masters(namesrv: str, topic: str) -> dict[str, str | None]:
    """Where clients find the master of each broker that has a topic."""

    async def ask() -> dict[str, str | None]:
        instance = ClientInstance(namesrv)
        try:
            route = await instance.routes.refresh(topic)
        except (NoRouteError, NetworkError):
            return {}
        finally:
            await instance.stop()
        return {name: ids.get(0) for name, ids in route.brokers.items()}

    return asyncio.run(ask())


def send(namesrv: str, topic: str, count: int = N) -> None:
    """Messages for the only queue of broker-a."""
    with Producer("p", namesrv, send_timeout=60) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number), MessageQueue(topic, "broker-a", 0))


def make_topic(namesrv: str) -> str:
    """With one queue at every master."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Admin(namesrv, timeout=60) as admin:
        admin.create_topic(name, 1)
    return name


class Undecided:
    """Local transactions of which nobody knows how they end, until they have."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT if self.ended.is_set() else TransactionState.UNKNOWN


def test_our_slave_acts_for_a_java_master(java: JavaPeer, own_servers: OurServers) -> None:
    """Readers in order go on with it, a transaction ends at the other Java master, the master comes back."""
    namesrv = java.namesrv(conf={"supportActingMaster": "true"}).namesrv
    port, conf = free_port_block(), {"enableSlaveActingMaster": "true"}
    master = java.broker(namesrv, port=port, conf=conf)
    other = java.broker(namesrv, name="broker-b", conf={"transactionCheckInterval": 1000, "transactionTimeOut": 1000})
    slave = own_servers.serve(
        None, "--namesrv", namesrv, brokerRole="SLAVE", brokerId=1, enableRemoteEscape="true", slaveSyncInterval=1000,
        transactionCheckInterval=1000, **ACTING,
    )  # fmt: skip
    topic, paid = make_topic(namesrv), make_topic(namesrv)
    undecided, inbox = Undecided(), Inbox()
    with (
        TransactionProducer(f"p-{uuid.uuid4().hex[:12]}", namesrv, listener=undecided, send_timeout=60) as producer,
        PushConsumer(group(), namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, orderly=True) as consumer,
    ):
        halves = [producer.send_in_transaction(Message(paid, b"x")) for _ in range(2)]
        assert {sent.half.queue.broker_name for sent in halves} == {"broker-a", "broker-b"}
        send(namesrv, topic)
        eventually(lambda: stored(slave.broker, topic), lambda end: end == N)
        master.process.kill()
        undecided.ended.set()
        eventually(lambda: masters(namesrv, topic).get("broker-a"), lambda address: address == slave.broker)
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        assert [seen.offset for seen in inbox.wait(N)] == list(range(N)), "locked and read at the slave"
        eventually(lambda: stored(other.address, paid), lambda end: end == 2)

    again = java.broker(namesrv, port=port, store=master.store, conf=conf)
    eventually(lambda: masters(namesrv, topic).get("broker-a"), lambda address: address == again.address)
    send(namesrv, topic, 1)
    eventually(lambda: stored(slave.broker, topic), lambda end: end == N + 1)


def test_a_java_slave_acts_for_our_master(java: JavaPeer, own_servers: OurServers) -> None:
    server = own_servers.namesrv(supportActingMaster="true", notifyMinBrokerIdChanged="true")
    namesrv, port = server.namesrv, str(free_port_block())
    flags = ("--namesrv", namesrv, "--port", port)
    master = own_servers.serve(own_servers.work / "master", *flags, enableSlaveActingMaster="true")
    topic = make_topic(namesrv)
    send(namesrv, topic)
    slave = java.broker(namesrv, role="SLAVE", id=1, conf=ACTING)
    eventually(lambda: knows(slave.address, topic) and stored(slave.address, topic), lambda end: end == N)
    master.kill()
    eventually(lambda: masters(namesrv, topic).get("broker-a"), lambda address: address == slave.address)
    rows = java.consume(namesrv, topic, group(), N, mode="orderly", from_="first")
    assert [row["queueOffset"] for row in rows] == list(range(N))
    own_servers.serve(own_servers.work / "master", *flags, enableSlaveActingMaster="true")
    eventually(lambda: masters(namesrv, topic).get("broker-a"), lambda address: address == master.broker)
    send(namesrv, topic, 1)
    eventually(lambda: stored(slave.address, topic), lambda end: end == N + 1)
