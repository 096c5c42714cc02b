"""Java clients of other kinds at our broker."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py import ConsumeFromWhere, Message, Producer, PushConsumer
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServer
from tests.interop.side import Inbox, Side, group

N = 12


@pytest.fixture(scope="module")
def ours(our_server: OurServer) -> Side:
    return Side("ours", our_server.namesrv, our_server.broker)


@pytest.fixture(scope="module")
def topic(java: JavaPeer, ours: Side) -> str:
    name = ours.topic(java)
    java.produce(ours.namesrv, name, N, tags="A,B", mode="orderly", hash_key="{i%3}")
    return name


@pytest.mark.parametrize("how", [
    {"mode": "lite"}, {"mode": "lite", "assign": True, "manual_commit": True}, {"mode": "pull"}, {"mode": "orderly"},
    {"broadcast": True}, {"batch": 4, "pull_batch": 5}, {"from": "timestamp", "timestamp": "20200101000000"},
], ids=str)  # fmt: skip
def test_consumers_of_every_kind_get_all_messages(java: JavaPeer, ours: Side, topic: str, how: dict[str, Any]) -> None:
    rows = java.consume(ours.namesrv, topic, group(), N, **how)
    assert len({row["msgId"] for row in rows}) == N


def test_an_orderly_consumer_gets_each_key_in_order(java: JavaPeer, ours: Side, topic: str) -> None:
    rows = java.consume(ours.namesrv, topic, group(), N, mode="orderly")
    for queue in {row["queueId"] for row in rows}:
        offsets = [row["queueOffset"] for row in rows if row["queueId"] == queue]
        assert offsets == sorted(offsets)


@pytest.mark.parametrize("receiver", ["java", "ours"])
def test_a_delayed_message_is_delivered_after_its_delay(java: JavaPeer, side: Side, receiver: str) -> None:
    topic = side.topic(java, queues=1)
    with Producer(group="p", namesrv=side.namesrv, send_timeout=30) as producer:
        producer.send(Message(topic, b"later", tags="A", delay_level=1))
    if receiver == "java":
        [row] = java.consume(side.namesrv, topic, group(), 1)
        assert row["properties"]["REAL_TOPIC"] == topic
        assert row["receivedAt"] - row["bornTimestamp"] >= 1000
        return
    inbox = Inbox()
    with PushConsumer(group=group(), namesrv=side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        [seen] = inbox.wait(1)
    assert (seen.body, seen.tags, seen.properties["REAL_TOPIC"]) == (b"later", "A", topic)
