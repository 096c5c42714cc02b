"""The checkpoint file: up to where the log, the queues and the index are known to be on disk.

Knows its bytes (StoreCheckpoint): store times, at the begin of the page. After a crash, recovery starts where all of
them are. At the end of the page, which a Java broker leaves alone, stands the same as an offset of the log: times only
name the file to begin with, an offset the record. It counts as long as nobody else has changed the times: a checksum
covers both.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from zlib import crc32

from rocketmq_py.store.fs.filesystem import FileSystem

_FIELDS = Struct(">qqqqq")
_END = Struct(">qI")
_SIZE = 4096
_END_AT = _SIZE - _END.size
_SAFETY_MS = 3000
"""Store times of neighbouring records need not be in order to the millisecond; Java steps back as far."""


class Checkpoint:
    """Times are milliseconds since the epoch, 0 when unknown.

    ``end`` is where the messages end whose queue entries and index keys are on disk, -1 when unknown.
    """

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        data = (fs.read(path) or b"").ljust(_SIZE, b"\0")
        fields: tuple[int, ...] = _FIELDS.unpack_from(data)
        self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp = fields[:3]
        self.master_flushed_offset, self.confirm_physical_offset = fields[3:]
        end, checksum = _END.unpack_from(data, _END_AT)
        self.end = end if checksum == _checksum(data[: _FIELDS.size], end) and self.physic_msg_timestamp else -1

    @property
    def safe_timestamp(self) -> int:
        """Records stored at or before this time are in the log and in their queues."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS)

    def forget(self) -> None:
        """Vouch for nothing any more, and say so on disk.

        :raises OSError: the disk is full or fails.
        """
        self.physic_msg_timestamp = self.logics_msg_timestamp = self.index_msg_timestamp = 0
        self.end = -1
        self.save()

    def save(self) -> None:
        """Write and sync the file; called from the flush thread, and before it runs.

        :raises OSError: the disk is full or fails.
        """
        file = self._fs.open(self._path, _SIZE)
        try:
            times = _FIELDS.pack(
                self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp,
                self.master_flushed_offset, self.confirm_physical_offset,
            )  # fmt: skip
            end = _END.pack(self.end, _checksum(times, self.end))
            file.write(0, times.ljust(_END_AT, b"\0") + end)
            file.sync()
        finally:
            file.close()


def _checksum(times: bytes, end: int) -> int:
    return crc32(times + end.to_bytes(8, "big", signed=True))
