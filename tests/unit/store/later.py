"""An executor whose jobs run when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tests.unit.store.helpers import AT_ONCE, SpaceAtOnce


class Later(Executor):
    """Runs its jobs when it is told to, or when it is shut down."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        while self.jobs:
            future, job = self.jobs.pop(0)
            future.set_result(job())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        del wait, cancel_futures
        self.run()


class LaterWorkers(SpaceAtOnce):
    def __init__(self) -> None:
        self.thread = Later()

    def executor(self, name: str) -> Executor:
        return super().executor(name) if name in AT_ONCE else self.thread
