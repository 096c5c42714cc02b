"""Running coroutines from blocking code: one event loop in one background thread per process.

The portal is the package's only process-wide state. The first blocking object creates it, a forked child creates its
own, and the interpreter stops it at exit.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.remoting.forks import Process

T = TypeVar("T")

_EXIT_WAIT = 2.0
"""Seconds the interpreter waits at exit for tasks that still run in the loop."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop; uvloop's if uvloop is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Portal:
    """An event loop that runs in a background thread until :meth:`stop`."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._process = Process()
        self._posted: deque[Callable[[], None]] = deque()
        self._woken = False
        self._ended = False
        self._thread = threading.Thread(target=self._main, name="rocketmq-loop", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the loop runs in this process."""
        return self._process.is_this and self._thread.is_alive()

    def check(self) -> None:
        """Raise an error if the calling thread cannot make a blocking call through this portal.

        :raises ForkedError: the portal was made in another process.
        :raises ClosedError: the loop has ended.
        :raises ConfigError: the call comes from the loop's own thread, which it would block for ever.
        """
        self._process.check()
        if threading.get_ident() == self._thread.ident:
            raise ConfigError(
                "a blocking call was made in the thread of the event loop, where it would wait for itself; in an "
                "async listener use rocketmq_py.aio"
            )
        if self._ended:
            raise ClosedError("the event loop of this process has ended: the interpreter is shutting down")

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the loop and return its result, or raise what it raises.

        The coroutine is cancelled if it is not done after ``timeout`` seconds, or if the wait is interrupted (Ctrl-C).
        Other errors as :meth:`check`.

        :raises TimeoutError: the coroutine is not done after ``timeout`` seconds.
        """
        future = self.submit(coroutine)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the loop and return a future of its result. Errors as :meth:`check`."""
        try:
            self.check()
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def post(self, callback: Callable[[], None]) -> None:
        """Schedule ``callback`` in the loop's thread and return at once. Callbacks run in the order of the calls.

        Callbacks posted before the loop wakes up share one wake-up.
        """
        self._posted.append(callback)
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._run_posted)

    def _run_posted(self) -> None:
        self._woken = False  # first: a callback that is appended from here on wakes the loop again
        try:
            while self._posted:
                self._posted.popleft()()
        finally:
            if self._posted:  # a callback raised an error, which the loop reports; call the others in the next turn
                self.loop.call_soon(self._run_posted)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a plain function in the loop's thread and return its result, or raise what it raises."""

        async def called() -> T:
            return function(*arguments)

        return self.run(called())

    def stop(self, timeout: float = _EXIT_WAIT) -> None:
        """Cancel all tasks, stop the loop and wait at most ``timeout`` seconds for its thread."""
        if self.alive:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self._finish()
        finally:
            self._ended = True
            self.loop.close()

    def _finish(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())


_lock = threading.Lock()
_current: Portal | None = None


def portal() -> Portal:
    """Return the portal of this process; create it if there is none or its loop has ended."""
    global _current  # noqa: PLW0603 - see the module's docstring
    if _current is not None and _current.alive:
        return _current
    with _lock:
        if _current is None or not _current.alive:
            _current = Portal()
            atexit.register(_current.stop)
        return _current


def _after_fork() -> None:
    """Replace the lock: a thread that does not exist in the child may have held it at the fork."""
    global _lock  # noqa: PLW0603 - see the module's docstring
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
