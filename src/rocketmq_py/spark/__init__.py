"""The PySpark data source ``rocketmq``: batch and streaming reads, batch and streaming writes.

Spark finds it by itself (through the top-level package ``pyspark_rocketmq``); nothing has to be registered::

    df = spark.readStream.format("rocketmq").option("namesrv", "host:9876").option("subscribe", "orders").load()

:func:`session_builder` gives a Spark session that also starts where no Java is installed. Importing this package does
not import PySpark. :class:`ProgressListener` watches streaming queries, :func:`show_batch_reads` batch reads.
:func:`in_key_order` orders rows for the sink.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.spark.bodies import from_body as from_body
    from rocketmq_py.spark.monitoring.batch_progress import show_batch_reads as show_batch_reads
    from rocketmq_py.spark.monitoring.listener import ProgressListener as ProgressListener, ProgressLog as ProgressLog
    from rocketmq_py.spark.monitoring.metrics import (
        OpenTelemetryProgress as OpenTelemetryProgress,
        PrometheusProgress as PrometheusProgress,
    )
    from rocketmq_py.spark.monitoring.progress import BatchProgress as BatchProgress, QueueProgress as QueueProgress
    from rocketmq_py.spark.monitoring.terminal import TerminalProgress as TerminalProgress
    from rocketmq_py.spark.runtime.jre import ensure_java as ensure_java, session_builder as session_builder
    from rocketmq_py.spark.sink.key_order import in_key_order as in_key_order

__all__ = [
    "BatchProgress",
    "OpenTelemetryProgress",
    "ProgressListener",
    "ProgressLog",
    "PrometheusProgress",
    "QueueProgress",
    "TerminalProgress",
    "ensure_java",
    "from_body",
    "in_key_order",
    "session_builder",
    "show_batch_reads",
]

_MODULES = {
    "BatchProgress": "monitoring.progress",
    "OpenTelemetryProgress": "monitoring.metrics",
    "ProgressListener": "monitoring.listener",
    "ProgressLog": "monitoring.listener",
    "PrometheusProgress": "monitoring.metrics",
    "QueueProgress": "monitoring.progress",
    "TerminalProgress": "monitoring.terminal",
    "ensure_java": "runtime.jre",
    "from_body": "bodies",
    "in_key_order": "sink.key_order",
    "session_builder": "runtime.jre",
    "show_batch_reads": "monitoring.batch_progress",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: every Python worker imports this package, and few use its public names."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
