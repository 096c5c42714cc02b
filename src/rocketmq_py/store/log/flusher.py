"""The flush thread: syncs the commit log and completes the futures that wait for it (group commit).

``FlushSchedule`` decides when to flush.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from rocketmq_py.errors import StoreNotWritable

_log = logging.getLogger(__name__)

_EVERYTHING = 1 << 63
_Waiter = tuple[int, asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Flusher:
    """Syncs the commit log in a background thread, the flush thread.

    :param sync: ``sync(begin, end)`` blocks until these bytes of the log are on disk; it may raise ``OSError``.
    :param flushed: offset up to which the log is already on disk.
    """

    def __init__(self, sync: Callable[[int, int], None], flushed: int) -> None:
        self._sync = sync
        self.flushed_offset = flushed
        self.failure: OSError | None = None
        """Error of the first failed sync. Nothing is synced afterwards: the kernel may have dropped the dirty pages."""
        self._target = flushed
        self._jobs: list[Callable[[], None]] = []
        self._waiters: list[_Waiter] = []
        self._stopping = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rocketmq-flush", daemon=True)
        self._begin()

    def _begin(self) -> None:
        self._thread.start()

    def request(self, end: int, then: Callable[[], None] | None = None) -> None:
        """Request a flush up to ``end``; the flush thread calls ``then`` afterwards, even if the flush fails."""
        with self._wake:
            self._target = max(self._target, end)
            if then is not None:
                self._jobs.append(then)
            self._wake.notify()

    def complete(self, end: int) -> None:
        """Flush up to ``end`` and block until that is done or has failed."""
        done = threading.Event()
        self.request(end, done.set)
        done.wait()

    def wait(self, end: int) -> asyncio.Future[None] | None:
        """Return a future that is done when the log is on disk up to ``end``; None if it already is.

        It raises :class:`StoreNotWritable` if a sync fails. This method requests no flush: call :meth:`request`, too.

        :raises RuntimeError: no event loop runs in this thread.
        """
        loop = asyncio.get_running_loop()
        with self._wake:  # either the flush that ends now sees this waiter, or the check below sees its result
            if self.flushed_offset >= end:
                return None
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((end, loop, future))
            if self.failure is not None:
                self._wake.notify()
        return future

    def stop(self) -> None:
        """Complete all requests and end the thread. Idempotent."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._stopping or self._has_work()):
                    self._wake.wait()
                if not self._has_work():
                    return
            self._turn()

    def _turn(self) -> None:
        """Flush as far as requested, complete the waiters, and run the jobs requested so far."""
        with self._wake:
            target, jobs, self._jobs = self._target, self._jobs, []
        self._flush(target)
        self._release()
        for job in jobs:
            self._do(job)

    def _has_work(self) -> bool:
        if self.failure is not None:
            return bool(self._jobs or self._waiters)
        return bool(self._jobs) or self._target > self.flushed_offset

    def _flush(self, target: int) -> None:
        if self.failure is not None or target <= self.flushed_offset:
            return
        try:
            self._sync(self.flushed_offset, target)
        except OSError as e:
            _log.error("the commit log could not be synced, the store refuses messages from now on: %s", e)
            self.failure = e
        else:
            self.flushed_offset = target

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as e:
            _log.error("files of the store could not be synced, the store refuses messages from now on: %s", e)
            self.failure = self.failure or e

    def _release(self) -> None:
        """Complete the waiters whose bytes are on disk; after a failure, all waiters."""
        with self._wake:
            reached = self.flushed_offset if self.failure is None else _EVERYTHING
            done = [waiter for waiter in self._waiters if waiter[0] <= reached]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > reached]
        for loop in {w[1] for w in done}:
            futures = [(w[2], w[0] <= self.flushed_offset) for w in done if w[1] is loop]
            try:
                loop.call_soon_threadsafe(self._answer, futures)
            except RuntimeError:
                _log.debug("the event loop of %d waiters for a flush is closed", len(futures))

    def _answer(self, futures: list[tuple[asyncio.Future[None], bool]]) -> None:
        for future, flushed in futures:
            if future.done():
                continue
            if flushed:
                future.set_result(None)
            else:
                future.set_exception(StoreNotWritable(f"the commit log could not be synced: {self.failure}"))
