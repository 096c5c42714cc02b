"""Workers of the orderly dispatcher: threads run plain listeners, tasks run ``async def`` ones; each run has one.

All methods must be called in one event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from queue import SimpleQueue
from typing import Any

from rocketmq_py.client.consumer.dispatch.worker_pool import post
from rocketmq_py.core.consumer.orderly import OrderlyRun

Job = Callable[[], object]


class RunThreads:
    """A pool of threads that run jobs in order of submission; threads are started as needed.

    :param size: maximum number of threads.
    :param name: prefix of the threads' names.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[tuple[OrderlyRun, Job, Job] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count(1)
        self._at: dict[threading.Thread, OrderlyRun] = {}
        self._under_way = 0
        self._loop = asyncio.get_running_loop()

    def submit(self, run: OrderlyRun, job: Job, done: Job) -> None:
        """Call ``job``, which consumes ``run``, in a thread; when it has ended, call ``done`` in the event loop."""
        self._under_way += 1
        self._jobs.put((run, job, done))
        self._start_workers()

    def resize(self, size: int) -> None:
        """Change the maximum number of threads; surplus threads end after the jobs that are already submitted."""
        self._size = size
        for _ in self._threads[size:]:
            self._jobs.put(None)
        self._threads = self._threads[:size]
        self._start_workers()

    def owns(self, thread: threading.Thread) -> bool:
        """True if ``thread`` is a thread of this pool."""
        return thread in self._threads or thread in self._at

    def workers_on(self, run: OrderlyRun) -> list[threading.Thread]:
        """The thread that consumes a run, as a list; empty if none has started."""
        return [thread for thread, its in self._at.copy().items() if its is run]

    def close(self) -> None:
        """Make the threads end after the jobs that are already submitted; does not wait for them."""
        for _ in self._threads:
            self._jobs.put(None)

    def _start_workers(self) -> None:
        while min(self._under_way, self._size) > len(self._threads):
            name = f"{self._name}-{next(self._numbers)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def _work(self) -> None:
        me = threading.current_thread()
        while (item := self._jobs.get()) is not None:
            run, job, done = item
            self._at[me] = run
            ended: threading.Thread | None = me
            try:
                job()
                ended = None
            finally:
                del self._at[me]
                post(self._loop, partial(self._finish, done, ended))

    def _finish(self, done: Job, ended: threading.Thread | None) -> None:
        """Handle the end of a job; ``ended`` is the thread if the job's exception ends it: another one replaces it."""
        self._under_way -= 1
        if ended is not None and ended in self._threads:
            self._threads.remove(ended)
            self._start_workers()
        done()


class RunTasks:
    """Runs jobs as tasks of the event loop, in order of submission.

    :param size: maximum number of tasks that run at the same time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """All submitted tasks that have not ended."""
        return list(self._tasks)

    def submit(self, job: Callable[[], Coroutine[Any, Any, None]], done: Job) -> asyncio.Task[None]:
        """Await ``job()`` in a task when fewer than ``size`` run, then call ``done``; returns the task."""
        task = asyncio.ensure_future(self._work(job, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def resize(self, size: int) -> None:
        """Change how many tasks may run at the same time; running tasks are not stopped."""
        self._size = size
        self._start_waiting()

    async def _work(self, job: Callable[[], Coroutine[Any, Any, None]], done: Job) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._start_waiting()
        try:
            await turn
            await job()
        finally:
            if turn.done() and not turn.cancelled():
                self._busy -= 1
                self._start_waiting()
            done()

    def _start_waiting(self) -> None:
        """Start waiting tasks, in order of submission, while fewer than ``size`` run."""
        while self._waiting and self._busy < self._size:
            turn = self._waiting.popleft()
            if not turn.done():
                self._busy += 1
                turn.set_result(None)
