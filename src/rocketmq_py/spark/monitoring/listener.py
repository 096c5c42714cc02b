"""A Spark listener that passes the progress of each micro-batch to watchers.

Watchers are in ``terminal`` and ``metrics``, and :class:`ProgressLog`; ``progress`` reads Spark's reports.
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
    """Receives micro-batches, one after the other, in one thread of the driver."""

    def batch(self, progress: BatchProgress, report: str) -> None:
        """A micro-batch has ended; ``report`` is Spark's JSON about it."""

    def ended(self, query_id: str) -> None:
        """A query has ended, for whatever reason."""


class ProgressListener(StreamingQueryListener):
    """Passes every micro-batch of every query of a session to watchers.

    ::

        spark.streams.addListener(ProgressListener(TerminalProgress(), ProgressLog("progress.jsonl")))

    Spark calls listeners in a thread of its own; a watcher that fails is logged and does not disturb the query.

    :param watchers: any of :class:`~rocketmq_py.spark.TerminalProgress`, :class:`~rocketmq_py.spark.ProgressLog`,
        :class:`~rocketmq_py.spark.PrometheusProgress`, :class:`~rocketmq_py.spark.OpenTelemetryProgress`, or your own
        :class:`Watcher`.
    """

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignored: the first micro-batch has the same information."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch has ended."""
        report = event.progress.json
        try:
            progress = batch_progress(json.loads(report))
        except (RocketMQError, ValueError):
            _log.exception("a progress report of Spark was not understood: %s", report)
            return
        for watcher in self._watchers:
            self._notify(watcher.batch, progress, report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignored: nothing was read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""
        for watcher in self._watchers:
            self._notify(watcher.ended, str(event.id))

    def _notify(self, what: Any, *about: Any) -> None:
        try:
            what(*about)
        except Exception:  # noqa: BLE001 - whatever a watcher raises
            _log.exception("%s failed; the query goes on", what)


class ProgressLog:
    """Appends Spark's report of each micro-batch to a file, one JSON document a line: for ``rocketmq spark report``.

    :param path: the file; made when it is not there.
    :raises OSError: it cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.touch()

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """Append a report; the file is opened each time, because it may have been rotated."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(json.loads(report), separators=(",", ":")) + "\n")

    def ended(self, query_id: str) -> None:
        """Nothing is open."""
