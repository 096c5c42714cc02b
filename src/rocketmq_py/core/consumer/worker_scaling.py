"""The number of busy workers for the waiting calls.

A fast listener is fastest on one thread, because more threads only compete for the interpreter lock. A slow one needs
all threads. The number follows the measured duration of a call.
"""

from __future__ import annotations

import math

SLACK = 0.002
"""Seconds of waiting work per worker before another one is started."""
_WEIGHT = 0.2


class WorkerScaling:
    """Computes the number of workers from a running mean of the calls' duration.

    :param limit: the most workers.
    """

    __slots__ = ("_mark", "cost", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.cost = 0.0
        self._mark: object = None

    def record(self, calls: int, seconds: float) -> None:
        """Record that one worker made ``calls`` calls in ``seconds``."""
        if calls:
            self.cost += (seconds / calls - self.cost) * _WEIGHT

    def wanted(self, waiting: int) -> int:
        """Return the number of workers for ``waiting`` calls."""
        if not waiting:
            return 0
        return min(self.limit, waiting, max(1, math.ceil(waiting * self.cost / SLACK)))

    def stalled(self, mark: object) -> bool:
        """True if ``mark`` equals that of the previous call: nothing has moved since."""
        stuck = mark == self._mark
        self._mark = mark
        return stuck
