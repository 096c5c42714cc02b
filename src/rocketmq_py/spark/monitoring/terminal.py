"""Shows the progress of queries: one line that changes in place on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rocketmq_py.spark.monitoring.progress import BatchProgress

_CLEAR = "\r\x1b[2K"
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def describe(progress: BatchProgress) -> str:
    """A micro-batch in one line: rows, rows a second, how long it took, what is left in each topic."""
    lag = ", ".join(f"{topic} {behind:,}" for topic, behind in sorted(progress.lag.items()))
    parts = [
        f"{progress.query} batch {progress.batch_id}: {progress.rows:,} rows",
        f"{progress.processed_rate:,.0f} rows/s",
        f"{progress.seconds:.2f} s",
        *([f"lag {lag}"] if lag else []),
    ]
    left = _seconds_left(progress)
    return " | ".join(parts if left is None else [*parts, f"{duration(left)} left"])


def _seconds_left(progress: BatchProgress) -> float | None:
    """Until the lag is gone at the present pace; None where there is no lag, or it does not shrink."""
    gain = progress.processed_rate - progress.input_rate if progress.batch_id else progress.processed_rate
    lag = sum(progress.lag.values())
    return lag / progress.processed_rate if lag and gain > 0 else None


def duration(seconds: float) -> str:
    """A length of time in its two largest units, as in ``3 min 20 s``."""
    for size, name, smaller, smaller_name in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name} {int(seconds % size // smaller)} {smaller_name}"
    return f"{seconds:.0f} s"


class Line:
    """A line on a terminal that is written over; elsewhere plain lines, at most one every few seconds.

    :param stream: where to; standard error if not given.
    :param every: least seconds between two plain lines.
    :param clock: seconds, for tests.
    """

    def __init__(
        self, stream: TextIO | None = None, every: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._every = every
        self._clock = clock
        self._in_place = self._stream.isatty()
        self._written_at = float("-inf")
        self._waiting: str | None = None

    def show(self, text: str) -> None:
        """Show a new text."""
        if self._in_place:
            self._write(f"{_CLEAR}{text}")
        elif self._clock() - self._written_at >= self._every:
            self._written_at, self._waiting = self._clock(), None
            self._write(f"{text}\n")
        else:
            self._waiting = text

    def finish(self) -> None:
        """Keep the last text on the terminal; write it if it was held back."""
        if self._in_place:
            self._write("\n")
        elif self._waiting is not None:
            self._write(f"{self._waiting}\n")
        self._waiting = None

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class TerminalProgress:
    """Shows streaming queries as they go: rows, rows a second, time of the micro-batch, lag per topic, time left.

    :param stream: where to; standard error if not given. On a terminal one line changes in place, elsewhere there is a
        plain line every ``every`` seconds at most, and one at the end.
    :param every: least seconds between two plain lines (default 5).
    """

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self._line = Line(stream, every)
        self._last: dict[str, str] = {}

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """A micro-batch has ended; with several queries they stand side by side."""
        self._last[progress.query_id] = describe(progress)
        self._line.show(" || ".join(self._last.values()))

    def ended(self, query_id: str) -> None:
        """A query has ended: its last line stays."""
        if self._last.pop(query_id, None) is not None and not self._last:
            self._line.finish()
