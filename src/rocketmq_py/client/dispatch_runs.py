"""Workers that take runs to their end, one worker a run: threads for plain functions, tasks for ``async def``.

Knows nothing of listeners and results. Called from one event loop; runs are told apart by identity.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any

from rocketmq_py.client.dispatch_pool import post

Job = Callable[[], object]


class RunThreads:
    """Threads, started when first needed.

    :param size: the most threads.
    :param name: prefix of their names.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[tuple[Job, Job] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._loop = asyncio.get_running_loop()

    def submit(self, job: Job, done: Job) -> None:
        """Has a thread do ``job`` and the loop ``done`` after that."""
        self._under_way += 1
        if self._under_way > len(self._threads) < self._size:
            name = f"{self._name}-{len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        self._jobs.put((job, done))

    def owns(self, thread: threading.Thread) -> bool:
        """Whether ``thread`` is one of the workers."""
        return thread in self._threads

    def close(self) -> None:
        """Lets the threads end once they have done what was submitted."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                job()
            finally:
                post(self._loop, lambda done=done: self._finish(done))  # type: ignore[misc]

    def _finish(self, done: Job) -> None:
        self._under_way -= 1
        done()


class RunTasks:
    """Tasks of the event loop.

    :param size: the most that are awaited at one time.
    """

    def __init__(self, size: int) -> None:
        self._free = asyncio.Semaphore(size)
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: Callable[[], Coroutine[Any, Any, None]], done: Job) -> asyncio.Task[None]:
        """Awaits ``job`` and calls ``done`` after that."""
        task = asyncio.ensure_future(self._work(job, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, job: Callable[[], Coroutine[Any, Any, None]], done: Job) -> None:
        async with self._free:
            try:
                await job()
            finally:
                done()
