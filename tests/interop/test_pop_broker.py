"""Pops of Java consumers at both brokers; each broker continues with pops of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, Producer, SimpleConsumer
from rocketmq_py.protocol.bodies.pop import MessageRequestModes
from rocketmq_py.protocol.codes import RequestCode
from tests.interop.javapeer import JavaPeer, JavaProcess, Row
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Side, group
from tests.server.rawpeer import RawPeer

N = 8
SHORT_SECONDS = 5
"""The shortest time a Java consumer lets messages be invisible."""


class Deliveries:
    """Collects the messages a running Java consumer prints."""

    def __init__(self, process: JavaProcess) -> None:
        self._process = process
        self.seen: list[Row] = []

    def wait(self, n: int) -> list[Row]:
        """The first ``n`` deliveries."""

        def enough(row: Row) -> bool:
            if row["type"] == "msg":
                self.seen.append(row)
            return len(self.seen) >= n

        self._process.until(enough, WAIT_SECONDS)
        return self.seen


def counted(rows: list[Row]) -> Counter[tuple[str, int]]:
    """How often each message was delivered at which attempt."""
    return Counter((row["msgId"], row["reconsumeTimes"]) for row in rows)


def once(ids: set[str], attempt: int = 0) -> Counter[tuple[str, int]]:
    return Counter((one, attempt) for one in ids)


@contextmanager
def popping(namesrv: str, topic: str, name: str) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(name, namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic)
        yield consumer


def receive(consumer: SimpleConsumer, n: int, invisible: float) -> list[MessageExt]:
    """The next ``n`` messages."""
    found: list[MessageExt] = []
    while len(found) < n:
        got = consumer.receive(n - len(found), invisible, WAIT_SECONDS)
        assert got, f"{len(found)} of {n} messages came"
        found += got
    return found


def assert_nothing_else_comes(consumer: SimpleConsumer, producer: Producer, topic: str) -> None:
    """A message that is not acked comes again; whatever would have come before it is missed by then."""
    sent = producer.send(Message(topic, b"last"))
    for attempt in range(2):
        [one] = receive(consumer, 1, SHORT_SECONDS)
        assert (one.msg_id, one.reconsume_times) == (sent.msg_id, attempt), one.body


# -- Java's consumer on both brokers


def test_java_consumers_pop_from_our_broker(java: JavaPeer, side: Side) -> None:
    """The members of one group are killed before they are done, those of another fail every message once."""
    topic, dies, fails = side.topic(java), group(), group()
    sent = {row["msgId"] for row in java.produce(side.namesrv, topic, N, tags="A", keys="k-{i}")}
    with java.consumer(side.namesrv, topic, dies, work_ms=600_000, mode="pop", invisible_ms=10_000) as killed:
        assert {row["msgId"] for row in Deliveries(killed).wait(N)} == sent
    with (
        java.consumer(side.namesrv, topic, fails, fail_times=1, mode="pop") as failing,
        java.consumer(side.namesrv, topic, dies, mode="pop") as living,
    ):
        inherited = Deliveries(living).wait(N)
        all_of_it = Deliveries(failing).wait(2 * N)
    assert Counter(row["msgId"] for row in inherited) == Counter(sent)
    assert all(row["reconsumeTimes"] for row in inherited), "the dead members had them, once at least"
    assert counted(all_of_it) == once(sent) + once(sent, 1)
    again = [row for row in all_of_it if row["reconsumeTimes"]]
    assert len(again) == N
    for row in again:
        assert (row["topic"], row["tags"], row["queueId"]) == (topic, "A", 0)
        assert row["properties"]["ORIGIN_GROUP"] == fails
        assert row["properties"]["1ST_POP_TIME"]
        assert row["properties"]["POP_CK"].split(" ")[4] == "1"
    with popping(side.namesrv, topic, dies) as consumer, Producer(group="p", namesrv=side.namesrv) as producer:
        assert_nothing_else_comes(consumer, producer, topic)


def test_mqadmin_sets_the_request_mode_of_a_group(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java), group()
    said = java.admin(
        "setConsumeMode", "-n", side.namesrv, "-b", side.broker, "-t", topic, "-g", name, "-m", "POP", "-q", "3"
    )
    assert f"set consume mode to {side.broker} success" in said
    with RawPeer(side.broker) as peer:
        modes = MessageRequestModes.decode(peer.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE).body)
    mode = modes.message_request_mode_map[topic][name]
    assert (mode.mode, mode.pop_share_queue_num) == ("POP", 3)


# -- one store, two brokers


def test_a_java_broker_continues_with_our_pops(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    store, topic, name = tmp_path / "store", "popped", group()
    ours = servers.serve(store)
    with Producer(group="p", namesrv=ours.namesrv) as producer, popping(ours.namesrv, topic, name) as consumer:
        sent = [producer.send(Message(topic, b"%d" % i)).msg_id for i in range(N)]
        first = receive(consumer, N, 10)
        consumer.ack(first[: N // 2])
        consumer.extend(first[-1], 3600)
    assert {one.msg_id for one in first} == set(sent)
    ours.stop()

    theirs = java.broker(servers.namesrv().namesrv, store=store)
    with popping(theirs.namesrv, topic, name) as consumer, Producer(group="p", namesrv=theirs.namesrv) as producer:
        out = {one.msg_id for one in first[N // 2 : -1]}
        again = receive(consumer, len(out), 60)
        assert {one.msg_id for one in again} == out
        assert {one.reconsume_times for one in again} == {1}
        consumer.ack(again)
        assert_nothing_else_comes(consumer, producer, topic)


def test_our_broker_continues_with_pops_of_a_killed_java_broker(
    java: JavaPeer, servers: OurServers, tmp_path: Path
) -> None:
    store, topic, name = tmp_path / "store", "popped", group()
    theirs = java.broker(servers.namesrv().namesrv, store=store)
    with Producer(group="p", namesrv=theirs.namesrv) as producer, popping(theirs.namesrv, topic, name) as consumer:
        sent = [producer.send(Message(topic, b"%d" % i)).msg_id for i in range(N)]
        first = receive(consumer, N, 10)
        assert {one.msg_id for one in first} == set(sent)
        consumer.ack(first[: N // 2])
        consumer.extend(first[-1], 3600)
        theirs.process.kill()

    ours = servers.serve(store)
    with popping(ours.namesrv, topic, name) as consumer, Producer(group="p", namesrv=ours.namesrv) as producer:
        out = {one.msg_id for one in first[N // 2 : -1]}
        again = receive(consumer, len(out), 60)
        assert {one.msg_id for one in again} == out
        assert {one.reconsume_times for one in again} == {1}
        consumer.ack(again)
        assert_nothing_else_comes(consumer, producer, topic)
    ours.stop()
