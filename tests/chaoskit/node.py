"""A name server or broker as a process of its own whose clock and disk a test commands.

``python -m tests.chaoskit.node broker --set listenPort=0 …`` is ``rocketmq serve --namesrv`` with the same keys,
``… node namesrv …`` is ``rocketmq namesrv``. It says READY when it serves, takes commands on standard input, a line
each, and answers each with OK once it holds:

- ``clock MS``: its wall clock shows so many milliseconds more than the machine's, or less.
- ``disk full``, ``disk free``: its disk has no room for anything new, or has some again.
- ``locks MS``: locks of queues that are consumed in order live so long after their last renewal.

It ends in good order on SIGTERM and when its standard input ends, that is, with the test that started it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM

import click

from rocketmq_py.broker import Broker, configure
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.cli.server.logs import log_as
from rocketmq_py.cli.server.settings import assigned, ready
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.server.runner import run, started
from rocketmq_py.store.fs.filesystem import Buffer, File
from rocketmq_py.store.fs.os_files import OsFile, OsFileSystem


class ShiftedClock:
    """The machine's wall clock and so many milliseconds."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def __call__(self) -> int:
        return wall_clock() + self.shift_ms


class FullDiskFileSystem(OsFileSystem):
    """Files of this machine, on a disk that is full when a test says so.

    As on a full disk, what has room already may be written again; nothing new is made and nothing grows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def check(self, path: Path) -> None:
        """Nothing where there is room.

        :raises OSError: the disk is full.
        """
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def open(self, path: Path, size: int, *, create: bool = True) -> File:  # type: ignore[override]
        if create and not path.exists():
            self.check(path)
        return _FullDiskFile(super().open(path, size, create=create), self)

    def write(self, path: Path, data: bytes) -> None:
        self.check(path)
        super().write(path, data)

    def used_ratio(self, path: Path) -> float:
        return 1.0 if self.is_full else min(super().used_ratio(path), 0.5)  # whatever this machine's disk is like


class _FullDiskFile:
    """A file whose unwritten parts cannot be had while the disk is full."""

    def __init__(self, file: OsFile, disk: FullDiskFileSystem) -> None:
        self._file = file
        self._disk = disk
        self.path, self.size = file.path, file.size
        self.read, self.erase, self.sync, self.close = file.read, file.erase, file.sync, file.close
        self.is_resident, self.read_if_resident = file.is_resident, file.read_if_resident

    @property
    def buffer(self) -> Buffer:
        return self._file.buffer

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self._disk.check(self.path)
        self._file.write(position, data)

    def allocate(self, position: int, length: int) -> None:
        self._disk.check(self.path)
        self._file.allocate(position, length)


class Node:
    """What runs here, and what a test may do to it."""

    def __init__(self) -> None:
        self.clock = ShiftedClock()
        self.disk = FullDiskFileSystem()
        self._broker: Broker | None = None

    async def broker(self, settings: dict[str, str]) -> None:
        """Run a broker until cancelled."""
        broker = self._broker = Broker(*configure(settings), clock=self.clock, fs=self.disk)
        async with started(broker):
            await self._serve(namesrv=broker.config.namesrv_addr, broker=broker.address)

    async def namesrv(self, settings: dict[str, str]) -> None:
        """Run a name server until cancelled."""
        async with started(NameServer(NamesrvConfig.checked(settings), clock=self.clock)) as server:
            await self._serve(namesrv=server.address)

    async def _serve(self, **addresses: str) -> None:
        loop = asyncio.get_running_loop()
        execute: Callable[[str], object] = lambda line: loop.call_soon_threadsafe(self._execute, line)  # noqa: E731
        threading.Thread(target=_listen, args=(execute,), daemon=True).start()
        ready(**addresses)
        await asyncio.Event().wait()

    def _execute(self, line: str) -> None:
        match line.split():
            case ["clock", shift]:
                self.clock.shift_ms = int(shift)
            case ["disk", ("full" | "free") as state]:
                self.disk.is_full = state == "full"
            case ["locks", lives] if self._broker is not None:
                self._broker.services.locks.max_live_ms = int(lives)
            case _:
                click.echo(f"NO {line!r} is no command")
                return
        click.echo("OK")


def _listen(execute: Callable[[str], object]) -> None:
    for line in sys.stdin:
        execute(line)
    os.kill(os.getpid(), SIGTERM)


@click.command()
@click.argument("kind", type=click.Choice(["broker", "namesrv"]))
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="A key of broker.conf or namesrv.conf.")
def main(kind: str, assignments: tuple[str, ...]) -> None:
    """Run a broker or a name server whose clock and disk are commanded on standard input."""
    log_as(None, "text")
    node = Node()
    run((node.broker if kind == "broker" else node.namesrv)(assigned(assignments)))


if __name__ == "__main__":
    main()
