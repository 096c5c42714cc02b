"""What runs beside everything else until its owner ends.

Knows asyncio tasks. Refuses to know what they do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

_log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """Coroutines an owner has started: it ends them, and one that fails is told of at once."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def runs(self) -> bool:
        """Whether any of them has not ended."""
        return bool(self._tasks)

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Run coroutines, beside those that run already."""
        for one in work:
            task = asyncio.get_running_loop().create_task(one)
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def replace(self, *work: Work) -> None:
        """Have all of them end, and others begin once they have."""
        before = tuple(self._tasks)
        self.cancel()
        self.start(*(_after(before, one) for one in work))

    def cancel(self) -> None:
        """Have all of them end, without waiting for it."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """End all of them. Harmless when they have ended; more may be started then."""
        tasks = tuple(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # faults are told of when they happen

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("%s has ended by a fault: %s", task.get_coro(), fault, exc_info=fault)


async def _after(before: Collection[asyncio.Task[None]], work: Work) -> None:
    await asyncio.gather(*before, return_exceptions=True)
    await work()
