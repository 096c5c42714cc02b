"""Rate limit for repeated log lines: some are written, the others are counted.

The current time is passed in.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

_KINDS = 1_000
"""The most kinds of lines that are tracked; beyond that the oldest one starts again."""


class LogDecision(NamedTuple):
    """Whether to emit a line, and how many like it were suppressed before."""

    emit: bool
    suppressed: int = 0


class _Count:
    __slots__ = ("said", "since", "suppressed")

    def __init__(self, since: float, suppressed: int = 0) -> None:
        self.since = since
        self.said = 0
        self.suppressed = suppressed


class LogLimiter:
    """Allows a number of log lines of each kind per time span.

    :param limit: lines of a kind per span.
    :param span: seconds.
    """

    def __init__(self, limit: int = 20, span: float = 60.0) -> None:
        self._limit = limit
        self._span = span
        self._counts: dict[Hashable, _Count] = {}

    def judge(self, kind: Hashable, now: float) -> LogDecision:
        """Decide about a line of some kind."""
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
