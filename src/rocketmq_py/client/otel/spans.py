"""Hooks that make spans of sends, receives and calls of listeners, connected through message properties."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from typing import NamedTuple

from opentelemetry import context as contexts, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from rocketmq_py import __version__
from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, ReceiveHook, Reception, SendHook, Sending
from rocketmq_py.client.otel import conventions as c
from rocketmq_py.model import Message, MessageExt

Attributes = dict[str, str | int | Sequence[str]]


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer(c.SCOPE, __version__, tracer_provider=provider, schema_url=c.SCHEMA_URL)


class SendSpans(SendHook):
    """Send hook that makes one span for every send with all its attempts; the messages carry the span's context.

    Use it as ``Producer(group, namesrv, hooks=[SendSpans()])``.

    :param provider: the tracer provider; the application's global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(provider)

    def before(self, sending: Sending) -> None:
        """Start the span and write its context to the properties of the messages."""
        if not sending.messages:
            return
        attributes = _about("send", sending.messages) | {c.GROUP: sending.group}
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
            span.set_attribute(c.MESSAGE_ID, sending.messages[0].msg_id)
        if sending.result is not None:
            span.set_attribute(c.PARTITION, str(sending.result.queue.queue_id))
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
        self._tracer = _tracer(provider)

    def before(self, consumption: Consumption) -> None:
        """Start the span and make it the current one."""
        messages = consumption.messages
        origins = [propagate.extract(message.properties) for message in messages]
        attributes = _about("process", messages) | {
            c.GROUP: consumption.group,
            c.PARTITION: str(consumption.queue.queue_id),
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
            span.set_attribute(c.ERROR, str(getattr(consumption.result, "name", consumption.result)))
            span.set_status(Status(StatusCode.ERROR, f"the listener returned {consumption.result}"))
        span.end()


class ReceiveSpans(ReceiveHook):
    """Receive hook that makes a span for each topic of received or polled messages, with links to their traces.

    The span lasts from the call of ``receive`` or ``poll`` to its return; it does not cover the processing of the
    messages. Use it as ``SimpleConsumer(group, namesrv, hooks=[ReceiveSpans()])``, likewise with a lite pull consumer.

    :param provider: the tracer provider; the application's global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(provider)

    def received(self, reception: Reception) -> None:
        """Make one span per topic of the messages."""
        by_topic: dict[str, list[MessageExt]] = {}
        for message in reception.messages:
            by_topic.setdefault(message.topic, []).append(message)
        for topic, messages in by_topic.items():
            origins = (_span_context(propagate.extract(message.properties)) for message in messages)
            attributes = _about("receive", messages) | {c.GROUP: reception.group}
            if len({message.queue for message in messages}) == 1:
                attributes[c.PARTITION] = str(messages[0].queue_id)
            self._tracer.start_span(
                f"receive {topic}",
                kind=SpanKind.CLIENT,
                attributes=attributes,
                links=[Link(origin) for origin in origins if origin.is_valid],
                start_time=reception.began_ns,
            ).end()


_FROM_PROPERTIES = {
    "__SHARDINGKEY": c.MESSAGE_GROUP, "DELAY": c.DELAY_LEVEL, "TIMER_DELIVER_MS": c.DELIVERY_TIME,
}  # fmt: skip
"""Attributes of spans by the property that has their value."""
_TIMED = frozenset({"DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"})


def _about(operation: str, messages: Sequence[Message] | Sequence[MessageExt]) -> Attributes:
    """The span attributes that the semantic conventions define for messages.

    :param operation: ``send``, ``receive`` or ``process``.
    """
    first = messages[0]
    found: Attributes = {
        c.SYSTEM: c.ROCKETMQ,
        c.OPERATION: operation,
        c.OPERATION_TYPE: operation,
        c.DESTINATION: first.topic,
        c.MESSAGE_TYPE: _kind(first),
    }
    if len(messages) > 1:
        return found | {c.BATCH: len(messages)}
    found[c.BODY_SIZE] = len(first.body)
    if first.tags:
        found[c.TAG] = first.tags
    found |= {name: first.properties[key] for key, name in _FROM_PROPERTIES.items() if key in first.properties}
    if first.keys:
        found[c.KEYS] = first.keys.split()
    if isinstance(first, MessageExt):
        found[c.MESSAGE_ID] = first.msg_id
    return found


def _kind(message: Message | MessageExt) -> str:
    """Return the type of a message, by the names of the conventions."""
    properties = message.properties
    if properties.get("TRAN_MSG") == "true":
        return "transaction"
    if "__SHARDINGKEY" in properties:
        return "fifo"
    return "delay" if properties.keys() & _TIMED else "normal"


def _span_context(origin: Context) -> trace.SpanContext:
    return trace.get_current_span(origin).get_span_context()


def _failed(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_attribute(c.ERROR, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
