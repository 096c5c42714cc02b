"""Long turns of the event loop: how many there were, and what ran in them.

Nothing else is served while one turn runs, so a turn of more than 50 ms is logged with the request or the periodic job
that took longest in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rocketmq_py.core.log_limiter import LogLimiter

_log = logging.getLogger(__name__)

LIMIT_SECONDS = 0.05
"""A turn that takes more than this much CPU time counts as long."""

_LOG_SECONDS = 10.0
"""Long turns are logged at most once in this many seconds."""

_SEVERAL = "several short requests or callbacks"


class SlowTurns:
    """Counts long turns and logs them, at most one line in ten seconds.

    :param now: returns the time in seconds, for the limit of log lines.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self.longest_ms = 0
        self.longest_name = ""
        self._now = now
        self._limiter = LogLimiter(limit=1, span=_LOG_SECONDS)
        self._span = 0.0
        self._name = _SEVERAL

    def note(self, name: str, seconds: float) -> None:
        """Record the duration of one request or job.

        If the turn is long, the log line names the longest one since the last call of :meth:`turn_ended`.
        """
        if seconds > self._span:
            self._span, self._name = seconds, name

    def turn_ended(self, late: float, worked: float) -> None:
        """Count and log the time since the last call as one long turn if it was above the limit.

        :param late: seconds by which the event loop was late.
        :param worked: CPU time of the event loop's thread in seconds. No more than this counts as duration of the turn:
            time that the thread waits for the CPU or the disk does not count.
        """
        span, name = self._span, self._name
        self._span, self._name = 0.0, _SEVERAL
        took = min(max(late, span), worked)
        if took > LIMIT_SECONDS:
            self._report(name, int(1000 * took))

    def _report(self, name: str, milliseconds: int) -> None:
        self.count += 1
        if milliseconds > self.longest_ms:
            self.longest_ms, self.longest_name = milliseconds, name
        verdict = self._limiter.judge("slow turn", self._now())
        if verdict.emit:
            more = f" (and {verdict.suppressed} more long turns before)" if verdict.suppressed else ""
            _log.warning("a turn of the event loop took %d ms: %s%s", milliseconds, name, more)
