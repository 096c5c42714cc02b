"""The checkpoint file: up to which store times the log, the queues and the index are known to be on disk.

Knows its bytes (StoreCheckpoint). After a crash, recovery starts where all of them are.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from rocketmq_py.store.filesystem import FileSystem

_FIELDS = Struct(">qqqqq")
_SIZE = 4096
_SAFETY_MS = 3000
"""Store times of neighbouring records need not be in order to the millisecond; Java steps back as far."""


class Checkpoint:
    """Times are milliseconds since the epoch, 0 when unknown."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        data = (fs.read(path) or b"")[: _FIELDS.size]
        fields: tuple[int, ...] = _FIELDS.unpack(data) if len(data) == _FIELDS.size else (0, 0, 0, 0, 0)
        self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp = fields[:3]
        self.master_flushed_offset, self.confirm_physical_offset = fields[3:]

    @property
    def safe_timestamp(self) -> int:
        """Records stored at or before this time are in the log and in their queues."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS)

    def save(self) -> None:
        """Write and sync the file; called from the flush thread.

        :raises OSError: the disk is full or fails.
        """
        file = self._fs.open(self._path, _SIZE)
        try:
            fields = (self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp,
                      self.master_flushed_offset, self.confirm_physical_offset)  # fmt: skip
            file.write(0, _FIELDS.pack(*fields))
            file.sync()
        finally:
            file.close()
