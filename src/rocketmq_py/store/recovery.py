"""Recovery of a store when it is opened: makes log, consume queues and index agree.

After a clean shutdown the queues tell where the log ends. After a crash (there is an ``abort`` file) only what the
checkpoint confirms is trusted; later entries are rebuilt from the log. If all queues or the index are missing, they are
rebuilt from the whole log. In each case the log is scanned to its last whole record and the rest is truncated. The
rules are those of CommitLog.recoverNormally and recoverAbnormally.
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

_COMMIT_EVERY = 4096
"""Number of records after which their pending entries and keys are committed."""


class Recovery:
    """One recovery of one store, done by :meth:`run`."""

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
        self._queue_end = -1  # end of the newest message that the queues have
        self.last_timestamp = 0
        """Store timestamp of the newest record scanned, 0 if there was none."""

    def run(self, *, clean: bool, torn_anywhere: bool = False) -> int:
        """Recover the store and return the end of the log.

        :param clean: whether the store was closed cleanly.
        :param torn_anywhere: whether the written part of the log can end at any byte, as in the store of a slave.
        :raises StoreCorrupt: files contradict the configuration. :raises OSError: the disk fails.
        """
        self._log.load()
        untrusted = self._index.load(trusted_until=None if clean else self._checkpoint.index_msg_timestamp)
        begin = self._begin_clean() if clean else self._begin_after_crash(trust_end=not untrusted)
        if self._is_index_missing():
            _log.warning("the index is missing: it is rebuilt from the whole commit log")
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
        self._dispatch_all(scan)
        self._truncate(scan, erase=not clean or scan.reason is not None)
        return scan.end

    # -- where to begin

    def _begin_clean(self) -> int:
        """End of the newest message of the queues: only records without a queue entry follow."""
        end = self._queue_end = self._queues.load(self._log.min_offset)
        if self._log.min_offset <= end and self._is_boundary(end):
            return end
        if end >= 0:
            _log.warning("no record of the commit log begins at %d, where the consume queues end", end)
        return self._newest_whole_file(max(end, 0))

    def _is_boundary(self, offset: int) -> bool:
        """True if a record begins at ``offset`` of the log, or nothing was written there."""
        scan = LogScan(self._log, offset, check_crc=False)
        next(iter(scan), None)
        start = self._log.start_at_or_before(offset)
        return scan.reason is None and start is not None and offset < start + self._log.file_size

    def _newest_whole_file(self, offset: int) -> int:
        """Start of the newest file at or before ``offset`` that begins with a record."""
        for start in reversed(self._log.starts):
            if start <= offset and self._first_timestamp(start):
                return start
        return self._log.min_offset

    def _begin_after_crash(self, *, trust_end: bool) -> int:
        """Offset up to which, according to the checkpoint, queue entries and index keys are on disk.

        If the checkpoint has no such offset, or an index file must be removed, the start of the newest file that the
        checkpoint's timestamps confirm.
        """
        begin = self._checkpoint.end
        if begin < self._log.min_offset or not trust_end or not self._is_boundary(begin):
            begin = self._confirmed_file()
        self._queues.load(self._log.min_offset, begin)
        if begin > self._log.min_offset and not self._queues.by_key:
            _log.warning("the consume queues are missing: they are rebuilt from the whole commit log")
            begin = self._begin_anew()
        _log.warning("the store was not closed cleanly: the commit log is scanned from %d", begin)
        return begin

    def _confirmed_file(self) -> int:
        """Start of the newest file whose first record is not newer than the checkpoint's timestamps."""
        safe = self._checkpoint.safe_timestamp
        confirmed = (start for start in reversed(self._log.starts) if 0 < self._first_timestamp(start) <= safe)
        return next(confirmed, self._log.min_offset)

    def _begin_anew(self) -> int:
        """Begin of the log; resets the checkpoint, because a crash can lose what is about to be rebuilt."""
        self._checkpoint.reset()
        return self._log.min_offset

    def _is_index_missing(self) -> bool:
        """True if there was an index according to the checkpoint, but no index file is left."""
        return self._index.is_enabled and not self._index.had_files and self._checkpoint.index_msg_timestamp > 0

    def _first_timestamp(self, start: int) -> int:
        """Store timestamp of the first record of a file, 0 if the file does not begin with a record."""
        first = next(iter(LogScan(self._log, start, check_crc=self._check_crc)), None)
        return first.store_timestamp if first is not None and first.physical_offset == start else 0

    def _without_log(self) -> None:
        if self._queues.by_key:
            _log.warning("there is no commit log: the consume queues are removed")
            self._queues.clear()

    # -- rebuilding queues and index

    def _dispatch_all(self, scan: LogScan) -> None:
        dispatch = self._dispatch = RecordDispatch(
            self._config, self._queues, self._index, self._commit_pending, self._index.end_physical
        )
        count = 0
        for found in scan:
            dispatch.dispatch(found)
            count += 1
            if not count % _COMMIT_EVERY:
                self._commit_pending()
        self._commit_pending()
        self.last_timestamp = dispatch.last_timestamp
        self._index.build()
        if count:
            _log.info("%d records of the commit log were dispatched to queues and index", count)

    def _commit_pending(self) -> None:
        touched, self._dispatch.touched = self._dispatch.touched, []
        self._queues.commit_pending(touched)
        self._index.commit_pending()

    # -- truncating

    def _truncate(self, scan: LogScan, *, erase: bool) -> None:
        if scan.reason is not None:
            _log.error("the commit log is truncated at %d: %s", scan.end, scan.reason)
        self._log.truncate(scan.end, erase=erase)
        if self._queue_end > scan.end:
            self._queues.truncate(scan.end)
