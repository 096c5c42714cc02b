"""One run of a coroutine for all concurrent callers with the same key."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Runs ``work(key)`` at most once at a time for each key; concurrent callers share the result.

    A caller that stops waiting does not cancel the work. Each caller waits for its own future, so that one of many can
    stop in constant time; removing its callback from a shared task would be a linear search.
    """

    def __init__(self, work: Callable[[K], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._flights: dict[K, _Flight[T]] = {}

    async def get(self, key: K, timeout: float | None = None) -> T:
        """Wait for the running work for ``key``, or start it if none is running, and return its result.

        An error of the work is raised in every caller, each time as a new copy.

        :param timeout: seconds to wait; None for no limit.
        :raises TimeoutError: the work is not done in time; it is not cancelled.
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
        """Return the task of the running work for ``key``, with its waiting callers; start it if none is running."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(self._work(key)))
            flight.task.add_done_callback(lambda _: self._land(key))
        return flight

    @property
    def tasks(self) -> list[asyncio.Task[T]]:
        """The tasks of all work that is running."""
        return [flight.task for flight in self._flights.values()]

    def cancel(self) -> None:
        """Cancel all work that is running; its callers get :class:`WorkCancelled`."""
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
    """Return a copy of an error without its traceback, which each raise of the same object would make longer."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    copied.__traceback__ = None
    return copied
