"""A file system in memory that notes each read on the event loop that would have to wait for the disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from rocketmq_py.store import Workers
from tests.unit.store.memoryfs import PAGE, Bytes, MemoryFile, MemoryFileSystem, Node


class WatchedBytes(Bytes):
    """The content of a file: reads are noted, and written pages are in memory."""

    fs: ColdFileSystem
    path: Path

    def __getitem__(self, key):
        if isinstance(key, slice):
            self.fs.note_read(self.path, range(*key.indices(len(self))))
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if isinstance(key, slice):
            self.fs.note_write(self.path, range(*key.indices(len(self))))


class ColdFileSystem(MemoryFileSystem):
    """After :meth:`chill` nothing is in memory; ``cold_reads`` has the reads that were not loaded before.

    Reads through views of a mapping are not noted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cold_reads: list[tuple[str, int]] = []

    def open(self, path: Path, size: int, *, create: bool = True) -> MemoryFile:
        file = super().open(path, size, create=create)
        node = self.nodes[path]
        if not isinstance(node.content, WatchedBytes):
            node.content = WatchedBytes(node.content)
            node.content.fs, node.content.path = self, path
        return file

    def chill(self) -> None:
        """Drop everything from memory, as after a restart of the machine."""
        self.resident = set()
        self.cold_reads.clear()

    def copy(self, root: Path, other: Path) -> ColdFileSystem:
        """Another one with the files below ``root`` below ``other``, everything in memory; nothing must be open."""
        fs = ColdFileSystem()
        for path, node in self.nodes.items():
            copied = fs.nodes[other / path.relative_to(root)] = Node(0)
            copied.content, copied.durable = Bytes(node.content), node.durable
        fs.modified = {other / path.relative_to(root): number for path, number in self.modified.items()}
        return fs

    def note_read(self, path: Path, at: range) -> None:
        if self.resident is not None and any((path, page) not in self.resident for page in _pages(at)):
            self.cold_reads.append((f"{path.parent.name}/{path.name}", at.start))

    def note_write(self, path: Path, at: range) -> None:
        if self.resident is not None:
            self.resident.update((path, page) for page in _pages(at))


def _pages(at: range) -> range:
    return range(at.start // PAGE, (at.stop - 1) // PAGE + 1) if at else range(0)


class ByHand(Executor):
    """A thread whose work is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        return future

    def finish(self) -> None:
        """Do the oldest piece of work."""
        future, work = self.work.pop(0)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except OSError as e:
            future.set_exception(e)


class HandWorkers(Workers):
    """Threads of a store, of which those named ``by_hand`` do their work when the test says so."""

    def __init__(self, *by_hand: str) -> None:
        self.threads = {f"rocketmq-{name}": ByHand() for name in by_hand}

    def executor(self, name: str) -> Executor:
        return self.threads.get(name) or super().executor(name)
