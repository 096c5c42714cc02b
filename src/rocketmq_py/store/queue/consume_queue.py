"""One consume queue: for every message of a queue its physical offset in the commit log, its size and its tags code.

Entries have 20 bytes. Entries not yet written to a file are kept in memory (``tail``); after a crash, recovery rebuilds
them from the commit log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import ClassVar
from zlib import crc32

from rocketmq_py.core.paths import below, component
from rocketmq_py.store.codec.packing import Entries
from rocketmq_py.store.fs.filesystem import FilePart, InnerFolder
from rocketmq_py.store.fs.layout import segment_name, segment_start
from rocketmq_py.store.fs.open_files import OpenFiles, has_size
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.settings import CONSUME_QUEUE_ENTRY as ENTRY
from rocketmq_py.wire.java_hash import string_hash
from rocketmq_py.wire.record import topic_part

_log = logging.getLogger(__name__)

_ENTRY = Struct(">qiq")
unpack_entries = _ENTRY.iter_unpack
"""Iterates over raw entries: physical offset, size and tags code of each."""
BLANK_SIZE = 0x7FFFFFFF
"""The size in a blank entry, whose offset has no message."""
_BLANK = _ENTRY.pack(0, BLANK_SIZE, 0)
"""A blank entry: before the first message of a queue that does not begin at 0, or for a missing message."""
_ANY_PHYSICAL = 1 << 63
HOT_ENTRIES = 50_000
"""This many entries at the end of a queue, as far as this process wrote them, count as in main memory: 1 MB."""
HEAD_BYTES = 4096
"""So much of the last file :meth:`ConsumeQueue.load` is given: a page, which has all entries of most queues."""


_AT_ONCE = 1024
"""Number of entries that are read together to find one that is not blank."""

Entry = tuple[int, int, int]


def is_blank(entry: Entry) -> bool:
    """True if an entry stands for an offset without a message."""
    return entry[0] == 0 and entry[1] == BLANK_SIZE


def first_from(
    entry: Callable[[int], Entry | None], skip_blanks: Callable[[int, int], int], low: int, high: int, physical: int
) -> int:
    """First offset from ``low`` on whose message is at ``physical`` of the log or later; ``high`` if there is none.

    Blank entries can be anywhere; they say nothing of the messages before and behind them.

    :param entry: returns the entry at an offset; None if its file is missing, as if its message was before.
    :param skip_blanks: returns the first offset in a range whose entry is not blank, or the end of the range.
    """
    end = high
    while low < high:
        middle = (low + high) // 2
        at, found = middle, entry(middle)
        if found is not None and is_blank(found):
            at = skip_blanks(middle, high)
            found = entry(at) if at < high else (physical, 0, 0)
        if found is None or found[0] < physical:
            low = at + 1
        else:
            high = middle
    return skip_blanks(low, end)


@lru_cache(maxsize=64)
def _flat(size: int) -> Struct:
    return Struct(">" + "qiq" * (size // ENTRY))


def columns(raw: bytes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the physical offsets of raw entries, their sizes and their tags codes."""
    flat = _flat(len(raw)).unpack(raw)
    return flat[0::3], flat[1::3], flat[2::3]


