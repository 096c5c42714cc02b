"""Run a program in an event loop: on uvloop if it is installed, with an orderly shutdown on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sysconfig
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from rocketmq_py.accelerator import VARIABLE, installed, is_wanted
from rocketmq_py.server.allocator import keep_freed_memory
from rocketmq_py.server.file_limit import LoopFaults, raise_limit


class Service(Protocol):
    """An object with the coroutine methods ``start`` and ``stop``."""

    async def start(self) -> Any: ...

    async def stop(self) -> None: ...


T = TypeVar("T")
S = TypeVar("S", bound=Service)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(main: Coroutine[Any, Any, T]) -> T | None:
    """Run ``main`` to its end, on uvloop if it is installed, otherwise on asyncio's own loop; return its result.

    SIGTERM and SIGINT cancel it, so that its ``finally`` blocks and context managers stop what it has started; None is
    returned then. The process's limit of open files is raised to the hard limit, and its C library keeps freed memory.
    """
    keep_freed_memory(os.environ)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_until_signalled(main))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops; None, which stands for asyncio's own, if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def speedups() -> str:
    """Describe for the log which event loop, accelerator (compiled code) and build of Python a server uses."""
    loop = "uvloop" if loop_factory() is not None else "asyncio (uvloop, extra [fast], is not installed)"
    python = f"Python {platform.python_version()}{_build()}"
    if installed() is not None:
        return f"event loop: {loop}; accelerator: rocketmq-py-native; {python}"
    why = "is not installed" if is_wanted(os.environ) else f"is turned off by {VARIABLE}=0"
    return f"event loop: {loop}; accelerator: none (rocketmq-py-native, extra [native], {why}); {python}"


def _build() -> str:
    """Tell whether this Python was compiled with profile-guided optimisation; empty if that cannot be known.

    Python on Windows has no record of its build. Debian optimises without the option, and removes the compiler flag
    from the record.
    """
    options, flag = (sysconfig.get_config_var(name) for name in ("CONFIG_ARGS", "PGO_PROF_USE_FLAG"))
    if not options:
        return ""
    if "--enable-optimizations" in options:
        return ", an optimised build"
    return ", not an optimised build (--enable-optimizations)" if flag else ""


@asynccontextmanager
async def started(service: S) -> AsyncIterator[S]:
    """Start a service for the time of an ``async with`` block, and stop it afterwards, also if its start fails."""
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
        if not signalled:  # a second signal must not interrupt the shutdown
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
    except NotImplementedError:  # Windows' loops: a plain signal handler wakes the loop
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))
