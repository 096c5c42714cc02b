"""A read-only file system for the offline tools: every operation that would change a file raises an error.

It implements the same interface as :mod:`rocketmq_py.store.fs.os_files`, so that the store's readers work on it.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rocketmq_py.store.fs.filesystem import FilePart
from rocketmq_py.store.fs.os_files import OsFile, OsFileSystem, OsLock

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_OPEN = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _refuse(path: Path | str) -> NoReturn:
    raise PermissionError(f"{path} is opened read-only")


class UnchangingFile:
    """The methods of :class:`rocketmq_py.store.fs.filesystem.File` that change a file: each raises an error."""

    path: Path

    def write(self, position: int, data: bytes | bytearray | memoryview) -> NoReturn:
        del position, data
        _refuse(self.path)

    def allocate(self, position: int, length: int) -> NoReturn:
        del position, length
        _refuse(self.path)

    def erase(self, position: int) -> NoReturn:
        del position
        _refuse(self.path)

    def sync(self) -> NoReturn:
        _refuse(self.path)


class ReadOnlyFile(UnchangingFile, OsFile):
    """A read-only file; see :class:`rocketmq_py.store.fs.filesystem.File`."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(path, size, _OPEN)

    def _fit(self) -> None:
        """Do nothing: the file keeps its size."""

    @property
    def buffer(self) -> mmap.mmap:
        if self._map is None:
            self._map = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        return self._map


class UnchangingFileSystem:
    """The methods of :class:`rocketmq_py.store.fs.filesystem.FileSystem` that change files: each raises an error."""

    def write(self, path: Path, data: bytes) -> NoReturn:
        del data
        _refuse(path)

    def write_parts(self, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
        for part in parts:
            _refuse(part.path)
        return 0, None

    def sync(self, paths: Sequence[Path | str]) -> None:
        if paths:
            _refuse(paths[0])

    def remove(self, path: Path) -> NoReturn:
        _refuse(path)

    def remove_empty(self, directory: Path) -> NoReturn:
        _refuse(directory)

    def remove_tree(self, path: Path) -> NoReturn:
        _refuse(path)


class ReadOnlyFileSystem(UnchangingFileSystem, OsFileSystem):
    """Files of this machine, opened read-only."""

    def open(self, path: Path, size: int, *, create: bool = False) -> ReadOnlyFile:
        del create
        return ReadOnlyFile(path, size)

    def lock(self, path: Path) -> OsLock:
        """Take a shared lock on an existing file: it excludes brokers, but no other tools.

        :raises FileNotFoundError: no broker has ever used this store.
        :raises BlockingIOError: a broker is using it.
        """
        fd = os.open(path, _OPEN)
        try:
            _lock_shared(fd)
        except OSError as e:
            os.close(fd)
            raise BlockingIOError(*e.args) from e
        return OsLock(fd)


def _lock_shared(fd: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
