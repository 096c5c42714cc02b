"""Long work in slices: an iterator is advanced for a few milliseconds per turn of the event loop, until it ends.

Requests, periodic jobs and closed connections may set off work whose amount a client chooses. In slices it delays the
requests of other connections by a bounded time only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")

BUDGET_SECONDS = 0.01

_SHARE = 0.5
"""Seconds of spare time that each second adds."""


def at_once(steps: Iterator[object]) -> None:
    """Run an iterator of short steps to its end, in this call."""
    for _ in steps:
        pass


async def in_slices(steps: Generator[None, None, T], clock: Callable[[], float] = time.perf_counter) -> T:
    """Run a generator of short steps to its end, for a few milliseconds in each turn of the event loop.

    Work that ends within the first few milliseconds is done without another turn.

    :returns: the return value of the generator.
    """
    end = clock() + BUDGET_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as result:
            value: T = result.value
            return value
        if clock() >= end:
            await asyncio.sleep(0)
            end = clock() + BUDGET_SECONDS


class SpareTime:
    """A budget of processing time that work of one kind may use at once, instead of waiting in a queue.

    It is True while time is left. Work takes half of the time at most: the budget regains half of the time that passes,
    up to its limit.

    :param seconds: the limit, with which the budget begins.
    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, seconds: float = BUDGET_SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self._limit = self._left = seconds
        self._clock = clock
        self._counted_at = clock()

    def use(self, work: Callable[[], T]) -> T:
        """Do the work, subtract the time it takes from the budget, and return its result."""
        begin = self._clock()
        try:
            return work()
        finally:
            self._left -= self._clock() - begin

    def __bool__(self) -> bool:
        """Return True if time is left."""
        now = self._clock()
        self._left = min(self._limit, self._left + (now - self._counted_at) * _SHARE)
        self._counted_at = now
        return self._left > 0


class SlicedWork:
    """Jobs that share one time budget per turn of the event loop.

    A job is an iterator; what it yields is ignored. Each step must be short, since the budget is checked between steps.
    A job whose budget is used up goes to the end of the queue, so that a long job does not delay short ones.

    :param call_soon: runs a callback in the next turn of the event loop.
    :param budget_seconds: the budget of a turn.
    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        budget_seconds: float = BUDGET_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._call_soon = call_soon
        self._budget = budget_seconds
        self._clock = clock
        self._jobs: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Iterator[object]) -> None:
        """Start a job in the next turn of the event loop. A job that raises is logged and ends."""
        self._jobs.append(job)
        self._schedule()

    async def run(self, items: Iterator[T]) -> list[T]:
        """Run an iterator as a job and wait for its end.

        :returns: the items that it yielded.
        :raises Exception: the error that it raised.
        """
        found: list[T] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.add(_collect(items, found, done))
        await done
        return found

    def finish(self) -> None:
        """Run all jobs to their end in this call, without a time budget."""
        while self._jobs:
            self._advance(self._jobs.popleft(), float("inf"))

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        end = self._clock() + self._budget
        while self._jobs:
            job = self._jobs.popleft()
            if self._advance(job, end):
                continue
            self._jobs.append(job)
            self._schedule()
            return

    def _advance(self, job: Iterator[object], end: float) -> bool:
        """Advance a job until it ends or the clock reaches ``end``; return True if it has ended or failed."""
        clock = self._clock
        try:
            for _ in job:
                if clock() >= end:
                    return False
        except Exception:  # noqa: BLE001 - a job that fails must not end the others
            _log.exception("a job in slices failed: %s", job)
        return True


def _call_soon(callback: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_soon(callback)


class ReadTurns:
    """The time that one turn of the event loop may take for what connections have read.

    If data arrives on very many connections at once, the event loop delivers all of it in one turn. Once the requests
    of a turn have used up its budget, those of further connections wait for the next turns, in the order of arrival.

    :ivar is_crowded: whether there are so many connections that their reads must ask :meth:`admits`.
    :param clock: returns the time in seconds; only differences matter.
    :param call_soon: runs a callback in the next turn of the event loop.
    """

    def __init__(
        self, budget_seconds: float = BUDGET_SECONDS, clock: Callable[[], float] = time.perf_counter,
        call_soon: Callable[[Callable[[], None]], object] = _call_soon,
    ) -> None:  # fmt: skip
        self.is_crowded = False
        self._budget = budget_seconds
        self._clock = clock
        self._call_soon = call_soon
        self._end = 0.0  # of this turn's budget; 0 if it has not begun
        self._waiting: deque[Callable[[], None]] = deque()

    def admits(self) -> bool:
        """Return True if a connection may serve its requests now; else it has to :meth:`wait`."""
        now = self._clock()
        if self._end:
            return now < self._end
        self._begin(now)
        return True

    def wait(self, serve: Callable[[], None]) -> None:
        """Call a function in one of the next turns, after those that wait already."""
        self._waiting.append(serve)
        if not self._end:
            self._begin(self._clock())

    def _begin(self, now: float) -> None:
        self._end = now + self._budget
        self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Serve those that wait, for as long as the budget lasts; then what arrives in this turn has to wait, too."""
        if not self._waiting:
            self._end = 0.0
            return
        self._begin(self._clock())
        while self._waiting:
            self._waiting.popleft()()
            if self._clock() >= self._end:
                return


class PeriodicSlicedJob:
    """A job in slices that is due again and again; it is not started while it still runs.

    :param steps: returns the steps of one run.
    """

    def __init__(self, slices: SlicedWork, steps: Callable[[], Iterator[object]]) -> None:
        self._slices = slices
        self._steps = steps
        self._is_running = False

    def start(self) -> None:
        """Start the job, unless it still runs."""
        if not self._is_running:
            self._is_running = True
            self._slices.add(self._run())

    def _run(self) -> Iterator[None]:
        try:
            for _ in self._steps():
                yield
        finally:
            self._is_running = False


def _collect(items: Iterator[T], found: list[T], done: asyncio.Future[None]) -> Iterator[None]:
    try:
        for item in items:
            if done.cancelled():
                return
            found.append(item)
            yield
    except Exception as e:  # noqa: BLE001 - the caller gets it
        if not done.cancelled():
            done.set_exception(e)
    else:
        if not done.cancelled():
            done.set_result(None)
