"""Which bytes of files are in main memory: a read on the event loop must not wait for a disk.

What this process wrote lately is in memory: that costs no question. About other bytes the file system is asked; those
that are not there are loaded by a thread, and the read begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.store.fs.filesystem import File


class Part(NamedTuple):
    """Some bytes of a file."""

    path: Path
    position: int
    length: int


class NotInMemory(Exception):
    """A read would have to wait for the disk. ``parts`` are what it needs as far as it knows."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(f"{len(parts)} parts of files are not in memory, the first in {parts[0].path}")
        self.parts = parts


class Residency:
    """What one read needs. It is kept while parts are loaded and the read begins again."""

    # No constructor: most reads make one in vain.
    _loaded: frozenset[Part] = frozenset()
    _missing: tuple[Part, ...] = ()

    def need(self, file: File, position: int, length: int) -> None:
        """Note bytes that are read from ``file``."""
        part = Part(file.path, position, length)
        if part not in self._loaded and not file.is_resident(position, length):
            self._missing += (part,)

    def check(self) -> None:
        """Check that everything noted is in memory, or was loaded.

        :raises NotInMemory: some parts are not. The next time they count as loaded: they may be gone again, or the
            platform may not tell, and then the read waits for the disk after all.
        """
        if self._missing:
            parts, self._missing = self._missing, ()
            self._loaded |= set(parts)
            raise NotInMemory(parts)
