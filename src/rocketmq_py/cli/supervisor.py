"""Start, restart and stop child processes: the brokers of ``serve``, the consumers of ``consume``.

A process that ends is started again. Processes stop when their standard input is closed, so they also stop if this
process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TextIO

from rocketmq_py.core.backoff import Backoff
from rocketmq_py.errors import ConfigError

_log = logging.getLogger(__name__)

_RESTARTS = Backoff(first_seconds=0.5, max_seconds=30.0)

_STABLE_SECONDS = 60.0
"""A process that ran for longer than this is restarted with the shortest pause, as after a first failure."""

_REMINDER_SECONDS = 10.0
"""Interval of log lines about a process that takes long to stop."""


async def _launch(command: Sequence[str]) -> asyncio.subprocess.Process:
    """Start a process with pipes as standard input and output, in a session of its own, which no Ctrl-C reaches."""
    return await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


class ChildProcess:
    """A child process, which prints a line that begins with READY once it has started up.

    :param name: name of the process in log lines and errors.
    :param command: returns the command line; called for each start.
    :param on_ready: called with the READY line after each start.
    :param launch: starts a command line, with pipes as standard input and output.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        on_ready: Callable[[str], None] = lambda _: None,
        *,
        launch: Callable[[Sequence[str]], Awaitable[asyncio.subprocess.Process]] = _launch,
    ) -> None:
        self.name = name
        self._command = command
        self._on_ready = on_ready
        self._launch = launch
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and wait for its READY line.

        :raises ConfigError: the process ended before that line; it prints its error to standard error itself.
        """
        self._process = process = await self._launch(self._command())
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if not line.startswith("READY"):
            status = await self._end(process)
            raise ConfigError(f"{self.name} did not start (exit status {status}); its error is printed above")
        self._on_ready(line)

    async def keep_running(self) -> None:
        """Restart the process whenever it ends, after a growing pause; runs until cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            status = await self._wait()
            failures = 1 if time.monotonic() - began > _STABLE_SECONDS else failures + 1
            pause = _RESTARTS.seconds(failures, random.random())
            _log.error("%s ended with status %s and is started again in %.1f s", self.name, status, pause)
            await asyncio.sleep(pause)
            try:
                await self.start()
            except ConfigError as e:
                _log.error("%s", e)
            else:
                _log.warning("%s is ready again", self.name)

    async def stop(self) -> None:
        """Close the process's standard input, which stops it, and wait for its end; may be called more than once."""
        process = self._process
        if process is None:
            return
        ended = asyncio.ensure_future(self._end(process))
        while not (await asyncio.wait([ended], timeout=_REMINDER_SECONDS))[0]:
            _log.warning("waiting for %s (process %d) to stop", self.name, process.pid)

    async def _wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        while await self._process.stdout.readline():
            pass  # a full pipe would block the process
        return await self._process.wait()

    @staticmethod
    async def _end(process: asyncio.subprocess.Process) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        while await process.stdout.readline():
            pass
        return await process.wait()


@contextlib.asynccontextmanager
async def running(processes: Sequence[ChildProcess]) -> AsyncIterator[None]:
    """Start processes and restart those that end, for the duration of the block; then stop all of them.

    :raises ConfigError: a process did not start; the others are stopped.
    """
    watchers: list[asyncio.Task[None]] = []
    try:
        await _start(processes)
        watchers = [asyncio.create_task(process.keep_running()) for process in processes]
        yield
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        await asyncio.gather(*(process.stop() for process in processes))


async def _start(processes: Sequence[ChildProcess]) -> None:
    """Start processes at the same time.

    :raises ConfigError: one did not start.
    """
    failures: list[Exception] = []
    try:
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(process.start())
    except* ConfigError as errors:
        failures.extend(errors.exceptions)  # raised here, it would be in a group before Python 3.11.4
    if failures:
        raise failures[0]


def python_command() -> list[str]:
    """Return the first words of a command line that runs ``rocketmq`` with the same Python interpreter."""
    return [sys.executable, "-m", "rocketmq_py.cli"]


async def end_of_input(stream: TextIO) -> None:
    """Wait until the other side closes a stream; its contents are ignored.

    A thread reads it, because not every event loop can read every kind of standard input.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(stream.fileno(), 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, name="end-of-input", daemon=True).start()
    await ended.wait()
