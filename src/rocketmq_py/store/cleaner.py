"""Removal of expired files: of the commit log first, then of the queues and the index.

A pass selects files by the rules in ``retention``; the next ticks remove them in small steps, so that no tick takes
long. Readers see the change at once, in the store's thread; files are closed and removed in the flush thread, after all
syncs that may need them. Files of queues and index are removed only when the log files they refer to are gone from the
disk: if a log file cannot be removed, the next start reads its messages again and needs their entries and keys. The
first message of a queue is looked for among its oldest entries, which are seldom in memory: then a thread does it.
"""

from __future__ import annotations

import datetime
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.minimum_search import MinimumSearch
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.read.read_ahead import ReadAhead
from rocketmq_py.store.retention import RetentionDecision, decide, expired
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_QUEUES_PER_TICK = 50
_REQUESTED_PASSES = 20
"""Number of passes for which a request of an operator is valid, as in Java."""


class _Removal:
    """The removal of one file in the flush thread.

    :param remove: removes the file; may be called again after an ``OSError``.
    :param what: the kind of file, for the log.
    """

    def __init__(self, remove: Callable[[], None], what: str) -> None:
        self._remove = remove
        self._what = what
        self.is_done = self.has_failed = False

    def run(self) -> None:
        """Remove the file; called from the flush thread."""
        try:
            self._remove()
        except OSError as e:
            if not self.has_failed:
                _log.error("an expired %s could not be removed: %s", self._what, e)
            self.has_failed = True
        else:
            self.is_done = True


