"""Workers that run listeners: threads for plain functions, tasks for ``async def``.

All awake workers share the slice at the head of the line; how many are awake follows from how slow the listener is
(``core.consumer.worker_scaling``). Knows nothing of results.
"""

from __future__ import annotations

import asyncio
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
"""What runs a listener."""


class Pool(Protocol):
    """Something that takes slices through their listeners."""

    def submit(self, request: ConsumeRequest) -> None:
        """Puts a slice at the end of the line."""
        ...

    def add_workers_if_stalled(self) -> None:
        """Calls more workers if nothing has moved since the last time; to be called every few milliseconds."""
        ...

    def resize(self, size: int) -> None:
        """From now on at most ``size`` workers; those too many stop when their listener has ended."""
        ...

    def workers_on(self, request: ConsumeRequest) -> Sequence[Worker]:
        """Who took up a slice last."""
        ...

    async def close(self) -> None:
        """Returns when no listener runs any more; what waits in line stays there."""
        ...


class _WorkQueue:
    """The slices that wait, the first of which is being worked on. Not safe for threads by itself."""

    def __init__(self, limit: int) -> None:
        self.width = WorkerScaling(limit)
        self.awake = 0
        self.closed = False
        self._slices: deque[ConsumeRequest] = deque()
        self._passed = 0

    def add(self, request: ConsumeRequest) -> int:
        """Queues a slice; returns how many more workers are to wake up."""
        self._slices.append(request)
        return self._missing(self.width.wanted(len(self._slices) * request.calls))

    def workers_if_stalled(self) -> int:
        """How many more workers are to wake up because those awake are stuck."""
        head = self.first()
        stuck = self.width.stalled((self._passed, head.finished if head else 0))
        return self._missing(2 * self.awake + 1) if head and stuck else 0

    def first(self) -> ConsumeRequest | None:
        """The slice to work on, None when there is none."""
        if self.closed:
            return None
        while self._slices and self._slices[0].exhausted:
            self._slices.popleft()
            self._passed += 1
        return self._slices[0] if self._slices else None

    def workers_to_wake(self, asleep: int) -> int:
        """The workers to wake so that they see the line is closed."""
        self.awake += asleep
        return asleep

    def _missing(self, wanted: int) -> int:
        missing = max(0, min(wanted, self.width.limit) - self.awake)
        self.awake += missing
        return missing


class ThreadPool:
    """Threads, started when first needed; those not needed sleep.

    :param size: the most threads.
    :param completed: told, in a worker's thread, when the last message of a slice has its result.
    :param name: prefix of the threads' names.
    """

    def __init__(self, size: int, completed: Callable[[ConsumeRequest], None], name: str) -> None:
        self._work_queue = _WorkQueue(size)
        self._completed = completed
        self._name = name
        self._guard = threading.Lock()
        self._asleep: list[threading.Lock] = []  # the one that fell asleep last is woken first: its caches are warm
        self._threads: list[threading.Thread] = []
        self._at: dict[threading.Thread, ConsumeRequest] = {}
        self._loop = asyncio.get_running_loop()
        self._quiet = asyncio.Event()

    def submit(self, request: ConsumeRequest) -> None:
        with self._guard:
            self._start_workers(self._work_queue.add(request))

    def add_workers_if_stalled(self) -> None:
        with self._guard:
            self._start_workers(self._work_queue.workers_if_stalled())

    async def close(self) -> None:
        with self._guard:
            self._work_queue.closed = True
            if not self._threads:
                self._quiet.set()
            self._start_workers(self._work_queue.workers_to_wake(len(self._asleep)))
        await self._quiet.wait()

    def owns(self, thread: threading.Thread) -> bool:
        """Whether ``thread`` is one of the workers, which must not wait for the pool's end."""
        return thread in self._threads

    def workers_on(self, request: ConsumeRequest) -> list[threading.Thread]:
        """The threads that took a slice up last."""
        return [thread for thread, its in self._at.copy().items() if its is request]

    def resize(self, size: int) -> None:
        """From now on at most ``size`` threads; those too many sleep as soon as their listener has ended."""
        with self._guard:
            self._work_queue.width.limit = size

    def _start_workers(self, workers: int) -> None:
        for _ in range(workers):
            if self._asleep:
                self._asleep.pop().release()
            else:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        at, me = self._at, threading.current_thread()
        while True:
            request = self._next(gate, me)
            if request is None:
                return
            at[me] = request
            began = perf_counter()
            calls = request.listener.run(request)
            spent = perf_counter() - began
            request.seconds += spent
            if request.is_complete:
                self._completed(request)
            self._work_queue.width.record(calls, spent)

    def _next(self, gate: threading.Lock, me: threading.Thread) -> ConsumeRequest | None:
        """The slice to work on, after a sleep if need be; None at the end."""
        while True:
            with self._guard:
                request = self._work_queue.first()
                if request is not None and self._work_queue.awake <= self._work_queue.width.limit:
                    return request
                self._work_queue.awake -= 1
                self._at.pop(me, None)
                if self._work_queue.closed:
                    if not self._work_queue.awake:
                        post(self._loop, self._quiet.set)
                    return None
                self._asleep.append(gate)
            gate.acquire()


def post(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Calls ``callback`` in the loop's thread; not any more when the loop has ended before a slow listener did."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise


class TaskPool:
    """Tasks of the event loop. They end when there is nothing to do.

    :param size: the most listeners awaited at one time.
    :param completed: told when the last message of a slice has its result.
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
        """The workers there are now."""
        return list(self._tasks)

    def workers_on(self, request: ConsumeRequest) -> list[asyncio.Task[None]]:
        """The tasks that are at a slice."""
        return [task for task, its in self._at.items() if its is request]

    def resize(self, size: int) -> None:
        """From now on at most ``size`` tasks; those too many end as soon as their listener has."""
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
                await asyncio.sleep(0)  # a listener that never waits must not keep the loop to itself
        finally:
            self._work_queue.awake -= 1
