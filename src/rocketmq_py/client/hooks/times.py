"""Hooks that measure times under the names of Apache's clients of version 5, for the dashboards made for those.

Where the times go is the recorder's business: :class:`~rocketmq_py.client.prometheus.PrometheusTimes` for applications
with prometheus-client, :class:`~rocketmq_py.client.otel.OtelTimes` for those with OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, ReceiveHook, Reception, SendHook, Sending
from rocketmq_py.model import MessageExt

SEND_COST, DELIVERY, PROCESS = "rocketmq_send_cost_time", "rocketmq_delivery_latency", "rocketmq_process_time"
AWAIT = "rocketmq_await_time"

BOUNDS: Mapping[str, Sequence[float]] = {
    SEND_COST: (1, 5, 10, 20, 50, 200, 500),
    DELIVERY: (1, 5, 10, 20, 50, 200, 500),
    AWAIT: (1, 5, 20, 100, 1_000, 5_000, 10_000),
    PROCESS: (1, 5, 10, 100, 1_000, 10_000, 60_000),
}
"""Upper bounds of the buckets, in milliseconds, by metric."""

LABELS: Mapping[str, tuple[str, ...]] = {
    SEND_COST: ("topic", "client_id", "invocation_status"),
    DELIVERY: ("topic", "client_id", "consumer_group"),
    AWAIT: ("topic", "client_id", "consumer_group"),
    PROCESS: ("topic", "client_id", "consumer_group", "invocation_status"),
}
"""Names of labels by metric."""


class Recorder(Protocol):
    """Takes the times."""

    def observe(self, name: str, milliseconds: float, labels: Mapping[str, str]) -> None: ...


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def error_type(consumption: Consumption) -> str | None:
    """Return what went wrong in the call of a listener: the name of an exception, or its result; None if nothing."""
    if consumption.error is not None:
        return type(consumption.error).__qualname__
    return None if consumption.succeeded else str(getattr(consumption.result, "name", consumption.result))


def _status(*, succeeded: bool) -> str:
    return "success" if succeeded else "failure"


class SendTimes(SendHook):
    """Send hook that measures how long sends take.

    :param client_id: value of the label ``client_id``.
    """

    def __init__(self, recorder: Recorder, client_id: str = "") -> None:
        self._recorder, self._client_id = recorder, client_id

    def after(self, sending: Sending) -> None:
        """Record the time of a send."""
        if sending.messages:
            status = _status(succeeded=sending.error is None)
            labels = {"topic": sending.messages[0].topic, "client_id": self._client_id, "invocation_status": status}
            self._recorder.observe(SEND_COST, sending.seconds * 1_000, labels)


class _Deliveries:
    """Records how old messages are that the application gets, and how long they waited for that if it is known."""

    def __init__(
        self, recorder: Recorder, client_id: str, now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._recorder, self._client_id, self._now_ms, self._monotonic = recorder, client_id, now_ms, monotonic

    def note(self, messages: Sequence[MessageExt], group: str) -> None:
        now_ms, now = self._now_ms(), self._monotonic()
        for message in messages:
            labels = {"topic": message.topic, "client_id": self._client_id, "consumer_group": group}
            self._recorder.observe(DELIVERY, max(0, now_ms - message.born_timestamp), labels)
            if message.arrived is not None:
                self._recorder.observe(AWAIT, (now - message.arrived) * 1_000, labels)


class ConsumeTimes(ConsumeHook):
    """Consume hook that measures how long listeners take, how old messages are when they are called, and how long
    messages waited for that in the consumer.

    :param client_id: value of the label ``client_id``.
    :param now_ms: returns the time in milliseconds since the epoch.
    :param monotonic: returns the time in seconds, as ``time.monotonic()``.
    """

    needs_arrival = True

    def __init__(
        self, recorder: Recorder, client_id: str = "", now_ms: Callable[[], int] = _now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._recorder, self._client_id = recorder, client_id
        self._deliveries = _Deliveries(recorder, client_id, now_ms, monotonic)

    def before(self, consumption: Consumption) -> None:
        """Record the ages of the messages, and how long they waited."""
        self._deliveries.note(consumption.messages, consumption.group)

    def after(self, consumption: Consumption) -> None:
        """Record the time of the listener's call."""
        labels = {
            "topic": consumption.messages[0].topic, "client_id": self._client_id, "consumer_group": consumption.group,
            "invocation_status": _status(succeeded=bool(consumption.succeeded)),
        }  # fmt: skip
        self._recorder.observe(PROCESS, consumption.seconds * 1_000, labels)


class ReceiveTimes(ReceiveHook):
    """Receive hook that measures how old messages are when a simple or lite pull consumer gets them.

    :param client_id: value of the label ``client_id``.
    :param now_ms: returns the time in milliseconds since the epoch.
    """

    def __init__(self, recorder: Recorder, client_id: str = "", now_ms: Callable[[], int] = _now_ms) -> None:
        self._deliveries = _Deliveries(recorder, client_id, now_ms)

    def received(self, reception: Reception) -> None:
        """Record the ages of the messages."""
        self._deliveries.note(reception.messages, reception.group)
