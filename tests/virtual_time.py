"""An event loop that doesn't wait for timers: when only a timer can wake it, its clock jumps to that timer.

Timeouts and back-offs of seconds take no time in tests, and are exact on a busy machine: while only timers can wake the
loop, the clock stands still but for what is skipped. A loop that a socket or another thread can wake waits like any
other, and its clock is ``time.monotonic`` plus what was skipped. One that nothing can wake any more fails at once.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

_LOOK = 1e-7
"""Seconds by which each look at a clock that stands still moves it, so that code which waits by looking ends."""
_SPINNING, _SPIN = 20_000, 0.01
"""After so many turns without a wait each further one takes so many seconds: tests look in each turn whether something
has happened, and would never give up on a clock that stands still."""
_MOST_SKIPS = 100_000
"""A test that skips more waits than this waits for what does not come, beside timers that come again and again."""
_PATCHED = ("rocketmq_py", "tests")
"""Packages whose modules import ``monotonic`` by name."""


class Stuck(Exception):
    """A test waits for what cannot come any more; without this it would hang."""


class Clock:
    """``time.monotonic`` and what was skipped, in seconds. Loops skip waits while ``skips_waits`` is true."""

    def __init__(self) -> None:
        self._real = time.monotonic
        self._skipped = 0.0
        self._stands_at: float | None = None
        self._bystanders: set[threading.Thread] = set()
        self.skips_waits = False

    def start_skipping(self) -> None:
        """Let loops skip waits. Threads that run now, such as those of other tests' servers, cannot end a wait.

        Neither can threads that they start.
        """
        self._bystanders = set(threading.enumerate())
        self.skips_waits = True

    def has_threads(self) -> bool:
        """True if a thread was started since :meth:`start_skipping`."""
        return not self._bystanders.issuperset(threading.enumerate())

    def note_start(self, thread: threading.Thread) -> None:
        """Call it before the current thread starts another one."""
        self.run()
        starter = threading.current_thread()
        if starter in self._bystanders and starter is not threading.main_thread():
            self._bystanders.add(thread)

    def monotonic(self) -> float:
        if self._stands_at is None:
            return self._real() + self._skipped
        self._stands_at += _LOOK
        return self._stands_at

    def stand_still(self) -> None:
        """Move only by :meth:`skip` from now on."""
        if self._stands_at is None:
            self._stands_at = self.monotonic()

    def run(self) -> None:
        """Go on from where the clock stands."""
        if self._stands_at is not None:
            self._skipped, self._stands_at = self._stands_at - self._real(), None

    def skip(self, seconds: float) -> None:
        if self._stands_at is None:
            self._skipped += seconds
        else:
            self._stands_at += seconds


class _Selector(selectors.DefaultSelector):
    """Skips the time to the next timer if no socket and no thread can end the wait before."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = 0
        self._skips = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or not self.choose_clock():
            if timeout is None and self._clock.skips_waits and self._is_alone():
                return self._select_at_once()
            self._clock.run()
            return super().select(timeout)
        events = super().select(0)
        self._turns += 1
        if timeout > 0:
            self._turns = 0
            if not events:
                self._count_skip()
                self._clock.skip(timeout)
        elif self._turns > _SPINNING:
            self._clock.skip(_SPIN)
        return events

    def _count_skip(self) -> None:
        self._skips += 1
        if self._skips > _MOST_SKIPS and threading.current_thread() is threading.main_thread():
            self._skips = 0
            raise Stuck(f"{_MOST_SKIPS} timers have come, and not what the test waits for")

    def _select_at_once(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What is there already, such as a signal.

        :raises Stuck: nothing is.
        """
        events = super().select(0)
        if not events:
            raise Stuck("everything waits, there is no timer, and nothing else can wake this event loop")
        return events

    def _is_alone(self) -> bool:
        """True if nothing can wake the loop but itself; other threads' loops wait for the one of the test."""
        return threading.current_thread() is threading.main_thread() and not self._others_can_wake()

    def choose_clock(self) -> bool:
        """Let the clock stand still if only timers can wake the loop, and run if not. True if it stands still."""
        stands = self._clock.skips_waits and not self._others_can_wake()
        if stands:
            self._clock.stand_still()
        else:
            self._clock.run()
        return stands

    def _others_can_wake(self) -> bool:
        sockets = len(self.get_map()) - 1  # without the loop's own
        return sockets > 0 or self._clock.has_threads()


class _Loop(asyncio.SelectorEventLoop):
    """Chooses its clock before its first turn, since a machine that stalls there may use up a timeout of the test.

    The clock goes on when the loop stops.
    """

    def __init__(self, clock: Clock) -> None:
        self._choosing = _Selector(clock)
        super().__init__(self._choosing)
        self._virtual = clock

    def run_forever(self) -> None:
        self._choosing.choose_clock()
        try:
            super().run_forever()
        finally:
            self._virtual.run()


@contextmanager
def virtual_time() -> Iterator[Clock]:
    """Event loops made inside skip waits while the clock says so, and ``time.monotonic`` agrees with them."""
    clock = Clock()

    def new_event_loop() -> asyncio.AbstractEventLoop:
        return _Loop(clock)

    real, start = time.monotonic, threading.Thread.start

    def noted_start(thread: threading.Thread) -> None:
        clock.note_start(thread)
        start(thread)

    with (
        mock.patch.object(threading.Thread, "start", noted_start),
        mock.patch.object(asyncio.events, "new_event_loop", new_event_loop),
        _clocks(real, clock.monotonic),
    ):
        yield clock


@contextmanager
def _clocks(old: object, new: object) -> Iterator[None]:
    """Replaces ``time.monotonic``, also where a module imported it by name."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in _PATCHED]
    places = [(time, "monotonic")] + [
        (module, name) for module in modules for name, value in list(vars(module).items()) if value is old
    ]
    for module, name in places:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, old)
