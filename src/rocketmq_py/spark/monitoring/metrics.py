"""Streaming queries as metrics: lag, rows, rates, durations and skew, for Prometheus and for OpenTelemetry.

The libraries (extras ``prometheus`` and ``otel``) are imported when a watcher is made. The names of the metrics are the
same in both, spelled as each spells names. ``progress`` computes the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.monitoring.progress import BatchProgress


class Sample(NamedTuple):
    """One value with its labels."""

    labels: dict[str, str]
    value: float


class Metric(NamedTuple):
    """A metric of the last micro-batch of each query; ``name`` with dots, ``unit`` as UCUM has it."""

    name: str
    unit: str
    help: str
    samples: Callable[[BatchProgress], Iterator[Sample]]


def _of_query(value: Callable[[BatchProgress], float | None]) -> Callable[[BatchProgress], Iterator[Sample]]:
    def samples(progress: BatchProgress) -> Iterator[Sample]:
        found = value(progress)
        if found is not None:
            yield Sample({"query": progress.query}, found)

    return samples


def _lags(progress: BatchProgress) -> Iterator[Sample]:
    for queue, _, lag in progress.queues:
        if lag is not None:
            yield Sample(_queue_labels(progress, queue), lag)


def _durations(progress: BatchProgress) -> Iterator[Sample]:
    for phase, seconds in progress.durations.items():
        yield Sample({"query": progress.query, "phase": phase}, seconds)


def _queue_labels(progress: BatchProgress, queue: Any) -> dict[str, str]:
    return {
        "query": progress.query,
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": str(queue.queue_id),
    }


GAUGES = (
    Metric("rocketmq.spark.queue.lag", "{message}", "Messages behind the end of the last micro-batch.", _lags),
    Metric("rocketmq.spark.batch.duration", "s", "Time of the last micro-batch, by phase.", _durations),
    Metric(
        "rocketmq.spark.input.rate", "{row}/s", "Rows a second that came in.", _of_query(lambda p: p.input_rate)
    ),
    Metric(
        "rocketmq.spark.processed.rate", "{row}/s", "Rows a second while a micro-batch runs.",
        _of_query(lambda p: p.processed_rate),
    ),
    Metric(
        "rocketmq.spark.queue.skew", "1", "Share of the fullest queue in the last micro-batch; 1 is even.",
        _of_query(lambda p: p.skew),
    ),
)  # fmt: skip
COUNTERS = ("rocketmq.spark.rows", "rocketmq.spark.queue.messages", "rocketmq.spark.batches")
"""Rows by query, messages by queue, micro-batches by query, since the watcher was made."""


class _Latest:
    """The last micro-batch of each running query; written by Spark's listener thread, read by exporters'."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_query: dict[str, BatchProgress] = {}

    def put(self, progress: BatchProgress) -> None:
        with self._lock:
            self._by_query[progress.query_id] = progress

    def drop(self, query_id: str) -> None:
        with self._lock:
            self._by_query.pop(query_id, None)

    def samples(self, metric: Metric) -> list[Sample]:
        with self._lock:
            running = list(self._by_query.values())
        return [sample for progress in running for sample in metric.samples(progress)]


class PrometheusProgress:
    """Metrics for Prometheus, in a registry of ``prometheus_client``; serving them is the application's part.

    ::

        prometheus_client.start_http_server(8000)
        spark.streams.addListener(ProgressListener(PrometheusProgress()))

    Names: ``rocketmq_spark_queue_lag``, ``…_batch_duration_seconds``, ``…_input_rate``, ``…_processed_rate``,
    ``…_queue_skew``, ``…_rows_total``, ``…_queue_messages_total``, ``…_batches_total``. What belongs to a query that
    has ended is no longer shown; its counters stay.

    :param registry: where to; the library's own default registry if not given.
    :raises ConfigError: ``prometheus-client`` is not installed.
    """

    def __init__(self, registry: Any = None) -> None:
        try:
            import prometheus_client
            from prometheus_client.core import GaugeMetricFamily
        except ImportError as e:
            raise ConfigError("prometheus-client is not installed: pip install 'rocketmq-py[prometheus]'") from e
        registry = prometheus_client.REGISTRY if registry is None else registry
        self._latest = _Latest()
        self._family = GaugeMetricFamily
        counter = prometheus_client.Counter
        self._rows = counter("rocketmq_spark_rows", "Rows of all micro-batches.", ["query"], registry=registry)
        self._batches = counter("rocketmq_spark_batches", "Micro-batches.", ["query"], registry=registry)
        self._messages = counter(
            "rocketmq_spark_queue_messages", "Messages gone over.", ["query", "topic", "broker", "queue"],
            registry=registry,
        )  # fmt: skip
        registry.register(self)

    def collect(self) -> Iterator[Any]:
        """Return the metrics for one scrape."""
        for metric in GAUGES:
            samples = self._latest.samples(metric)
            unit = "_seconds" if metric.unit == "s" else ""
            names = list(samples[0].labels) if samples else []
            family = self._family(metric.name.replace(".", "_") + unit, metric.help, labels=names)
            for labels, value in samples:
                family.add_metric(list(labels.values()), value)
            yield family

    def describe(self) -> Iterable[Any]:
        """Nothing is known of queries before they run; the registry need not ask."""
        return ()

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """A micro-batch has ended."""
        self._latest.put(progress)
        self._rows.labels(progress.query).inc(progress.rows)
        self._batches.labels(progress.query).inc()
        for queue, messages, _ in progress.queues:
            self._messages.labels(**_queue_labels(progress, queue)).inc(messages)

    def ended(self, query_id: str) -> None:
        """A query has ended."""
        self._latest.drop(query_id)


class OpenTelemetryProgress:
    """The same metrics for OpenTelemetry, names with dots; the application brings the SDK and its exporter.

    :param meter_provider: whose meter to use; the global one if not given.
    :raises ConfigError: ``opentelemetry-api`` is not installed.
    """

    def __init__(self, meter_provider: Any = None) -> None:
        try:
            from opentelemetry import metrics
        except ImportError as e:
            raise ConfigError("opentelemetry-api is not installed: pip install 'rocketmq-py[otel]'") from e
        meter = metrics.get_meter("rocketmq_py.spark", meter_provider=meter_provider)
        self._latest = _Latest()
        self._rows, self._messages, self._batches = (meter.create_counter(name) for name in COUNTERS)
        for metric in GAUGES:
            meter.create_observable_gauge(
                metric.name, callbacks=[self._callback(metric, metrics.Observation)], unit=metric.unit,
                description=metric.help,
            )  # fmt: skip

    def _callback(self, metric: Metric, observation: Any) -> Any:
        def observe(_: Any) -> list[Any]:
            return [observation(value, labels) for labels, value in self._latest.samples(metric)]

        return observe

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """A micro-batch has ended."""
        self._latest.put(progress)
        self._rows.add(progress.rows, {"query": progress.query})
        self._batches.add(1, {"query": progress.query})
        for queue, messages, _ in progress.queues:
            self._messages.add(messages, _queue_labels(progress, queue))

    def ended(self, query_id: str) -> None:
        """A query has ended."""
        self._latest.drop(query_id)
