"""Which bytes of files are in main memory: a read on the event loop must not wait for a disk.

Bytes that this process wrote recently count as in memory. For others the file system is asked; those that are not in
memory are loaded in a thread, and then the read is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from rocketmq_py.store.fs.filesystem import File, FileSystem


class Loadable(Protocol):
    """Something on disk that a read needs."""

    @property
    def path(self) -> Path: ...

    def load(self, fs: FileSystem) -> None:
        """Bring it into memory. Called in a thread; blocks for as long as the disk takes.

        :raises OSError: the disk fails.
        """


class Part(NamedTuple):
    """Some bytes of a file."""

    path: Path
    position: int
    length: int

    def load(self, fs: FileSystem) -> None:
        """Bring the bytes into memory; see :class:`Loadable`."""
        fs.load(self.path, self.position, self.length)


class NotInMemory(Exception):
    """A read would have to wait for the disk. Load ``parts`` and repeat it; it may then find that it needs more."""

    def __init__(self, parts: Sequence[Loadable]) -> None:
        super().__init__(f"{len(parts)} parts of files are not in memory, the first in {parts[0].path}")
        self.parts = parts


class Residency:
    """Collects the parts of files that one read needs; the read is repeated with the same object after loading."""

    # Class attributes instead of a constructor, for speed: most reads do not need the object they make.
    _loaded: frozenset[Part] = frozenset()
    _missing: tuple[Part, ...] = ()

    def need(self, file: File, position: int, length: int) -> None:
        """Add bytes of ``file`` to those that the read needs."""
        if not file.is_resident(position, length):
            part = Part(file.path, position, length)
            if part not in self._loaded:
                self._missing += (part,)

    def check(self) -> None:
        """Raise an error if some of the bytes added since the last check are not in memory.

        :raises NotInMemory: it has these parts. From then on they count as loaded, so that the repeated read waits for
            the disk if they are no longer in memory, or if the platform cannot tell.
        """
        if self._missing:
            parts, self._missing = self._missing, ()
            self._loaded |= set(parts)
            raise NotInMemory(parts)
