"""Disk space for the log, allocated in a thread before it is needed.

To allocate it may wait for the disk, because the file system reads its own tables: behind all that readers of old
messages have asked the disk for.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.store.fs.filesystem import FileSystem


class _Step(NamedTuple):
    """A part of the log whose space is being allocated."""

    begin: int
    end: int
    done: Future[None]


class LogSpace:
    """Allocates one step after the other.

    :param file_size: bytes of each file of the log.
    :param executor: has one thread.
    """

    def __init__(self, fs: FileSystem, file_size: int, executor: Executor) -> None:
        self._fs = fs
        self._file_size = file_size
        self._executor = executor
        self._step: _Step | None = None
        self._failed_at = -1

    def begin(self, path: Path, start: int, begin: int, end: int) -> None:
        """Let the thread allocate space from offset ``begin`` of the log to ``end``.

        Nothing happens while it does that for another part, or if that has failed for this one.

        :param path: the file that has it; ``start`` is the offset at which that file begins.
        """
        if self._step is None and begin != self._failed_at:
            done = self._executor.submit(self._allocate, path, begin - start, end - begin)
            self._step = _Step(begin, end, done)

    def _allocate(self, path: Path, position: int, length: int) -> None:
        # The file is opened again, because the log may close its own meanwhile.
        file = self._fs.open(path, self._file_size, create=False)
        try:
            file.allocate(position, length)
        finally:
            file.close()

    def take(self, allocated: int) -> int:
        """Return up to where space of the log is allocated now.

        :param allocated: what the log knows of it. What was allocated behind another place does not count.
        """
        step = self._step
        if step is None or not step.done.done():
            return allocated
        self._step = None
        if step.done.exception() is not None:
            self._failed_at = step.begin  # the log meets the same error when it needs the space
            return allocated
        return step.end if step.begin == allocated else allocated

    def forget(self) -> None:
        """Let the step that is being made not count."""
        if self._step is not None:
            self._step = self._step._replace(begin=-1)

    def close(self) -> None:
        """Wait for the thread."""
        self._executor.shutdown(wait=True)
