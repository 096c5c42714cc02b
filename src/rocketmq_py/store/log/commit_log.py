"""The commit log: every record of every topic, one after the other, in files of one size.

This module handles the files, their roll-over and the blank record at their ends. The writer supplies encoded records.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from struct import Struct

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.filesystem import Buffer, File, FileSystem
from rocketmq_py.store.fs.layout import StoreLayout, segment_name, segment_start
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.known_blocks import BLOCK, BLOCK_BITS, REGION, REGION_BITS, KnownBlocks, KnownRegions
from rocketmq_py.store.log.log_space import LogSpace
from rocketmq_py.store.log.lost_parts import LostPart, lost_parts, written_size
from rocketmq_py.wire.record import BORN_HOST_V6, MAGIC_BLANK

_log = logging.getLogger(__name__)

BLANK_SIZE = 8
"""Bytes reserved at the end of a file for the blank record that closes it."""
_BLANK = Struct(">ii")
_ALLOCATE_AHEAD = 16 * 1024 * 1024
"""Disk space is allocated in steps of this size: a whole file of 1 GiB at once would fill a RAM disk."""
_LEAST_AHEAD = _ALLOCATE_AHEAD // 2
"""If less than this is allocated beyond what is written, a thread allocates the next step."""
HOT_BYTES = 256 * 1024 * 1024
"""This many bytes at the end of the log, as far as this process wrote them, count as in main memory."""
_HEAD_SIZE = 76
"""Minimum size of a record; its store timestamp is within these bytes."""


class CommitLog:
    """The files of the commit log, readable from ``min_offset`` to ``end``.

    :param directory: for instance ``store/commitlog``.
    :param file_size: bytes of each file (``mappedFileSizeCommitLog``).
    """

    def __init__(self, fs: FileSystem, directory: Path, file_size: int) -> None:
        self._fs = fs
        self._directory = directory
        self.file_size = file_size
        self.starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._files: dict[int, File] = {}
        self.buffers: dict[int, Buffer] = {}
        """Files that are mapped already, by start offset; :meth:`buffer` maps the others."""
        self.end = 0
        self.written_from = 0
        """Offset of the log at which this process began to write."""
        self._allocated = 0
        self._space: LogSpace | None = None
        # Blocks and regions must not span two files.
        self._known = None if file_size % BLOCK else KnownBlocks(self._is_block_resident)
        self._regions = None if file_size % REGION else KnownRegions(self._is_region_resident)

    # -- files

    def load(self, *, was_closed: bool = False) -> list[LostPart]:
        """List the files in the directory; :attr:`end` becomes the start of the newest one until recovery sets it.

        Returns the parts of the log that are not on disk. Nothing is changed: see :meth:`fill_up`.

        :param was_closed: whether the store was closed cleanly.
        :raises StoreCorrupt: the files have another size than configured.
        """
        sizes = {}
        for name in self._fs.names(self._directory):
            start = segment_start(name)
            if start is None:
                _log.warning("%s is not a commit log file, ignored", self._directory / name)
            else:
                sizes[start] = self._fs.size(self._directory / name) or 0
        written = written_size(sizes, self.file_size)
        odd = next((start for start in sizes if start % self.file_size), None)
        if written is not None or odd is not None:
            size = "another size" if written is None else f"mappedFileSizeCommitLog {written}"
            raise StoreCorrupt(
                f"{self.path(odd or min(sizes))} was written with {size}, but mappedFileSizeCommitLog says "
                f"{self.file_size}: start with the size it was written with"
            )
        self._sizes = sizes
        # Opening a file of another size would change it.
        self.starts = sorted(start for start, size in sizes.items() if size == self.file_size)
        self.end = self._allocated = self.starts[-1] if self.starts else 0
        return lost_parts(sizes, self.file_size, was_closed=was_closed)

    def fill_up(self) -> None:
        """Give all files the configured size: cut files get zeros, and empty ones are removed.

        :raises OSError: the disk is full or fails.
        """
        for start, size in self._sizes.items():
            if size == 0:
                self._fs.remove(self.path(start))
            elif size != self.file_size:
                self._fs.write(self.path(start), (self._fs.read(self.path(start)) or b"")[: self.file_size].ljust(
                    self.file_size, b"\0"
                ))  # fmt: skip

    @property
    def min_offset(self) -> int:
        """Offset at which the oldest file begins."""
        return self.starts[0] if self.starts else self.end

    def path(self, start: int) -> Path:
        """Path of the file that begins at offset ``start``."""
        return self._directory / segment_name(start)

    def file(self, start: int) -> File:
        """Return the file that begins at offset ``start``; open it if necessary, create it if missing."""
        file = self._files.get(start)
        if file is None:
            file = self._files[start] = self._fs.open(self.path(start), self.file_size)
        return file

    def buffer(self, start: int) -> Buffer | None:
        """Return the mapped file that begins at offset ``start``; None if the log has no such file."""
        buffer = self.buffers.get(start)
        if buffer is None and start in self.starts:
            buffer = self.buffers[start] = self.file(start).buffer
        return buffer

    # -- writing

    def create(self, start: int) -> None:
        """Create a file at the end of the log and map it.

        :raises OSError: the disk is full or fails.
        """
        self.buffers[start] = self.file(start).buffer
        if start not in self.starts:
            self.starts.append(start)
        self._allocated = start

    def allocate(self, start: int, position: int) -> int:
        """Allocate disk space so that the file at ``start`` can be written to ``position`` and a bit beyond.

        Returns the position up to which space is allocated.

        :raises OSError: the disk is full or fails.
        """
        if self._space is not None:
            self._allocated = self._space.take(self._allocated)
        begin = max(0, self._allocated - start)
        if position > begin:
            length = min(max(_ALLOCATE_AHEAD, position - begin), self.file_size - begin)
            self.file(start).allocate(begin, length)
            self._allocated = start + begin + length
        return self._allocated - start

    def allocate_ahead(self, executor: Executor) -> None:
        """From now on, let a thread allocate disk space before it is needed.

        :param executor: has one thread, which is only for that; it ends when the log is closed.
        """
        self._space = LogSpace(self._fs, self.file_size, executor)

    def write(self, start: int, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write bytes to the file at ``start``, where space is allocated.

        This does not use the mapping: the kernel would first zero every page that is about to be overwritten.

        :raises OSError: the disk fails.
        """
        self._files[start].write(position, data)
        if self._space is not None and start + position + len(data) > self._allocated - _LEAST_AHEAD:
            self._allocate_next(self._space, start)

    def _allocate_next(self, space: LogSpace, start: int) -> None:
        """Begin to allocate the next step of the file at ``start``, unless all of it is allocated."""
        begin = self._allocated = space.take(self._allocated)
        end = min(begin + _ALLOCATE_AHEAD, start + self.file_size)
        if begin < end:
            space.begin(self.path(start), start, begin, end)

    def close_file(self, start: int, position: int) -> None:
        """End the file at ``start`` with a blank record at ``position``, which stands for the rest of the file."""
        buffer = self.buffer(start)  # the file may not have been mapped since recovery
        assert buffer is not None
        buffer[position : position + BLANK_SIZE] = _BLANK.pack(self.file_size - position, MAGIC_BLANK)

    def sync(self, begin: int, end: int) -> None:
        """Block until the bytes from ``begin`` to ``end`` are on disk. Called from the flush thread."""
        for start, file in list(self._files.items()):
            if start < end and start + self.file_size > begin:
                file.sync()

    # -- reading

    @property
    def hot_from(self) -> int:
        """Offset from which on the log counts as in main memory, because this process wrote it recently.

        From there on, readers neither wait for the disk nor check records for damage.
        """
        return max(self.written_from, self.end - HOT_BYTES)

    def needs(self, offset: int, size: int, residency: Residency) -> None:
        """Add the bytes of a read to ``residency``, unless they count as in memory or there is no file."""
        start = offset - offset % self.file_size
        if offset < self.hot_from and (start in self._files or start in self.starts):
            residency.need(self.file(start), offset - start, size)

    def needs_all(self, offsets: Sequence[int], sizes: Sequence[int], residency: Residency) -> None:
        """Add what the reads of many records need to ``residency``, as :meth:`needs`.

        Records near those that were in memory less than a second ago count as in memory, too.
        """
        absent = zip(offsets, sizes, strict=True) if self._known is None else self._known.absent(offsets, sizes)
        for offset, size in absent:
            self.needs(offset, size, residency)

    def was_in_memory(self, begin: int, end: int) -> bool:
        """Return True if the bytes of one file from ``begin`` to ``end`` were in memory less than a second ago.

        False does not say that they were not: then each record must be looked up by itself.
        """
        hot_from = self.hot_from
        return begin >= hot_from or (self._regions is not None and self._regions.have(begin, min(end, hot_from)))

    def _is_block_resident(self, number: int) -> bool:
        return self._is_resident(number << BLOCK_BITS, BLOCK)

    def _is_region_resident(self, number: int) -> bool:
        begin = number << REGION_BITS
        return self._is_resident(begin, min(REGION, self.end - begin))

    def _is_resident(self, offset: int, size: int) -> bool:
        start = offset - offset % self.file_size
        if start not in self._files and start not in self.starts:
            return False
        return self.file(start).is_resident(offset - start, size)

    def needs_store_time(self, offset: int, residency: Residency) -> None:
        """Add what :meth:`store_time` reads to ``residency``, as :meth:`needs`."""
        self.needs(offset, _HEAD_SIZE, residency)

    def read(self, offset: int, size: int) -> bytes | None:
        """Return a copy of ``size`` bytes at an offset of the log; None unless one file has all of them."""
        start = offset - offset % self.file_size
        buffer = self.buffers.get(start) or self.buffer(start)
        at = offset - start
        if buffer is None or offset + size > self.end or at + size > self.file_size or size < 0:
            return None
        return buffer[at : at + size]

    def has(self, offset: int, size: int) -> bool:
        """Return True if one file of the log has ``size`` bytes at an offset; does not read them."""
        start = offset - offset % self.file_size
        if start not in self._files and start not in self.starts:
            return False
        return 0 <= size <= min(self.end, start + self.file_size) - offset

    def view(self, offset: int, most: int) -> memoryview | None:
        """Return a view of at most ``most`` bytes from an offset on, within one file; None if there are none."""
        if offset >= self.end:
            return None
        start = offset - offset % self.file_size
        buffer = self.buffers.get(start) or self.buffer(start)
        if buffer is None:
            return None
        return memoryview(buffer)[offset - start : min(offset + most, self.end, start + self.file_size) - start]

    def store_time(self, offset: int) -> int:
        """Store timestamp of the record at an offset, in milliseconds; -1 if there is no record."""
        return -1 if self.read(offset, _HEAD_SIZE) is None else self.stored_at(offset)

    def stored_at(self, offset: int) -> int:
        """As :meth:`store_time`, but does not check the end of the log, which recovery has not found yet.

        :raises StoreCorrupt: the file is missing.
        """
        start = offset - offset % self.file_size
        buffer = self.buffer(start)
        if buffer is None:
            raise StoreCorrupt(f"{self.path(start)} is missing")
        head = buffer[offset - start : offset - start + _HEAD_SIZE]
        at = 68 if head[39] & BORN_HOST_V6 else 56
        return int.from_bytes(head[at : at + 8], "big")

    def next_file(self, offset: int) -> int:
        """Start offset of the file after the one that contains ``offset``."""
        return offset - offset % self.file_size + self.file_size

    def start_at_or_before(self, offset: int) -> int | None:
        """Start offset of the newest file that does not begin after ``offset``."""
        i = bisect_right(self.starts, offset)
        return self.starts[i - 1] if i else None

    # -- truncating

    def truncate(self, end: int, *, erase: bool) -> None:
        """Set the end of the log to ``end`` and remove the files that begin there or later.

        :param erase: zero the rest of the file that contains ``end``, so that no later recovery reads records there.
        """
        for start in [start for start in self.starts if start >= end and start > self.min_offset]:
            self.remove(start)
        self.end = end
        if self._space is not None:
            self._space.forget()
        last = self._allocated = self.starts[-1] if self.starts else end
        if erase and last <= end < last + self.file_size:
            self.buffers.pop(last, None)
            self.file(last).erase(end - last)
            # Sync before the next append: after a crash old bytes behind a new record could be read as records.
            self.file(last).sync()

    def remove(self, start: int) -> None:
        """Remove the file that begins at offset ``start``."""
        self.detach(start)()

    def detach(self, start: int) -> Callable[[], None]:
        """Drop the file that begins at ``start`` from the log.

        Returns a function that closes and removes the file; any thread may call it.
        """
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
        if self._space is not None:
            self._space.close()
        self.buffers.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()


def check_place(fs: FileSystem, layout: StoreLayout) -> None:
    """Refuse an empty log directory if the default directory has a commit log.

    :raises StoreCorrupt: without the log in the default directory, all its messages would be missing.
    """
    default, configured = layout.root / "commitlog", layout.commit_log
    if configured != default and fs.names(default) and not fs.names(configured):
        raise StoreCorrupt(
            f"storePathCommitLog names {configured}, which is empty, but {default} holds a commit log: move it "
            "there, or leave storePathCommitLog out"
        )
