"""OpenTelemetry hooks: spans of sends, receives and calls of listeners, connected through message properties.

No other module of this package imports OpenTelemetry. Attributes follow the semantic conventions for messaging. The
trace context is carried in message properties (``traceparent``, ``tracestate`` and ``baggage`` by default), as by
clients in other languages. The application configures the SDK and exporters.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from typing import NamedTuple

from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, ReceiveHook, Reception, SendHook, Sending
from rocketmq_py.model import Message, MessageExt

try:
    from opentelemetry import context as contexts, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ImportError as e:
    raise ImportError("spans need the package opentelemetry-api: pip install 'rocketmq-py[otel]'") from e

Attributes = dict[str, str | int | Sequence[str]]

_NAME = "rocketmq_py"


class SendSpans(SendHook):
    """Send hook that makes one span for every send with all its attempts; the messages carry the span's context.

    Use it as ``Producer(group, namesrv, hooks=[SendSpans()])``.

    :param provider: the tracer provider; the application's global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=provider)

    def before(self, sending: Sending) -> None:
        """Start the span and write its context to the properties of the messages."""
        if not sending.messages:
            return
        attributes = _about("send", sending.messages)
        attributes["messaging.rocketmq.client_group"] = sending.group
        span = self._tracer.start_span(
            f"send {sending.messages[0].topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        sending.notes[self] = span
        here = trace.set_span_in_context(span)
        for message in sending.messages:
            propagate.inject(message.properties, here)

    def after(self, sending: Sending) -> None:
        """End the span, with the queue id of the messages or with the error as attributes."""
        span: Span | None = sending.notes.pop(self, None)
        if span is None:
            return
        if len(sending.messages) == 1 and sending.messages[0].msg_id:
            span.set_attribute("messaging.message.id", sending.messages[0].msg_id)
        if sending.result is not None:
            span.set_attribute("messaging.destination.partition.id", str(sending.result.queue.queue_id))
        if sending.error is not None:
            _failed(span, sending.error)
        span.end()


class _Running(NamedTuple):
    """The span of a running listener call, and the token that restores the earlier OpenTelemetry context."""

    span: Span
    token: Token[Context]


class ConsumeSpans(ConsumeHook):
    """Consume hook that makes a span for every call of a listener; spans made during the call are its children.

    The span continues the trace of the message; a call with several messages starts a trace with links to those of the
    messages. Use it as ``PushConsumer(group, namesrv, hooks=[ConsumeSpans()])``.

    :param provider: the tracer provider; the application's global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer(_NAME, tracer_provider=provider)

    def before(self, consumption: Consumption) -> None:
        """Start the span and make it the current one."""
        messages = consumption.messages
        origins = [propagate.extract(message.properties) for message in messages]
        attributes = _about("process", messages) | {
            "messaging.consumer.group.name": consumption.group,
            "messaging.destination.partition.id": str(consumption.queue.queue_id),
        }
        origin = origins[0] if len(messages) == 1 else None
        links = [Link(found) for found in map(_span_context, origins) if found.is_valid]
        span = self._tracer.start_span(
            f"process {messages[0].topic}",
            context=origin,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[] if origin is not None else links,
        )
        consumption.notes[self] = _Running(span, contexts.attach(trace.set_span_in_context(span, origin)))

    def after(self, consumption: Consumption) -> None:
        """End the span; its status is an error if the listener raised or did not report success."""
        running: _Running | None = consumption.notes.pop(self, None)
        if running is None:
            return
        contexts.detach(running.token)
        span = running.span
        if consumption.error is not None:
            _failed(span, consumption.error)
        elif not consumption.succeeded:
            span.set_attribute("error.type", str(getattr(consumption.result, "name", consumption.result)))
            span.set_status(Status(StatusCode.ERROR, f"the listener returned {consumption.result}"))
        span.end()


class ReceiveSpans(ReceiveHook):
    """Receive hook that makes a span for each topic of received or polled messages, with links to their traces.

    The span lasts from the call of ``receive`` or ``poll`` to its return; it does not cover the processing of the
    messages. Use it as ``SimpleConsumer(group, namesrv, hooks=[ReceiveSpans()])``, likewise with a lite pull consumer.

    :param provider: the tracer provider; the application's global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer(_NAME, tracer_provider=provider)

    def received(self, reception: Reception) -> None:
        """Make one span per topic of the messages."""
        by_topic: dict[str, list[MessageExt]] = {}
        for message in reception.messages:
            by_topic.setdefault(message.topic, []).append(message)
        for topic, messages in by_topic.items():
            origins = (_span_context(propagate.extract(message.properties)) for message in messages)
            attributes = _about("receive", messages) | {"messaging.consumer.group.name": reception.group}
            if len({message.queue for message in messages}) == 1:
                attributes["messaging.destination.partition.id"] = str(messages[0].queue_id)
            self._tracer.start_span(
                f"receive {topic}",
                kind=SpanKind.CLIENT,
                attributes=attributes,
                links=[Link(origin) for origin in origins if origin.is_valid],
                start_time=reception.began_ns,
            ).end()


def _about(operation: str, messages: Sequence[Message] | Sequence[MessageExt]) -> Attributes:
    """The span attributes that the semantic conventions define for messages.

    :param operation: ``send``, ``receive`` or ``process``.
    """
    first = messages[0]
    found: Attributes = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": first.topic,
    }
    if len(messages) > 1:
        return found | {"messaging.batch.message_count": len(messages)}
    found["messaging.message.body.size"] = len(first.body)
    if first.tags:
        found["messaging.rocketmq.message.tag"] = first.tags
    if first.keys:
        found["messaging.rocketmq.message.keys"] = first.keys.split()
    if isinstance(first, MessageExt):
        found["messaging.message.id"] = first.msg_id
    return found


def _span_context(origin: Context) -> trace.SpanContext:
    return trace.get_current_span(origin).get_span_context()


def _failed(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
