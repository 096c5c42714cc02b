"""Messages with a priority: the queue they are stored in, and the order in which they are popped; both brokers."""

from __future__ import annotations

import uuid

import pytest

from rocketmq_py import ConsumeFromWhere, Message, Producer, SimpleConsumer
from rocketmq_py.model import MessageExt, MessageQueue
from tests.interop.javapeer import JavaPeer
from tests.interop.side import WAIT_SECONDS, Side, group

QUEUES = 4


@pytest.fixture
def topic(java: JavaPeer, side: Side) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    where = ("-n", side.namesrv, "-b", side.broker, "-t", name, "-r", str(QUEUES), "-w", str(QUEUES))
    java.admin("updateTopic", *where, "-a", "+message.type=PRIORITY")
    side.await_route(name)
    return name


def test_the_queue_is_the_priority_and_the_highest_is_popped_first(side: Side, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 1)
    with Producer("p", side.namesrv) as producer:
        sent = [
            producer.send(Message(topic, f"{priority}", priority=priority), queue=queue) for priority in (0, 2, 7, 1, 3)
        ]
        plain = producer.send(Message(topic, "none"), queue=queue)
        ordered = producer.send(Message(topic, "ordered", priority=3, properties={"__SHARDINGKEY": "k"}), queue=queue)
    assert [result.queue.queue_id for result in sent] == [0, 2, 3, 1, 3]
    assert (plain.queue.queue_id, ordered.queue.queue_id) == (1, 1)
    found = popped(side, topic, 7)
    assert [message.queue_id for message in found] == [3, 3, 2, 1, 1, 1, 0]
    by_body = {message.body: message for message in found}
    assert by_body[b"7"].priority == 7
    assert by_body[b"ordered"].priority is None  # a message of another type loses it


def popped(side: Side, topic: str, count: int) -> list[MessageExt]:
    """Messages in the order of pops of one message each."""
    found: list[MessageExt] = []
    with SimpleConsumer(group(), side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
        member.subscribe(topic)
        while len(found) < count:
            messages = member.receive(1, timeout=WAIT_SECONDS)
            assert messages, found
            member.ack(messages)
            found += messages
    return found
