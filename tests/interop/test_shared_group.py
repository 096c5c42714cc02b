"""A Java and a Python consumer in one group share the queues without overlap and hand over when one leaves."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, MessageQueue, Producer, PushConsumer
from tests.interop.javapeer import JavaPeer, JavaProcess
from tests.interop.side import WAIT_SECONDS, Side, group

QUEUES = 8


class Deliveries:
    """Who received which message: body -> consumers, as both clients report from threads of their own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.by_body: dict[str, list[str]] = defaultdict(list)

    def ours(self, message: MessageExt) -> None:
        self.add(message.body.decode(), "ours")

    def read_java(self, process: JavaProcess) -> threading.Thread:
        def read() -> None:
            for row in process.rows(timeout=2 * WAIT_SECONDS):
                if row["type"] == "msg":
                    self.add(bytes.fromhex(row["keys"]).decode(), "java")

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def add(self, body: str, who: str) -> None:
        with self._changed:
            self.by_body[body].append(who)
            self._changed.notify_all()

    def wait_for(self, bodies: list[str]) -> list[str]:
        """Who received each of these, once all are there."""
        with self._changed:
            assert self._changed.wait_for(lambda: all(self.by_body[body] for body in bodies), WAIT_SECONDS), {
                body: self.by_body[body] for body in bodies
            }
            return [",".join(self.by_body[body]) for body in bodies]


class Probe:
    """Sends one message to each queue and learns who serves it."""

    def __init__(self, producer: Producer, topic: str, deliveries: Deliveries) -> None:
        self._producer, self._topic, self._deliveries = producer, topic, deliveries
        self._round = 0

    def owners(self) -> list[str]:
        self._round += 1
        bodies = [f"{self._round}/{queue}" for queue in range(QUEUES)]
        for queue, body in enumerate(bodies):
            message = Message(self._topic, body.encode(), keys=body.encode().hex())
            self._producer.send(message, queue=MessageQueue(self._topic, "broker-a", queue))
        return self._deliveries.wait_for(bodies)

    def until(self, wanted: list[str]) -> None:
        """Probes until the owners are the wanted ones, twice in a row."""
        deadline = time.monotonic() + WAIT_SECONDS
        last: list[list[str]] = [[], []]
        while last != [wanted, wanted]:
            assert time.monotonic() < deadline, last
            last = [last[1], self.owners()]


@pytest.fixture
def probe_and_deliveries(java: JavaPeer, side: Side) -> Iterator[tuple[Probe, Deliveries, str]]:
    topic, deliveries = side.topic(java, QUEUES), Deliveries()
    with Producer(group="p", namesrv=side.namesrv) as producer:
        yield Probe(producer, topic, deliveries), deliveries, topic


def halves(first: str, second: str) -> list[list[str]]:
    return [[first] * 4 + [second] * 4, [second] * 4 + [first] * 4]


def split(probe: Probe) -> None:
    """Until each has half of the queues, as AVG allots them; whose half is the first depends on the client ids."""
    deadline = time.monotonic() + WAIT_SECONDS
    owners = probe.owners()
    while owners not in halves("java", "ours"):
        assert time.monotonic() < deadline, owners
        owners = probe.owners()
    probe.until(owners)


def test_members_of_both_clients_join_share_and_leave(
    java: JavaPeer, side: Side, probe_and_deliveries: tuple[Probe, Deliveries, str]
) -> None:
    probe, deliveries, topic = probe_and_deliveries
    name = group()
    with PushConsumer(group=name, namesrv=side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=deliveries.ours)
        consumer.start()
        probe.until(["ours"] * QUEUES)

        with java.consumer(side.namesrv, topic, name, timeout=600) as first:
            deliveries.read_java(first)
            split(probe)
            rounds = [probe.owners() for _ in range(20)]
            assert all(owners == rounds[0] for owners in rounds), "a message was delivered twice or to the wrong one"

            first.terminate()  # leaves in good order: unregisters at the broker
            probe.until(["ours"] * QUEUES)

        with java.consumer(side.namesrv, topic, name, timeout=600) as second:
            deliveries.read_java(second)
            split(probe)
            consumer.close()
            probe.until(["java"] * QUEUES)


def test_a_java_consumer_that_is_killed_is_replaced(
    java: JavaPeer, side: Side, probe_and_deliveries: tuple[Probe, Deliveries, str]
) -> None:
    probe, deliveries, topic = probe_and_deliveries
    name = group()
    with java.consumer(side.namesrv, topic, name, timeout=600) as theirs:
        deliveries.read_java(theirs)
        probe.until(["java"] * QUEUES)
        with PushConsumer(group=name, namesrv=side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
            consumer.subscribe(topic, listener=deliveries.ours)
            consumer.start()
            split(probe)
            theirs.kill()  # the broker sees the connection close
            probe.until(["ours"] * QUEUES)
