"""The seam between the store and the disk: everything the store does to files goes through :class:`FileSystem`.

Knows fixed-size files, whole small files, locks and free space. Refuses to know what is in them. A test double that
fails, tears or forgets unsynced writes stands in by implementing the same two protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Buffer(Protocol):
    """The mapped bytes of a file: a slice reads as bytes, a slice assigned keeps its length, a memoryview may be taken.

    As ``mmap`` does it. Views are released before the file is closed.
    """

    def __getitem__(self, key: slice, /) -> bytes: ...
    def __setitem__(self, key: slice, value: bytes | bytearray, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


class File(Protocol):
    """A file of fixed size. Bytes never written read as zero. Not durable before :meth:`sync`."""

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int: ...

    @property
    def buffer(self) -> Buffer:
        """The whole file mapped for reading and writing; valid until :meth:`close` or :meth:`erase`.

        Before writing through it to a part never written, :meth:`allocate` that part: a full disk shows there as an
        ``OSError``, not here.
        """

    def read(self, position: int, length: int) -> bytes:
        """Bytes from ``position``, fewer only at the end of the file."""

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write within the size; ``OSError`` when the disk is full or fails."""

    def allocate(self, position: int, length: int) -> None:
        """Make sure that the disk has room for this part; what is there stays."""

    def erase(self, position: int) -> None:
        """Make everything from ``position`` to the end read as zero."""

    def sync(self) -> None:
        """Block until every write made so far is on disk. May be called from another thread."""

    def close(self) -> None:
        """Close; nothing else may be called afterwards. Idempotent."""


class Lock(Protocol):
    """An exclusive hold on a path."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """What the store needs of an operating system. Failures are ``OSError``."""

    def open(self, path: Path, size: int, *, create: bool = True) -> File:
        """The file of exactly ``size`` bytes at ``path``.

        When absent it is created with its parents, or ``FileNotFoundError`` is raised without ``create``.
        """

    def names(self, directory: Path) -> list[str]:
        """Sorted names in a directory; empty when there is none."""

    def size(self, path: Path) -> int | None:
        """Bytes of a file, None when absent."""

    def modified_ms(self, path: Path) -> int:
        """When the file was last written, milliseconds since the epoch."""

    def is_directory(self, path: Path) -> bool: ...

    def read(self, path: Path) -> bytes | None:
        """The whole content of a small file, None when absent."""

    def write(self, path: Path, data: bytes) -> None:
        """Replace a small file as a whole: after a crash it holds the old content or the new, never a mixture."""

    def sync(self, paths: Sequence[Path]) -> None:
        """Block until these files are on disk, those of them that still exist. May be called from another thread."""

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens when it is absent."""

    def remove_empty(self, directory: Path) -> None:
        """Remove a directory; nothing happens when it is absent or has something in it."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and what is in it; nothing happens when it is absent.

        For fixed parts of a layout only: a path made of a name that came from outside is never removed as a tree.
        """

    def lock(self, path: Path) -> Lock:
        """Lock a file (created when absent) for this process; ``BlockingIOError`` when somebody holds it."""

    def used_ratio(self, path: Path) -> float:
        """How full the disk under an existing path is, 0.0 to 1.0."""
