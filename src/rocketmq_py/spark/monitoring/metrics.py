"""Metrics of streaming queries for Prometheus and OpenTelemetry: lag, rows, rates, durations and skew.

The libraries (extras ``prometheus`` and ``otel``) are imported when a watcher is created. Metrics have the same names
in both, with underscores for Prometheus and dots for OpenTelemetry. Module ``progress`` computes the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.monitoring.progress import BatchProgress


class Sample(NamedTuple):
    """A value of a metric, with its labels."""

    labels: dict[str, str]
    value: float


class Metric(NamedTuple):
    """A gauge about the last micro-batch of each query.

    :ivar name: name with dots, as in OpenTelemetry.
    :ivar unit: unit in UCUM notation.
    :ivar samples: computes the values from a micro-batch.
    """

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
"""Names of the counters: rows by query, messages by queue, micro-batches by query, since the watcher was created."""


class _Latest:
    """The last micro-batch of each running query. Thread-safe: the listener's thread writes, an exporter's reads."""

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
    """Watcher that exports metrics to a registry of ``prometheus_client``, which the application must serve.

    ::

        prometheus_client.start_http_server(8000)
        spark.streams.addListener(ProgressListener(PrometheusProgress()))

    Names: ``rocketmq_spark_queue_lag``, ``…_batch_duration_seconds``, ``…_input_rate``, ``…_processed_rate``,
    ``…_queue_skew``, ``…_rows_total``, ``…_queue_messages_total``, ``…_batches_total``. The gauges of a query disappear
    when it ends; its counters stay.

    :param registry: the registry; default ``prometheus_client.REGISTRY``.
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
            "rocketmq_spark_queue_messages", "Offsets read, by queue.", ["query", "topic", "broker", "queue"],
            registry=registry,
        )  # fmt: skip
        registry.register(self)

    def collect(self) -> Iterator[Any]:
        """Yield the gauges for one scrape; called by the registry."""
        for metric in GAUGES:
            samples = self._latest.samples(metric)
            unit = "_seconds" if metric.unit == "s" else ""
            names = list(samples[0].labels) if samples else []
            family = self._family(metric.name.replace(".", "_") + unit, metric.help, labels=names)
            for labels, value in samples:
                family.add_metric(list(labels.values()), value)
            yield family

    def describe(self) -> Iterable[Any]:
        """Return no metrics, so that the registry does not call :meth:`collect` when this collector is registered."""
        return ()

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """Update the metrics after a micro-batch."""
        self._latest.put(progress)
        self._rows.labels(progress.query).inc(progress.rows)
        self._batches.labels(progress.query).inc()
        for queue, messages, _ in progress.queues:
            self._messages.labels(**_queue_labels(progress, queue)).inc(messages)

    def ended(self, query_id: str) -> None:
        """Stop exporting the gauges of a query that has ended."""
        self._latest.drop(query_id)


class OpenTelemetryProgress:
    """Watcher that exports metrics to OpenTelemetry; the application must set up the SDK and an exporter.

    The metrics are those of :class:`PrometheusProgress`, with dots in their names: ``rocketmq.spark.queue.lag`` etc.

    :param meter_provider: the provider of the meter; default is the global one.
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
        """Update the metrics after a micro-batch."""
        self._latest.put(progress)
        self._rows.add(progress.rows, {"query": progress.query})
        self._batches.add(1, {"query": progress.query})
        for queue, messages, _ in progress.queues:
            self._messages.add(messages, _queue_labels(progress, queue))

    def ended(self, query_id: str) -> None:
        """Stop exporting the gauges of a query that has ended."""
        self._latest.drop(query_id)
