"""Bringing the files of a store to agree with each other when it is opened.

After a clean end the queues know where the log ends. After a crash (an ``abort`` file is there) only what the
checkpoint vouches for is believed; everything after is taken from the log again. What is missing altogether is made
anew from the whole log. Either way the log is walked to its
last whole record, the rest is cut, and queues and index are made to say what the log says. Knows the rules of
CommitLog.recoverNormally and recoverAbnormally.
"""

from __future__ import annotations

import logging

from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.store.settings import StoreConfig

_log = logging.getLogger(__name__)

_SETTLE_EVERY = 4096
"""Records after which their entries and keys are put where they belong, many at once."""


class Recovery:
    """One recovery of one store; :meth:`run` does it."""

    def __init__(
        self, fs: FileSystem, config: StoreConfig, log: CommitLog, queues: QueueTable, index: MessageIndex,
        checkpoint: Checkpoint,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._check_crc = config.check_crc_on_recover
        self._config = config
        self._dispatch: RecordDispatch
        self._queue_end = -1  # where the newest message the queues knew of ends
        self.last_timestamp = 0
        """Store time of the newest record walked over, 0 when there was none."""

    def run(self, *, clean: bool, torn_anywhere: bool = False) -> int:
        """Recover; where the log ends.

        :param clean: whether the store was closed in good order.
        :param torn_anywhere: whether what was written may end at any byte: in the store of a slave.
        :raises StoreCorrupt: files contradict the configuration. :raises OSError: the disk fails.
        """
        self._log.load()
        untrusted = self._index.load(trusted_until=None if clean else self._checkpoint.index_msg_timestamp)
        begin = self._begin_clean() if clean else self._begin_after_crash(trust_end=not untrusted)
        if self._is_index_missing():
            _log.warning("the index is missing: it is made anew from the whole commit log")
            begin = self._begin_anew()
        elif begin < self._checkpoint.end:
            self._checkpoint.end = -1
            self._checkpoint.save()
        for path in untrusted:
            _log.warning("%s may be damaged and is removed", path)
            self._fs.remove(path)
        if not self._log.starts:
            self._without_log()
            return 0
        scan = LogScan(self._log, begin, check_crc=self._check_crc, torn_anywhere=torn_anywhere)
        self._take(scan)
        self._cut(scan, erase=not clean or scan.reason is not None)
        return scan.end

    # -- where to begin

    def _begin_clean(self) -> int:
        """Where the newest message of the queues ends: only records that have no queue entry follow."""
        end = self._queue_end = self._queues.load(self._log.min_offset)
        if self._log.min_offset <= end and self._is_boundary(end):
            return end
        if end >= 0:
            _log.warning("the commit log does not go on at %d where the consume queues end", end)
        return self._newest_whole_file(max(end, 0))

    def _is_boundary(self, offset: int) -> bool:
        """Whether something begins at ``offset`` of the log, or nothing was written there."""
        scan = LogScan(self._log, offset, check_crc=False)
        next(iter(scan), None)
        start = self._log.start_at_or_before(offset)
        return scan.reason is None and start is not None and offset < start + self._log.file_size

    def _newest_whole_file(self, offset: int) -> int:
        """The start of the newest file at or before ``offset`` that begins with a record."""
        for start in reversed(self._log.starts):
            if start <= offset and self._first_timestamp(start):
                return start
        return self._log.min_offset

    def _begin_after_crash(self, *, trust_end: bool) -> int:
        """Where the checkpoint says that the messages end whose queue entries and keys are on disk.

        Where it does not say, or an index file had to go, the start of the file it vouches for.
        """
        begin = self._checkpoint.end
        if begin < self._log.min_offset or not trust_end or not self._is_boundary(begin):
            begin = self._vouched_file()
        self._queues.load(self._log.min_offset, begin)
        if begin > self._log.min_offset and not self._queues.by_key:
            _log.warning("the consume queues are missing: they are made anew from the whole commit log")
            begin = self._begin_anew()
        _log.warning("the store was not closed in good order: the commit log is walked from %d", begin)
        return begin

    def _vouched_file(self) -> int:
        """The start of the newest file whose first record is as old as the checkpoint vouches for."""
        safe = self._checkpoint.safe_timestamp
        vouched = (start for start in reversed(self._log.starts) if 0 < self._first_timestamp(start) <= safe)
        return next(vouched, self._log.min_offset)

    def _begin_anew(self) -> int:
        """The begin of the log; nothing is vouched for any more, since a crash may take away once more what is made."""
        self._checkpoint.forget()
        return self._log.min_offset

    def _is_index_missing(self) -> bool:
        """Whether the checkpoint knows of an index of which no file is left."""
        return self._index.is_enabled and not self._index.had_files and self._checkpoint.index_msg_timestamp > 0

    def _first_timestamp(self, start: int) -> int:
        """The store time of the first record of a file, 0 when it does not begin with one."""
        first = next(iter(LogScan(self._log, start, check_crc=self._check_crc)), None)
        return first.store_timestamp if first is not None and first.physical_offset == start else 0

    def _without_log(self) -> None:
        if self._queues.by_key:
            _log.warning("there is no commit log: the consume queues are removed")
            self._queues.clear()

    # -- taking records into queues and index

    def _take(self, scan: LogScan) -> None:
        dispatch = self._dispatch = RecordDispatch(
            self._config, self._queues, self._index, self._commit_pending, self._index.end_physical
        )
        count = 0
        for found in scan:
            dispatch.take(found)
            count += 1
            if not count % _SETTLE_EVERY:
                self._commit_pending()
        self._commit_pending()
        self.last_timestamp = dispatch.last_timestamp
        self._index.build()
        if count:
            _log.info("%d records taken from the commit log", count)

    def _commit_pending(self) -> None:
        touched, self._dispatch.touched = self._dispatch.touched, []
        self._queues.commit_pending(touched)
        self._index.commit_pending()

    # -- cutting

    def _cut(self, scan: LogScan, *, erase: bool) -> None:
        if scan.reason is not None:
            _log.error("the commit log is cut at %d: %s", scan.end, scan.reason)
        self._log.cut(scan.end, erase=erase)
        if self._queue_end > scan.end:
            self._queues.truncate(scan.end)
