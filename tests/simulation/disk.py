"""Disks in memory: what programs see and what a power loss leaves, and the threads that wait for them as steps.

Like ``tests/unit/store/memoryfs.py``, which fails on demand and checks every path, but quick: a schedule starts several
brokers.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from rocketmq_py.store import Workers
from rocketmq_py.store.fs.filesystem import DiskUsage, FilePart, InnerFolder, write_each
from rocketmq_py.store.log.flusher import Flusher
from tests.folders import inner_folders

PAGE = 512


class Bytes(bytearray):
    """What a mapping is to the store: slices read as bytes, views can be taken."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return bytes(found) if isinstance(key, slice) else found


class Node:
    """A file: what programs see, and what the disk has."""

    __slots__ = ("content", "durable")

    def __init__(self, content: bytes | int) -> None:
        self.content = Bytes(content)
        self.durable: bytes | None = None


class DiskFile:
    def __init__(self, path: Path, node: Node) -> None:
        self.path = path
        self.buffer = node.content
        self.size = len(node.content)
        self._node = node

    def is_resident(self, position: int, length: int) -> bool:
        return True

    def read_if_resident(self, position: int, length: int) -> bytes | None:
        return self.read(position, length)

    def read(self, position: int, length: int) -> bytes:
        return bytes(memoryview(self.buffer)[position : position + length])

    def write(self, position: int, data: bytes) -> None:
        assert position + len(data) <= self.size, "a write must not grow a file"
        memoryview(self.buffer)[position : position + len(data)] = data

    def allocate(self, position: int, length: int) -> None:
        assert position + length <= self.size

    def erase(self, position: int) -> None:
        memoryview(self.buffer)[position:] = bytes(self.size - position)

    def sync(self) -> None:
        self._node.durable = bytes(self.buffer)

    def close(self) -> None: ...


