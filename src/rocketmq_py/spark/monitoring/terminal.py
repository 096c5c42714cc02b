"""Progress of streaming queries as text: updated in place on a terminal, otherwise plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rocketmq_py.spark.monitoring.progress import BatchProgress

if TYPE_CHECKING:
    from rich.live import Live

_CLEAR = "\r\x1b[2K"
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def describe(progress: BatchProgress) -> str:
    """Describe a micro-batch in one line: rows, rows per second, duration, lag of each topic."""
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
    """Estimate the seconds until the lag is zero; None if there is no lag or it does not shrink."""
    gain = progress.processed_rate - progress.input_rate if progress.batch_id else progress.processed_rate
    lag = sum(progress.lag.values())
    return lag / progress.processed_rate if lag and gain > 0 else None


def duration(seconds: float) -> str:
    """Format a duration in its two largest units, as in ``3 min 20 s``."""
    for size, name, smaller, smaller_name in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name} {int(seconds % size // smaller)} {smaller_name}"
    return f"{seconds:.0f} s"


class Line:
    """A text that is updated in place on a terminal, by rich if it is installed; otherwise plain lines.

    :param stream: the output; default standard error.
    :param every: minimum number of seconds between two plain lines.
    :param clock: returns seconds, for tests.
    """

    def __init__(
        self, stream: TextIO | None = None, every: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._every = every
        self._clock = clock
        self._in_place = self._stream.isatty()
        self._live = _rich_display(self._stream) if self._in_place else None
        self._written_at = float("-inf")
        self._waiting: str | None = None

    def show(self, text: str) -> None:
        """Replace the shown text; as a plain line, write it at most once in ``every`` seconds."""
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
                self._live.console.show_cursor(True)  # a script that is interrupted does not reach finish()
            self._live.update(text, refresh=True)
        elif self._in_place:
            self._write(f"{_CLEAR}{text}")
        elif self._clock() - self._written_at >= self._every:
            self._written_at, self._waiting = self._clock(), None
            self._write(f"{text}\n")
        else:
            self._waiting = text

    def finish(self) -> None:
        """Leave the last text on the terminal; if the output is plain lines, write the last one if it was held back."""
        if self._live is not None:
            self._live.stop()
        elif self._in_place:
            self._write("\n")
        elif self._waiting is not None:
            self._write(f"{self._waiting}\n")
        self._waiting = None

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _rich_display(stream: TextIO) -> Live | None:
    """Return rich's display, which also updates texts that are longer than a line; None if rich is not installed."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        return None
    console = Console(file=stream, highlight=False, markup=False)
    return Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


class TerminalProgress:
    """Shows running queries: rows, rows per second, duration of the micro-batch, lag per topic, remaining time.

    :param stream: the output; default standard error. On a terminal the text is updated in place (by rich, if it is
        installed); otherwise plain lines are written, and one at the end.
    :param every: minimum number of seconds between two plain lines (default 5).
    """

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self._line = Line(stream, every)
        self._last: dict[str, str] = {}

    def batch(self, progress: BatchProgress, report: str) -> None:  # noqa: ARG002
        """Show a completed micro-batch, beside the latest ones of other queries."""
        self._last[progress.query_id] = describe(progress)
        self._line.show(" || ".join(self._last.values()))

    def ended(self, query_id: str) -> None:
        """Remove an ended query; the last text stays on the terminal."""
        if self._last.pop(query_id, None) is not None and not self._last:
            self._line.finish()
