"""Removing what has expired: files of the log, then what in queues and index only spoke of them.

A pass decides; ticks carry it out little by little, as Java pauses between files, so that nobody waits for it. What
readers see changes at once, in the store's thread; files are closed and removed in the flush thread, behind every sync
that may still need them. Knows the order of things. Refuses to know the rules: they are in ``retention``.
"""

from __future__ import annotations

import datetime
import logging
from collections import deque
from collections.abc import Callable

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.retention import RetentionDecision, expired, judge
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_QUEUES_PER_TICK = 50
_ASKED_PASSES = 20
"""So many passes a request of an operator lasts, as Java's."""


class Cleaner:
    """Keeps one store from outgrowing its disk."""

    def __init__(
        self, fs: FileSystem, layout: StoreLayout, log: CommitLog, queues: QueueTable,
        index: MessageIndex, flusher: Flusher, checkpoint: Checkpoint,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._layout = layout
        self._log = log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self._checkpoint = checkpoint
        self._asked = 0
        self._doomed: deque[int] = deque()
        self._uncorrected: list[ConsumeQueue] = []
        self._corrected_to = log.min_offset
        self._is_stuck = False

    def ask(self) -> None:
        """Remove expired files in the next passes, whatever the hour."""
        self._asked = _ASKED_PASSES

    def check(self, config: StoreConfig, now: int) -> RetentionDecision:
        """One pass: decide what is to go.

        :param config: the settings as they are now: a running broker may change them.
        :param now: milliseconds since the epoch.
        :raises OSError: the disk does not say how full it is.
        """
        hour = datetime.datetime.fromtimestamp(now // 1000).astimezone().hour
        verdict = judge(config, hour, self._used(), asked=self._asked > 0)
        self._asked = max(0, self._asked - 1)
        if verdict.why and not self._doomed:
            self._doom(config, verdict, now)
        return verdict

    def _used(self) -> float:
        """How full the fullest disk of the store is."""
        parts = [path for path in (self._layout.commit_log, self._layout.consume_queue) if self._fs.is_directory(path)]
        return max(self._fs.used_ratio(path) for path in parts or [self._layout.root])

    def _doom(self, config: StoreConfig, verdict: RetentionDecision, now: int) -> None:
        log = self._log
        # The newest file is being written; one not yet on disk as a whole may still be in the hands of a sync. And
        # queues must not forget how far they had come: after a crash only their files tell, or the log.
        safe = min(self._flusher.flushed_offset, self._checkpoint.end)
        files = [(start, self._modified(start)) for start in log.starts[:-1] if start + log.file_size <= safe]
        found = expired(files, now, config.file_reserved_time, at_any_age=verdict.at_any_age,
                        limit=config.delete_file_batch_max)  # fmt: skip
        self._doomed.extend(found)
        if found:
            level = logging.WARNING if verdict.disk else logging.INFO
            age = "of any age" if verdict.at_any_age else f"not written for {config.file_reserved_time} hours"
            _log.log(level, "removing %d commit log files %s: %s", len(found), age, verdict.why)
        left = "that can go" if verdict.at_any_age else f"older than {config.file_reserved_time} hours"
        self._tell_if_stuck(verdict.disk if not found else "", left)

    def _modified(self, start: int) -> int:
        try:
            return self._fs.modified_ms(self._log.path(start))
        except FileNotFoundError:
            return 0  # somebody else removed it: forget it as the first

    def _tell_if_stuck(self, disk: str, left: str) -> None:
        """Say once that a full disk cannot be helped from here."""
        if disk and not self._is_stuck:
            _log.warning("%s, and %s has no commit log file %s: free space", disk, self._layout.root, left)
        self._is_stuck = bool(disk)

    def go_on(self) -> None:
        """Carry out a little of what was decided.

        :raises OSError: queues cannot be read.
        """
        if self._doomed:
            self._in_background(self._log.detach(self._doomed.popleft()), "commit log file")
        elif self._uncorrected:
            for _ in range(min(_QUEUES_PER_TICK, len(self._uncorrected))):
                self._correct(self._uncorrected.pop())
        elif self._log.min_offset > self._corrected_to:
            self._corrected_to = self._log.min_offset
            self._uncorrected = list(self._queues.by_key.values())
            for remove in self._index.detach_before(self._corrected_to):
                self._in_background(remove, "index file")

    def _correct(self, queue: ConsumeQueue) -> None:
        if self._queues.by_key.get((queue.topic, queue.queue_id)) is queue:
            queue.raise_minimum(self._corrected_to)
            queue.remove_expired_files()

    def _in_background(self, remove: Callable[[], None], what: str) -> None:
        def guarded() -> None:
            try:
                remove()
            except OSError as e:
                # It is out of use already; the next start lists it again.
                _log.error("a %s that is not needed any more could not be removed: %s", what, e)

        self._flusher.request(0, guarded)
