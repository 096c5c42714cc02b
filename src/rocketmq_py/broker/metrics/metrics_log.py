"""Metrics in the log, as Java's exporter ``LOG`` writes them: OpenTelemetry's JSON, one line each time."""

from __future__ import annotations

import logging

from rocketmq_py.broker.metrics.periodic import SCOPE, MetricsTarget
from rocketmq_py.core.metrics.otlp import otlp_json

_log = logging.getLogger(__name__)


class MetricsLog(MetricsTarget):
    """Logs an exposition."""

    def write(self, exposition: str, began_ms: int, now_ms: int) -> None:
        _log.info("%s", otlp_json(exposition, SCOPE, began_ms, now_ms))

    def close(self) -> None:
        """Do nothing: the log stays."""
