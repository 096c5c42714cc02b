"""Disk space for the next entries of the newest index file, made in a thread before it is needed.

To allocate it may wait for the disk, because the file system reads its own tables. So may the first write to a page of
it: the kernel then reads what is around the page.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.index.index_file import IndexFile

AHEAD = 100_000
"""Space for more entries is made if that of fewer is left: 2 MB, half of what is made at once."""


class EntrySpace:
    """Space in the newest index file.

    :param executor: makes it.
    """

    def __init__(self, fs: FileSystem, executor: Executor) -> None:
        self._fs = fs
        self._executor = executor
        self._making: tuple[IndexFile, Future[int]] | None = None

    def is_ready(self, file: IndexFile, count: int) -> bool:
        """Return True if so many entries can be added without waiting for space; makes some for later ones.

        True, too, if that has failed: adding them then raises the error.
        """
        if self._making is None and not file.has_space(count + AHEAD):
            self._making = file, self._executor.submit(file.make_space, self._fs, file.count)
        if self._making is not None and self._making[1].done() and not self._take(*self._making):
            return True
        return file.has_space(count)

    def _take(self, file: IndexFile, made: Future[int]) -> bool:
        """Let a file use the space that was made for it; return False if there is none."""
        self._making = None
        if made.exception() is not None:
            return False
        file.use_space(made.result())
        return True
