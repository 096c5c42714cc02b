"""Metrics in the log, as Java's exporter ``LOG`` writes them: OpenTelemetry's JSON, one line each time."""

from __future__ import annotations

import logging

from rocketmq_py.broker.metrics.periodic import SCOPE, MetricsTarget
from rocketmq_py.core.metrics.deltas import Deltas
from rocketmq_py.core.metrics.otlp import otlp_json, otlp_metrics

_log = logging.getLogger(__name__)


class MetricsLog(MetricsTarget):
    """Logs an exposition.

    :param in_delta: counters and histograms have what they counted since the last line.
    """

    def __init__(self, *, in_delta: bool = False) -> None:
        self._deltas = Deltas() if in_delta else None

    def write(self, exposition: str, began_ms: int, now_ms: int) -> None:
        metrics, deltas = otlp_metrics(exposition, began_ms, now_ms), self._deltas
        _log.info("%s", otlp_json(metrics if deltas is None else deltas.of(metrics), SCOPE))
        if deltas is not None:
            deltas.exported(metrics)
            deltas.forget_others(metrics)

    def close(self) -> None:
        """Do nothing: the log stays."""
