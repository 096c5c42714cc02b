"""A timer for the earliest of many deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rocketmq_py.core.peer import NEVER

_BUSY_SECONDS = 0.05
"""A timer that fires this much too late shows that the loop was busy."""
_MAX_EXTENSION_SECONDS = 5.0
_PAUSE_SECONDS = 0.02
"""A timer fires at most once in this time: deadlines that are close to each other are looked at together."""


class DeadlineTimer:
    """Calls ``expired`` at a deadline.

    If the loop was busy at that time, answers may wait in sockets: the call comes later by as long as the loop was
    busy, so that the program's own work does not use up the time of the network.
    """

    __slots__ = ("_expired", "_extended", "_fired_at", "_handle", "_loop", "at")

    def __init__(self, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._extended = False
        self._fired_at = -_PAUSE_SECONDS
        self.at = NEVER
        """The deadline, on the clock of ``time.monotonic``."""

    def set(self, at: float) -> None:
        """Use another deadline instead; ``NEVER`` for none."""
        self.cancel()
        self.at = at
        if at < NEVER:
            when = max(at, self._fired_at + _PAUSE_SECONDS)
            self._handle = self._loop.call_later(max(0.0, when - time.monotonic()), self._fire)

    def cancel(self) -> None:
        """Call nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.at = NEVER

    def _fire(self) -> None:
        now = time.monotonic()
        lag = now - max(self.at, self._fired_at + _PAUSE_SECONDS)
        if lag > _BUSY_SECONDS and not self._extended:
            self._extended = True
            self._handle = self._loop.call_later(min(lag, _MAX_EXTENSION_SECONDS), self._fire)
            return
        self._extended = False
        self._handle = None
        self._fired_at = now
        self.at = NEVER
        self._expired()
