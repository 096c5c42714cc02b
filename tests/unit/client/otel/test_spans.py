"""Spans of sends, listener calls and receives, kept in memory."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rocketmq_py.client.hooks.hooks import Consumption, Reception, Sending
from rocketmq_py.client.otel import ConsumeSpans, ReceiveSpans, SendSpans
from rocketmq_py.model import ConsumeResult, Message, MessageExt, MessageQueue, SendResult, SendStatus

QUEUE = MessageQueue("t", "b", 2)


class Spans:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def sent(messages: list[Message], spans: Spans, error: Exception | None = None) -> Sending:
    hook, sending = SendSpans(spans.provider), Sending("g", messages, oneway=False)
    hook.before(sending)
    if error is None:
        sending.result = SendResult(SendStatus.SEND_OK, "ID", QUEUE, 5, "OFF")
    sending.error = error
    hook.after(sending)
    assert sending.notes == {}
    return sending


def got(message: Message, topic: str = "t", queue_id: int = 2) -> MessageExt:
    """What arrives of a sent message."""
    properties = "".join(f"{name}\x01{value}\x02" for name, value in message.properties.items())
    head = (0, 0, 0, queue_id, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, 1)
    return MessageExt(head, topic, message.body, f"UNIQ_KEY\x01ID\x02{properties}".encode(), "b")


ABOUT = {
    "messaging.system": "rocketmq", "messaging.destination.name": "t", "messaging.rocketmq.message.type": "normal",
}  # fmt: skip


def about(operation: str) -> dict[str, object]:
    return ABOUT | {"messaging.operation.name": operation, "messaging.operation.type": operation}


def test_a_send_is_a_span_whose_context_the_message_carries() -> None:
    spans, message = Spans(), Message("t", b"four", tags="A", keys=["k", "l"])
    message.properties["UNIQ_KEY"] = "ID"
    sent([message], spans)
    [span] = spans.ended()
    assert (span.name, span.kind, span.status.status_code) == ("send t", SpanKind.PRODUCER, StatusCode.UNSET)
    assert attributes(span) == about("send") | {
        "messaging.consumer.group.name": "g", "messaging.message.body.size": 4, "messaging.message.id": "ID",
        "messaging.rocketmq.message.tag": "A", "messaging.rocketmq.message.keys": ("k", "l"),
        "messaging.destination.partition.id": "2",
    }  # fmt: skip
    assert f"{span.context.trace_id:032x}-{span.context.span_id:016x}" in message.properties["traceparent"]


def test_a_batch_has_one_span() -> None:
    spans, messages = Spans(), [Message("t", b"x") for _ in range(3)]
    messages[0].properties["UNIQ_KEY"] = "ID"
    sent(messages, spans)
    [span] = spans.ended()
    assert attributes(span) == about("send") | {
        "messaging.consumer.group.name": "g", "messaging.batch.message_count": 3,
        "messaging.destination.partition.id": "2",
    }  # fmt: skip
    assert len({message.properties["traceparent"] for message in messages}) == 1


def test_a_send_of_nothing_has_no_span() -> None:
    spans = Spans()
    sent([], spans)
    assert spans.ended() == []


def test_a_failed_send_has_the_error() -> None:
    spans = Spans()
    sent([Message("t", b"x")], spans, ValueError("on purpose"))
    [span] = spans.ended()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "on purpose")
    assert attributes(span)["error.type"] == "ValueError"
    assert [event.name for event in span.events] == ["exception"]
    assert "messaging.destination.partition.id" not in attributes(span)


def consumed(messages: list[MessageExt], spans: Spans, result: object, error: Exception | None = None) -> int:
    """Play the call of a listener; returns the span id that was current during it."""
    hook, consumption = ConsumeSpans(spans.provider), Consumption("g", QUEUE, messages)
    before = trace.get_current_span()
    hook.before(consumption)
    inside = trace.get_current_span().get_span_context().span_id
    consumption.result, consumption.error = result, error
    consumption.succeeded = error is None and result is None
    hook.after(consumption)
    assert trace.get_current_span() is before
    assert consumption.notes == {}
    hook.after(consumption)
    return inside


def test_a_consumption_continues_the_trace_of_its_message() -> None:
    spans, message = Spans(), Message("t", b"four")
    sent([message], spans)
    inside = consumed([got(message)], spans, None)
    send, process = spans.ended()
    assert (process.name, process.kind, process.status.status_code) == (
        "process t", SpanKind.CONSUMER, StatusCode.UNSET,
    )  # fmt: skip
    assert process.context.span_id == inside
    assert process.parent is not None
    assert (process.parent.span_id, process.context.trace_id) == (send.context.span_id, send.context.trace_id)
    assert list(process.links) == []
    assert attributes(process) == about("process") | {
        "messaging.consumer.group.name": "g", "messaging.destination.partition.id": "2", "messaging.message.id": "ID",
        "messaging.message.body.size": 4,
    }  # fmt: skip


def test_several_messages_are_linked() -> None:
    spans, messages = Spans(), [Message("t", b"x") for _ in range(3)]
    for message in messages[:2]:
        sent([message], spans)
    consumed([got(message) for message in messages], spans, None)
    one, two, process = spans.ended()
    assert process.parent is None
    assert [link.context.span_id for link in process.links] == [one.context.span_id, two.context.span_id]


@pytest.mark.parametrize(
    ("result", "error", "kind", "description"),
    [
        (None, ValueError("on purpose"), "ValueError", "on purpose"),
        (
            ConsumeResult.RECONSUME_LATER,
            None,
            "RECONSUME_LATER",
            f"the listener returned {ConsumeResult.RECONSUME_LATER}",
        ),
        (False, None, "False", "the listener returned False"),
    ],
)
def test_a_failed_consumption_is_an_error(result: object, error: Exception | None, kind: str, description: str) -> None:
    spans = Spans()
    consumed([got(Message("t", b"x"))], spans, result, error)
    [span] = spans.ended()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, description)
    assert attributes(span)["error.type"] == kind
    assert len(span.events) == (error is not None)


def test_a_receive_has_a_span_for_each_topic() -> None:
    spans, message = Spans(), Message("t", b"x")
    sent([message], spans)
    messages = [got(message), got(Message("t", b"x")), got(Message("u", b"x"), "u", 1), got(Message("t", b"x"))]
    ReceiveSpans(spans.provider).received(Reception("g", [*messages[:3], messages[3]], 1_000))
    send, t, u = spans.ended()
    assert [(span.name, span.kind, span.start_time) for span in (t, u)] == [
        ("receive t", SpanKind.CLIENT, 1_000), ("receive u", SpanKind.CLIENT, 1_000),
    ]  # fmt: skip
    assert [link.context.span_id for link in t.links] == [send.context.span_id]
    assert attributes(t) == about("receive") | {
        "messaging.consumer.group.name": "g", "messaging.batch.message_count": 3,
        "messaging.destination.partition.id": "2",
    }  # fmt: skip
    assert attributes(u)["messaging.destination.partition.id"] == "1"
    ReceiveSpans(spans.provider).received(Reception("g", [got(message), got(message, queue_id=3)], 1_000))
    assert "messaging.destination.partition.id" not in attributes(spans.ended()[-1])
