"""The commit log: every record of every topic, one after the other, in files of one size.

Knows the files, their roll-over and their blank ends. Refuses to know queues and what is in a record: the writer hands
it finished bytes.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from struct import Struct

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.filesystem import Buffer, File, FileSystem
from rocketmq_py.store.fs.layout import segment_name, segment_start
from rocketmq_py.store.fs.open_files import check_segment
from rocketmq_py.wire.record import BORN_HOST_V6, MAGIC_BLANK

_log = logging.getLogger(__name__)

BLANK_SIZE = 8
"""Bytes kept free at the end of a file for the blank that closes it."""
_BLANK = Struct(">ii")
_ALLOCATE_AHEAD = 16 * 1024 * 1024
"""Room is taken from the disk in steps of this: in one piece a file of 1 GiB would cost a memory disk all of it."""
_HEAD_SIZE = 76
"""No record is smaller, and its store time is within."""


class CommitLog:
    """Files ``start -> bytes`` of ``file_size`` each, readable from ``min_offset`` to ``end``.

    :param directory: for instance ``store/commitlog``.
    """

    def __init__(self, fs: FileSystem, directory: Path, file_size: int) -> None:
        self._fs = fs
        self._directory = directory
        self.file_size = file_size
        self.starts: list[int] = []
        self._files: dict[int, File] = {}
        self.buffers: dict[int, Buffer] = {}
        """Mapped files by start, of those used so far; :meth:`buffer` maps the others."""
        self.end = 0
        self._allocated = 0

    # -- files

    def load(self) -> None:
        """List the files.

        :raises StoreCorrupt: a file has another size than configured, or begins where none can.
        """
        for name in self._fs.names(self._directory):
            start = segment_start(name)
            path = self._directory / name
            if start is None:
                _log.warning("%s is no commit log file, ignored", path)
            elif start % self.file_size:
                raise StoreCorrupt(f"{path} does not begin at a multiple of mappedFileSizeCommitLog {self.file_size}")
            elif check_segment(self._fs, path, self.file_size, "mappedFileSizeCommitLog"):
                self.starts.append(start)
        for before, after in zip(self.starts, self.starts[1:], strict=False):
            if after != before + self.file_size:
                _log.error("%s: files between %d and %d are missing", self._directory, before + self.file_size, after)
        self.end = self._allocated = self.starts[-1] if self.starts else 0

    @property
    def min_offset(self) -> int:
        """Where the oldest file begins."""
        return self.starts[0] if self.starts else self.end

    def path(self, start: int) -> Path:
        """Where the file that begins at ``start`` is."""
        return self._directory / segment_name(start)

    def file(self, start: int) -> File:
        """The file that begins at ``start``; created when absent."""
        file = self._files.get(start)
        if file is None:
            file = self._files[start] = self._fs.open(self.path(start), self.file_size)
        return file

    def buffer(self, start: int) -> Buffer | None:
        """The mapped file that begins at ``start``; None when there is none."""
        buffer = self.buffers.get(start)
        if buffer is None and start in self.starts:
            buffer = self.buffers[start] = self.file(start).buffer
        return buffer

    # -- writing

    def create(self, start: int) -> Buffer:
        """A new file at the end of the log.

        :raises OSError: the disk is full or fails.
        """
        buffer = self.file(start).buffer
        if start not in self.starts:
            self.starts.append(start)
        self.buffers[start] = buffer
        self._allocated = start
        return buffer

    def allocate(self, start: int, position: int) -> int:
        """Take room from the disk so that the file at ``start`` can be written to ``position``, and somewhat further.

        Returns the position up to which there is room.

        :raises OSError: the disk is full or fails.
        """
        begin = max(0, self._allocated - start)
        if position > begin:
            length = min(max(_ALLOCATE_AHEAD, position - begin), self.file_size - begin)
            self.file(start).allocate(begin, length)
            self._allocated = start + begin + length
        return self._allocated - start

    def write(self, start: int, position: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes into the file at ``start``, where there is room for them.

        Not through the mapping: the kernel would first zero every page that is about to be overwritten.

        :raises OSError: the disk fails.
        """
        self._files[start].write(position, data)

    def close_file(self, start: int, position: int) -> None:
        """Write the blank that says that the file at ``start`` has nothing from ``position`` on."""
        buffer = self.buffer(start)  # recovery may have left the file unmapped
        assert buffer is not None
        buffer[position : position + BLANK_SIZE] = _BLANK.pack(self.file_size - position, MAGIC_BLANK)

    def sync(self, begin: int, end: int) -> None:
        """Block until the bytes from ``begin`` to ``end`` are on disk. Called from the flush thread."""
        for start, file in list(self._files.items()):
            if start < end and start + self.file_size > begin:
                file.sync()

    # -- reading

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes at an offset of the log; None when it has not all of them in one file."""
        start = offset - offset % self.file_size
        buffer = self.buffers.get(start) or self.buffer(start)
        at = offset - start
        if buffer is None or offset + size > self.end or at + size > self.file_size or size < 0:
            return None
        return buffer[at : at + size]

    def view(self, offset: int, most: int) -> memoryview | None:
        """At most so many bytes from an offset on, not beyond its file; None when there are none."""
        if offset >= self.end:
            return None
        start = offset - offset % self.file_size
        buffer = self.buffers.get(start) or self.buffer(start)
        if buffer is None:
            return None
        return memoryview(buffer)[offset - start : min(offset + most, self.end, start + self.file_size) - start]

    def store_time(self, offset: int) -> int:
        """When the record at an offset was stored, milliseconds; -1 when there is none."""
        return -1 if self.read(offset, _HEAD_SIZE) is None else self.stored_at(offset)

    def stored_at(self, offset: int) -> int:
        """As :meth:`store_time`, of a record known to be there: recovery finds some before it finds the end."""
        start = offset - offset % self.file_size
        buffer = self.buffer(start)
        if buffer is None:
            raise StoreCorrupt(f"{self.path(start)} is missing")
        head = buffer[offset - start : offset - start + _HEAD_SIZE]
        at = 68 if head[39] & BORN_HOST_V6 else 56
        return int.from_bytes(head[at : at + 8], "big")

    def next_file(self, offset: int) -> int:
        """Where the file after the one of ``offset`` begins."""
        return offset - offset % self.file_size + self.file_size

    def start_at_or_before(self, offset: int) -> int | None:
        """The start of the newest file that does not begin after ``offset``."""
        i = bisect_right(self.starts, offset)
        return self.starts[i - 1] if i else None

    # -- cutting

    def cut(self, end: int, *, erase: bool) -> None:
        """Let the log end at ``end``; files that begin there or later are removed.

        :param erase: zero what is left in the file that holds ``end``, so that no later recovery takes it for records.
        """
        for start in [start for start in self.starts if start >= end and start > self.min_offset]:
            self.remove(start)
        self.end = end
        last = self._allocated = self.starts[-1] if self.starts else end
        if erase and last <= end < last + self.file_size:
            self.buffers.pop(last, None)
            self.file(last).erase(end - last)
            # Before anything is appended: old records that fit behind a new one would come back in the next crash.
            self.file(last).sync()

    def remove(self, start: int) -> None:
        """Remove the file that begins at ``start``."""
        self.detach(start)()

    def detach(self, start: int) -> Callable[[], None]:
        """Forget the file that begins at ``start``; what is returned removes it, and may be called by any thread."""
        self.starts.remove(start)
        self.buffers.pop(start, None)
        file, path = self._files.pop(start, None), self.path(start)

        def remove() -> None:
            if file is not None:
                file.close()
            self._fs.remove(path)
            _log.info("removed commit log file %s", path)

        return remove

    def close(self) -> None:
        self.buffers.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()
