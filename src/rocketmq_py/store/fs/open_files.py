"""A bounded set of open files; the least recently used is closed first.

With it, ten thousand queues do not need ten thousand file descriptors.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.filesystem import File, FileSystem


def check_segment(fs: FileSystem, path: Path, size: int, key: str) -> bool:
    """Return True if a log file has the configured size.

    An empty file, which a crash right after its creation leaves, is removed, and False is returned.

    :param key: the setting that ``size`` comes from, for the error message.
    :raises StoreCorrupt: the file has another size; opening it would damage it.
    """
    return has_size(fs, path, fs.size(path), size, key)


def has_size(fs: FileSystem, path: Path, found: int | None, size: int, key: str) -> bool:
    """As :func:`check_segment`, for a file that has ``found`` bytes."""
    if found == 0:
        fs.remove(path)
        return False
    if found != size:
        raise StoreCorrupt(f"{path} has {found} bytes, but {key} says {size}: start with the size it was written with")
    return True


class OpenFiles:
    """Files of one size, opened on demand.

    :param limit: maximum number of open files.
    """

    def __init__(self, fs: FileSystem, file_size: int, limit: int) -> None:
        self.fs = fs
        self.file_size = file_size
        self._limit = max(1, limit)
        self._open: dict[Path, File] = {}
        self._dirty: set[str] = set()

    def get(self, path: Path, *, create: bool = False) -> File:
        """Return the open file at ``path``; use it only until the next call, which may close it.

        :raises FileNotFoundError: the file is missing and ``create`` is false.
        """
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) >= self._limit:
                self._open.pop(next(iter(self._open))).close()
            file = self.fs.open(path, self.file_size, create=create)
        self._open[path] = file
        return file

    def write(self, path: Path, position: int, data: bytes | bytearray) -> None:
        """Write to a file, created if missing, and mark it dirty."""
        self.get(path, create=True).write(position, data)
        self._dirty.add(str(path))

    def wrote(self, paths: Iterable[str]) -> None:
        """Mark files dirty that were written by :meth:`FileSystem.write_parts`."""
        self._dirty.update(paths)

    def erase(self, path: Path, position: int) -> None:
        """Zero a file from ``position`` to its end and mark it dirty."""
        self.get(path).erase(position)
        self._dirty.add(str(path))

    def remove(self, path: Path) -> None:
        """Close and remove a file."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        self._dirty.discard(str(path))
        self.fs.remove(path)

    def take_dirty(self) -> list[str]:
        """Return the files written since the last call and clear their marks."""
        dirty, self._dirty = list(self._dirty), set()
        return dirty

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
