"""The first files of new consume queues, made in a thread.

To make a file and its two folders takes longer than all else that is done for a new queue: a flush of 20,000 new
queues, or a stop, took ten seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.queue.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

AT_ONCE = 100
"""From this many new queues on their files are made in the thread; those of fewer when their entries are written."""
MOST_AT_ONCE = 1_000
"""At most this many new queues are handed to the thread together."""


class NewFiles:
    """New queues that have no file yet.

    :param thread: an executor with one thread.
    :param is_known: returns whether a queue still exists; called in the thread.
    """

    def __init__(self, fs: FileSystem, thread: Executor, is_known: Callable[[ConsumeQueue], bool]) -> None:
        self._fs = fs
        self._thread = thread
        self._is_known = is_known
        self._waiting: list[ConsumeQueue] = []
        self._running: Future[None] | None = None
        self.lock = threading.Lock()
        """Held while a file is made; whoever removes files of queues must hold it."""

    def add(self, queue: ConsumeQueue) -> None:
        """Let the file of a new queue be made once it has entries."""
        self._waiting.append(queue)

    def tick(self) -> None:
        """Hand the next queues to the thread when it has done the last ones; called several times a second."""
        if len(self._waiting) < AT_ONCE or (self._running is not None and not self._running.done()):
            return
        batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        wanted = [(queue, path, queue.file_size) for queue in batch if (path := queue.missing_file()) is not None]
        self._running = self._thread.submit(self._make, wanted)

    def share(self, queues: Sequence[ConsumeQueue]) -> None:
        """Let the thread make the missing files of queues, from the last one on; the caller writes to the first ones.

        Before a stop this takes less time than if the caller made all of them.
        """
        self._waiting.clear()
        if len(queues) >= AT_ONCE:
            self._running = self._thread.submit(self._make_missing, queues)

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown(wait=True)

    def _make(self, wanted: list[tuple[ConsumeQueue, Path, int]]) -> None:
        for queue, path, size in wanted:
            if not self._make_one(queue, path, size):
                return

    def _make_missing(self, queues: Sequence[ConsumeQueue]) -> None:
        for queue in reversed([queue.entry_queue for queue in queues]):
            path = queue.missing_file()  # None once the caller has written to the queue
            if path is not None and not self._make_one(queue, path, queue.file_size):
                return

    def _make_one(self, queue: ConsumeQueue, path: Path, size: int) -> bool:
        """Make the file of a queue that still exists; return False if the disk is full or fails."""
        with self.lock:
            if not self._is_known(queue):
                return True
            try:
                self._fs.open(path, size).close()
            except OSError as e:
                # The next flush of the queue tries again, and refuses messages if it fails.
                _log.warning("%s cannot be made: %s", path, e)
                return False
        return True
