"""A slave's way in: the bytes of its master's commit log, put at the same place here.

They come in pieces that know nothing of records. Each is written as it is; queues and index hear of a record when the
last of its bytes is there. Knows how the log grows by such pieces, and where the last whole record ends. Refuses to
know how the bytes travel.
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
    """Lets the log of an open store grow by what its master has written.

    :param dispatch: takes records; what it touches is settled through the writer.
    :param commit_pending: makes what was taken readable.
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
        """Up to where this log has the master's bytes; 0 when it has none."""
        return self._log.end

    @property
    def whole_end(self) -> int:
        """Where the last whole record ends, or the blank end of a file."""
        return self._scan.end

    def append(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write bytes of the master's log; none is what a master says that has nothing new. :meth:`dispatch` follows.

        :param offset: where they begin there: at :attr:`end`, or at the begin of any file if this log is empty.
        :raises ReplicaRefused: they do not belong there. :raises StoreNotWritable: the disk is full or fails.
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
            raise StoreNotWritable(f"the commit log cannot take what its master sends: {e}") from e
        if not log.end:
            self._scan.end = offset
        log.end = offset + len(data)

    def _start_of(self, offset: int, size: int) -> int:
        """The start of the file that bytes go to."""
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
        """Let queues, index and readers know of the records that have become whole.

        :raises StoreNotWritable: the disk fails.
        """
        scan, dispatch = self._scan, self._dispatch
        if self._unreadable or scan.end == self._log.end:
            return
        scan.until = self._log.end
        for found in scan:
            dispatch.take(found)
        if scan.reason is not None:
            self._unreadable = scan.reason
            _log.error(
                "the log of the master has no record at %d: %s; no message from there on can be read here, and none "
                "will be: repair the master and begin anew with an empty store", scan.end, scan.reason,
            )  # fmt: skip
        if dispatch.touched:
            self.hand_over()
            self._commit_pending()

    def hand_over(self) -> None:
        """Let the writer settle what was taken so far."""
        self._writer.touched, self._dispatch.touched = self._dispatch.touched, []
        self._writer.last_timestamp = max(self._writer.last_timestamp, self._dispatch.last_timestamp)

    def cut(self) -> None:
        """Forget the bytes of a record that is not whole, as every start does; for an orderly end."""
        if self.whole_end < self._log.end:
            self._log.cut(self.whole_end, erase=True)
