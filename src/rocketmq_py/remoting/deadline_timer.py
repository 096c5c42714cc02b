"""A timer for the earliest of many deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rocketmq_py.core.peer import NEVER

_BUSY_SECONDS = 0.05
"""If the timer fires more than this late, the event loop was busy."""
_MAX_EXTENSION_SECONDS = 5.0
_PAUSE_SECONDS = 0.02
"""Minimum time between two calls of ``expired``, so that one call handles deadlines that are close to each other."""


class DeadlineTimer:
    """Calls ``expired`` once when the deadline has passed.

    If the event loop was busy at the deadline, answers may still be unread in sockets. The call is then delayed by as
    long as the loop was busy, at most 5 s, so that requests do not time out because of the program's own work.
    """

    __slots__ = ("_expired", "_extended", "_fired_at", "_handle", "_loop", "at")

    def __init__(self, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._extended = False
        self._fired_at = -_PAUSE_SECONDS
        self.at = NEVER
        """The deadline, on the clock of ``time.monotonic``; ``NEVER`` if none is set."""

    def set(self, at: float) -> None:
        """Replace the deadline.

        :param at: on the clock of ``time.monotonic``; ``NEVER`` for no deadline.
        """
        self.cancel()
        self.at = at
        if at < NEVER:
            when = max(at, self._fired_at + _PAUSE_SECONDS)
            self._handle = self._loop.call_later(max(0.0, when - time.monotonic()), self._fire)

    def cancel(self) -> None:
        """Remove the deadline: ``expired`` is not called."""
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
