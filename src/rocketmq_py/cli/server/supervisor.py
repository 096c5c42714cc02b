"""Several brokers of one cluster, each a process, started and watched by ``rocketmq serve --brokers N``.

A broker that ends is started again with its store and port. Brokers stop when their standard input ends, so they also
stop if this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TextIO

from rocketmq_py.cli.server.broker_plan import PlannedBroker
from rocketmq_py.core.backoff import Backoff
from rocketmq_py.errors import ConfigError

_log = logging.getLogger(__name__)

_RESTARTS = Backoff(first_seconds=0.5, max_seconds=30.0)

_STABLE_SECONDS = 60.0
"""A broker that ran this long starts again without a long pause."""

_REMINDER_SECONDS = 10.0
"""Between two log lines about a broker that takes long to stop."""

Command = Callable[[PlannedBroker], Sequence[str]]
"""Returns the command line that runs a broker."""


class BrokerProcess:
    """A broker as a child process.

    :param planned: its name, store and ports.
    :param command: returns its command line.
    """

    def __init__(self, planned: PlannedBroker, command: Command) -> None:
        self.planned = planned
        self.address = ""
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it accepts connections; later starts use the same port.

        :raises ConfigError: it ended before that. Its own error is on standard error.
        """
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command(self.planned), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"^READY .*\bbroker=(\S+)", line)
        if found is None:
            status = await self._end(process)
            raise ConfigError(f"{self.planned.name} did not start (exit status {status}); its error is printed above")
        self.address = found.group(1)
        self.planned = self.planned._replace(port=int(self.address.rpartition(":")[2]))

    async def keep_running(self) -> None:
        """Start the process again whenever it ends, until this is cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            status = await self._wait()
            failures = 1 if time.monotonic() - began > _STABLE_SECONDS else failures + 1
            pause = _RESTARTS.seconds(failures, random.random())
            _log.error("%s ended with status %s and is started again in %.1f s", self.planned.name, status, pause)
            await asyncio.sleep(pause)
            try:
                await self.start()
            except ConfigError as e:
                _log.error("%s", e)
            else:
                _log.warning("%s accepts connections again", self.planned.name)

    async def stop(self) -> None:
        """Stop the process and wait for its end. May be called more than once."""
        process = self._process
        if process is None:
            return
        ended = asyncio.ensure_future(self._end(process))
        while not (await asyncio.wait([ended], timeout=_REMINDER_SECONDS))[0]:
            _log.warning("waiting for %s (process %d) to stop", self.planned.name, process.pid)

    async def _wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        while await self._process.stdout.readline():
            pass  # a full pipe would block the broker
        return await self._process.wait()

    @staticmethod
    async def _end(process: asyncio.subprocess.Process) -> int:
        if process.stdin is not None:
            process.stdin.close()
        assert process.stdout is not None
        while await process.stdout.readline():
            pass
        return await process.wait()


@contextlib.asynccontextmanager
async def running(brokers: Sequence[PlannedBroker], command: Command) -> AsyncIterator[list[BrokerProcess]]:
    """Run brokers as processes and keep them running; they are stopped together at the end.

    :raises ConfigError: one of them did not start; the others are stopped.
    """
    processes = [BrokerProcess(planned, command) for planned in brokers]
    watchers: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(process.start())
        watchers = [asyncio.create_task(process.keep_running()) for process in processes]
        yield processes
    except* ConfigError as errors:
        raise errors.exceptions[0] from None
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        await asyncio.gather(*(process.stop() for process in processes))


def python_command() -> list[str]:
    """The start of a command line that runs this program in the same interpreter."""
    return [sys.executable, "-m", "rocketmq_py.cli"]


async def end_of_input(stream: TextIO) -> None:
    """Wait until a stream ends; what it contains is ignored.

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
