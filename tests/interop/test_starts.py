"""Where consumption begins and how it is moved, at our broker and at Java's: the same rules, seen by our consumers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.consumer.push import pull_loop
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Inbox, Side, eventually, group

N = 5
FIRST = ConsumeFromWhere.FIRST_OFFSET


def send(side: Side, topic: str, count: int = N) -> None:
    with Producer(group="p", namesrv=side.namesrv, send_timeout=30) as producer:
        for i in range(count):
            producer.send(Message(topic, b"%d" % i))


def only_queue(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-a", 0)


@contextmanager
def consuming(side: Side, topic: str, name: str, **options: Any) -> Iterator[Inbox]:
    inbox = Inbox()
    with PushConsumer(name, side.namesrv, consume_threads=1, **{"consume_from": FIRST, **options}) as consumer:
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        yield inbox


def stored(side: Side, name: str, topic: str) -> int | None:
    with Admin(side.namesrv) as admin:
        return admin.group_offset(name, only_queue(topic))


@pytest.fixture
def topic(java: JavaPeer, side: Side) -> str:
    """With one queue and N messages."""
    name = side.topic(java, queues=1)
    send(side, name)
    return name


@pytest.mark.parametrize("where", list(ConsumeFromWhere), ids=lambda where: where.name)
def test_a_new_group_gets_everything_of_a_young_topic(side: Side, topic: str, where: ConsumeFromWhere) -> None:
    with consuming(side, topic, group(), consume_from=where) as inbox:
        assert [seen.offset for seen in inbox.wait(N)] == list(range(N))


@pytest.mark.parametrize("where", list(ConsumeFromWhere), ids=lambda where: where.name)
def test_a_stored_offset_takes_precedence(side: Side, topic: str, where: ConsumeFromWhere) -> None:
    name = group()
    with consuming(side, topic, name) as inbox:
        inbox.wait(N)
    assert stored(side, name, topic) == N
    send(side, topic, 2)
    with consuming(side, topic, name, consume_from=where) as inbox:
        assert [seen.offset for seen in inbox.wait(2)] == [N, N + 1]


def test_an_offset_outside_the_queue_is_corrected_and_stored(
    side: Side, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = group()
    with consuming(side, topic, name) as inbox:
        inbox.wait(N)
    shorter = only_queue(topic)
    with Admin(side.namesrv) as admin:
        admin.set_group_offset(name, shorter, 99)
    with caplog.at_level(logging.WARNING), consuming(side, topic, name) as inbox:
        eventually(lambda: stored(side, name, topic), lambda offset: offset == N)
        send(side, topic, 1)
        assert [seen.offset for seen in inbox.wait(1)] == [N]
    assert any("offset 99" in record.getMessage() for record in caplog.records)
    assert stored(side, name, topic) == N + 1


def test_an_administrator_resets_a_running_group(
    java: JavaPeer, side: Side, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_loop, "SUSPEND_SECONDS", 1.0)  # a member hears of it with its next pull
    name = group()
    with consuming(side, topic, name) as inbox:
        inbox.wait(N)
        eventually(lambda: stored(side, name, topic), lambda offset: offset == N)
        java.admin("resetOffsetByTime", "-n", side.namesrv, "-g", name, "-t", topic, "-s", "0")
        assert [seen.offset for seen in inbox.wait(2 * N)] == 2 * list(range(N))
    assert stored(side, name, topic) == N


def test_a_group_continues_at_copied_offsets(java: JavaPeer, side: Side, topic: str) -> None:
    name, heir = group(), group()
    with consuming(side, topic, name) as inbox:
        inbox.wait(N)
    with consuming(side, topic, heir):
        pass  # it has to exist at the broker
    java.admin("cloneGroupOffset", "-n", side.namesrv, "-s", name, "-d", heir, "-t", topic, "-o", "false")
    assert stored(side, heir, topic) == N
    send(side, topic, 1)
    with consuming(side, topic, heir) as inbox:
        assert [seen.offset for seen in inbox.wait(1)] == [N]


def test_retried_messages_are_read_from_the_start_of_the_retry_queue(side: Side, topic: str) -> None:
    name, failed = group(), set[int]()
    inbox = Inbox()

    def fail(messages: list[Any], context: Any) -> None:
        failed.update(message.queue_offset for message in messages)
        context.delay_level = 1
        raise ValueError("on purpose")

    with PushConsumer(name, side.namesrv, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, listener=fail)
        consumer.start()
        eventually(lambda: len(failed), lambda count: count == N)
    with PushConsumer(name, side.namesrv, consume_from=ConsumeFromWhere.LAST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        inbox.until(lambda seen: len({one.body for one in seen}) == N)
    assert {one.topic for one in inbox.seen} == {topic}
    assert all(one.reconsume_times for one in inbox.seen)
