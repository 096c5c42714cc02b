"""Hooks that count and time sends, receives and calls of listeners with OpenTelemetry's metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider

from rocketmq_py import __version__
from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, ReceiveHook, Reception, SendHook, Sending
from rocketmq_py.client.hooks.times import BOUNDS, error_type
from rocketmq_py.client.otel import conventions as c
from rocketmq_py.model import Message, MessageExt


def _meter(provider: MeterProvider | None) -> Meter:
    return metrics.get_meter(c.SCOPE, __version__, meter_provider=provider, schema_url=c.SCHEMA_URL)


def _duration(meter: Meter, name: str, what: str) -> Histogram:
    return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=c.DURATION_BOUNDS)


def _operations(meter: Meter) -> Histogram:
    return _duration(meter, c.OPERATION_DURATION, "Duration of a send or receive, with all its attempts.")


def _consumed(meter: Meter) -> Counter:
    return meter.create_counter(c.CONSUMED, "{message}", "Messages that were delivered to the application.")


def _attributes(operation: str, topic: str, group: str, error: str | None = None) -> dict[str, str]:
    found = {
        c.SYSTEM: c.ROCKETMQ, c.OPERATION: operation, c.OPERATION_TYPE: operation, c.DESTINATION: topic,
        c.GROUP: group,
    }  # fmt: skip
    return found if error is None else found | {c.ERROR: error}


def _by_topic(messages: Sequence[Message] | Sequence[MessageExt]) -> dict[str, int]:
    """Return the number of messages of each topic."""
    counts: dict[str, int] = {}
    for message in messages:
        counts[message.topic] = counts.get(message.topic, 0) + 1
    return counts


class SendMetrics(SendHook):
    """Send hook that times sends and counts their messages.

    Use it as ``Producer(group, namesrv, hooks=[SendMetrics()])``.

    :param provider: the meter provider; the application's global one by default.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = _meter(provider)
        self._durations = _operations(meter)
        self._sent = meter.create_counter(c.SENT, "{message}", "Messages that were given to a broker, or tried to be.")

    def after(self, sending: Sending) -> None:
        """Record the send."""
        error = None if sending.error is None else type(sending.error).__qualname__
        for topic, count in _by_topic(sending.messages).items():
            attributes = _attributes("send", topic, sending.group, error)
            self._durations.record(sending.seconds, attributes)
            self._sent.add(count, attributes)


class ConsumeMetrics(ConsumeHook):
    """Consume hook that times calls of listeners and counts their messages.

    Use it as ``PushConsumer(group, namesrv, hooks=[ConsumeMetrics()])``.

    :param provider: the meter provider; the application's global one by default.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = _meter(provider)
        self._durations = _duration(meter, c.PROCESS_DURATION, "Duration of a listener call.")
        self._consumed = _consumed(meter)

    def after(self, consumption: Consumption) -> None:
        """Record the call."""
        error = error_type(consumption)
        for topic, count in _by_topic(consumption.messages).items():
            attributes = _attributes("process", topic, consumption.group, error)
            self._durations.record(consumption.seconds, attributes)
            self._consumed.add(count, attributes)


class ReceiveMetrics(ReceiveHook):
    """Receive hook that times receives and polls, and counts their messages.

    Use it as ``SimpleConsumer(group, namesrv, hooks=[ReceiveMetrics()])``, likewise with a lite pull consumer.

    :param provider: the meter provider; the application's global one by default.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = _meter(provider)
        self._durations = _operations(meter)
        self._consumed = _consumed(meter)

    def received(self, reception: Reception) -> None:
        """Record the receive, of each topic of its messages."""
        seconds = max(0.0, (time.time_ns() - reception.began_ns) / 1e9)
        for topic, count in _by_topic(reception.messages).items():
            attributes = _attributes("receive", topic, reception.group)
            self._durations.record(seconds, attributes)
            self._consumed.add(count, attributes)


class OtelTimes:
    """Records the times of :mod:`rocketmq_py.client.hooks.times` under the names of Apache's clients of version 5.

    Use it as ``Producer(group, namesrv, hooks=[SendTimes(OtelTimes())])``.

    :param provider: the meter provider; the application's global one by default.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = _meter(provider)
        self._histograms = {
            name: meter.create_histogram(name, "ms", explicit_bucket_boundaries_advisory=bounds)
            for name, bounds in BOUNDS.items()
        }

    def observe(self, name: str, milliseconds: float, labels: Mapping[str, str]) -> None:
        """Record a time."""
        self._histograms[name].record(milliseconds, labels)
