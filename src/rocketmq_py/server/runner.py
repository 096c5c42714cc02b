"""Running a program around an event loop: the fastest loop there is, and an orderly end on a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from rocketmq_py.accelerator import VARIABLE, installed, is_wanted
from rocketmq_py.server.file_limit import LoopFaults, raise_limit


class Service(Protocol):
    """What can be started and stopped."""

    async def start(self) -> Any: ...

    async def stop(self) -> None: ...


T = TypeVar("T")
S = TypeVar("S", bound=Service)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(main: Coroutine[Any, Any, T]) -> T | None:
    """Run ``main`` to its end on uvloop where that is installed, on asyncio's own loop otherwise.

    SIGTERM and SIGINT cancel it, so that its ``finally`` blocks and context managers end what was started; the result
    is None then. As many files may be open as the system grants.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_until_signalled(main))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, or None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def speedups() -> str:
    """Which event loop and which compiled code a server uses, for its log."""
    loop = "uvloop" if loop_factory() is not None else "asyncio (uvloop, extra [fast], is not installed)"
    if installed() is not None:
        return f"event loop: {loop}; accelerator: rocketmq-py-native"
    why = "is not installed" if is_wanted(os.environ) else f"is turned off by {VARIABLE}=0"
    return f"event loop: {loop}; accelerator: none (rocketmq-py-native, extra [native], {why})"


@asynccontextmanager
async def started(service: S) -> AsyncIterator[S]:
    """Start a service and stop it at the end, also when its start fails half way."""
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


async def _until_signalled(main: Coroutine[Any, Any, T]) -> T | None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopFaults(raise_limit()))
    task = loop.create_task(main)
    signalled = False

    def end() -> None:
        nonlocal signalled
        if not signalled:  # a second signal must not interrupt the orderly end
            signalled = True
            task.cancel()

    for number in _SIGNALS:
        _on_signal(loop, number, end)
    try:
        return await task
    except asyncio.CancelledError:
        if not signalled:
            raise
        return None


def _on_signal(loop: asyncio.AbstractEventLoop, number: signal.Signals, callback: Callable[[], None]) -> None:
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:  # Windows' loops: a plain handler, which the loop is woken for
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))
