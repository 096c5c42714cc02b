"""The checkpoint file: up to where commit log, consume queues and index are on disk.

The layout is Java's (StoreCheckpoint): store timestamps at the beginning of the page. After a crash, recovery starts at
the oldest of them. The last bytes of the page, which a Java broker does not write, hold the same as an offset of the
log: a timestamp only selects a file, an offset selects a record. A checksum over timestamps and offset invalidates the
offset when a Java broker has changed the timestamps.

The offset stands a second time where brokers of version 5.5 have theirs (``logicsPhysicalOffset``). Without it such a
broker would begin at a file whose first record is as old, to the millisecond, as the last one in the queues, and queue
entries of records before that file would be missing.

While consume queues are rebuilt, a Java broker must begin at the begin of the log: this offset and the timestamp of the
queues are 0 in the file then.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from zlib import crc32

from rocketmq_py.store.fs.filesystem import FileSystem

_FIELDS = Struct(">qqqqq")
_LOGICS_OFFSET = Struct(">q")
_END = Struct(">qI")
_SIZE = 4096
_END_AT = _SIZE - _END.size
_SAFETY_MS = 3000
"""Tolerance for store timestamps that are not in the order of the log; the same as Java's."""
_LATEST = 1 << 43
"""No store timestamp is later: the year 2248."""


class Checkpoint:
    """The content of the checkpoint file. Timestamps are milliseconds since the epoch, 0 when unknown.

    ``end`` is the offset of the log up to which queue entries and index keys are on disk, -1 when unknown.
    """

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        data = (fs.read(path) or b"").ljust(_SIZE, b"\0")
        fields: tuple[int, ...] = _FIELDS.unpack_from(data)
        self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp = fields[:3]
        self.master_flushed_offset, self.confirm_physical_offset = fields[3:]
        end, checksum = _END.unpack_from(data, _END_AT)
        self.is_rebuilding = False
        """Whether entries of records before ``end`` are missing in some queues, to be rebuilt by the next start."""
        self.end = end if checksum == _checksum(data[: _FIELDS.size], end) and self.physic_msg_timestamp else -1
        if self.end >= 0 and not self.logics_msg_timestamp:  # saved during a rebuild
            self.logics_msg_timestamp = self.physic_msg_timestamp

    @property
    def is_damaged(self) -> bool:
        """True if no broker with messages can have written the timestamps, ours or Java's."""
        times = self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp
        return self.physic_msg_timestamp == 0 or not all(0 <= time < _LATEST for time in times)

    @property
    def safe_timestamp(self) -> int:
        """Store timestamp, less a tolerance of 3 s, up to which log records and their queue entries are on disk."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS)

    def reset(self) -> None:
        """Set the three message timestamps and ``end`` to unknown, and save the file.

        :raises OSError: the disk is full or fails.
        """
        self.physic_msg_timestamp = self.logics_msg_timestamp = self.index_msg_timestamp = 0
        self.end = -1
        self.save()

    def save(self) -> None:
        """Write and sync the file. Called from the flush thread, or before that thread is started.

        :raises OSError: the disk is full or fails.
        """
        file = self._fs.open(self._path, _SIZE)
        try:
            times = _FIELDS.pack(
                self.physic_msg_timestamp, 0 if self.is_rebuilding else self.logics_msg_timestamp,
                self.index_msg_timestamp, self.master_flushed_offset, self.confirm_physical_offset,
            )  # fmt: skip
            end = _END.pack(self.end, _checksum(times, self.end))
            logics = _LOGICS_OFFSET.pack(0 if self.is_rebuilding else max(0, self.end))
            file.write(0, (times + logics).ljust(_END_AT, b"\0") + end)
            file.sync()
        finally:
            file.close()


def _checksum(times: bytes, end: int) -> int:
    return crc32(times + end.to_bytes(8, "big", signed=True))
