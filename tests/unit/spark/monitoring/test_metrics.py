"""Metrics of running queries: their values, labels and units, and what stays when a query ends."""

import json
import sys

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.monitoring.metrics import OpenTelemetryProgress, PrometheusProgress
from rocketmq_py.spark.monitoring.progress import BatchProgress, QueueProgress

FIRST, SECOND = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def micro_batch(query="q", query_id="id", rows=7, first=3, lag=5):
    return BatchProgress(
        query=query, query_id=query_id, batch_id=1, at=0.0, rows=rows, input_rate=2.0, processed_rate=4.0,
        durations={"triggerExecution": 1.5, "addBatch": 1.0},
        queues=(QueueProgress(FIRST, first, lag), QueueProgress(SECOND, 1, None)),
    )  # fmt: skip


def queue(number, query="q"):
    return {"query": query, "topic": "T", "broker": "b", "queue": str(number)}


GAUGES = [
    ("queue.lag", "", queue(0), 5.0),
    ("batch.duration", "_seconds", {"query": "q", "phase": "triggerExecution"}, 1.5),
    ("batch.duration", "_seconds", {"query": "q", "phase": "addBatch"}, 1.0),
    ("input.rate", "", {"query": "q"}, 2.0),
    ("processed.rate", "", {"query": "q"}, 4.0),
    ("queue.skew", "", {"query": "q"}, 1.5),
]
COUNTERS = [("rows", {"query": "q"}, 14.0), ("batches", {"query": "q"}, 2.0),
            ("queue.messages", queue(0), 7.0), ("queue.messages", queue(1), 2.0)]  # fmt: skip


def prometheus():
    registry = CollectorRegistry()
    watcher = PrometheusProgress(registry)

    def value(name, unit, labels):
        return registry.get_sample_value(f"rocketmq_spark_{name.replace('.', '_')}{unit}", labels)

    return watcher, value


def open_telemetry():
    reader = InMemoryMetricReader()
    watcher = OpenTelemetryProgress(MeterProvider([reader]))

    def value(name, _, labels):
        data = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        [found] = [one for one in metrics if one.name == f"rocketmq.spark.{name}"] or [None]
        points = found.data.data_points if found else []
        return next((point.value for point in points if dict(point.attributes) == labels), None)

    return watcher, value


@pytest.mark.parametrize("of", [prometheus, open_telemetry])
def test_gauges_are_of_the_last_micro_batch(of):
    watcher, value = of()
    watcher.batch(micro_batch(lag=99), "{}")
    watcher.batch(micro_batch(), "{}")
    assert [value(name, unit, labels) for name, unit, labels, _ in GAUGES] == [number for *_, number in GAUGES]
    assert value("queue.lag", "", queue(1)) is None


@pytest.mark.parametrize("of", [prometheus, open_telemetry])
def test_counters_add_up_and_stay_when_the_query_ends(of):
    watcher, value = of()
    watcher.batch(micro_batch(first=4), "{}")
    watcher.batch(micro_batch(), "{}")
    watcher.batch(micro_batch(query="other", query_id="other-id"), "{}")
    watcher.ended("id")
    watcher.ended("unknown")
    total = "_total" if of is prometheus else ""
    assert [value(name, total, labels) for name, labels, _ in COUNTERS] == [number for *_, number in COUNTERS]
    assert value("input.rate", "", {"query": "q"}) is None
    assert value("input.rate", "", {"query": "other"}) == 2.0


def test_a_query_without_messages_has_no_skew():
    watcher, value = prometheus()
    watcher.batch(empty(), "{}")
    assert value("queue.skew", "", {"query": "q"}) is None
    assert value("input.rate", "", {"query": "q"}) == 0.0


def empty():
    return BatchProgress(query="q", query_id="id", batch_id=1, at=0.0, rows=0)


def test_collecting_before_the_first_micro_batch_gives_empty_families():
    watcher, _ = prometheus()
    families = list(watcher.collect())
    assert [family.name for family in families] == [
        "rocketmq_spark_queue_lag", "rocketmq_spark_batch_duration_seconds", "rocketmq_spark_input_rate",
        "rocketmq_spark_processed_rate", "rocketmq_spark_queue_skew",
    ]  # fmt: skip
    assert not any(family.samples for family in families)
    assert list(watcher.describe()) == []


def test_units_of_open_telemetry():
    reader = InMemoryMetricReader()
    OpenTelemetryProgress(MeterProvider([reader])).batch(micro_batch(), json.dumps({}))
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    units = {one.name.removeprefix("rocketmq.spark."): one.unit for one in metrics if one.unit}
    assert units == {
        "queue.lag": "{message}", "batch.duration": "s", "input.rate": "{row}/s", "processed.rate": "{row}/s",
        "queue.skew": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("prometheus_client", PrometheusProgress, "prometheus"), ("opentelemetry", OpenTelemetryProgress, "otel")],
)
def test_a_missing_library_names_the_extra(monkeypatch, module, make, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"is not installed: pip install 'rocketmq-py\[{extra}\]'"):
        make()


def test_the_registry_of_the_application_is_the_default(monkeypatch):
    registry = CollectorRegistry()
    monkeypatch.setattr(prometheus_client, "REGISTRY", registry)
    PrometheusProgress().batch(micro_batch(), "{}")
    assert registry.get_sample_value("rocketmq_spark_input_rate", {"query": "q"}) == 2.0
