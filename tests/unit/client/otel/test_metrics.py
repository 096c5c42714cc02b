"""Counts and times of sends, listener calls and receives, as OpenTelemetry's SDK has them in memory."""

from __future__ import annotations

import time
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from rocketmq_py.client.hooks.hooks import Consumption, Reception, Sending
from rocketmq_py.client.hooks.times import BOUNDS, SEND_COST
from rocketmq_py.client.otel import ConsumeMetrics, OtelTimes, ReceiveMetrics, SendMetrics
from rocketmq_py.client.otel.conventions import DURATION_BOUNDS
from rocketmq_py.model import ConsumeResult, Message, MessageExt, MessageQueue

QUEUE = MessageQueue("t", "b", 2)


class Metrics:
    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def read(self) -> dict[str, list[Any]]:
        """Data points by name of the metric, which is of this package and its version of the conventions."""
        data = self._reader.get_metrics_data()
        assert data is not None
        (of_scope,) = data.resource_metrics[0].scope_metrics
        assert of_scope.scope.name == "rocketmq_py"
        assert of_scope.scope.schema_url == "https://opentelemetry.io/schemas/1.36.0"
        self.units = {metric.name: metric.unit for metric in of_scope.metrics}
        return {metric.name: list(metric.data.data_points) for metric in of_scope.metrics}


def got(topic: str) -> MessageExt:
    return MessageExt((0, 0, 0, 2, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, 1), topic, b"x", b"", "b")


def about(operation: str, topic: str = "t", **more: str) -> dict[str, str]:
    return {
        "messaging.system": "rocketmq", "messaging.operation.name": operation, "messaging.operation.type": operation,
        "messaging.destination.name": topic, "messaging.consumer.group.name": "g", **more,
    }  # fmt: skip


def test_a_send_is_timed_and_its_messages_are_counted() -> None:
    metrics = Metrics()
    sending = Sending("g", [Message("t", b"1"), Message("t", b"2")], oneway=False)
    sending.seconds = 0.03
    SendMetrics(metrics.provider).after(sending)
    found = metrics.read()
    (duration,), (sent,) = found["messaging.client.operation.duration"], found["messaging.client.sent.messages"]
    assert (duration.sum, duration.count, tuple(duration.explicit_bounds)) == (0.03, 1, DURATION_BOUNDS)
    assert sent.value == 2
    assert dict(duration.attributes) == dict(sent.attributes) == about("send")
    assert metrics.units == {
        "messaging.client.operation.duration": "s", "messaging.client.sent.messages": "{message}",
    }  # fmt: skip


def test_a_failed_send_names_the_error() -> None:
    metrics = Metrics()
    sending = Sending("g", [Message("t", b"1")], oneway=False)
    sending.error = ValueError("on purpose")
    SendMetrics(metrics.provider).after(sending)
    (sent,) = metrics.read()["messaging.client.sent.messages"]
    assert dict(sent.attributes) == about("send", **{"error.type": "ValueError"})


@pytest.mark.parametrize(
    ("result", "error", "kind"),
    [(None, None, None), (ConsumeResult.RECONSUME_LATER, None, "RECONSUME_LATER"), (False, None, "False"),
     (None, KeyError("x"), "KeyError")],
)  # fmt: skip
def test_a_listener_call_is_timed_and_its_messages_are_counted(result, error, kind) -> None:
    metrics = Metrics()
    consumption = Consumption("g", QUEUE, [got("t"), got("t"), got("t")])
    consumption.result, consumption.error, consumption.seconds = result, error, 2.0
    consumption.succeeded = kind is None
    ConsumeMetrics(metrics.provider).after(consumption)
    found = metrics.read()
    (duration,), (consumed,) = found["messaging.process.duration"], found["messaging.client.consumed.messages"]
    assert (duration.sum, consumed.value) == (2.0, 3)
    assert dict(consumed.attributes) == about("process", **({} if kind is None else {"error.type": kind}))


def test_a_receive_is_counted_by_topic() -> None:
    metrics = Metrics()
    ReceiveMetrics(metrics.provider).received(
        Reception("g", [got("t"), got("u"), got("t")], time.time_ns() - 5 * 10**9)
    )
    found = metrics.read()
    counts = {
        one.attributes["messaging.destination.name"]: one.value for one in found["messaging.client.consumed.messages"]
    }
    assert counts == {"t": 2, "u": 1}
    for one in found["messaging.client.operation.duration"]:
        assert 5.0 <= one.sum < 60.0
        assert dict(one.attributes) == about("receive", str(one.attributes["messaging.destination.name"]))


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    metrics = Metrics()
    ReceiveMetrics(metrics.provider).received(Reception("g", [got("t")], time.time_ns() + 10**12))
    (duration,) = metrics.read()["messaging.client.operation.duration"]
    assert duration.sum == 0.0


def test_times_have_the_buckets_of_apache_s_clients() -> None:
    metrics = Metrics()
    OtelTimes(metrics.provider).observe(SEND_COST, 12.5, {"topic": "t"})
    (found,) = metrics.read()[SEND_COST]
    assert (found.sum, tuple(found.explicit_bounds), dict(found.attributes)) == (
        12.5,
        BOUNDS[SEND_COST],
        {"topic": "t"},
    )
    assert metrics.units == {SEND_COST: "ms"}
