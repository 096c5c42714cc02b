"""Traces crosswise: mqadmin shows ours, our command Java's, whoever's broker keeps them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.wire.trace import TraceEntry, decode_trace
from tests.interop.javapeer import JavaPeer, JavaProcess
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Side, eventually, group
from tests.server.cli import Cli


@pytest.fixture(scope="module", params=["ours", "java"])
def trace_side(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Iterator[Side]:
    """Servers with a trace topic, and a broker of its own: a transaction keeps a Java one busy for good."""
    if request.param == "ours":
        server = servers.serve(None, traceTopicEnable="true")
        yield Side("ours", server.namesrv, server.broker)
        server.stop()
    else:
        broker = java.broker(servers.namesrv().namesrv, conf={"traceTopicEnable": "true"})
        yield Side("java", broker.namesrv, broker.address)
        broker.process.kill()


def command(side: Side, msg_id: str, topic: str) -> list[dict[str, Any]]:
    """What ``rocketmq message trace`` knows from the trace topic; nothing while the message itself is not indexed."""
    result = Cli(side.namesrv)("message", "trace", msg_id, "--topic", topic, "--output", "json")
    if result.exit_code == Status.NOT_FOUND:
        return []
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.output)["trace"]
    return rows


def test_mqadmin_shows_our_traces(java: JavaPeer, trace_side: Side) -> None:
    topic, name, got = trace_side.topic(java), group(), threading.Event()
    with Producer(f"p-{name}", trace_side.namesrv, trace=True) as producer:
        msg_id = producer.send(Message(topic, b"x", tags="A", keys="k1 k2")).msg_id
    consumer = PushConsumer(
        name, trace_side.namesrv, trace=True, consume_from=ConsumeFromWhere.FIRST_OFFSET, listener=lambda _: got.set()
    )
    consumer.subscribe(topic)
    with consumer:
        assert got.wait(WAIT_SECONDS)
    text = eventually(
        lambda: java.say_admin("queryMsgTraceById", "-n", trace_side.namesrv, "-i", msg_id),
        lambda said: "Pub" in said and name in said,
    )
    [sent] = [line.split() for line in text.splitlines() if line.startswith("Pub ")]
    assert (sent[1], sent[-1]) == (f"p-{name}", "success")
    [consumed] = [line.split() for line in text.splitlines() if line.startswith("Sub ")]
    assert (consumed[1], consumed[-1]) == (name, "success")


def test_mqadmin_finds_the_end_of_our_transaction(java: JavaPeer, trace_side: Side) -> None:
    topic = trace_side.topic(java)
    check = lambda _: TransactionState.UNKNOWN  # noqa: E731
    with (
        TransactionProducer(group(), trace_side.namesrv, check=check, trace=True) as producer,
        producer.transaction(Message(topic, b"x", keys="k")) as tx,
    ):
        pass
    rows = eventually(lambda: command(trace_side, tx.transaction_id, topic), lambda rows: len(rows) == 2)
    assert {row["what"] for row in rows} == {"Pub", "EndTransaction"}


def tracing(java: JavaPeer, side: Side, topic: str, name: str, n: int, **named: Any) -> JavaProcess:
    """A Java consumer that waits for more than the ``n`` messages: one that ends gives its traces half a second."""
    return java.consumer(side.namesrv, topic, name, n=n + 1, trace="true", **named)


def test_our_command_shows_javas_traces(java: JavaPeer, trace_side: Side) -> None:
    topic, name = trace_side.topic(java), group()
    [sent] = java.produce(trace_side.namesrv, topic, 1, group=f"p-{name}", keys="k1", trace="true")
    with tracing(java, trace_side, topic, name, 1):
        rows = eventually(
            lambda: command(trace_side, sent["msgId"], topic),
            lambda rows: {"Pub", "SubBefore", "SubAfter"} <= {r["what"] for r in rows},
        )
    by_kind = {row["what"]: row for row in rows}
    assert (by_kind["Pub"]["group"], by_kind["Pub"]["success"]) == (f"p-{name}", True)
    assert (by_kind["SubAfter"]["group"], by_kind["SubAfter"]["success"]) == (name, True)
    assert by_kind["SubBefore"]["group"] == name


def polls_of(side: Side, name: str) -> list[TraceEntry]:
    """What the trace topic has of a group."""
    with Admin(side.namesrv) as admin:
        bodies = [m.body for queue in admin.queues("RMQ_SYS_TRACE_TOPIC") for m in admin.read(queue)]
    return [entry for body in bodies for entry in decode_trace(body) if entry.group == name]


def shape(entries: list[TraceEntry]) -> list[tuple[object, ...]]:
    """What entries say apart from the time and from who is meant."""
    return [
        (e.kind, e.msg_id, e.region, e.retry_times, e.keys, e.success, e.context_code, e.request_id is None)
        for e in sorted(entries, key=lambda e: (e.kind.value, e.msg_id))
    ]


def test_polled_messages_are_traced(java: JavaPeer, trace_side: Side) -> None:
    """Both lite pull consumers trace the same messages in the same words; mqadmin and our command show either."""
    topic, ours, javas = trace_side.topic(java, 1), group(), group()
    with Producer(f"p-{ours}", trace_side.namesrv) as producer:
        sent = [producer.send(Message(topic, b"%d" % i, tags="A", keys=f"k{i}")).msg_id for i in range(3)]
    with LitePullConsumer(ours, trace_side.namesrv, trace=True, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic)
        polled = 0
        while polled < len(sent):
            messages = consumer.poll(WAIT_SECONDS)
            assert messages
            polled += len(messages)
    with tracing(java, trace_side, topic, javas, len(sent), mode="lite"):
        of_java = eventually(lambda: polls_of(trace_side, javas), lambda found: len(found) == 2 * len(sent))
    of_ours = eventually(lambda: polls_of(trace_side, ours), lambda found: len(found) == 2 * len(sent))
    assert shape(of_ours) == shape(of_java)
    for name in (ours, javas):
        text = eventually(
            lambda: java.say_admin("queryMsgTraceById", "-n", trace_side.namesrv, "-i", sent[0]),
            lambda said, name=name: name in said,
        )
        [consumed] = [line.split() for line in text.splitlines() if line.startswith("Sub ") and name in line]
        assert (consumed[1], consumed[-1]) == (name, "success")
    rows = command(trace_side, sent[0], topic)
    assert {row["group"] for row in rows if row["what"] == "SubAfter"} == {ours, javas}
