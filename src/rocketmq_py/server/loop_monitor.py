"""Measure whether the event loop keeps up with its requests, and refuse requests while it does not.

The rule is in ``core.broker.fast_failure``. To refuse requests, the dispatcher's table of handlers is replaced, so that
requests cost no extra time while the server keeps up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from rocketmq_py.core.broker.fast_failure import FastFailure
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.server.requests.failures import OVERLOAD

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
_QUIET_SECONDS = 15.0
"""Time without refusals after which the log says that the server keeps up again, as in Java."""


class Clock:
    """The clocks of a monitor, in seconds: monotonic time, and CPU time of the calling thread."""

    now = staticmethod(time.monotonic)
    worked = staticmethod(time.thread_time)


class LoopMonitor:
    """Checks 20 times a second whether the event loop is overloaded; if so, makes the dispatcher refuse requests.

    The delay of a turn counts only as far as the loop's thread used the CPU: if other processes use it, requests wait,
    too, but refusing them would not help. Waiting for the disk is measured separately (``writing_limit_ms``).

    :param dispatcher: refuses the requests; its lanes have the limits of waiting time.
    :param full_lanes: returns the names of lanes whose requests are to be refused, for reasons outside of the loop.
    :param writing_limit_ms: if one call of ``after_read``, which stores messages, takes this many milliseconds, the
        disk counts as busy and requests of ``writing_lane`` are refused.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        full_lanes: Callable[[], Collection[str]] = tuple,
        writing_limit_ms: int = 1_000,
        writing_lane: str = "send",
        clock: type[Clock] = Clock,
    ) -> None:
        self._dispatcher = dispatcher
        self._full_lanes = full_lanes
        self._turns = FastFailure()
        self.writing_limit_ms = writing_limit_ms
        self._writing_lane = writing_lane
        self._clock = clock
        self._now = self._worked = 0.0
        self._last_refusal: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the periodic checks; to be called in the event loop that is monitored."""
        self._now, self._worked = self._clock.now(), self._clock.worked()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._tick)

    def stop(self) -> None:
        """Stop the periodic checks. Repeated calls have no effect."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.look()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._tick)

    def look(self) -> None:
        """Measure the turn since the last call, and set which lanes the dispatcher refuses until the next call."""
        now, worked = self._clock.now(), self._clock.worked()
        late, busy = now - self._now - _LOOK_SECONDS, worked - self._worked
        self._now, self._worked = now, worked
        self._dispatcher.slow_turns.turn_ended(late, busy)
        if self._dispatcher.refuses:
            self._dispatcher.refuse({})
            self._turns.refused()
        waits = self._turns.turn(max(0, int(1000 * min(late, busy))), self._dispatcher.lanes.waits)
        remarks = {lane: _remark("TIMEOUT_CLEAN_QUEUE", waited) for lane, waited in waits.items()}
        written = self._dispatcher.longest_write
        limit = self.writing_limit_ms / 1000
        self._dispatcher.time_writes(on=late >= limit)  # shows at the next call whether the disk was the cause
        is_disk = written >= limit
        if is_disk:
            remarks[self._writing_lane] = _remark("PCBUSY_CLEAN_QUEUE", int(1000 * written))
        full = self._full_lanes()
        remarks |= dict.fromkeys(full, OVERLOAD)
        if remarks:
            self._dispatcher.refuse(remarks)
            self._refusing(remarks, disk=is_disk or bool(full))
        self._tell(now)

    def _refusing(self, remarks: dict[str, str], *, disk: bool) -> None:
        if self._last_refusal is None:
            self._dispatcher.refused = 0
            log.warning(
                "%s: requests (%s) are refused as busy from time to time, so that clients go elsewhere; %s",
                "the disk does not keep up" if disk else "more requests come than can be served",
                ", ".join(sorted(remarks)),
                "look at what else writes to it" if disk else "fewer clients, larger batches or more brokers help",
            )
        self._last_refusal = self._now

    def _tell(self, now: float) -> None:
        if self._last_refusal is not None and now - self._last_refusal > _QUIET_SECONDS:
            self._last_refusal = None
            log.warning("requests are served in time again; %d were refused", self._dispatcher.refused)


def _remark(what: str, waited_ms: int) -> str:
    """Return Java's remark for a request refused because of overload.

    Its queue size is always 0, because the number of requests that wait in sockets is unknown.

    :param what: Java's name of the reason.
    """
    return f"[{what}]broker busy, start flow control for a while, period in queue: {waited_ms}ms, size of queue: 0"
