"""OpenTelemetry: hooks that make spans and metrics of sends, receives and calls of listeners.

No module outside this package imports OpenTelemetry. Names follow the semantic conventions for messaging. The trace
context is carried in message properties (``traceparent``, ``tracestate`` and ``baggage`` by default), as by clients in
other languages. The application configures the SDK and exporters, or ``opentelemetry-instrument`` does.
"""

from __future__ import annotations

try:
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401
except ImportError as e:
    raise ImportError("spans and metrics need the package opentelemetry-api: pip install 'rocketmq-py[otel]'") from e

from rocketmq_py.client.otel.metrics import ConsumeMetrics, OtelTimes, ReceiveMetrics, SendMetrics
from rocketmq_py.client.otel.spans import ConsumeSpans, ReceiveSpans, SendSpans

__all__ = [
    "ConsumeMetrics",
    "ConsumeSpans",
    "OtelTimes",
    "ReceiveMetrics",
    "ReceiveSpans",
    "SendMetrics",
    "SendSpans",
]
