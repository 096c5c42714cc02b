"""Replication into a slave's store: bytes of the master's commit log are written at the same offsets.

The bytes arrive in blocks whose boundaries are independent of records. Each block is written unchanged; a record is
dispatched to queues and index when its last byte has been written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.errors import ReplicaRefused, StoreNotWritable
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.write.writer import Writer

_log = logging.getLogger(__name__)


class Replica:
    """Appends bytes of a master's log to the log of an open store.

    :param dispatch: adds records to queues and index; their pending entries are committed through the writer.
    :param commit_pending: makes dispatched records readable.
    """

    def __init__(
        self, log: CommitLog, writer: Writer, dispatch: RecordDispatch, commit_pending: Callable[[], None]
    ) -> None:
        self._log = log
        self._writer = writer
        self._dispatch = dispatch
        self._commit_pending = commit_pending
        self._scan = LogScan(log, log.end, check_crc=False)
        self._unreadable = ""

    @property
    def end(self) -> int:
        """Offset up to which this log has the master's bytes; 0 if it is empty."""
        return self._log.end

    @property
    def whole_end(self) -> int:
        """Offset after the last complete record, or after the blank record of a file."""
        return self._scan.end

    def append(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write bytes of the master's log; call :meth:`dispatch` afterwards.

        :param offset: their offset in the log: :attr:`end`, or the begin of any file if this log is empty.
        :param data: empty if the master has nothing new.
        :raises ReplicaRefused: the bytes do not continue this log, or do not fit into one of its files.
        :raises StoreNotWritable: the disk is full or fails.
        """
        log = self._log
        start = self._start_of(offset, len(data))
        if not data:
            return
        try:
            if start not in log.buffers:
                log.create(start)
            log.allocate(start, offset - start + len(data))
            log.write(start, offset - start, data)
        except OSError as e:
            raise StoreNotWritable(f"the bytes of the master cannot be written to the commit log: {e}") from e
        if not log.end:
            self._scan.end = offset
        log.end = offset + len(data)

    def _start_of(self, offset: int, size: int) -> int:
        """Return the start offset of the file that the bytes belong to; errors as of :meth:`append`."""
        log = self._log
        position = offset % log.file_size
        if offset != log.end if log.end else (position and size):
            raise ReplicaRefused(f"the master sends its log from {offset} on, and this one ends at {log.end}")
        if position + size > log.file_size:
            raise ReplicaRefused(
                f"{size} bytes at {offset} do not fit into a commit log file of {log.file_size}: "
                "mappedFileSizeCommitLog must be the same as the master's"
            )
        return offset - position

    def dispatch(self) -> None:
        """Dispatch the records that are complete now to queues and index, and make them readable.

        :raises StoreNotWritable: the disk fails.
        """
        scan, dispatch = self._scan, self._dispatch
        if self._unreadable or scan.end == self._log.end:
            return
        scan.until = self._log.end
        for found in scan:
            dispatch.dispatch(found)
        if scan.reason is not None:
            self._unreadable = scan.reason
            _log.error(
                "the log of the master has no valid record at %d: %s; messages from there on cannot be read here: "
                "repair the master and start this slave with an empty store", scan.end, scan.reason,
            )  # fmt: skip
        if dispatch.touched:
            self.hand_over()
            self._commit_pending()

    def hand_over(self) -> None:
        """Pass the dispatched records on to the writer, which commits them."""
        self._writer.touched, self._dispatch.touched = self._dispatch.touched, []
        self._writer.last_timestamp = max(self._writer.last_timestamp, self._dispatch.last_timestamp)

    def truncate(self) -> None:
        """Remove the bytes of an incomplete record at the end of the log, before the store is closed."""
        if self.whole_end < self._log.end:
            self._log.truncate(self.whole_end, erase=True)
