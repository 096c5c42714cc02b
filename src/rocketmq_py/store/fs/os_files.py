"""The operating system's implementation of :class:`~rocketmq_py.store.fs.filesystem.FileSystem`.

It uses preallocation, data-only syncs and advisory locks where the platform has them. Correctness does not depend on
them.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.store.fs import mapped_pages
from rocketmq_py.store.fs.filesystem import DiskUsage, FilePart, InnerFolder, write_each

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_BINARY = getattr(os, "O_BINARY", 0)
_OPEN = os.O_RDWR | _BINARY | getattr(os, "O_CLOEXEC", 0)
_CREATE = _OPEN | os.O_CREAT
_SYNC_COVERS_MAPPING = sys.platform.startswith("linux")
_MANY = 64
_CAN_TRY = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP)
_SCRATCH = bytearray(256 * 1024)
"""Buffer for reads that only check whether bytes are in memory; its content is not used."""
_LOADED_AT_ONCE = 1024 * 1024
_CAN_DROP = sys.platform == "linux" and hasattr(mmap, "MADV_DONTNEED")
_DROPPED_AT_ONCE = 16 * 1024 * 1024
_LOCK_CONTENT = b"lock"


class OsFile:
    """A fixed-size file of the operating system; see :class:`rocketmq_py.store.fs.filesystem.File`."""

    def __init__(self, path: Path, size: int, flags: int) -> None:
        self.path = path
        self.size = size
        self._fd = os.open(path, flags, 0o644)
        self._map: mmap.mmap | None = None
        self._address = 0  # of the mapping; 0 if it is not known
        self._seek_lock = threading.Lock()
        try:
            self._fit()
        except OSError:
            os.close(self._fd)
            raise

    def _fit(self) -> None:
        if os.fstat(self._fd).st_size != self.size:
            os.ftruncate(self._fd, self.size)

    @property
    def buffer(self) -> mmap.mmap:
        if self._map is None:
            self._map = mmap.mmap(self._fd, self.size)
            self._address = mapped_pages.address_of(self._map) if mapped_pages.CAN_TELL else 0
        return self._map

    def read(self, position: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._fd, length, position)
        with self._seek_lock:  # Windows
            os.lseek(self._fd, position, os.SEEK_SET)
            return os.read(self._fd, length)

    def read_if_resident(self, position: int, length: int) -> bytes | None:
        if not _CAN_TRY:
            return None
        found = bytearray(length)
        try:
            done = os.preadv(self._fd, [found], position, os.RWF_NOWAIT)
        except OSError as e:
            return self.read(position, length) if e.errno in _UNSUPPORTED else None  # as in is_resident
        return bytes(found) if done == length else None

    def is_resident(self, position: int, length: int) -> bool:
        if not _CAN_TRY:
            return False
        end = min(position + length, self.size)
        if self._address and position < end:
            resident = mapped_pages.are_resident(self._address + position, end - position)
            if resident is not None:
                return resident
        try:
            while position < end:
                room = memoryview(_SCRATCH)[: end - position]
                done = os.preadv(self._fd, [room], position, os.RWF_NOWAIT)
                if not done:
                    return False
                position += done
        except OSError as e:
            # tmpfs does not support RWF_NOWAIT, and its files are in memory. Other such file systems count as tmpfs.
            return e.errno in _UNSUPPORTED
        return True

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        done = self._write_some(position, data) if data else 0
        while done < len(data):  # seldom
            done += self._write_some(position + done, memoryview(data)[done:])

    def _write_some(self, position: int, view: bytes | bytearray | memoryview) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self._fd, view, position)
        if self._map is not None:  # Windows: the mapping may not show writes to the descriptor
            self._map[position : position + len(view)] = view
            return len(view)
        with self._seek_lock:
            os.lseek(self._fd, position, os.SEEK_SET)
            return os.write(self._fd, view)

    def allocate(self, position: int, length: int) -> None:
        # Without this function (macOS, Windows) the file is sparse, and a full disk is noticed only by a later write.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, position, length)

    def erase(self, position: int) -> None:
        self._unmap()
        os.ftruncate(self._fd, position)
        os.ftruncate(self._fd, self.size)

    def sync(self) -> None:
        # On Linux a sync of the descriptor covers pages written through the mapping; elsewhere there is no guarantee.
        if _SYNC_COVERS_MAPPING:
            os.fdatasync(self._fd)
        else:
            if self._map is not None:
                self._map.flush()
            os.fsync(self._fd)

    def _unmap(self) -> None:
        if self._map is not None:
            _drop_pages(self._map)
            # A response being sent may hold a view; the mapping is released with its last view.
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map, self._address = None, 0

    def close(self) -> None:
        self._unmap()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _drop_pages(mapped: mmap.mmap) -> None:
    """Take the pages of a mapped file out of the process, piece by piece; they stay in the page cache.

    The end of a mapping does that at once and holds the GIL for it: 84 ms for 1 GiB of pages of 4 KiB. This function
    may be called in any thread, and lets others run between two pieces.
    """
    if _CAN_DROP:
        for begin in range(0, len(mapped), _DROPPED_AT_ONCE):
            mapped.madvise(mmap.MADV_DONTNEED, begin, min(_DROPPED_AT_ONCE, len(mapped) - begin))


class OsLock:
    """A lock on a file, held by this process until :meth:`release`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OsFileSystem:
    """Files of this machine; see :class:`rocketmq_py.store.fs.filesystem.FileSystem`.

    :param accelerator: writes many files at once; None for Python functions only.
    """

    def __init__(self, accelerator: Accelerator | None = None) -> None:
        self._accelerator = accelerator

    @property
    def tells_residency(self) -> bool:
        return _CAN_TRY

    def open(self, path: Path, size: int, *, create: bool = True) -> OsFile:
        try:
            return OsFile(path, size, _CREATE if create else _OPEN)
        except FileNotFoundError:
            if not create:
                raise
            _make_folders(os.path.dirname(path))  # noqa: PTH120 - paths of ten thousand new queues cost a second
            return OsFile(path, size, _CREATE)

    def write_parts(self, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
        if self._accelerator is None:
            return write_each(self, parts)
        return self._accelerator.write_parts(list(parts))

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - paths of ten thousand queues cost more than reading them
        except FileNotFoundError:
            return []

    def inner_folders(self, root: Path, length: int) -> Iterator[InnerFolder]:
        for outer in self.names(root):
            folder = f"{root}{os.sep}{outer}"
            for name in _listed(folder) or ():
                yield _inner_folder(outer, name, f"{folder}{os.sep}{name}", length)

    def size(self, path: Path) -> int | None:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def load(self, path: Path, position: int, length: int) -> None:
        with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            file.seek(position)
            while length > 0 and (read := file.read(min(length, _LOADED_AT_ONCE))):
                length -= len(read)

    def write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".tmp")
        with self._create(fresh) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        _sync_directory(path.parent)

    def _create(self, path: Path) -> BinaryIO:
        """Open a new file for writing, or an existing one emptied."""
        return path.open("wb")

    def sync(self, paths: Sequence[Path | str]) -> None:
        if len(paths) > _MANY and _SYNC_COVERS_MAPPING:
            os.sync()  # blocks on Linux; one journal commit instead of one for each of thousands of files
            return
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(path, _OPEN)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_empty(self, directory: Path) -> None:
        try:
            directory.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            # The error number for a directory that is not empty differs between platforms.
            if not self.names(directory):
                raise

    def remove_tree(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def lock(self, path: Path) -> OsLock:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, _CREATE, 0o644)
        try:
            _lock_descriptor(fd)
        except OSError as e:
            os.close(fd)
            raise BlockingIOError(*e.args) from e
        with contextlib.suppress(OSError):  # the content has no meaning, and the disk can be full
            os.write(fd, _LOCK_CONTENT)
        return OsLock(fd)

    def used_ratio(self, path: Path) -> float:
        usage = self.disk_usage(path)
        # As df: blocks reserved for the superuser count as neither used nor free.
        return usage.used / max(1, usage.used + usage.free)

    def disk_usage(self, path: Path) -> DiskUsage:
        usage: Any = shutil.disk_usage(path)
        return DiskUsage(usage.total, usage.used, usage.free)


