"""The file ``abort``, which exists while a store is open: the next start finds it after a crash.

Java brokers have it, too. After a clean shutdown in the middle of a rebuild it stays, with another content, because a
Java broker only adds missing queue entries if there is such a file.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketmq_py.store.fs.filesystem import FileSystem

_SLAVE = b" slave"
"""Follows the process id in the file of a slave, whose log can end within a record."""
_IN_REBUILD = b"closed during a rebuild of consume queues"


class AbortFile:
    """The file as it was when this object was made, and its changes."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        self._before = fs.read(path)

    @property
    def tells_crash(self) -> bool:
        """True if the store was not closed by the broker that had it open last."""
        return self._before not in {None, _IN_REBUILD}

    @property
    def is_of_slave(self) -> bool:
        """True if that broker was a slave."""
        return _SLAVE in (self._before or b"")

    def write(self, *, is_slave: bool) -> None:
        """Mark the store as open.

        :raises OSError: the disk is full or fails.
        """
        self._fs.write(self._path, str(os.getpid()).encode() + (_SLAVE if is_slave else b""))

    def restore(self) -> None:
        """Put back what was there before.

        :raises OSError: the disk is full or fails.
        """
        self._put(self._before)

    def close(self, *, in_rebuild: bool) -> None:
        """Mark the store as closed.

        :param in_rebuild: whether the rebuild of a queue has not ended.
        :raises OSError: the disk is full or fails.
        """
        self._put(_IN_REBUILD if in_rebuild else None)

    def _put(self, content: bytes | None) -> None:
        if content is None:
            self._fs.remove(self._path)
        else:
            self._fs.write(self._path, content)
