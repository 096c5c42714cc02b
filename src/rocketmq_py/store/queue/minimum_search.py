"""The search for the first message of a queue that the log still has, in a thread: it reads old entries from disk."""

from __future__ import annotations

from pathlib import Path

from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.queue.consume_queue import ConsumeQueue


class MinimumSearch:
    """A search in the entries that the files of a queue have when it is created.

    :param queue: its offsets count entries: an ``entry_queue``.
    :param physical_start: begin of the log.
    :param path: a file of the queue, for messages.
    """

    def __init__(self, queue: ConsumeQueue, physical_start: int, fs: FileSystem, path: Path) -> None:
        self.path = path
        self._queue = queue
        self._physical_start = physical_start
        self._files = OpenFiles(fs, queue.file_size, limit=1)
        self._copy = queue.on_disk(self._files)
        self._found: int | None = None

    def load(self, fs: FileSystem) -> None:
        """Search. Called in a thread.

        :raises OSError: the disk fails.
        """
        try:
            self._copy.raise_minimum(self._physical_start, _LoadAtOnce(fs))
        finally:
            self._files.close()
        self._found = self._copy.min_offset

    def apply(self) -> bool:
        """Raise the minimum of the queue to what was found; entries added since are not searched.

        Return False if nothing was found, because the search failed.
        """
        if self._found is None:
            return False
        self._queue.min_offset = max(self._queue.min_offset, self._found)
        return True


class _LoadAtOnce(Residency):
    """Loads what a read needs before the read goes on, which runs in a thread."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs

    def need(self, file: File, position: int, length: int) -> None:
        self._fs.load(file.path, position, length)
