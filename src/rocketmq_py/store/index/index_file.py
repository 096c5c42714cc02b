"""One index file: a hash table on disk from keys to places in the commit log.

Knows the 40-byte header, the slots and the linked entries. Refuses to know what a key is: it is given hashes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from struct import Struct, pack

from rocketmq_py.store.fs.filesystem import File
from rocketmq_py.store.write.columns import put

HEADER_SIZE = 40
ENTRY_SIZE = 20
_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")
_HASH_AT, _PHYSICAL_AT, _SECONDS_AT, _PREVIOUS_AT = 0, 4, 12, 16
_HASH = Struct(">i16x")
_REBUILD_STEP = 50_000 * ENTRY_SIZE
_ALLOCATE_AHEAD = 4 * 1024 * 1024
_MAX_SECONDS = 0x7FFFFFFF


def _seconds(milliseconds: int) -> int:
    return min(max(0, milliseconds // 1000), _MAX_SECONDS)


def _turned(first: int, count: int) -> list[int]:
    """Numbers that count up, as this machine reads them where they are written big-endian."""
    if sys.byteorder == "big":
        return list(range(first, first + count))
    turned: list[int] = []
    end = first + count
    while first < end:
        stop = min(end, (first | 0xFF) + 1)  # up to there only their last byte changes, which is the highest here
        begin = int.from_bytes(first.to_bytes(4, "big"), "little")
        turned += range(begin, begin + ((stop - first) << 24), 1 << 24)
        first = stop
    return turned


class IndexFile:
    """An index file and its header. ``count`` is the number the next entry gets; entry 0 is not used.

    The header is written by :meth:`save` only: after a crash entries beyond its count do not count.
    """

    def __init__(self, file: File, slots: int, entries: int) -> None:
        self._file = file
        self._buffer = file.buffer
        self._slots = slots
        self._capacity = entries
        self._entries_at = HEADER_SIZE + 4 * slots
        self._table = memoryview(self._buffer)[HEADER_SIZE : self._entries_at].cast("I")
        header: tuple[int, ...] = _HEADER.unpack(self._buffer[:HEADER_SIZE])
        self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical = header[:4]
        self._used_slots = header[4]
        self.count = max(1, header[5])
        self._allocated = 0

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return max(0, self._capacity - self.count)

    def put(self, hashes: Sequence[int], physicals: Sequence[int], timestamps: Sequence[int]) -> None:
        """Add entries, no more than there is room for, in the order of the log.

        :raises OSError: the disk is full or fails; nothing has been added.
        """
        self._allocate(len(hashes))
        if self.count == 1:
            self.begin_physical, self.begin_timestamp = physicals[0], timestamps[0]
        count = len(hashes)
        at = self._entries_at + self.count * ENTRY_SIZE
        entries = self._timed(timestamps)
        put(entries, _HASH_AT, ENTRY_SIZE, pack(f">{count}i", *hashes), 4)
        put(entries, _PHYSICAL_AT, ENTRY_SIZE, pack(f">{count}q", *physicals), 8)
        put(entries, _PREVIOUS_AT, ENTRY_SIZE, self._link(hashes), 4)
        self._buffer[at : at + len(entries)] = entries
        self.count += count
        self.end_physical, self.end_timestamp = physicals[-1], timestamps[-1]

    def _timed(self, timestamps: Sequence[int]) -> bytearray:
        """Entries that hold nothing yet but whole seconds since the file's begin."""
        begin, count = self.begin_timestamp, len(timestamps)
        if timestamps.count(timestamps[0]) == count:
            return bytearray(_ENTRY.pack(0, 0, _seconds(timestamps[0] - begin), 0) * count)
        entries = bytearray(ENTRY_SIZE * count)
        seconds = (_seconds(timestamp - begin) for timestamp in timestamps)
        put(entries, _SECONDS_AT, ENTRY_SIZE, pack(f">{count}i", *seconds), 4)
        return entries

    def _link(self, hashes: Sequence[int]) -> bytes:
        """Let the slots name the new entries; what they named before, as entries have it.

        Both are big-endian on disk: they are swapped as they are, whatever numbers this machine takes them for.
        """
        count, slots, table = len(hashes), self._slots, self._table
        numbers = _turned(self.count, count)
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
        """Take disk space before the mapping is written to; a full disk must not show as a fault there."""
        if not self._allocated:
            self._file.allocate(0, self._entries_at)
            self._allocated = self._entries_at
        end = self._entries_at + (self.count + more) * ENTRY_SIZE
        if end > self._allocated:
            length = min(max(_ALLOCATE_AHEAD, end - self._allocated), self._file.size - self._allocated)
            self._file.allocate(self._allocated, length)
            self._allocated += length

    def select(self, key_hash: int, limit: int, begin: int, end: int) -> list[int]:
        """Physical offsets filed under a hash within a time window, newest first.

        Times are kept in whole seconds since ``begin_timestamp``.
        """
        found: list[int] = []
        number = self._slot(key_hash)
        while 0 < number < self.count and len(found) < limit:
            value, physical, seconds, previous = self._entry(number)
            time = self.begin_timestamp + seconds * 1000
            if value == key_hash and begin <= time <= end:
                found.append(physical)
            # An entry only ever points to an older one; anything else is damage and would be an endless walk.
            if seconds < 0 or time < begin or previous >= number:
                break
            number = previous
        return found

    def _slot(self, key_hash: int) -> int:
        at = HEADER_SIZE + key_hash % self._slots * 4
        return int.from_bytes(self._buffer[at : at + 4], "big", signed=True)

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        at = self._entries_at + number * ENTRY_SIZE
        return _ENTRY.unpack(self._buffer[at : at + ENTRY_SIZE])

    @property
    def is_plausible(self) -> bool:
        """Whether the header can be one of a file of this size."""
        return 0 <= self._used_slots <= self._slots and self.count <= self._capacity

    def entries(self) -> Iterator[tuple[int, int, int, int]]:
        """Hash, physical offset, seconds and previous number of every entry, from number 1 on."""
        end = self._entries_at + min(self.count, self._capacity) * ENTRY_SIZE
        for at in range(self._entries_at + ENTRY_SIZE, end, _REBUILD_STEP):
            yield from _ENTRY.iter_unpack(self._buffer[at : min(at + _REBUILD_STEP, end)])

    def slots(self) -> array[int]:
        """The number of the newest entry of each slot."""
        slots = array("i", self._buffer[HEADER_SIZE : self._entries_at])
        if sys.byteorder == "little":
            slots.byteswap()
        return slots

    def is_within(self, begin: int, end: int) -> bool:
        """Whether the file has entries of that time."""
        return begin <= self.end_timestamp and end >= self.begin_timestamp

    def rebuild_slots(self) -> None:
        """Make the slots anew from the entries the header counts.

        Slots are overwritten in place: after a crash some may name entries that never reached the disk, and the older
        ones they should lead to would be lost.
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
        """The header that counts every entry added so far."""
        return _HEADER.pack(
            self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical, self._used_slots,
            self.count,
        )  # fmt: skip

    def save(self, header: bytes) -> None:
        """Block until the entries that ``header`` counts are on disk, and then the header. Called by the flush thread.

        In this order, so that a header never counts what a crash has lost.

        :raises OSError: the disk fails.
        """
        self._file.sync()
        self._buffer[:HEADER_SIZE] = header
        self._file.sync()

    def close(self) -> None:
        self._table.release()
        self._file.close()
