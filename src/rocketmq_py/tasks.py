"""Background tasks that run until their owner stops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

_log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """The background tasks of one owner. The error of a task is logged when the task fails; it is not restarted."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in the order they were started

    @property
    def runs(self) -> bool:
        """True if any task is still running."""
        return bool(self._tasks)

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Start coroutines as tasks of the running event loop."""
        for one in work:
            task = asyncio.get_running_loop().create_task(one)
            self._tasks[task] = None
            task.add_done_callback(self._ended)

    def replace(self, *work: Work) -> None:
        """Cancel all tasks and return; new tasks run ``work`` as soon as the cancelled ones have ended."""
        before = tuple(self._tasks)
        self.cancel()
        self.start(*(_after(before, one) for one in work))

    def cancel(self) -> None:
        """Cancel all tasks without waiting for them."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended; afterwards, new ones may be started."""
        tasks = tuple(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # failures are logged when they happen

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("%s failed: %s", task.get_coro(), fault, exc_info=fault)


async def _after(before: Collection[asyncio.Task[None]], work: Work) -> None:
    await asyncio.gather(*before, return_exceptions=True)
    await work()
