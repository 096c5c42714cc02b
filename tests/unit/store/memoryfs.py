"""A file system in memory that tracks synced bytes, loses the rest in a crash, and fails on demand."""

from __future__ import annotations

import errno
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rocketmq_py.store.fs.filesystem import DiskUsage, FilePart, InnerFolder, write_each
from tests.folders import inner_folders

PAGE = 512
"""What a disk writes as a whole; smaller than a page of memory, so that small tests tear records too."""


class Bytes(bytearray):
    """What a mapping is to the store: slices read as bytes, views can be taken."""

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return bytes(found) if isinstance(key, slice) else found


class Node:
    """A file: what programs see, and what the disk has."""

    def __init__(self, size: int) -> None:
        self.content = Bytes(size)
        self.durable: bytes | None = None


class Nodes(dict[Path, Node]):
    """Files by path; it knows the names in each folder, since to look for them takes longer than most tests."""

    def __init__(self) -> None:
        super().__init__()
        self._names: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def names(self, folder: str) -> list[str]:
        return sorted(+self._names[folder])

    def __setitem__(self, path: Path, node: Node) -> None:
        if path not in self:
            self._count(path, 1)
        super().__setitem__(path, node)

    def __delitem__(self, path: Path) -> None:
        super().__delitem__(path)
        self._count(path, -1)

    def pop(self, path: Path, *default: Any) -> Any:
        if path not in self:
            return super().pop(path, *default)
        node = self[path]
        del self[path]
        return node

    def _count(self, path: Path, change: int) -> None:
        folder, _, name = str(path).rpartition("/")
        while name:
            self._names[folder][name] += change
            folder, _, name = folder.rpartition("/")