class Disk:
    """The files of one broker's machine; see :class:`rocketmq_py.store.fs.filesystem.FileSystem`."""

    tells_residency = True

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._below: dict[str, dict[str, None]] = {}
        self._locked: set[str] = set()

    def _put(self, path: Path, node: Node) -> None:
        text = str(path)
        if text not in self.nodes:
            while True:
                parent, _, name = text.rpartition("/")
                names = self._below.setdefault(parent, {})
                if name in names or not parent:
                    break
                names[name] = None
                text = parent
        self.nodes[str(path)] = node

    def open(self, path: Path, size: int, *, create: bool = True) -> DiskFile:
        node = self.nodes.get(str(path))
        if node is None:
            if not create:
                raise FileNotFoundError(path)
            node = Node(size)
            self._put(path, node)
        assert len(node.content) == size, f"{path} would be resized"
        return DiskFile(path, node)

    def write_parts(self, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
        return write_each(self, parts)

    def names(self, directory: Path) -> list[str]:
        return sorted(self._below.get(str(directory), ()))

    def inner_folders(self, root: Path, length: int) -> Iterator[InnerFolder]:
        yield from inner_folders(self, root, length)

    def size(self, path: Path) -> int | None:
        node = self.nodes.get(str(path))
        return None if node is None else len(node.content)

    def modified_ms(self, path: Path) -> int:
        if str(path) not in self.nodes:
            raise FileNotFoundError(path)
        return 0

    def is_directory(self, path: Path) -> bool:
        return str(path) in self._below

    def read(self, path: Path) -> bytes | None:
        node = self.nodes.get(str(path))
        return None if node is None else bytes(node.content)

    def load(self, path: Path, position: int, length: int) -> None: ...

    def write(self, path: Path, data: bytes) -> None:
        node = Node(data)
        node.durable = bytes(data)
        self._put(path, node)

    def sync(self, paths: Sequence[Path | str]) -> None:
        for path in map(Path, paths):
            node = self.nodes.get(str(path))
            if node is not None:
                node.durable = bytes(node.content)

    def remove(self, path: Path) -> None:
        if self.nodes.pop(str(path), None) is not None:
            self._unlist(str(path))

    def _unlist(self, text: str) -> None:
        parent, _, name = text.rpartition("/")
        self._below[parent].pop(name, None)
        if not self._below[parent]:
            del self._below[parent]
            if parent.rpartition("/")[0] in self._below:
                self._unlist(parent)

    def remove_empty(self, directory: Path) -> None:
        pass  # a directory is there as long as it has files

    def remove_tree(self, path: Path) -> None:
        for one in [one for one in self.nodes if one.startswith(f"{path}/") or one == str(path)]:
            self.remove(Path(one))

    def lock(self, path: Path) -> DiskLock:
        if str(path) in self._locked:
            raise BlockingIOError(errno.EAGAIN, "locked", str(path))
        self._locked.add(str(path))
        return DiskLock(self._locked, str(path))

    def used_ratio(self, _: Path) -> float:
        return 0.1

    def disk_usage(self, _: Path) -> DiskUsage:
        return DiskUsage(1000, 100, 900)

    # -- what a crash leaves

    def after_kill(self) -> Disk:
        """The process died, the machine lives: every write is there."""
        return self._with({path: (bytes(node.content), node.durable) for path, node in self.nodes.items()})

    def after_power_loss(self, chance: random.Random) -> Disk:
        """The machine died: of what was not synced each page is there or not."""
        left: dict[str, tuple[bytes, bytes | None]] = {}
        for path, node in self.nodes.items():
            if node.durable == node.content:
                left[path] = node.durable, node.durable
                continue
            if node.durable is None and chance.random() < 0.3:
                continue
            content = bytearray(node.durable if node.durable is not None else bytes(len(node.content)))
            for at in range(0, len(content), PAGE):
                fresh = node.content[at : at + PAGE]
                if fresh != content[at : at + PAGE] and chance.random() < 0.5:
                    content[at : at + PAGE] = fresh
            left[path] = bytes(content), bytes(content)
        return self._with(left)

    @staticmethod
    def _with(files: dict[str, tuple[bytes, bytes | None]]) -> Disk:
        disk = Disk()
        for path, (content, durable) in files.items():
            node = Node(content)
            node.durable = durable
            disk._put(Path(path), node)
        return disk


class DiskLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked, self._path = locked, path

    def release(self) -> None:
        self._locked.discard(self._path)


class StepFlusher(Flusher):
    """The flush thread as steps of the event loop; a step comes when the disk is done."""

    def __init__(self, sync: Callable[[int, int], None], flushed: int, delay: Callable[[], float]) -> None:
        self._delay = delay
        self._is_due = False
        super().__init__(sync, flushed)

    def _begin(self) -> None: ...

    def request(self, end: int, then: Callable[[], None] | None = None) -> None:
        super().request(end, then)
        self._soon()

    def wait(self, end: int) -> asyncio.Future[None] | None:
        future = super().wait(end)
        if future is not None and self.failure is not None:
            self._soon()
        return future

    def complete(self, end: int) -> None:
        super().request(end)
        self._turn()

    def stop(self) -> None:
        self._stopping = True
        while self._has_work():
            self._turn()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._delay(), self._step)

    def _step(self) -> None:
        self._is_due = False
        self._turn()
        if self._has_work():
            self._soon()


class StepExecutor(Executor):
    """One job after the other, each when the disk is done."""

    def __init__(self, delay: Callable[[], float]) -> None:
        self._delay = delay
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.append((future, lambda: fn(*args, **kwargs)))
        if len(self._jobs) == 1:
            asyncio.get_running_loop().call_later(self._delay(), self._step)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self._jobs:
            self._next()

    def _step(self) -> None:
        if self._jobs:
            self._next()
        if self._jobs:
            asyncio.get_running_loop().call_later(self._delay(), self._step)

    def _next(self) -> None:
        future, job = self._jobs.popleft()
        try:
            future.set_result(job())
        except Exception as e:  # noqa: BLE001 - whoever submitted it gets it
            future.set_exception(e)


class Steps(Workers):
    """What runs blocking work of one broker.

    :param delay: returns how long the disk takes.
    """

    def __init__(self, delay: Callable[[], float]) -> None:
        self._delay = delay

    def executor(self, name: str) -> Executor:
        return StepExecutor(self._delay)

    def flusher(self, sync: Callable[[int, int], None], flushed: int) -> Flusher:
        return StepFlusher(sync, flushed, self._delay)
