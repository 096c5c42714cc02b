"""The number of worker threads to use for the listener calls that wait.

A fast listener runs best on one thread, because more threads would only compete for the interpreter lock; a slow one
needs all threads. So the number follows from the measured duration of a call.
"""

from __future__ import annotations

import math

SLACK = 0.002
"""Seconds of work waiting for each worker, from which on another worker is used."""
_WEIGHT = 0.2


class WorkerScaling:
    """Computes the number of workers from a moving average of the duration of calls.

    :param limit: maximum number of workers.
    :ivar cost: average duration of a call in seconds.
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
        """Return the number of workers to use for ``waiting`` calls."""
        if not waiting:
            return 0
        return min(self.limit, waiting, max(1, math.ceil(waiting * self.cost / SLACK)))

    def stalled(self, mark: object) -> bool:
        """Return True if there was no progress since the previous call of this method.

        :param mark: a value that changes with progress; it is compared with that of the previous call.
        """
        stuck = mark == self._mark
        self._mark = mark
        return stuck