class MemoryFile:
    def __init__(self, fs: MemoryFileSystem, path: Path, node: Node) -> None:
        self.fs = fs
        self.path = path
        self._node = node
        fs.open_files += 1
        fs.most_open = max(fs.most_open, fs.open_files)
        self._closed = False

    @property
    def size(self) -> int:
        return len(self._node.content)

    @property
    def buffer(self) -> Bytes:
        assert not self._closed
        return self._node.content

    def is_resident(self, position: int, length: int) -> bool:
        assert not self._closed
        pages = range(position // PAGE, (position + length - 1) // PAGE + 1)
        return self.fs.resident is None or all((self.path, page) in self.fs.resident for page in pages)

    def read_if_resident(self, position: int, length: int) -> bytes | None:
        return self.read(position, length) if self.is_resident(position, length) else None

    def read(self, position: int, length: int) -> bytes:
        assert not self._closed
        return self._node.content[position : position + length]

    def write(self, position: int, data: bytes) -> None:
        assert not self._closed
        assert position + len(data) <= self.size, "a write must not grow a file"
        self.fs.check("write", self.path)
        self._node.content[position : position + len(data)] = data

    def allocate(self, position: int, length: int) -> None:
        assert position + length <= self.size
        self.fs.check("allocate", self.path)
        self.fs.allocated.append((self.path, position, length))

    def erase(self, position: int) -> None:
        self.fs.check("erase", self.path)
        self._node.content[position:] = bytes(self.size - position)

    def sync(self) -> None:
        self.fs.check("sync", self.path)
        self._node.durable = bytes(self._node.content)
        self.fs.removed.clear()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.fs.open_files -= 1


class MemoryLock:
    def __init__(self, fs: MemoryFileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path

    def release(self) -> None:
        self._fs.locked.discard(self._path)


class MemoryFileSystem:
    """Operations named in ``failing`` (``sync``, ``write``, ``allocate``, …) raise; ``open_files`` counts handles.

    The folder of the first lock is the root: what is asked of a path outside of it afterwards, or of one with ``..``,
    fails the test.

    Right before the operation number ``snapshot_at``, ``snapshot`` is called.
    """

    tells_residency = True

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.removed: dict[Path, Node] = {}
        """Files removed since the last sync, which commits what the file system did before: a crash may undo these."""
        self.locked: set[Path] = set()
        self.failing: set[str] = set()
        self.fails: Callable[[str, Path], bool] = lambda operation, path: operation in self.failing
        self.operations = 0
        self.snapshot_at = 0
        self.snapshot: Callable[[], None] = lambda: None
        self.open_files = 0
        self.most_open = 0
        self.ratio = 0.1
        self.resident: set[tuple[Path, int]] | None = None
        """The pages of files that are in memory; None: all."""
        self.allocated: list[tuple[Path, int, int]] = []
        """Parts of files for which disk space was allocated: path, position and length."""
        self.modified: dict[Path, int] = {}
        self.root: Path | None = None

    def inside(self, path: Path) -> Path:
        """``path`` itself; a test fails whose code leaves the store."""
        assert path.is_absolute()
        assert ".." not in path.parts, f"{path} leaves its folder"
        assert self.root is None or f"{path}/".startswith(f"{self.root}/"), f"{path} is not below {self.root}"
        return path

    def check(self, operation: str, path: Path) -> None:
        self.operations += 1
        if self.operations == self.snapshot_at:
            self.snapshot()
        if self.fails(operation, path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def open(self, path: Path, size: int, *, create: bool = True) -> MemoryFile:
        node = self.nodes.get(self.inside(path))
        if node is None:
            if not create:
                raise FileNotFoundError(path)
            self.check("create", path)
            node = self.nodes[path] = Node(size)
        assert len(node.content) == size, f"{path} would be resized"
        return MemoryFile(self, path, node)

    def write_parts(self, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
        return write_each(self, parts)

    def names(self, directory: Path) -> list[str]:
        return self.nodes.names(str(self.inside(directory)))

    def inner_folders(self, root: Path, length: int) -> Iterator[InnerFolder]:
        yield from inner_folders(self, root, length)

    def size(self, path: Path) -> int | None:
        return len(self.nodes[path].content) if self.inside(path) in self.nodes else None

    def modified_ms(self, path: Path) -> int:
        if self.inside(path) not in self.nodes:
            raise FileNotFoundError(path)
        return self.modified.get(path, 0)

    def is_directory(self, path: Path) -> bool:
        return self.inside(path) not in self.nodes and bool(self.names(path))

    def read(self, path: Path) -> bytes | None:
        return bytes(self.nodes[path].content) if self.inside(path) in self.nodes else None

    def load(self, path: Path, position: int, length: int) -> None:
        self.check("load", self.inside(path))
        if self.resident is not None:
            pages = range(position // PAGE, (position + length - 1) // PAGE + 1)
            self.resident.update((path, page) for page in pages)

    def write(self, path: Path, data: bytes) -> None:
        self.check("replace", self.inside(path))
        node = self.nodes[path] = Node(0)
        node.content = Bytes(data)
        node.durable = data
        self.modified[path] = max(self.modified.values(), default=0) + 1

    def sync(self, paths: Sequence[Path | str]) -> None:
        for path in map(Path, paths):
            self.check("sync", self.inside(path))
            node = self.nodes.get(path)
            if node is not None:
                node.durable = bytes(node.content)
            self.removed.clear()

    def remove(self, path: Path) -> None:
        self.check("remove", self.inside(path))
        node = self.nodes.pop(path, None)
        if node is not None:
            self.removed[path] = node

    def remove_empty(self, directory: Path) -> None:
        self.inside(directory)  # a directory is there as long as it has files

    def remove_tree(self, path: Path) -> None:
        self.inside(path)
        for one in [one for one in self.nodes if one.is_relative_to(path)]:
            self.remove(one)

    def lock(self, path: Path) -> MemoryLock:
        self.root = self.inside(path).parent
        if path in self.locked:
            raise BlockingIOError(errno.EAGAIN, "locked", str(path))
        self.locked.add(path)
        return MemoryLock(self, path)

    def used_ratio(self, path: Path) -> float:
        self.inside(path)
        return self.ratio

    def disk_usage(self, path: Path) -> DiskUsage:
        self.inside(path)
        return DiskUsage(1000, int(self.ratio * 1000), 1000 - int(self.ratio * 1000))

    # -- what a crash leaves

    def after_kill(self) -> MemoryFileSystem:
        """The process died, the machine lives: every write is there."""
        fs = MemoryFileSystem()
        for path, node in self.nodes.items():
            copy = fs.nodes[path] = Node(0)
            copy.content = Bytes(node.content)
            copy.durable = node.durable
        fs.modified = dict(self.modified)
        return fs

    def after_power_loss(
        self, chance: random.Random, page_size: Callable[[Path], int] = lambda _: PAGE
    ) -> MemoryFileSystem:
        """The machine died: of what was not synced each page is there or not, and removed files may be back.

        :param page_size: returns what the disk writes as a whole in a file.
        """
        fs = MemoryFileSystem()
        # File systems commit removals in their order, so that those that are undone are the last.
        undone = list(self.removed.items())[chance.randint(0, len(self.removed)) :]
        back = {path: node for path, node in undone if node.durable is not None}
        for path, node in (back | self.nodes).items():
            if node.durable is None and chance.random() < 0.3:
                continue
            content = Bytes(node.durable if node.durable is not None else bytes(len(node.content)))
            page = page_size(path)
            for at in range(0, len(content), page):
                fresh = node.content[at : at + page]
                if chance.random() < 0.5:
                    content[at : at + page] = fresh
            copy = fs.nodes[path] = Node(0)
            copy.content = content
            copy.durable = bytes(content)
        fs.modified = dict(self.modified)
        return fs
