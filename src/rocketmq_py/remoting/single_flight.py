"""One run of a coroutine for all concurrent callers with the same key."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Runs ``work(key)`` at most once at a time for each key; callers at the same time share the result.

    Waiting costs the same however many wait: each has a future of its own, where callbacks at one shared task would be
    searched one by one. A caller that stops waiting does not end the work.
    """

    def __init__(self, work: Callable[[K], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._flights: dict[K, _Flight[T]] = {}

    async def get(self, key: K, timeout: float | None = None) -> T:
        """The result for ``key`` of the work that runs now, or else of work that starts now.

        Errors of the work are raised, to each caller a copy of its own.

        :param timeout: seconds to wait; None: as long as the work takes.
        :raises TimeoutError: the work is not done in time; it goes on.
        :raises WorkCancelled: the work was cancelled.
        """
        flight = self.begin(key)
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        flight.waiters[waiter] = None
        try:
            if timeout is None:
                return await waiter
            async with asyncio.timeout(timeout):
                return await waiter
        finally:
            flight.waiters.pop(waiter, None)

    def begin(self, key: K) -> _Flight[T]:
        """The work for ``key`` that runs now; it is started if there is none."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(self._work(key)))
            flight.task.add_done_callback(lambda _: self._land(key))
        return flight

    @property
    def tasks(self) -> list[asyncio.Task[T]]:
        """The work that runs now."""
        return [flight.task for flight in self._flights.values()]

    def cancel(self) -> None:
        """Cancel all work that runs now."""
        for task in self.tasks:
            task.cancel()

    def _land(self, key: K) -> None:
        flight = self._flights.pop(key)
        error = WorkCancelled() if flight.task.cancelled() else flight.task.exception()
        for waiter in flight.waiters:
            if waiter.done():
                continue
            if error is not None:
                waiter.set_exception(own_copy(error))
            else:
                waiter.set_result(flight.task.result())


class WorkCancelled(Exception):
    """The work that a caller of :meth:`SingleFlight.get` waited for was cancelled."""


class _Flight(Generic[T]):
    __slots__ = ("task", "waiters")

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters: dict[asyncio.Future[T], None] = {}  # a set in the order of arrival: first come, first served


E = TypeVar("E", bound=BaseException)


def own_copy(error: E) -> E:
    """A copy of an error without its traceback: raising one object many times makes its traceback longer each time."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    copied.__traceback__ = None
    return copied