class ConsumeQueue:
    """The consume queue of one topic and queue id.

    ``next_offset`` is the offset of the next append, ``max_offset`` the end of the readable entries. The entries
    between them are in ``pending`` (flat fields, filled by the writer) or wait in a ``ConfirmOffset`` for their flush.
    """

    is_batched: ClassVar[bool] = False
    """True if an entry can have several messages; see :mod:`rocketmq_py.store.queue.batch_consume_queue`."""
    is_unfinished: ClassVar[bool] = False
    """True while the entries are rebuilt; see :mod:`rocketmq_py.store.queue.unfinished_queue`."""
    width: ClassVar[int] = ENTRY
    layout: ClassVar[Struct] = _ENTRY
    size_key: ClassVar[str] = "mappedFileSizeConsumeQueue"
    packing: ClassVar[Entries] = Entries("qiq")

    __slots__ = (
        "_files", "_head", "_head_start", "_is_head_all", "_paths", "_per_file", "_root", "_starts", "checksums",
        "is_lent", "key_hash", "loaded_end", "magic", "max_offset", "min_offset", "next_offset", "pending", "place",
        "queue_id", "tail", "tail_start", "topic", "topic_part",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, root: Path, files: OpenFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.magic, self.topic_part = topic_part(topic)
        self.key_hash = string_hash(f"{topic}#")
        self.place = -1
        """Its place in the accelerator, see :mod:`rocketmq_py.store.queue.lent_queues`; -1 for none."""
        self.is_lent = False
        """True if it lacks the newest entries, which the accelerator has."""
        self._root = root
        self._files = files
        self._per_file = files.file_size // self.width
        self._paths: dict[int, Path] = {}  # a cache: making a path costs more than reading from a file
        self._starts: list[int] = []  # queue offsets at which the files begin
        self.min_offset = 0
        self.max_offset = 0
        self.loaded_end = 0
        """Offset at which this process began to write."""
        self.next_offset = 0
        self.pending: list[int] = []
        self.tail = bytearray()
        self.tail_start = 0
        self._head = b""
        """First entries of the last file, between :meth:`load` and :meth:`loaded`; ``_head_start`` is its begin."""
        self._head_start = 0
        self._is_head_all = False
        self.checksums: dict[int, int] = {}
        """CRC-32 of the entries in each file, by the number of its first entry; unknown ones are absent."""

    @property
    def entry_queue(self) -> ConsumeQueue:
        """The queue object whose offsets count entries in the files, not messages.

        That is this queue itself; for a batch consume queue, whose entries have several messages, an internal queue.
        """
        return self

    @property
    def _directory(self) -> Path:
        return below(self._root, self.topic) / str(self.queue_id)

    # -- writing

    def add(self, physical: int, size: int, tags_code: int, count: int = 1) -> None:
        """Add the pending entry of a record with ``count`` messages; in a plain queue every record has one."""
        self.pending += (physical, size, tags_code)
        self.next_offset += count

    def commit_pending(self) -> None:
        """Make pending entries readable."""
        self.tail += self.packing.pack(self.pending)
        self.max_offset = self.next_offset
        self.pending = []

    def publish(self, flat: list[int], next_offset: int) -> None:
        """Make entries readable that were moved out of ``pending`` to wait for their flush.

        :param flat: the fields of the entries, one entry after the other.
        :param next_offset: offset after the last entry.
        """
        self.tail += self.packing.pack(flat)
        self.max_offset = next_offset

    def spill(self) -> None:
        """Write the tail to the files of the queue.

        :raises OSError: the disk is full or fails; entries not written stay in memory.
        """
        while self.tail:
            number = self.tail_start % self._per_file
            part = self.tail[: (self._per_file - number) * self.width]
            self._files.write(self._path(self._open_segment(self.tail_start)), number * self.width, part)
            self._written(part)

    def first_part(self) -> FilePart:
        """Return what of the tail, which is not empty, belongs into the first file; see :meth:`part_written`."""
        number = self.tail_start % self._per_file
        data = bytes(self.tail[: (self._per_file - number) * self.width])
        path = self._path_text(self._open_segment(self.tail_start))
        return FilePart(path, self._files.file_size, number * self.width, data)

    def part_written(self, part: FilePart) -> None:
        """Remove from the tail what was written to a file, which :meth:`first_part` has returned."""
        self._files.wrote((part.path,))
        self._written(part.data)

    def _written(self, part: bytes | bytearray) -> None:
        """Take the first entries of the tail, which are in their file now, into the checksums, and remove them."""
        number = self.tail_start % self._per_file
        start = self.tail_start - number
        if number == 0 or start in self.checksums:
            self.checksums[start] = crc32(part, self.checksums[start] if number else 0)
        self.tail_start += len(part) // self.width
        del self.tail[: len(part)]

    def _open_segment(self, offset: int) -> int:
        """Start of the file that contains ``offset``; adds it to the list of files."""
        start = offset - offset % self._per_file
        if not self._starts or self._starts[-1] < start:
            self._starts.append(start)
        return start

    def begin_at(self, offset: int) -> None:
        """Set the first offset of an empty queue. As in Java, earlier entries of its first file are blank."""
        blanks = offset % self._per_file
        self.tail = bytearray(_BLANK * blanks)
        self.tail_start = offset - blanks
        self.min_offset = self.max_offset = self.next_offset = offset

    @property
    def is_empty(self) -> bool:
        """True if the queue has no message, not even a pending one."""
        return self.min_offset == self.next_offset

    def skip_to(self, offset: int) -> None:
        """Set the offset of the next message: an empty queue begins there, in others blank entries fill the gap."""
        if self.is_empty:
            self.remove_files()
            self.begin_at(offset)
            return
        _log.error("%s: messages %d to %d are missing in the commit log", self, self.max_offset, offset - 1)
        self.tail += _BLANK * (offset - self.max_offset)
        self.max_offset = self.next_offset = offset

    def replace_entry(self, offset: int, physical: int, size: int, tags_code: int) -> None:
        """Replace a damaged entry by the original one; the file's checksum, of the original entries, stays valid."""
        self.replace_raw(offset, _ENTRY.pack(physical, size, tags_code))

    def replace_raw(self, offset: int, entry: bytes) -> None:
        """Replace the bytes of the entry at an offset."""
        first, width = self.tail_start, self.width
        if offset >= first:
            self.tail[(offset - first) * width : (offset - first + 1) * width] = entry
            return
        number = offset % self._per_file
        self._files.write(self._path(offset - number), number * width, entry)

    # -- reading

    def read(self, offset: int, count: int) -> bytes:
        """Raw entries from ``offset`` on: at most ``count``, fewer at the end or if a file is missing."""
        end = min(offset + count, self.max_offset)
        tail_start = self.tail_start
        if offset < end <= tail_start and offset % self._per_file + end - offset <= self._per_file:
            return self._read_file(offset, end - offset)  # most reads of a backlog: one file has all of them
        if offset >= tail_start:
            return bytes(self.tail[(offset - tail_start) * self.width : (end - tail_start) * self.width])
        parts: list[bytes | bytearray] = []
        while offset < end and offset < tail_start:
            stop = min(end, tail_start, offset - offset % self._per_file + self._per_file)
            part = self._read_file(offset, stop - offset)
            parts.append(part)
            if len(part) < (stop - offset) * self.width:
                return b"".join(parts)
            offset = stop
        parts.append(self.tail[: max(0, end - tail_start) * self.width])
        return b"".join(parts)

    def read_if_resident(self, offset: int, count: int) -> bytes | None:
        """As :meth:`read`, in one call to the system; None if the entries are not in one file and in main memory."""
        end, number = min(offset + count, self.max_offset), offset % self._per_file
        if end > self.tail_start or number + end - offset > self._per_file:
            return None
        try:
            file = self._files.get(self._path(offset - number))
        except FileNotFoundError:
            return None
        return file.read_if_resident(number * self.width, (end - offset) * self.width)

    def needs(self, offset: int, count: int, residency: Residency) -> None:
        """Add to ``residency`` the parts of files that a read of ``count`` entries from ``offset`` on needs."""
        end = min(offset + count, self.max_offset, self.tail_start)
        while offset < end:
            number = offset % self._per_file
            stop = min(end, offset - number + self._per_file)
            with suppress(FileNotFoundError):
                file = self._files.get(self._path(offset - number))
                residency.need(file, number * self.width, (stop - offset) * self.width)
            offset = stop

    def _check(self, offset: int, count: int, residency: Residency | None) -> None:
        if residency is not None:
            self.needs(offset, count, residency)
            residency.check()

    def on_disk(self, files: OpenFiles) -> ConsumeQueue:
        """Return a queue with the entries that the files of this one have now. Another thread may read it.

        :param files: opens the files for the returned queue.
        """
        copy = type(self)(self.topic, self.queue_id, self._root, files)
        copy._starts = list(self._starts)  # noqa: SLF001 - of its own class
        copy.min_offset, copy.max_offset, copy.tail_start = self.min_offset, self.tail_start, self.tail_start
        return copy

    def _read_file(self, offset: int, count: int) -> bytes:
        number = offset % self._per_file
        if self._head and offset - number == self._head_start and (number + count) * self.width <= len(self._head):
            return self._head[number * self.width : (number + count) * self.width]
        try:
            return self._files.get(self._path(offset - number)).read(number * self.width, count * self.width)
        except FileNotFoundError:
            return b""

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        """Physical offset, size and tags code of the entry at ``offset``; None if there is none."""
        if not self.min_offset <= offset < self.max_offset:
            return None
        raw = self.read(offset, 1)
        return _ENTRY.unpack(raw) if len(raw) == ENTRY else None

    def next_file(self, offset: int) -> int:
        """First offset of the file after the one that contains ``offset``."""
        return offset - offset % self._per_file + self._per_file

    # -- loading and truncating

    @property
    def file_size(self) -> int:
        """Configured size of its files in bytes."""
        return self._files.file_size

    def missing_file(self) -> FilePart | None:
        """The first file, without data, if the queue has entries but no file yet; else None."""
        if self._starts or not self.tail:
            return None
        path = self._path_text(self.tail_start - self.tail_start % self._per_file)
        return FilePart(path, self._files.file_size, 0, b"")

    @property
    def first_entry(self) -> int:
        """Number of the first entry in the first file; the end if there is no file."""
        return self._starts[0] if self._starts else self.tail_start

    def damage(self, first: int | None, end: int, checksums: Mapping[int, int], budget: int) -> str | None:
        """Check the files of a queue that was just loaded; return what is wrong with them, None if nothing is.

        Valid ``checksums`` are stored in :attr:`checksums`, and so are those of files that the budget leaves unread.

        :param first: number of the first entry that the files must have; None if it is not known.
        :param end: number after the last entry that the files must have.
        :param checksums: CRC-32 of the entries before ``end`` in each file.
        :param budget: maximum number of bytes to read, from the last file on.
        """
        for before, after in pairwise(self._starts):
            if after != before + self._per_file:
                return f"the file {segment_name((before + self._per_file) * self.width)} is missing"
        if self.tail_start < end:
            return f"its files end at {self.tail_start}, {end - self.tail_start} entries too early"
        if first is not None and self.first_entry > first:
            return f"its files begin at {self.first_entry} instead of {first}"
        for start in reversed(self._starts):
            known, count = checksums.get(start), min(end - start, self._per_file)
            if known is None or count <= 0:
                continue
            budget -= count * self.width
            if budget >= 0 and crc32(self._read_file(start, count)) != known:
                return f"the checksum of the file {segment_name(start * self.width)} is wrong"
            if count == self._per_file or start + count == self.tail_start:
                self.checksums[start] = known
        return None

    def load(self, folder: InnerFolder, expected_end: int = 0) -> None:
        """Set the files, and the end after the last entry that was written. Call :meth:`loaded` afterwards.

        :param folder: the folder of the queue with :data:`HEAD_BYTES` of its last file; they are read from there.
        :param expected_end: number after the last entry, if known; it only saves a search for the end.
        """
        self._take_files(folder)
        self._end_at(_ANY_PHYSICAL, expected_end)

    def load_below(self, physical_end: int) -> None:
        """After :meth:`load`, remove the entries of messages that end after offset ``physical_end`` of the log."""
        self._end_at(physical_end, self.max_offset)
        if not self._is_blank_from(self.max_offset):
            self._erase_from(self.max_offset)

    def loaded(self) -> None:
        """Release the bytes that :meth:`load` was given."""
        self._head = b""

    def truncate(self, physical_end: int) -> None:
        """Remove the entries of messages that end after offset ``physical_end`` of the log."""
        self.spill()
        before = self.max_offset
        self._end_at(physical_end)
        if self.max_offset < before:
            _log.warning("%s: truncated from offset %d to %d", self, before, self.max_offset)
            self._erase_from(self.max_offset)

    def _take_files(self, folder: InnerFolder) -> None:
        """Set the list of files, from the sorted content of the queue's folder.

        :raises StoreCorrupt: a file has not the configured size.
        :raises NotADirectoryError: the folder is a file.
        """
        starts, last = [], -1
        if folder.sizes is None:
            raise NotADirectoryError(f"{self._directory} is not a folder, as that of a consume queue must be")
        for name, size in folder.sizes.items():
            start = segment_start(name)
            last = -1
            if start is None:
                _log.warning("%s is not a consume queue file, ignored", self._directory / name)
            elif self._has_size(name, size):
                last = start // self.width
                starts.append(last)
        self._starts = starts
        if last >= 0:
            self._head, self._head_start, self._is_head_all = folder.head, last, folder.is_head_all

    def _has_size(self, name: str, size: int) -> bool:
        files = self._files
        if size == files.file_size:
            return True
        return has_size(files.fs, self._directory / name, size, files.file_size, self.size_key)

    def _end_at(self, physical_end: int, expected_end: int = 0) -> None:
        """Set the end after the last entry of a message that ends at ``physical_end`` of the log or before.

        All entries are in the files.
        """
        while self._starts:
            start = self._starts[-1]
            count = self._count_in(start, physical_end, expected_end - start)
            if count or len(self._starts) == 1:
                break
            self._files.remove(self._path(start))
            self._starts.pop()
        end = self._starts[-1] + count if self._starts else 0
        self.max_offset = self.next_offset = self.tail_start = self.loaded_end = end
        self._drop_checksums()
        self.min_offset = min(max(self.min_offset, self._starts[0] if self._starts else 0), end)

    def _count_in(self, start: int, physical_end: int, expected: int) -> int:
        """Number of entries in a file whose messages end at ``physical_end`` or before, by binary search.

        Entries on disk are in the order of the log without gaps, so that the first entry that fails ends the run.

        :param expected: the number that is tried first.
        """
        low, high = 0, self._per_file
        guesses = [one for one in (expected, expected - 1) if 0 <= one < high]
        while low < high:
            middle = guesses.pop() if guesses else (low + high) // 2
            if self._is_filled(self._read_file(start + middle, 1), physical_end):
                low = middle + 1
            else:
                high, guesses = middle, []
        return low

    def _drop_checksums(self) -> None:
        """Drop the checksums of removed files, and of the last file, whose end has moved."""
        kept = set(self._starts[:-1])
        self.checksums = {start: value for start, value in self.checksums.items() if start in kept}

    def _erase_from(self, offset: int) -> None:
        if self._starts and offset - self._starts[-1] < self._per_file:
            self._files.erase(self._path(self._starts[-1]), (offset - self._starts[-1]) * self.width)

    def _is_blank_from(self, offset: int) -> bool:
        """True if nothing was written to the last file from ``offset`` on, as far as :meth:`load` was told."""
        if not self._starts:
            return True
        rest = self._head[(offset - self._head_start) * self.width :]
        return self._is_head_all and self._starts[-1] == self._head_start and rest == bytes(len(rest))

    def raise_minimum(self, physical_start: int, residency: Residency | None = None) -> None:
        """Move the minimum offset to the first entry whose message is at ``physical_start`` of the log or later.

        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``; the minimum has not changed then.
        """

        def entry(offset: int) -> Entry | None:
            self._check(offset, 1, residency)
            return self.entry(offset)

        first = entry(self.min_offset)
        if first is None or first[0] < physical_start or first[1] == BLANK_SIZE:
            skip_blanks = partial(self.skip_blanks, residency=residency)
            self.min_offset = first_from(entry, skip_blanks, self.min_offset, self.max_offset, physical_start)

    def skip_blanks(self, offset: int, end: int, residency: Residency | None = None) -> int:
        """First offset from ``offset`` on whose entry is not blank, at most ``end``.

        :param residency: if given, do not wait for the disk.
        :raises NotInMemory: only with ``residency``.
        """
        while offset < end:
            self._check(offset, min(_AT_ONCE, end - offset), residency)
            raw = self.read(offset, min(_AT_ONCE, end - offset))
            count = len(raw) // ENTRY
            if not count or raw != _BLANK * count:
                return offset + next((at for at, one in enumerate(unpack_entries(raw)) if not is_blank(one)), 0)
            offset += count
        return end

    def remove_expired_files(self) -> None:
        """Remove the files that end at the minimum offset or before; the last file stays."""
        while len(self._starts) > 1 and self._starts[1] <= self.min_offset:
            path = self._path(self._starts[0])
            self._files.remove(path)
            self.checksums.pop(self._starts.pop(0), None)
            _log.info("removed consume queue file %s", path)

    def remove_files(self) -> None:
        """Remove all files."""
        for start in self._starts:
            self._files.remove(self._path(start))
        self._starts.clear()
        self._paths.clear()
        self.checksums.clear()
        self.tail.clear()

    def last_physical_end(self) -> int:
        """Offset in the log at which the last message ends; -1 for an empty queue."""
        last = self.entry(self.max_offset - 1)
        return -1 if last is None or last[1] == BLANK_SIZE else last[0] + last[1]

    def entries(self, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        raw = self.read(offset, count)
        return unpack_entries(raw[: len(raw) - len(raw) % ENTRY])

    def span(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Physical offset, size and tags code of the entries with offsets from ``low`` to before ``high``."""
        return list(self.entries(low, high - low))

    def _path(self, start: int) -> Path:
        path = self._paths.get(start)
        if path is None:
            path = self._paths[start] = self._directory / segment_name(start * self.width)
        return path

    def _path_text(self, start: int) -> str:
        """As :meth:`_path`, for one of very many files."""
        name = segment_name(start * self.width)
        return f"{self._root}{os.sep}{component(self.topic)}{os.sep}{self.queue_id}{os.sep}{name}"

    def _is_filled(self, raw: bytes, physical_end: int) -> bool:
        """True if an entry was written, and is blank or of a message that ends at ``physical_end`` or before."""
        if len(raw) < self.width:
            return False
        physical, size = self.layout.unpack(raw)[:2]
        blank = size == BLANK_SIZE and physical == 0
        return bool(size > 0 and physical >= 0 and (blank or physical + size <= physical_end))

    def __str__(self) -> str:
        return f"consume queue {self.topic}-{self.queue_id}"
