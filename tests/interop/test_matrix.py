"""Every way to consume, with both clients, at both brokers, unless another test covers it."""

from __future__ import annotations

import ast
import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import (
    ConsumeFromWhere,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageModel,
    Producer,
    PullConsumer,
    PushConsumer,
)
from rocketmq_py.client.consumer.dispatch.listeners import ConsumeContext
from tests.interop.javapeer import JavaPeer
from tests.interop.side import WAIT_SECONDS, Inbox, Side, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
N = 12
ALL = {b"%d" % i for i in range(N)}
EVEN = {b"%d" % i for i in range(0, N, 2)}
SQL = "number BETWEEN 3 AND 5"


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to consume: what the Java client is told, what ours does, and which messages must come."""

    java: dict[str, Any]
    ours: Callable[[Side, str, int], list[bytes]]
    wanted: frozenset[bytes] = frozenset(ALL)


# -- our client, mode by mode


def _pushed(side: Side, topic: str, count: int, tags: str = "*", sql: str | None = None, **options: Any) -> list[bytes]:
    inbox = Inbox()
    with PushConsumer(group(), side.namesrv, consume_from=FIRST, **options) as consumer:
        consumer.subscribe(topic, tags, inbox, sql=sql)
        consumer.start()
        return [seen.body for seen in inbox.wait(count)]


def _retried(side: Side, topic: str, count: int) -> list[bytes]:
    inbox = Inbox()

    def fail_once(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        context.delay_level = 1
        if not messages[0].reconsume_times:
            return ConsumeResult.RECONSUME_LATER
        inbox(messages[0])
        return ConsumeResult.SUCCESS

    with PushConsumer(group(), side.namesrv, consume_from=FIRST) as consumer:
        consumer.subscribe(topic, listener=fail_once)
        consumer.start()
        return [seen.body for seen in inbox.wait(count)]


def _polled(side: Side, topic: str, count: int, *, assign: bool = False) -> list[bytes]:
    found: list[bytes] = []
    with LitePullConsumer(group(), side.namesrv, consume_from=FIRST) as consumer:
        if assign:
            consumer.assign(consumer.queues(topic))
        else:
            consumer.subscribe(topic)
        while len(found) < count:
            messages = consumer.poll(WAIT_SECONDS)
            assert messages, found
            found += [message.body for message in messages]
    return found


def _pulled(side: Side, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    name = group()
    with pytest.deprecated_call():
        consumer = PullConsumer(name, side.namesrv)
    consumer.start()
    with closing(consumer):
        queues = consumer.queues(topic)
        for queue in queues:
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                result = consumer.pull(queue, offset, max_messages=2)
                found += [message.body for message in result.messages]
                offset = result.next_offset
            consumer.update_offset(queue, offset)
        consumer.commit()
        assert sum(consumer.committed(queue, from_store=True) or 0 for queue in queues) == count
    return found


def _broadcast(side: Side, topic: str, count: int, directory: Path) -> list[bytes]:
    return _pushed(
        side, topic, count, message_model=MessageModel.BROADCASTING, local_offset_dir=directory, instance_name=group()
    )


MODES = {
    "concurrent": Mode({}, _pushed),
    "orderly": Mode({"mode": "orderly"}, lambda side, topic, n: _pushed(side, topic, n, orderly=True)),
    "broadcasting": Mode({"broadcast": True}, _pushed),  # ours is given a directory below
    "tag": Mode({"sub": "even"}, lambda side, topic, n: _pushed(side, topic, n, "even"), frozenset(EVEN)),
    "sql": Mode({"sql": SQL}, lambda side, topic, n: _pushed(side, topic, n, sql=SQL), frozenset({b"3", b"4", b"5"})),
    "retry": Mode({"fail_times": 1, "retry_level": 1}, _retried),
    "lite pull, subscribed": Mode({"mode": "lite"}, _polled),
    "lite pull, assigned": Mode(
        {"mode": "lite", "assign": True}, lambda side, topic, n: _polled(side, topic, n, assign=True)
    ),
    "pull": Mode({"mode": "pull"}, _pulled),
}

JAVA_ELSEWHERE = {
    "concurrent": "test_paths.py::test_every_message_arrives_once",
    "orderly": "test_orderly.py::test_a_java_orderly_consumer_gets_each_queue_in_order_and_retries_in_place",
    "broadcasting": "test_broadcast.py::test_broadcasting_members_of_both_clients_get_every_message",
    "tag": "test_paths.py::test_a_tag_subscription_gets_only_matching_messages",
    "retry": "test_retry.py::test_a_java_consumer_gets_its_failed_message_again",
    "lite pull, subscribed": "test_lite_pull.py::test_our_consumer_continues_at_java_offsets",
    "lite pull, assigned": "test_lite_pull.py::test_our_consumer_continues_at_java_offsets",
}
"""Modes the Java client is tested in at both brokers by tests that take ``side``: a JVM is not started twice for one
cell.
"""
JAVA_HERE = [mode for mode in MODES if mode not in JAVA_ELSEWHERE]


@pytest.fixture(scope="module")
def filtering(java: JavaPeer, side: Side) -> Iterator[Side]:
    """A side whose broker filters by SQL as long as this module runs."""
    setting = ("updateBrokerConfig", "-b", side.broker, "-k", "enablePropertyFilter", "-v")
    java.admin(*setting, "true")
    yield side
    java.admin(*setting, "false")


@pytest.fixture(scope="module")
def filled(java: JavaPeer, filtering: Side) -> str:
    """A topic with a message for each of ALL."""
    topic = filtering.topic(java)
    with Producer(group="p", namesrv=filtering.namesrv, send_timeout=30) as producer:
        for i in range(N):
            tag = "odd" if i % 2 else "even"
            producer.send(Message(topic, b"%d" % i, tags=tag, properties={"number": str(i)}))
    return topic


@pytest.mark.parametrize("name", MODES)
def test_our_client_consumes_in_every_mode(filtering: Side, filled: str, name: str, tmp_path: Path) -> None:
    mode = MODES[name]
    if name == "broadcasting":
        found = _broadcast(filtering, filled, len(mode.wanted), tmp_path)
    else:
        found = mode.ours(filtering, filled, len(mode.wanted))
    assert sorted(found) == sorted(mode.wanted)


@pytest.mark.parametrize("name", JAVA_HERE)
def test_the_java_client_consumes_in_every_mode(java: JavaPeer, filtering: Side, filled: str, name: str) -> None:
    mode = MODES[name]
    rows = java.consume(filtering.namesrv, filled, group(), len(mode.wanted), **mode.java)
    assert sorted(base64.b64decode(row["body"]) for row in rows) == sorted(mode.wanted)


@pytest.mark.parametrize("name", JAVA_ELSEWHERE)
def test_the_java_client_is_tested_elsewhere(name: str) -> None:
    file, _, test = JAVA_ELSEWHERE[name].partition("::")
    tree = ast.parse(Path(__file__).with_name(file).read_text())
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == test]
    asked = {argument.arg for argument in function.args.args}
    assert asked & {"side", "received"}, "it holds on both brokers"
