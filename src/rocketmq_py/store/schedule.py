"""The flush schedule, and the checkpoint written after each flush.

Intervals are those of Java's flush services. The log is flushed often. Queues, index and checkpoint are flushed in
rounds: entries of queues stay in memory until their round, and a round of thousands of queues is spread over many
ticks, so that no tick takes long.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_ends import QueueEnds, QueueEndsFile
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_PAGE = 4096
_SPILLS_PER_TICK = 100
_MANY = 1_000
"""If a store that closes has to write so many queues, the disk begins with the first ones while others are written."""
_ROUND_BYTES, _ROUND_BYTES_PER_QUEUE = 256 * 1024 * 1024, 64 * 1024
"""A round starts early after this many bytes of log, which bounds the scan after a crash. With many queues the limit is
higher, because a round can write to a file of each queue."""


class Readable(NamedTuple):
    """End of the readable messages in the log, and store timestamp of the newest."""

    end: int
    timestamp: int


class _Round(NamedTuple):
    """Queues still to be written, and the end of the readable messages when the round began."""

    queues: list[ConsumeQueue]
    readable: Readable


class FlushSchedule:
    """Decides when to flush log, queues, index and checkpoint, and requests that from the flush thread.

    :param now: milliseconds since the epoch; the intervals start here.
    """

    def __init__(
        self, config: StoreConfig, fs: FileSystem, log: CommitLog, queues: QueueTable, index: MessageIndex,
        checkpoint: Checkpoint, ends: QueueEndsFile, flusher: Flusher, now: int,
    ) -> None:  # fmt: skip
        self._config = config
        self._fs = fs
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._ends = ends
        self._flusher = flusher
        self._flushed_at = self._round_at = now
        self._round_end = -1  # end of the readable messages when the last round began
        self._round: _Round | None = None

    def tick(self, now: int, readable: Readable) -> None:
        """Request the flushes that are due.

        :param now: milliseconds since the epoch.
        :raises OSError: queues or index cannot be written; the next tick tries again.
        """
        self._queues.new_files.tick()
        if self._round is None and self._is_round_due(now, readable.end):
            self._round_at, self._round_end = now, readable.end
            self._round = _Round(self._queues.with_tail(), readable)
        if self._round is not None:
            self._continue_round(self._round, now)
        elif self._is_log_due(now):
            self._flushed_at = now
            self._request_log(readable.timestamp)

    def _is_round_due(self, now: int, end: int) -> bool:
        if end - self._round_end >= max(_ROUND_BYTES, _ROUND_BYTES_PER_QUEUE * len(self._queues.by_key)):
            return True
        return now - self._round_at >= self._config.flush_consume_queue_thorough_interval and end != self._round_end

    def _continue_round(self, current: _Round, now: int) -> None:
        self._queues.spill(current.queues[-_SPILLS_PER_TICK:])
        del current.queues[-_SPILLS_PER_TICK:]
        if not current.queues and self._index.build():  # else keys wait for the disk, and the round with them
            self._flushed_at = now
            self._request_everything(current.readable)
            self._round = None

    def _is_log_due(self, now: int) -> bool:
        config, dirty = self._config, self._log.end - self._flusher.flushed_offset
        if not dirty or now - self._flushed_at < config.flush_interval_commit_log:
            return False
        if dirty >= config.flush_commit_log_least_pages * _PAGE:
            return True
        return now - self._flushed_at >= config.flush_commit_log_thorough_interval

    def everything(self, readable: Readable) -> None:
        """Write all queues and request a flush of everything, before the store is closed.

        :raises OSError: queues or index cannot be written.
        """
        queues = self._queues.with_tail()
        if len(queues) >= _MANY:
            self._queues.spill(queues[: len(queues) // 4])
            self._request_sync(self._queues.take_dirty())
        self._queues.spill()
        self._request_everything(readable)

    def _request_sync(self, paths: list[str]) -> None:
        """Request a sync of files, and of all else that was written: the next one has less to do then."""

        def sync() -> None:
            if self._flusher.failure is None:
                self._fs.sync(paths)

        self._flusher.request(self._log.end, sync)

    def _request_log(self, timestamp: int) -> None:
        def update_checkpoint() -> None:
            if self._flusher.failure is None:
                self._checkpoint.physic_msg_timestamp = timestamp or self._checkpoint.physic_msg_timestamp

        self._flusher.request(self._log.end, update_checkpoint)

    def _request_everything(self, readable: Readable) -> None:
        """Request a sync of log, queues and index, then of the checkpoint; queues are written up to ``readable``."""
        end, timestamp = readable
        self._request_log(timestamp)
        index = self._index.take_dirty()
        indexed_until = None if self._index.is_unfinished else self._index.end_timestamp
        paths, ends = self._queues.take_dirty(), self._ends.snapshot(*self._queues.ends(self._log.min_offset, end))

        self._index.is_being_saved = True

        def sync_and_save() -> None:
            try:
                save()
            finally:
                self._index.is_being_saved = False

        def save() -> None:
            if self._flusher.failure is not None:
                return
            self._fs.sync(paths)
            self._checkpoint.logics_msg_timestamp = timestamp or self._checkpoint.logics_msg_timestamp
            for file, header in index:
                file.save(header)
            if indexed_until is not None:
                self._checkpoint.index_msg_timestamp = indexed_until
            self._checkpoint.end = end
            self._checkpoint.is_rebuilding = any(queue.is_unfinished for queue in ends[1].queues)
            self._save_checkpoint()
            self._save_ends(ends)

        self._flusher.request(self._log.end, sync_and_save)

    def _save_ends(self, ends: tuple[int, QueueEnds]) -> None:
        """Write the file ``queueends``. If that fails, the previous one stays, which lacks the newest entries."""
        try:
            self._ends.save(ends)
        except OSError as e:
            _log.error("the ends of the queues could not be written, the next flush of the queues tries again: %s", e)
            self._round_end = -1

    def _save_checkpoint(self) -> None:
        """Write the checkpoint. If that fails, the previous one stays, and a recovery only scans more of the log."""
        try:
            self._checkpoint.save()
        except OSError as e:
            _log.error("the checkpoint could not be written, the next flush of the queues tries again: %s", e)
            self._round_end = -1