class Cleaner:
    """Removes expired files of one store.

    :param read_ahead: searches in queues that are not in memory.
    """

    def __init__(
        self, fs: FileSystem, layout: StoreLayout, log: CommitLog, queues: QueueTable,
        index: MessageIndex, flusher: Flusher, checkpoint: Checkpoint, read_ahead: ReadAhead,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._layout = layout
        self._log = log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self._checkpoint = checkpoint
        self._read_ahead = read_ahead
        self._requested_passes = 0
        self._expired: deque[int] = deque()
        self._untrimmed: list[ConsumeQueue] = []
        self._searches: dict[ConsumeQueue, MinimumSearch | None] = {}
        """By queue of the current step: its search in the thread, or None if its minimum has been raised."""
        self._trimmed_to = self._freed_to = log.min_offset
        """Commit log offsets: minimum offsets of queues are raised up to ``_trimmed_to``, and files of queues and index
        are removed up to ``_freed_to``."""
        self._removal: _Removal | None = None
        """The removal of a log file that is waiting, running or has failed; None if there is none."""
        self._has_warned = False

    def request(self) -> None:
        """Remove expired files in the next 20 passes at any hour of the day, at the request of an operator."""
        self._requested_passes = _REQUESTED_PASSES

    def check(self, config: StoreConfig, now: int) -> RetentionDecision:
        """Run one pass: select the files to remove, or try a failed removal again. Return the decision of the pass.

        :param config: the current settings, which can change while the store is open.
        :param now: milliseconds since the epoch.
        :raises OSError: the disk usage cannot be read.
        """
        hour = datetime.datetime.fromtimestamp(now // 1000).astimezone().hour
        decision = decide(config, hour, self._used(), requested=self._requested_passes > 0)
        self._requested_passes = max(0, self._requested_passes - 1)
        if self._removal is not None and self._removal.has_failed:
            self._flusher.request(0, self._removal.run)
        elif decision.why and not self._expired:
            self._select(config, decision, now)
        return decision

    def _used(self) -> float:
        """Used part of the fullest disk of the store, 0.0 to 1.0."""
        parts = [path for path in (self._layout.commit_log, self._layout.consume_queue) if self._fs.is_directory(path)]
        return max(self._fs.used_ratio(path) for path in parts or [self._layout.root])

    def _select(self, config: StoreConfig, decision: RetentionDecision, now: int) -> None:
        log = self._log
        # The newest file is being written, and a sync may need a file that is not completely on disk. Entries must be
        # on disk before their records are removed: after a crash the end of a queue is found in its files or the log.
        safe = min(self._flusher.flushed_offset, self._checkpoint.end)
        files = [(start, self._modified(start)) for start in log.starts[:-1] if start + log.file_size <= safe]
        found = expired(files, now, config.file_reserved_time, at_any_age=decision.at_any_age,
                        limit=config.delete_file_batch_max)  # fmt: skip
        self._expired.extend(found)
        if found:
            level = logging.WARNING if decision.disk else logging.INFO
            age = "of any age" if decision.at_any_age else f"not written for {config.file_reserved_time} hours"
            _log.log(level, "removing %d commit log files %s: %s", len(found), age, decision.why)
        removable = "that can be removed" if decision.at_any_age else f"older than {config.file_reserved_time} hours"
        self._warn_once(decision.disk if not found else "", removable)

    def _modified(self, start: int) -> int:
        try:
            return self._fs.modified_ms(self._log.path(start))
        except FileNotFoundError:
            return 0  # another program removed it: counts as the oldest, so it is dropped first

    def _warn_once(self, disk: str, removable: str) -> None:
        """Warn that the disk is too full and no file can be removed, once until that is over.

        :param disk: the disk usage, as text; empty if the disk is not too full.
        :param removable: what the removable files would be, as text.
        """
        if disk and not self._has_warned:
            _log.warning("%s, and %s has no commit log file %s: free space", disk, self._layout.root, removable)
        self._has_warned = bool(disk)

    def trim_again(self) -> None:
        """Raise the minimum offsets of all queues again, because one was rebuilt from what the log had before."""
        self._trimmed_to = 0

    def step(self) -> None:
        """Remove one selected file, or trim some queues.

        :raises OSError: queues cannot be read, or their files not removed; the next step tries again.
        """
        if self._removal is not None and self._removal.is_done:
            self._removal = None
        if self._expired and self._removal is None:
            self._removal = self._remove_later(self._log.detach(self._expired.popleft()), "commit log file")
        elif self._untrimmed:
            self._trim_some(self._untrimmed[-_QUEUES_PER_TICK:])
        elif self._log.min_offset > self._trimmed_to or (self._removal is None and self._trimmed_to > self._freed_to):
            self._begin_trimming()

    def _begin_trimming(self) -> None:
        self._trimmed_to = self._log.min_offset
        self._untrimmed = list(self._queues.by_key.values())
        if self._removal is None:
            self._freed_to = self._trimmed_to
            for remove in self._index.detach_before(self._freed_to):
                self._remove_later(remove, "index file")

    def _trim_some(self, queues: Sequence[ConsumeQueue]) -> None:
        """Trim the queues at the end of the list; does nothing while the thread searches in some of them."""
        if self._read_ahead.read("the clean-up of queues", partial(self._raise_minimums, queues)):
            for queue in reversed(queues):
                if self._freed_to == self._trimmed_to and self._queues.is_current(queue):
                    queue.remove_expired_files()
                self._untrimmed.pop()

    def _raise_minimums(self, queues: Sequence[ConsumeQueue], residency: Residency | None) -> bool:
        """Raise the minimum of each queue. Return True.

        :raises NotInMemory: some need a search in the thread; they are raised when this is called again.
        """
        searches: list[MinimumSearch] = []
        for queue in filter(self._queues.is_current, queues):
            if queue not in self._searches or self._searches[queue] is not None:
                search = self._searches[queue] = self._raise_minimum(queue, residency)
                searches += [search] if search is not None else []
        if searches:
            raise NotInMemory(searches)
        self._searches.clear()
        return True

    def _raise_minimum(self, queue: ConsumeQueue, residency: Residency | None) -> MinimumSearch | None:
        """Raise the minimum of a queue; or return a search for it if that would wait for the disk."""
        search = self._searches.get(queue)
        if search is not None and search.apply():
            residency = None  # what is left to read was read by the search, or written since
        try:
            queue.raise_minimum(self._trimmed_to, residency)
        except NotInMemory as missing:
            return MinimumSearch(queue.entry_queue, self._trimmed_to, self._fs, missing.parts[0].path)
        return None

    def close(self) -> None:
        """Stop the thread after its current search."""
        self._read_ahead.close()

    def _remove_later(self, remove: Callable[[], None], what: str) -> _Removal:
        removal = _Removal(remove, what)
        self._flusher.request(0, removal.run)
        return removal
