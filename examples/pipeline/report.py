"""Lag and rates of the streams: a table, and a page with plots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Condition

from rocketmq_py.spark import BatchProgress

_PATIENCE = 60.0


class Figures:
    """A watcher of ``ProgressListener`` that keeps what Spark reports of each micro-batch.

    :ivar late: rows that came after the watermark, which Spark dropped.
    """

    def __init__(self) -> None:
        self.batches: list[BatchProgress] = []
        self.late = 0
        self._ended = 0
        self._changed = Condition()

    def batch(self, progress: BatchProgress, report: str) -> None:
        """Called by the listener at the end of a micro-batch."""
        self.batches.append(progress)
        self.late += sum(state["numRowsDroppedByWatermark"] for state in json.loads(report)["stateOperators"])

    def ended(self, query_id: str) -> None:  # noqa: ARG002
        """Called by the listener at the end of a query."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def await_ends(self, queries: int) -> None:
        """Wait until the listener, which runs in a thread of its own, has seen so many queries end.

        :raises TimeoutError: it has not within a minute.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended >= queries, _PATIENCE):
                raise TimeoutError(f"Spark reported the end of {self._ended} of {queries} queries")


def lines(batches: list[BatchProgress]) -> Iterator[str]:
    """The lines of a table: for each stream its micro-batches, rows, rate, longest micro-batch and lag."""
    yield f"{'stream':<14}{'micro-batches':>14}{'rows':>10}{'rows/s':>9}{'longest':>10}{'most lag':>10}{'lag now':>9}"
    for name in dict.fromkeys(batch.query for batch in batches):
        own = [batch for batch in batches if batch.query == name]
        rows, seconds = sum(batch.rows for batch in own), sum(batch.seconds for batch in own)
        lags = [sum(batch.lag.values()) for batch in own]
        rate = rows / seconds if seconds else 0.0
        longest = max(batch.seconds for batch in own)
        yield f"{name:<14}{len(own):>14,}{rows:>10,}{rate:>9,.0f}{longest:>8.1f} s{max(lags):>10,}{lags[-1]:>9,}"


def write_page(log: Path, page: Path) -> None:
    """Make a page of a ``ProgressLog``, as ``rocketmq spark report`` does."""
    from rocketmq_py.cli.spark import report

    report.main([str(log), "--to", str(page)], standalone_mode=False)
