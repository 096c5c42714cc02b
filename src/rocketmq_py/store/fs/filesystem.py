"""The interface between the store and the disk: the store uses files only through :class:`FileSystem`.

It covers files of fixed size, small files read and written as a whole, locks and free space. Test doubles that fail,
tear writes or lose unsynced data implement the same protocols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class DiskUsage(NamedTuple):
    """Bytes of a disk. What is reserved for the superuser is neither used nor free."""

    total: int
    used: int
    free: int


class Buffer(Protocol):
    """Mapped bytes of a file, as of ``mmap``: slices read as bytes and can be assigned; memoryviews can be taken.

    An assigned slice keeps its length. Views must be released before the file is closed.
    """

    def __getitem__(self, key: slice, /) -> bytes: ...
    def __setitem__(self, key: slice, value: bytes | bytearray, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


class File(Protocol):
    """A file of fixed size. Bytes never written read as zero. Writes are durable only after :meth:`sync`."""

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int: ...

    @property
    def buffer(self) -> Buffer:
        """The whole file, mapped for reading and writing; valid until :meth:`close` or :meth:`erase`.

        Call :meth:`allocate` before writing to a part that was never written: it raises ``OSError`` if the disk is
        full, where a write through the mapping would kill the process.
        """

    def read(self, position: int, length: int) -> bytes:
        """Read bytes from ``position``; fewer than ``length`` only at the end of the file."""

    def read_if_resident(self, position: int, length: int) -> bytes | None:
        """Read bytes within the file as :meth:`read`; None if that would wait for the disk, or if nobody knows."""

    def is_resident(self, position: int, length: int) -> bool:
        """Return True if these bytes can be read without waiting for the disk.

        False if the platform has no such check; True if only the file system does not support it, as of tmpfs.
        """

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write within the size of the file; ``OSError`` if the disk is full or fails."""

    def allocate(self, position: int, length: int) -> None:
        """Allocate disk space for this part of the file; its content does not change."""

    def erase(self, position: int) -> None:
        """Zero everything from ``position`` to the end of the file."""

    def sync(self) -> None:
        """Block until all earlier writes are on disk. Any thread may call it."""

    def close(self) -> None:
        """Close the file; no other method may be called afterwards. Idempotent."""


class Lock(Protocol):
    """An acquired lock on a path."""

    def release(self) -> None: ...


class InnerFolder(NamedTuple):
    """A folder in a folder of a directory; see :meth:`FileSystem.inner_folders`.

    :param outer: name of the folder that contains it.
    :param sizes: size in bytes of each file in it, sorted by name; None if it is not a folder.
    :param head: first bytes of its last file.
    :param is_head_all: True if the last file is known to read as zero after ``head``.
    """

    outer: str
    name: str
    sizes: Mapping[str, int] | None
    head: bytes = b""
    is_head_all: bool = False


class FilePart(NamedTuple):
    """Bytes to be written into a file of ``size`` bytes; without data the file is only made.

    The path is a string, because path objects of ten thousand files cost more than writing them.
    """

    path: str
    size: int
    position: int
    data: bytes


class FileSystem(Protocol):
    """File operations of the store. Failures are ``OSError``."""

    @property
    def tells_residency(self) -> bool:
        """True if :meth:`File.is_resident` can tell what is in memory; False if the platform has no such check."""

    def open(self, path: Path, size: int, *, create: bool = True) -> File:
        """Open the file of exactly ``size`` bytes at ``path``.

        A missing file is created with its parent directories; without ``create``, ``FileNotFoundError`` is raised.
        """

    def write_parts(self, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
        """Write parts of many files, each opened as by :meth:`open` and closed. Any thread may call it.

        :returns: the number of parts before the first that failed, all of which are written, and its error.
        """

    def names(self, directory: Path) -> list[str]:
        """Sorted names in a directory; empty if the directory is missing."""

    def inner_folders(self, root: Path, length: int) -> Iterator[InnerFolder]:
        """Iterate over what is in the folders of a directory, sorted: all consume queues of a store, for instance.

        One call, because a path object and a call for each of ten thousand folders cost more than reading them.

        :param length: number of bytes to read from the last file of each inner folder.
        """

    def size(self, path: Path) -> int | None:
        """Size of a file in bytes, None if it is missing."""

    def modified_ms(self, path: Path) -> int:
        """Time of the last write to a file, milliseconds since the epoch."""

    def is_directory(self, path: Path) -> bool: ...

    def read(self, path: Path) -> bytes | None:
        """Whole content of a small file, None if it is missing."""

    def load(self, path: Path, position: int, length: int) -> None:
        """Bring a part of a file into main memory; nothing happens if it is missing. Any thread may call it."""

    def write(self, path: Path, data: bytes) -> None:
        """Replace a small file atomically: after a crash it has the old or the new content, never a mixture."""

    def sync(self, paths: Sequence[Path | str]) -> None:
        """Block until these files are on disk; missing ones are skipped. Any thread may call it."""

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens if it is missing."""

    def remove_empty(self, directory: Path) -> None:
        """Remove a directory; nothing happens if it is missing or not empty."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and its content; nothing happens if it is missing.

        Only for fixed parts of the layout: never call it with a path that contains a name from outside.
        """

    def lock(self, path: Path) -> Lock:
        """Lock a file (created if missing) for this process; ``BlockingIOError`` if another process has locked it."""

    def used_ratio(self, path: Path) -> float:
        """Used part of the disk that an existing path is on, 0.0 to 1.0."""

    def disk_usage(self, path: Path) -> DiskUsage:
        """Size of the disk that an existing path is on, and how much of it is used and free."""


def write_each(fs: FileSystem, parts: Sequence[FilePart]) -> tuple[int, OSError | None]:
    """Do :meth:`FileSystem.write_parts` by opening one file after the other."""
    for number, (path, size, position, data) in enumerate(parts):
        try:
            file = fs.open(Path(path), size)
            try:
                if data:
                    file.write(position, data)
            finally:
                file.close()
        except OSError as e:
            return number, e
    return len(parts), None
