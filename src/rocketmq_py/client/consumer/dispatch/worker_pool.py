"""Workers of the concurrent dispatcher: threads run plain listeners, tasks run ``async def`` ones.

All active workers run calls of the first consume request of the work queue. How many are active depends on how long
the listener's calls take (``core.consumer.worker_scaling``).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

from rocketmq_py.client.consumer.dispatch.listeners import ConsumeRequest
from rocketmq_py.core.consumer.worker_scaling import WorkerScaling

_log = logging.getLogger(__name__)


Worker = threading.Thread | asyncio.Task[Any]
"""A thread or task that runs a listener."""


class Pool(Protocol):
    """Workers that run consume requests."""

    def submit(self, request: ConsumeRequest) -> None:
        """Append a request to the work queue."""
        ...

    def add_workers_if_stalled(self) -> None:
        """Start more workers if no call has ended since the last check; call this every few milliseconds."""
        ...

    def resize(self, size: int) -> None:
        """Change the maximum number of workers; surplus ones stop when the request they run has no pending call."""
        ...

    def workers_on(self, request: ConsumeRequest) -> Sequence[Worker]:
        """The workers that run calls of a request."""
        ...

    async def close(self) -> None:
        """Wait until no listener runs; waiting requests are not started."""
        ...


class _WorkQueue:
    """The waiting requests, and how many workers should run them; the caller must lock it.

    :ivar awake: the number of workers that run or have been woken.
    """

    def __init__(self, limit: int) -> None:
        self.width = WorkerScaling(limit)
        self.awake = 0
        self.closed = False
        self._requests: deque[ConsumeRequest] = deque()
        self._passed = 0

    def add(self, request: ConsumeRequest) -> int:
        """Append a request; returns the number of workers to wake."""
        self._requests.append(request)
        return self._missing(self.width.wanted(len(self._requests) * request.calls))

    def workers_if_stalled(self) -> int:
        """The number of workers to wake because the active ones have finished nothing since the last check, or 0."""
        head = self.first()
        stuck = self.width.stalled((self._passed, head.finished if head else 0))
        return self._missing(2 * self.awake + 1) if head and stuck else 0

    def first(self) -> ConsumeRequest | None:
        """The first request with pending calls; None if there is none or the queue is closed."""
        if self.closed:
            return None
        while self._requests and self._requests[0].exhausted:
            self._requests.popleft()
            self._passed += 1
        return self._requests[0] if self._requests else None

    def workers_to_wake(self, asleep: int) -> int:
        """Return the number of workers to wake after the queue was closed, so that they end: all, counted as awake now.

        :param asleep: the number of sleeping workers.
        """
        self.awake += asleep
        return asleep

    def _missing(self, wanted: int) -> int:
        missing = max(0, min(wanted, self.width.limit) - self.awake)
        self.awake += missing
        return missing


class ThreadPool:
    """A pool of threads that run requests; threads are started as needed, and idle ones sleep.

    :param size: maximum number of threads.
    :param completed: called in a worker's thread when all messages of a request have results.
    :param name: prefix of the threads' names.
    """

    def __init__(self, size: int, completed: Callable[[ConsumeRequest], None], name: str) -> None:
        self._work_queue = _WorkQueue(size)
        self._completed = completed
        self._name = name
        self._lock = threading.Lock()
        self._asleep: list[threading.Lock] = []  # the last to sleep wakes first: its CPU caches are warm
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count(1)
        self._at: dict[threading.Thread, ConsumeRequest] = {}
        self._loop = asyncio.get_running_loop()
        self._quiet = asyncio.Event()

    def submit(self, request: ConsumeRequest) -> None:
        with self._lock:
            self._start_workers(self._work_queue.add(request))

    def add_workers_if_stalled(self) -> None:
        with self._lock:
            self._start_workers(self._work_queue.workers_if_stalled())

    async def close(self) -> None:
        with self._lock:
            self._work_queue.closed = True
            if not self._threads:
                self._quiet.set()
            self._start_workers(self._work_queue.workers_to_wake(len(self._asleep)))
        await self._quiet.wait()

    def owns(self, thread: threading.Thread) -> bool:
        """True if ``thread`` is a thread of this pool: it must not wait for :meth:`close`."""
        return thread in self._threads

    def workers_on(self, request: ConsumeRequest) -> list[threading.Thread]:
        """The threads that run calls of a request."""
        return [thread for thread, its in self._at.copy().items() if its is request]

    def resize(self, size: int) -> None:
        """Change the maximum number of threads; surplus ones sleep when the request they run has no pending call."""
        with self._lock:
            self._work_queue.width.limit = size

    def _start_workers(self, workers: int) -> None:
        for _ in range(workers):
            if self._asleep:
                self._asleep.pop().release()
            else:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{next(self._numbers)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        at, me = self._at, threading.current_thread()
        try:
            while (request := self._next(gate, me)) is not None:
                at[me] = request
                began = perf_counter()
                calls = request.listener.run(request)
                spent = perf_counter() - began
                request.seconds += spent
                if request.is_complete:
                    self._completed(request)
                self._work_queue.width.record(calls, spent)
        except BaseException:  # a listener has ended its thread, for example with KeyboardInterrupt
            with self._lock:
                self._threads.remove(me)
                self._rest(me)
            raise

    def _rest(self, me: threading.Thread) -> None:
        """Record that a thread runs no request any more; the caller holds the lock."""
        self._work_queue.awake -= 1
        self._at.pop(me, None)
        if self._work_queue.closed and not self._work_queue.awake:
            post(self._loop, self._quiet.set)

    def _next(self, gate: threading.Lock, me: threading.Thread) -> ConsumeRequest | None:
        """Return the next request, sleeping until there is one; None if the pool is closed.

        :param gate: a lock that the calling thread ``me`` blocks on to sleep; whoever wakes it releases the lock.
        """
        while True:
            with self._lock:
                request = self._work_queue.first()
                if request is not None and self._work_queue.awake <= self._work_queue.width.limit:
                    return request
                self._rest(me)
                if self._work_queue.closed:
                    return None
                self._asleep.append(gate)
            gate.acquire()


def post(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call ``callback`` in the loop's thread; do nothing if the loop is closed, as it can be after a slow listener."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise


class TaskPool:
    """A pool of tasks that run requests; tasks are started as needed and end when no request waits.

    :param size: maximum number of tasks.
    :param completed: called when all messages of a request have results.
    """

    def __init__(self, size: int, completed: Callable[[ConsumeRequest], None]) -> None:
        self._work_queue = _WorkQueue(size)
        self._completed = completed
        self._tasks: set[asyncio.Task[None]] = set()
        self._at: dict[asyncio.Task[None], ConsumeRequest] = {}

    def submit(self, request: ConsumeRequest) -> None:
        self._start_workers(self._work_queue.add(request))

    def add_workers_if_stalled(self) -> None:
        self._start_workers(self._work_queue.workers_if_stalled())

    async def close(self) -> None:
        self._work_queue.closed = True
        others = self._tasks - {asyncio.current_task()}
        await asyncio.gather(*others)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The running tasks."""
        return list(self._tasks)

    def workers_on(self, request: ConsumeRequest) -> list[asyncio.Task[None]]:
        """The tasks that run calls of a request."""
        return [task for task, its in self._at.items() if its is request]

    def resize(self, size: int) -> None:
        """Change the maximum number of tasks; surplus ones end when the request they run has no pending call."""
        self._work_queue.width.limit = size

    def _start_workers(self, workers: int) -> None:
        for _ in range(workers):
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._at.pop(task, None)

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            while (
                request := self._work_queue.first()
            ) is not None and self._work_queue.awake <= self._work_queue.width.limit:
                self._at[me] = request
                began = perf_counter()
                calls = await request.listener.arun(request)
                spent = perf_counter() - began
                request.seconds += spent
                if request.is_complete:
                    self._completed(request)
                self._work_queue.width.record(calls, spent)
                await asyncio.sleep(0)  # lets other tasks run between calls of a listener that never waits
        finally:
            self._work_queue.awake -= 1
