"""The threads of a store, without threads: blocking work is done at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from rocketmq_py.store import Workers
from rocketmq_py.store.log.flusher import Flusher


class AtOnce(Executor):
    """A thread whose work is done when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as e:  # noqa: BLE001 - whoever submitted it gets it
            future.set_exception(e)
        return future


class _FlusherAtOnce(Flusher):
    def _begin(self) -> None: ...

    def request(self, end: int, then: Callable[[], None] | None = None) -> None:
        super().request(end, then)
        self._turn()

    def complete(self, end: int) -> None:
        self.request(end)

    def stop(self) -> None:
        self._stopping = True
        while self._has_work():
            self._turn()


class WithoutThreads(Workers):
    """A loop that no thread can wake skips its waits."""

    def executor(self, name: str) -> Executor:
        del name
        return AtOnce()

    def flusher(self, sync: Callable[[int, int], None], flushed: int) -> Flusher:
        return _FlusherAtOnce(sync, flushed)
