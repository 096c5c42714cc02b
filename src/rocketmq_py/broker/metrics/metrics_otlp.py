"""Metrics for an OpenTelemetry collector, over gRPC (OTLP), as Java's exporter ``OTLP_GRPC`` sends them."""

from __future__ import annotations

import logging
from typing import Any

from rocketmq_py.broker.metrics.periodic import SCOPE, MetricsTarget
from rocketmq_py.core.metrics.deltas import Deltas
from rocketmq_py.core.metrics.otlp import Metric, in_batches, otlp_metrics, resource_metrics
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring.settings import OtlpCollector

_log = logging.getLogger(__name__)

_EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


class MetricsOtlp(MetricsTarget):
    """Sends an exposition to a collector, in several requests if it is large.

    :param timeout_ms: time for the answer to one request.
    :param most_points: number of data points of one request.
    :param in_delta: counters and histograms have what they counted since the last export that arrived.
    :raises ConfigError: the extra ``otlp`` is not installed.
    """

    def __init__(
        self, collector: OtlpCollector, timeout_ms: int, most_points: int, *, in_delta: bool
    ) -> None:  # fmt: skip
        try:
            import grpc
            from google.protobuf.json_format import ParseDict
            from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
        except ImportError as e:
            raise ConfigError(
                f"metricsExporterType is OTLP_GRPC, and {e.name} is not installed: pip install 'rocketmq-py[otlp]'"
            ) from e
        self._grpc, self._parse, self._pb2 = grpc, ParseDict, metrics_service_pb2
        self._collector, self._timeout, self._most_points = collector, timeout_ms / 1000, most_points
        self._deltas = Deltas() if in_delta else None
        self._channel = (
            grpc.secure_channel(collector.address, grpc.ssl_channel_credentials(), compression=grpc.Compression.Gzip)
            if collector.is_tls
            else grpc.insecure_channel(collector.address, compression=grpc.Compression.Gzip)
        )
        self._export = self._channel.unary_unary(
            _EXPORT,
            request_serializer=metrics_service_pb2.ExportMetricsServiceRequest.SerializeToString,
            response_deserializer=metrics_service_pb2.ExportMetricsServiceResponse.FromString,
        )

    def write(self, exposition: str, began_ms: int, now_ms: int) -> None:
        metrics, deltas = otlp_metrics(exposition, began_ms, now_ms), self._deltas
        for batch in in_batches(metrics, self._most_points):
            if deltas is None:
                self._send(batch)
                continue
            if changed := deltas.of(batch):
                self._send(changed)
            deltas.exported(batch)
        if deltas is not None:
            deltas.forget_others(metrics)

    def close(self) -> None:
        self._channel.close()

    def _send(self, batch: list[Metric]) -> None:
        tree = {"resourceMetrics": [resource_metrics(batch, SCOPE)]}
        request = self._parse(tree, self._pb2.ExportMetricsServiceRequest())
        try:
            answer: Any = self._export(request, timeout=self._timeout, metadata=self._collector.headers)
        except self._grpc.RpcError as e:
            raise ConnectionError(
                f"the collector {self._collector.address} answers {e.code().name}: {e.details()!r}"
            ) from e
        if answer.partial_success.rejected_data_points:
            _log.warning(
                "the collector %s refused %d of the data points: %r", self._collector.address,
                answer.partial_success.rejected_data_points, answer.partial_success.error_message,
            )  # fmt: skip
