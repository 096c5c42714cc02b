"""The first files of new consume queues, made in a thread.

To make a file and its two folders takes longer than all else that is done for a new queue: a flush of 20,000 new
queues, or a stop, took ten seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from rocketmq_py.store.fs.filesystem import FilePart, FileSystem
from rocketmq_py.store.queue.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

AT_ONCE = 100
"""From this many new queues on their files are made in the thread; those of fewer when their entries are written."""
MOST_AT_ONCE = 1_000
"""At most this many new queues are handed to the thread together."""
_LOCKED_AT_ONCE = 50
"""Files that are made while the lock is held: 5 ms."""


class NewFiles:
    """New queues that have no file yet.

    :param thread: an executor with one thread.
    :param is_known: returns whether a queue still exists; called in the thread.
    :param bring: brings queues up to date.
    """

    def __init__(
        self, fs: FileSystem, thread: Executor, is_known: Callable[[ConsumeQueue], bool],
        bring: Callable[[Sequence[ConsumeQueue]], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._thread = thread
        self._is_known = is_known
        self._bring = bring
        self._waiting: list[ConsumeQueue] = []
        self._running: Future[None] | None = None
        self.lock = threading.Lock()
        """Held while files are made; whoever removes files of queues must hold it."""

    def add(self, queue: ConsumeQueue) -> None:
        """Let the file of a new queue be made once it has entries."""
        self._waiting.append(queue)

    def tick(self) -> None:
        """Hand the next queues to the thread when it has done the last ones; called several times a second."""
        if len(self._waiting) < AT_ONCE or (self._running is not None and not self._running.done()):
            return
        batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        self._bring(batch)
        wanted = [(queue, file) for queue in batch if (file := queue.missing_file()) is not None]
        self._running = self._thread.submit(self._make, wanted)

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown(wait=True)

    def _make(self, wanted: list[tuple[ConsumeQueue, FilePart]]) -> None:
        for begin in range(0, len(wanted), _LOCKED_AT_ONCE):
            with self.lock:
                files = [file for queue, file in wanted[begin : begin + _LOCKED_AT_ONCE] if self._is_known(queue)]
                done, error = self._fs.write_parts(files)
            if error is not None:
                # The next flush of the queue tries again, and refuses messages if it fails.
                _log.warning("%s cannot be made: %s", files[done].path, error)
                return
