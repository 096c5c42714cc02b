"""One index file: a hash table on disk from key hashes to offsets in the commit log.

It has a header of 40 bytes, slots, and entries linked from the newest to the oldest of each slot (Java's IndexFile).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from struct import Struct, pack

from rocketmq_py.store.codec.columns import put
from rocketmq_py.store.fs.filesystem import Buffer, File, FileSystem
from rocketmq_py.store.fs.residency import Part, Residency
from rocketmq_py.store.index.chain import ENTRY_SIZE, Chain, Place, Wanted

HEADER_SIZE = 40
_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")
_HASH_AT, _PHYSICAL_AT, _SECONDS_AT, _PREVIOUS_AT = 0, 4, 12, 16
_HASH = Struct(">i16x")
_REBUILD_STEP = 50_000 * ENTRY_SIZE
_ALLOCATE_AHEAD = 4 * 1024 * 1024
_MAX_SECONDS = 0x7FFFFFFF
_HOT_ENTRIES = 500_000
"""This many entries at the end of a file, as far as this process added them, count as in main memory: 10 MB."""


Put = Callable[[Buffer, int, int, int, bytes], int]
"""Adds packed keys: :meth:`rocketmq_py.accelerator.Accelerator.put_keys`."""


def _seconds(milliseconds: int) -> int:
    return min(max(0, milliseconds // 1000), _MAX_SECONDS)


def _byte_swapped(first: int, count: int) -> list[int]:
    """Return ``count`` numbers from ``first`` on, each as the value of its 4 big-endian bytes in native byte order."""
    if sys.byteorder == "big":
        return list(range(first, first + count))
    swapped: list[int] = []
    end = first + count
    while first < end:
        stop = min(end, (first | 0xFF) + 1)  # up to there only the last byte changes, the highest one when swapped
        begin = int.from_bytes(first.to_bytes(4, "big"), "little")
        swapped += range(begin, begin + ((stop - first) << 24), 1 << 24)
        first = stop
    return swapped


def encode_entries(
    hashes: Sequence[int], physicals: Sequence[int], timestamps: Sequence[int], begin: int, previous: bytes
) -> bytearray:
    """Encode entries as they are stored, 20 bytes each.

    :param begin: timestamp of the first entry of the file in milliseconds; entries have the seconds since then.
    :param previous: for each entry the number of the previous entry in its slot, encoded in 4 bytes.
    """
    count = len(hashes)
    if timestamps.count(timestamps[0]) == count:
        entries = bytearray(_ENTRY.pack(0, 0, _seconds(timestamps[0] - begin), 0) * count)
    else:
        entries = bytearray(ENTRY_SIZE * count)
        seconds = [(timestamp - begin) // 1000 for timestamp in timestamps]
        if min(seconds) < 0 or max(seconds) > _MAX_SECONDS:
            seconds = [_seconds(timestamp - begin) for timestamp in timestamps]
        put(entries, _SECONDS_AT, ENTRY_SIZE, pack(f">{count}i", *seconds), 4)
    put(entries, _HASH_AT, ENTRY_SIZE, pack(f">{count}i", *hashes), 4)
    put(entries, _PHYSICAL_AT, ENTRY_SIZE, pack(f">{count}q", *physicals), 8)
    put(entries, _PREVIOUS_AT, ENTRY_SIZE, previous, 4)
    return entries


class IndexFile:
    """An index file and its header. ``count`` is the number of the next entry; entry 0 is not used.

    Only :meth:`save` writes the header: after a crash, entries beyond its count are ignored.
    """

    def __init__(self, file: File, slots: int, entries: int) -> None:
        self._file = file
        self._buffer = file.buffer
        self._slots = slots
        self._capacity = entries
        self._entries_at = HEADER_SIZE + 4 * slots
        self._place = Place(file.path, file.size, self._entries_at)
        self._table = memoryview(self._buffer)[HEADER_SIZE : self._entries_at].cast("I")
        header: tuple[int, ...] = _HEADER.unpack(self._buffer[:HEADER_SIZE])
        self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical = header[:4]
        self._used_slots = header[4]
        self.count = self._added_from = max(1, header[5])
        self._allocated = 0
        self.is_detached = False
        """True if the file has expired: it must not be read any more, because another thread closes it."""

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def is_empty(self) -> bool:
        """True if there are no entries: none was added, or none that the header counts when it is opened."""
        return self.count == 1

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return max(0, self._capacity - self.count)

    def put(self, hashes: Sequence[int], physicals: Sequence[int], timestamps: Sequence[int]) -> None:
        """Add entries in the order of the log, at most ``room``.

        :raises OSError: the disk is full or fails; no entry is added.
        """
        count = len(hashes)
        self._begin(count, physicals[0], timestamps[0])
        at = self._entries_at + self.count * ENTRY_SIZE
        entries = encode_entries(hashes, physicals, timestamps, self.begin_timestamp, self._link(hashes))
        self._buffer[at : at + len(entries)] = entries
        self.count += count
        self.end_physical, self.end_timestamp = physicals[-1], timestamps[-1]

    def put_packed(self, put: Put, count: int, keys: bytes, first: tuple[int, int], last: tuple[int, int]) -> None:
        """As :meth:`put`, with the accelerator.

        :param count: number of the packed ``keys``.
        :param first: physical offset and store timestamp of the first one; ``last`` likewise.
        """
        self._begin(count, *first)
        self._used_slots += put(self._buffer, self._slots, self.count, self.begin_timestamp, keys)
        self.count += count
        self.end_physical, self.end_timestamp = last

    def _begin(self, count: int, physical: int, timestamp: int) -> None:
        """Prepare for so many more entries, the first of which is given."""
        self._allocate(count)
        if self.count == 1:
            self.begin_physical, self.begin_timestamp = physical, timestamp

    def _link(self, hashes: Sequence[int]) -> bytes:
        """Point the slots to the new entries; returns the previous values of the slots, encoded as in entries.

        Slots and entries are big-endian on disk. The table is read and written in native byte order, so that numbers
        are byte-swapped.
        """
        count, slots, table = len(hashes), self._slots, self._table
        numbers = _byte_swapped(self.count, count)
        places = [value % slots for value in hashes]
        if len(set(places)) == count > 1:
            previous = list(itemgetter(*places)(table))
            for place, number in zip(places, numbers, strict=True):
                table[place] = number
        else:
            previous = []
            for place, number in zip(places, numbers, strict=True):
                previous.append(table[place])
                table[place] = number
        self._used_slots += previous.count(0)
        return pack(f"={count}I", *previous)

    def _allocate(self, more: int) -> None:
        """Allocate disk space before writing through the mapping, which would kill the process on a full disk."""
        if not self.has_space(more):
            self._allocated = self._allocate_for(self.count + more)

    def _allocate_for(self, count: int) -> int:
        """Allocate disk space for ``count`` entries and some more; returns up to where."""
        end = min(self._end_of(count) + _ALLOCATE_AHEAD, self._file.size)
        self._file.allocate(self._allocated, end - self._allocated)
        return end

    def _end_of(self, count: int) -> int:
        """Position of entry ``count``, behind the one before it."""
        return self._entries_at + count * ENTRY_SIZE

    def has_space(self, more: int) -> bool:
        """True if disk space for so many more entries is allocated, or for as many as still fit."""
        return self._allocated >= min(self._end_of(self.count + more), self._file.size)

    def make_space(self, fs: FileSystem, count: int) -> int:
        """Allocate disk space for more entries, and bring it into memory; see :meth:`use_space`. Called in a thread.

        :param count: number of the next entry when this was requested; more may have been added since.
        :raises OSError: the disk is full or fails.
        """
        begin = max(self._allocated, self._end_of(count - 1))
        end = self._allocate_for(count)
        fs.load(self.path, begin, end - begin)
        return end

    def use_space(self, end: int) -> None:
        """Note that disk space up to ``end`` is allocated, see :meth:`make_space`."""
        self._allocated = max(self._allocated, end)

    # -- searching

    def select(self, key_hash: int, limit: int, begin: int, end: int) -> list[int]:
        """Return physical offsets of at most ``limit`` entries with a hash and within a time window, newest first.

        :param begin: begin of the window; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch. Times
            of entries are in whole seconds since ``begin_timestamp``.
        """
        chain = self.chain(key_hash, limit, begin, end)
        chain.follow(self._entry)
        return chain.found

    def chain(self, key_hash: int, limit: int, begin: int, end: int) -> Chain:
        """Begin a search; parameters are those of :meth:`select`."""
        at = self._slot_at(key_hash)
        number = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
        return Chain(self._place, self.begin_timestamp, Wanted(key_hash, limit, begin, end), number, self.count)

    def follow_resident(self, chain: Chain) -> None:
        """Continue a search as long as it need not wait for the disk."""
        chain.follow_resident(self._entry, self._file, max(self._added_from, self.count - _HOT_ENTRIES))

    def needs_slot(self, key_hash: int, residency: Residency) -> None:
        """Add the slot of a key to what a read needs."""
        residency.need(self._file, self._slot_at(key_hash), 4)

    def needs_slots(self, residency: Residency) -> None:
        """Add header, slots and the end of the entries to what a read needs."""
        residency.need(self._file, 0, self._entries_at)
        residency.need(self._file, self._entries_at + (self.count - 1) * ENTRY_SIZE, ENTRY_SIZE)

    def are_resident(self, hashes: Sequence[int]) -> bool:
        """True if the slots of these keys, and their entries, can be changed without waiting for the disk."""
        resident, last = self._file.is_resident, self._end_of(self.count - 1)
        return resident(0, HEADER_SIZE) and resident(last, (1 + len(hashes)) * ENTRY_SIZE) and all(
            resident(self._slot_at(value), 4) for value in hashes
        )  # fmt: skip

    def load_slots(self, fs: FileSystem) -> None:
        """Bring header, slots, the end of the entries and the space behind them into memory. Called in a thread.

        :raises OSError: the disk fails.
        """
        fs.load(self.path, 0, self._entries_at)
        last = self._end_of(self.count - 1)
        fs.load(self.path, last, max(ENTRY_SIZE, self._allocated - last))

    def _slot_at(self, key_hash: int) -> int:
        return HEADER_SIZE + key_hash % self._slots * 4

    def _entry(self, at: int) -> bytes:
        return self._buffer[at : at + ENTRY_SIZE]

    @property
    def is_plausible(self) -> bool:
        """True if the counts in the header are possible for a file of this size."""
        return 0 <= self._used_slots <= self._slots and self.count <= self._capacity

    def entries(self, first: int = 1, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over entries: hash, physical offset, seconds, number of the previous entry.

        :param first: number of the first one; ``end`` follows the last one, None for all.
        """
        end = self._entries_at + min(self.count if end is None else end, self._capacity) * ENTRY_SIZE
        for at in range(self._entries_at + first * ENTRY_SIZE, end, _REBUILD_STEP):
            yield from _ENTRY.iter_unpack(self._buffer[at : min(at + _REBUILD_STEP, end)])

    def entries_part(self, first: int, count: int) -> Part:
        """Return the bytes of some entries, to load them."""
        return Part(self.path, self._entries_at + first * ENTRY_SIZE, count * ENTRY_SIZE)

    def slots_part(self, first: int, count: int) -> Part:
        """Return the bytes of some slots, to load them."""
        return Part(self.path, HEADER_SIZE + 4 * first, 4 * count)

    @property
    def slot_count(self) -> int:
        """Number of slots."""
        return self._slots

    def slots(self, first: int = 0, end: int | None = None) -> array[int]:
        """Number of the newest entry of each slot, 0 for an empty slot; ``end`` follows the last slot, None for all."""
        end = self._slots if end is None else end
        slots = array("i", self._buffer[HEADER_SIZE + 4 * first : HEADER_SIZE + 4 * end])
        if sys.byteorder == "little":
            slots.byteswap()
        return slots

    def is_within(self, begin: int, end: int) -> bool:
        """True if the file can have entries stored between ``begin`` and ``end`` (ms since the epoch, inclusive)."""
        return begin <= self.end_timestamp and end >= self.begin_timestamp

    def rebuild_slots(self) -> None:
        """Rebuild the slots from the entries that the header counts.

        Slots are overwritten in place: after a crash a slot may point to an entry that did not reach the disk, and the
        older entries of the slot would be unreachable.
        """
        slots = array("i", bytes(4 * self._slots))
        end = self._entries_at + self.count * ENTRY_SIZE
        for at in range(self._entries_at + ENTRY_SIZE, end, _REBUILD_STEP):
            first = (at - self._entries_at) // ENTRY_SIZE
            hashes = _HASH.iter_unpack(self._buffer[at : min(at + _REBUILD_STEP, end)])
            for number, (value,) in enumerate(hashes, first):
                slots[value % self._slots] = number
        self._used_slots = self._slots - slots.count(0)
        if sys.byteorder == "little":
            slots.byteswap()
        self._buffer[HEADER_SIZE : self._entries_at] = slots.tobytes()

    def header(self) -> bytes:
        """Encoded header that counts all entries added so far."""
        return _HEADER.pack(
            self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical, self._used_slots,
            self.count,
        )  # fmt: skip

    def save(self, header: bytes) -> None:
        """Sync the entries that ``header`` counts, then write and sync the header. Called from the flush thread.

        In this order a header never counts entries that a crash has lost.

        :raises OSError: the disk fails.
        """
        self._file.sync()
        self._buffer[:HEADER_SIZE] = header
        self._file.sync()

    def close(self) -> None:
        self._table.release()
        self._file.close()
