"""Streaming queries and batch reads as watchers see them, through Spark itself."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from rocketmq_py.cli.console_checkpoints import read_query
from rocketmq_py.spark import (
    OpenTelemetryProgress,
    ProgressListener,
    ProgressLog,
    PrometheusProgress,
    TerminalProgress,
    show_batch_reads,
)
from rocketmq_py.spark.monitoring.progress import BatchProgress
from rocketmq_py.spark.monitoring.report_sources import read_batches
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.conftest import Load, Topic


class Seen:
    """A watcher that keeps what it is told, after one that always fails."""

    def __init__(self) -> None:
        self.batches: list[BatchProgress] = []
        self.over: list[str] = []

    def batch(self, progress: BatchProgress, report: str) -> None:
        assert json.loads(report)["batchId"] == progress.batch_id
        self.batches.append(progress)

    def ended(self, query_id: str) -> None:
        self.over.append(query_id)


class Broken(Seen):
    def batch(self, progress: BatchProgress, report: str) -> None:
        raise ValueError("on purpose")


def eventually(condition: Callable[[], object]) -> None:
    """Spark tells listeners in its own time."""
    deadline = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def listen(spark: SparkSession) -> Iterator[Callable[..., None]]:
    added: list[ProgressListener] = []

    def listen(*watchers: object) -> None:
        added.append(ProgressListener(*watchers))
        spark.streams.addListener(added[-1])

    yield listen
    for listener in added:
        spark.streams.removeListener(listener)


@pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")
def test_progress_shows_lag_rates_and_skew(topic: Topic, load_stream: Load, listen, tmp_path: Path) -> None:
    registry, reader, seen, shown = CollectorRegistry(), InMemoryMetricReader(), Seen(), io.StringIO()
    prometheus, log = PrometheusProgress(registry), tmp_path / "progress.jsonl"
    telemetry = OpenTelemetryProgress(MeterProvider([reader]))
    listen(Broken(), seen, TerminalProgress(shown), ProgressLog(log), prometheus, telemetry)

    def points() -> dict[str, list[Any]]:
        """What OpenTelemetry has; it is the last to be told."""
        data = reader.get_metrics_data()
        (told,) = json.loads(data.to_json())["resource_metrics"] if data is not None else [{"scope_metrics": []}]
        return {
            metric["name"]: metric["data"]["data_points"] for scope in told["scope_metrics"]
            for metric in scope["metrics"]
        }  # fmt: skip

    topic.send(80)
    checkpoint = str(tmp_path / "checkpoint")
    query = (
        load_stream(topic, maxOffsetsPerTrigger=40).writeStream.format("noop").queryName("watched")
        .option("checkpointLocation", checkpoint).start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        eventually(lambda: len(seen.batches) >= 2)
        eventually(lambda: [one["value"] for one in points().get("rocketmq.spark.rows", [])] == [80])
        assert registry.get_sample_value("rocketmq_spark_rows_total", {"query": "watched"}) == 80
        last = seen.batches[1]
        for queue, messages, lag in last.queues:
            labels = {"topic": topic.name, "broker": queue.broker_name, "queue": str(queue.queue_id)}
            named = {"query": "watched", **labels}
            assert registry.get_sample_value("rocketmq_spark_queue_lag", named) == lag
            assert registry.get_sample_value("rocketmq_spark_queue_messages_total", named) == messages
        assert registry.get_sample_value("rocketmq_spark_queue_skew", {"query": "watched"}) == last.skew
        whole = {"query": "watched", "phase": "triggerExecution"}
        assert registry.get_sample_value("rocketmq_spark_batch_duration_seconds", whole) > 0
        assert sorted(point["attributes"]["queue"] for point in points()["rocketmq.spark.queue.lag"]) == list("0123")
    finally:
        query.stop()
    eventually(lambda: seen.over == [query.id])
    eventually(lambda: registry.get_sample_value("rocketmq_spark_queue_skew", {"query": "watched"}) is None)

    first, second = seen.batches[:2]
    assert (first.lag, second.lag) == ({topic.name: 40}, {topic.name: 0})
    assert (second.rows, sum(queue.messages for queue in second.queues)) == (40, 40)
    assert [b.batch_id for b in read_batches(log)] == [0, 1]
    (from_checkpoint,) = read_batches(Path(checkpoint))
    assert from_checkpoint.rows == 40
    assert [queue[:2] for queue in from_checkpoint.queues] == [queue[:2] for queue in second.queues]
    state = read_query(Path(checkpoint))  # as the console shows it
    assert (state.planned, state.committed, state.is_decided, state.error) == (1, 1, None, None)
    assert (sum(state.done.values()), state.done) == (80, state.ends)
    eventually(lambda: "watched batch 1: 40 rows" in shown.getvalue())


def test_a_batch_read_shows_its_progress(spark: SparkSession, namesrv: str, topic: Topic) -> None:
    topic.send(50)
    shown = io.StringIO()
    source = {"namesrv": namesrv, "subscribe": topic.name}
    with show_batch_reads(spark, source, shown, every=0):
        spark.read.format("rocketmq").options(**source).load().write.format("noop").mode("overwrite").save()
    assert shown.getvalue().splitlines()[-1].startswith("50 of 50 rows (100%) | ")
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
