"""A Spark listener that passes the progress of each micro-batch to watchers.

Watchers are :class:`ProgressLog` and the classes of modules ``terminal`` and ``metrics``; module ``progress`` parses
Spark's progress reports.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rocketmq_py.errors import RocketMQError
from rocketmq_py.spark.monitoring.progress import BatchProgress, batch_progress

_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Interface of objects that receive the progress of micro-batches; all calls come from one thread of the driver."""

    def batch(self, progress: BatchProgress, report: str) -> None:
        """Handle the end of a micro-batch.

        :param report: Spark's progress report, a JSON document.
        """

    def ended(self, query_id: str) -> None:
        """Handle the end of a query, whether it was stopped or failed."""


class ProgressListener(StreamingQueryListener):
    """Passes every micro-batch of every query of a session to watchers.

    ::

        spark.streams.addListener(ProgressListener(TerminalProgress(), ProgressLog("progress.jsonl")))

    Spark calls listeners in a separate thread; an exception of a watcher is logged and does not affect the query.

    :param watchers: any of :class:`~rocketmq_py.spark.TerminalProgress`, :class:`~rocketmq_py.spark.ProgressLog`,
        :class:`~rocketmq_py.spark.PrometheusProgress`, :class:`~rocketmq_py.spark.OpenTelemetryProgress`, or your own
        :class:`Watcher`.
    """

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignored: the first micro-batch has the same information."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Parse Spark's report of a completed micro-batch and pass it to the watchers; log a report of another form."""
        report = event.progress.json
        try:
            progress = batch_progress(json.loads(report))
        except (RocketMQError, ValueError):
            _log.exception("a progress report of Spark was not understood: %s", report)
            return
        for watcher in self._watchers:
            self._notify(watcher.batch, progress, report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignored: no messages were read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Notify the watchers that a query has ended."""
        for watcher in self._watchers:
            self._notify(watcher.ended, str(event.id))

    def _notify(self, what: Any, *about: Any) -> None:
        try:
            what(*about)
        except Exception:  # noqa: BLE001 - whatever a watcher raises
            _log.exception("%s failed; the query goes on", what)


class ProgressLog:
    """Appends Spark's progress reports to a file, one JSON document per line, for ``rocketmq spark report``.

    :param path: the file; created if it does not exist.
    :raises OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.touch()

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """Append a report; the file is opened each time, because it may have been rotated."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(json.loads(report), separators=(",", ":")) + "\n")

    def ended(self, query_id: str) -> None:
        """Do nothing: no file is open between reports."""
