"""How long the store took to put messages, as brokers report it in their runtime information (StoreStatsService).

Tools read the figures of the last whole minute: a distribution, and the times that 99 % and 99.9 % of the messages did
not exceed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate

_MINUTE_MS = 60_000

_NAMES = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip
_BELOW = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""The parts of the distribution end before these milliseconds; the last has no end."""

_STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
_ENDS = tuple(accumulate(width for width, count in _STEPS for _ in range(count)))
"""Ends of the intervals, inclusive, between which percentiles are interpolated; the last one is open."""

_BOUNDS = tuple(sorted({*_ENDS, *(below - 1 for below in _BELOW)}))


class PutTimes:
    """Counts messages by the whole milliseconds that the store took for them.

    :ivar longest_ms: the longest time since the start.
    """

    def __init__(self, now_ms: int) -> None:
        self.longest_ms = 0
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._longest = 0
        self._last: tuple[list[int], int] | None = None
        """Counts and the longest time of the last whole minute; None during the first."""
        self._next_ms = now_ms + _MINUTE_MS

    def observe(self, milliseconds: int, messages: int = 1) -> None:
        """Count messages that were put together."""
        self._counts[bisect_left(_BOUNDS, milliseconds)] += messages
        if milliseconds > self._longest:
            self._longest = milliseconds
            self.longest_ms = max(self.longest_ms, milliseconds)

    def tick(self, now_ms: int) -> None:
        """Begin a new minute if one has passed."""
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + _MINUTE_MS
            self._last = self._counts, self._longest
            self._counts, self._longest = [0] * (len(_BOUNDS) + 1), 0

    def distribution(self) -> str | None:
        """Return the messages of the last minute by time, as ``[0~10ms]:5 [10~50ms]:1 …``; None in the first minute."""
        if self._last is None:
            return None
        parts = _sums(self._last[0], [below - 1 for below in _BELOW])
        return "".join(f"[{name}]:{count} " for name, count in zip(_NAMES, parts, strict=True))

    def percentile(self, share: float) -> float:
        """Return the time in milliseconds that a share of the last minute's messages did not exceed; 0 without any."""
        if self._last is None:
            return 0.0
        counts, longest = self._last
        wanted, passed, begin = int(sum(counts) * share), 0, 0
        for end, count in zip((*_ENDS, max(longest, _ENDS[-1])), _sums(counts, _ENDS), strict=True):
            if wanted <= passed + count:
                return begin + (end - begin) * (wanted - passed) / count if count else float(begin)
            passed, begin = passed + count, end
        return float(longest)


def _sums(counts: list[int], ends: tuple[int, ...] | list[int]) -> list[int]:
    """Return how many messages took up to the first of ``ends``, up to the second of them, and longer than all."""
    found = [0] * (len(ends) + 1)
    for bound, count in zip((*_BOUNDS, math.inf), counts, strict=True):
        found[bisect_left(ends, bound)] += count
    return found
