"""One cluster of a Java broker and ours, at our name server and at Java's: clients see no difference."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rocketmq_py import ConsumeFromWhere, LatencyFaultTolerance, Message, Producer, PushConsumer
from rocketmq_py.testing import TcpProxy
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import Inbox, Seen, eventually, group

N = 16


@dataclass(frozen=True, slots=True)
class Mixed:
    """``broker-a`` is Java's and ``broker-b`` ours."""

    namesrv: str
    theirs: JavaServer
    ours: OurServer
    disposable: bool


@pytest.fixture(scope="module", params=["our name server", "java name server"])
def cluster(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Iterator[Mixed]:
    """At our name server the Java broker answers with ROCKETMQ headers."""
    disposable = request.param == "our name server"
    if disposable:
        namesrv = servers.namesrv().namesrv
        theirs = java.broker(namesrv, java_options="-Drocketmq.serialize.type=ROCKETMQ")
    else:
        theirs = request.getfixturevalue("java_broker")
        namesrv = theirs.namesrv
    ours = servers.serve(None, "--namesrv", namesrv, "--name", "broker-b")
    await_brokers(java, namesrv, {theirs.address, ours.broker})
    yield Mixed(namesrv, theirs, ours, disposable)
    if ours.process.poll() is None:
        ours.stop()


def await_brokers(java: JavaPeer, namesrv: str, wanted: set[str]) -> None:
    """Until the cluster list has these and no other brokers."""
    eventually(lambda: java.brokers(namesrv), lambda listed: listed == wanted)


def make_topic(java: JavaPeer, cluster: Mixed) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    java.admin("updateTopic", "-n", cluster.namesrv, "-c", "DefaultCluster", "-t", name, "-r", "2", "-w", "2")
    return name


def send(cluster: Mixed, topic: str) -> dict[str, str]:
    """Id of each message sent by our producer, and the broker it went to."""
    with Producer(group="p", namesrv=cluster.namesrv, send_timeout=30) as producer:
        results = [producer.send(Message(topic, b"%d" % i)) for i in range(N)]
    return {result.msg_id: result.queue.broker_name for result in results}


def test_a_topic_is_created_on_both_brokers(java: JavaPeer, cluster: Mixed) -> None:
    route = java.admin("topicRoute", "-n", cluster.namesrv, "-t", make_topic(java, cluster))
    assert cluster.theirs.address in route
    assert cluster.ours.broker in route


def test_a_slow_java_broker_is_avoided_and_used_again(java: JavaPeer, cluster: Mixed) -> None:
    topic, slow, address = make_topic(java, cluster), "broker-a", cluster.theirs.address
    tolerance = LatencyFaultTolerance((4.0, 9.0), (120.0, 0.5), start_detector_enable=True, detect_timeout=30.0)
    with (
        TcpProxy(address, delay=2.2) as proxy,  # there and back: slower than a busy machine
        Producer(
            "p", cluster.namesrv, send_timeout=60, address_map={address: proxy.address},
            send_latency_fault_enable=tolerance,
        ) as producer,
    ):  # fmt: skip
        went = [producer.send(Message(topic, b"x")).queue.broker_name for _ in range(N)]
        assert went.count(slow) == 1
    with (
        TcpProxy(address) as proxy,
        Producer(
            "p", cluster.namesrv, send_timeout=60, address_map={address: proxy.address},
            send_latency_fault_enable=tolerance,
        ) as producer,
    ):  # fmt: skip
        proxy.refuse()
        assert slow not in {producer.send(Message(topic, b"x")).queue.broker_name for _ in range(4)}
        proxy.start()
        eventually(lambda: producer.send(Message(topic, b"x")).queue.broker_name, lambda broker: broker == slow)


def test_producers_and_consumers_use_both_brokers(java: JavaPeer, cluster: Mixed) -> None:
    topic = make_topic(java, cluster)
    sent = send(cluster, topic)
    rows = java.produce(cluster.namesrv, topic, N)
    sent |= {row["msgId"]: row["broker"] for row in rows}
    assert set(sent.values()) == {"broker-a", "broker-b"}
    assert {row["broker"] for row in rows} == {"broker-a", "broker-b"}

    by_java = [Seen.of_java(row) for row in java.consume(cluster.namesrv, topic, group(), 2 * N)]
    assert {seen.msg_id for seen in by_java} == set(sent)
    inbox = Inbox()
    with PushConsumer(group=group(), namesrv=cluster.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        assert {seen.msg_id for seen in inbox.wait(2 * N)} == set(sent)


def test_stopped_and_killed_brokers_are_not_listed(java: JavaPeer, cluster: Mixed) -> None:
    """Last of the module: it ends our broker, and Java's where no other test needs it."""
    cluster.ours.stop()
    await_brokers(java, cluster.namesrv, {cluster.theirs.address})
    assert set(send(cluster, make_topic(java, cluster)).values()) == {"broker-a"}
    if cluster.disposable:
        cluster.theirs.process.kill()
        await_brokers(java, cluster.namesrv, set())