def _make_folders(path: str) -> None:
    """Create a directory and the missing ones above it."""
    try:
        os.mkdir(path)  # noqa: PTH102 - as in open()
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_folders(os.path.dirname(path))  # noqa: PTH120 - as in open()
        _make_folders(path)


def _sync_directory(path: Path) -> None:
    """Block until the names in a directory are on disk; Windows has no such call."""
    if sys.platform != "win32":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _listed(directory: str) -> list[str] | None:
    """Sorted names in a directory; None if it is not a directory."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - as in names()
    except NotADirectoryError:
        return None


def _inner_folder(outer: str, name: str, path: str, length: int) -> InnerFolder:
    names = _listed(path)
    if not names:
        return InnerFolder(outer, name, None if names is None else {})
    last = names.pop()
    sizes = {one: os.stat(f"{path}{os.sep}{one}").st_size for one in names}  # noqa: PTH116 - as in names()
    fd = os.open(f"{path}{os.sep}{last}", os.O_RDONLY | _BINARY | getattr(os, "O_CLOEXEC", 0))
    try:
        sizes[last] = os.fstat(fd).st_size
        head = os.read(fd, length)
        return InnerFolder(outer, name, sizes, head, _is_hole(fd, len(head), sizes[last]))
    finally:
        os.close(fd)


def _is_hole(fd: int, begin: int, end: int) -> bool:
    """True if the file system knows that nothing was written from ``begin`` to the end of a file."""
    if begin >= end:
        return True
    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        os.lseek(fd, begin, os.SEEK_DATA)
    except OSError as e:
        return e.errno == errno.ENXIO
    return False


def _lock_descriptor(fd: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        # Java brokers use the record lock (lockf) only. It does not exclude this process itself; flock does.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
