"""Rate limit for repeated log lines: lines beyond the limit are suppressed and counted.

The current time is an argument.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

_KINDS = 1_000
"""Maximum number of kinds of lines that are tracked; beyond it, the count of the oldest kind is dropped."""


class LogDecision(NamedTuple):
    """Decision about a log line.

    :ivar emit: True to write the line.
    :ivar suppressed: for a line to write, the number of lines of its kind that were suppressed since the last one
        written.
    """

    emit: bool
    suppressed: int = 0


class _Count:
    __slots__ = ("said", "since", "suppressed")

    def __init__(self, since: float, suppressed: int) -> None:
        self.since = since
        self.said = 0
        self.suppressed = suppressed


class LogLimiter:
    """Allows a limited number of log lines of each kind per time span.

    :param limit: number of lines of one kind per span.
    :param span: length of a span in seconds.
    """

    def __init__(self, limit: int = 20, span: float = 60.0) -> None:
        self._limit = limit
        self._span = span
        self._counts: dict[Hashable, _Count] = {}

    def judge(self, kind: Hashable, now: float) -> LogDecision:
        """Decide whether to write a log line now, and count it.

        :param kind: lines with equal kinds share a limit.
        :param now: current time in seconds.
        """
        count = self._counts.get(kind)
        if count is None or now - count.since >= self._span:
            count = self._begin(kind, now, count)
        if count.said >= self._limit:
            count.suppressed += 1
            return LogDecision(emit=False)
        count.said += 1
        suppressed, count.suppressed = count.suppressed, 0
        return LogDecision(emit=True, suppressed=suppressed)

    def _begin(self, kind: Hashable, now: float, before: _Count | None) -> _Count:
        if before is None and len(self._counts) >= _KINDS:
            del self._counts[next(iter(self._counts))]
        self._counts[kind] = _Count(now, before.suppressed if before is not None else 0)
        return self._counts[kind]
