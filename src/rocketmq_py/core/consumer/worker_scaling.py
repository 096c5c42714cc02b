"""How many workers should be busy with what lies before them.

A fast listener is fastest on one thread: more of them only hand the interpreter to and fro. A slow one needs every
thread there is. Which it is shows in the time a call takes, so the width follows the measured cost.
"""

from __future__ import annotations

import math

SLACK = 0.002
"""Seconds of waiting work one worker is trusted with before another is called."""
_WEIGHT = 0.2


class WorkerScaling:
    """The number of workers wanted, from a running mean of the seconds a call takes.

    :param limit: the most workers there may be.
    """

    __slots__ = ("_mark", "cost", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.cost = 0.0
        self._mark: object = None

    def record(self, calls: int, seconds: float) -> None:
        """Takes in that one worker made ``calls`` calls in ``seconds``."""
        if calls:
            self.cost += (seconds / calls - self.cost) * _WEIGHT

    def wanted(self, waiting: int) -> int:
        """Workers for ``waiting`` calls."""
        if not waiting:
            return 0
        return min(self.limit, waiting, max(1, math.ceil(waiting * self.cost / SLACK)))

    def stalled(self, mark: object) -> bool:
        """Whether nothing has moved since the last time it was asked: ``mark`` is equal to the one before."""
        stuck = mark == self._mark
        self._mark = mark
        return stuck
