"""The files of delayed messages: the wheel of slots, the log of the entries that the slots chain, and the checkpoint.

Their layouts are Java's (TimerWheel, Slot, TimerLog, TimerCheckpoint).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.layout import segment_name, segment_start
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.commit_log import HOT_BYTES

_SLOT = struct.Struct(">qqqii")
_UNIT = struct.Struct(">iqiqiqiiq")
UNIT_SIZE = _UNIT.size
_MARK_AT = UNIT_SIZE - 8
_MARK = struct.Struct(">q")
_BLANK = struct.Struct(">iqi")
_BLANK_MAGIC = (0xBBCCDDEE ^ (1880681586 + 8)) - (1 << 32)
_MAGIC_MOST = 15
_CHECK = struct.Struct(">7q")
_CHECK_SIZE = 4096
NOWHERE = -1
ELSEWHERE = -1
"""The mark of an entry whose message another broker has stored."""
_UNITS_AT_ONCE = 4096
_CHECKED_BYTES = 32 * 1024
"""How many bytes before an entry are loaded with it; a disk reads them in about the time of one entry."""
_SLOTS_AT_ONCE = 1 << 15
_COUNTED_AT_ONCE = 1 << 12
"""Slots that are counted in a step, which takes a millisecond if all have entries."""
_LONGS, _TIME_AT, _LAST_AT = _SLOT.size // 8, 0, 2
"""Number of 64-bit words of a slot, and positions of its time and its last entry among them."""


class Slot(NamedTuple):
    """Entries of one slot: positions of the first and the last one in the timer log, and their number."""

    first: int
    last: int
    number: int


class TimerWheel:
    """The timer wheel: slots of delivery times, in one file of fixed size. Times are milliseconds since the epoch.

    :param slots: number of slots.
    :param precision: milliseconds of one slot.
    :raises StoreCorrupt: the file has another size.
    """

    def __init__(self, fs: FileSystem, path: Path, slots: int, precision: int) -> None:
        self.path = path
        self._slots, self._precision = slots, precision
        size, expected = fs.size(path), self.size_of(slots)
        if size not in (None, 0, expected):
            raise StoreCorrupt(
                f"{path} has {size} bytes, but {expected} are expected: it is not a timer wheel with these settings"
            )
        self._file = fs.open(path, expected)

    @staticmethod
    def size_of(slots: int) -> int:
        """Size of the file of a wheel, in bytes."""
        return slots * _SLOT.size

    def get(self, time: int) -> Slot | None:
        """Return the slot of a time; None if it has no entries."""
        time_number, first, last, number, _ = _SLOT.unpack(self._file.read(self._position(time), _SLOT.size))
        return Slot(first, last, number) if time_number == time // self._precision and last >= 0 else None

    def check(self, time: int, count: int, residency: Residency) -> None:
        """Check that ``count`` slots, from that of a time on, are in memory.

        :raises NotInMemory: they are not.
        """
        count = min(count, self._slots)
        while count > 0:
            number = time // self._precision % self._slots
            part = min(count, self._slots - number)
            residency.need(self._file, number * _SLOT.size, part * _SLOT.size)
            time, count = time + part * self._precision, count - part
        residency.check()

    def put(self, time: int, slot: Slot) -> None:
        """Write the slot of a time.

        :raises OSError: the disk is full or fails.
        """
        data = _SLOT.pack(time // self._precision, slot.first, slot.last, slot.number, 0)
        self._file.write(self._position(time), data)

    def clear(self, time: int) -> None:
        """Remove the entries of the slot of a time.

        :raises OSError: the disk is full or fails.
        """
        self._file.write(self._position(time), bytes(_SLOT.size))

    def pointing_beyond(self, end: int) -> set[int]:
        """Return the times of slots whose last entry is at position ``end`` of the timer log or after it."""
        found: set[int] = set()
        for begin in range(0, self._slots, _SLOTS_AT_ONCE):
            count = min(_SLOTS_AT_ONCE, self._slots - begin)
            longs = array("q", self._file.read(begin * _SLOT.size, count * _SLOT.size))
            if sys.byteorder == "little":
                longs.byteswap()
            lasts = longs[_LAST_AT::_LONGS]
            if max(lasts) >= end:
                times = longs[_TIME_AT::_LONGS]
                both = zip(times, lasts, strict=True)
                found.update(time * self._precision for time, last in both if time and last >= end)
        return found

    def counts(self, time: int, ends: Sequence[int]) -> Iterator[list[int]]:
        """Count the entries of the slots from that of a time on, in short steps.

        :param ends: numbers of slots, ascending; the first count is that of so many slots, the second that of those
            after them, and so on.
        :returns: the counts so far; they are complete with the last step.
        """
        found = [0] * len(ends)
        number, done = time // self._precision, 0
        for place, end in enumerate(ends):
            while done < end:
                at = (number + done) % self._slots
                some = min(end - done, self._slots - at, _COUNTED_AT_ONCE)
                data = self._file.read(at * _SLOT.size, some * _SLOT.size)
                if data.count(0) < len(data):
                    numbers = enumerate(_SLOT.iter_unpack(data), number + done)
                    found[place] += sum(slot[3] for expected, slot in numbers if slot[0] == expected and slot[2] >= 0)
                done += some
                yield found

    def _position(self, time: int) -> int:
        return time // self._precision % self._slots * _SLOT.size

    def close(self) -> None:
        self._file.close()


class TimerUnit(NamedTuple):
    """An entry of the timer log.

    :ivar previous: position of the previous entry of the same slot, -1 for the first.
    :ivar written: time at which the entry was written, in milliseconds since the epoch.
    :ivar delay: milliseconds from ``written`` to the time of its slot.
    :ivar mark: physical offset of the delivered message, or ``ELSEWHERE``; 0 before delivery. Java always has 0 here.
    """

    previous: int
    magic: int
    written: int
    delay: int
    physical: int
    size: int
    topic_hash: int
    mark: int = 0

    @property
    def slot(self) -> int:
        return self.written + self.delay

    @property
    def is_of_no_message(self) -> bool:
        """True if the entry refers to no message."""
        return self.physical == NOWHERE


class TimerLog:
    """The timer log: an entry for each delayed message, in files of fixed size.

    :param file_size: bytes of a file.
    """

    def __init__(self, fs: FileSystem, directory: Path, file_size: int) -> None:
        self._fs, self._directory, self._file_size = fs, directory, file_size
        starts = (segment_start(name) for name in fs.names(directory))
        self._files: dict[int, File | None] = {start: None for start in starts if start is not None}
        self.end = 0
        """Position of the next entry."""
        self._written_from = 0
        """Position from which on this process wrote the log."""

    @property
    def is_empty(self) -> bool:
        return not self._files

    def recover(self, start: int, messages_end: int) -> list[tuple[int, TimerUnit]]:
        """Return the valid entries from ``start`` on with their positions; set :attr:`end` after the last of them.

        :param messages_end: end of the commit log; entries of messages beyond it are truncated, even those before
            ``start``.
        """
        begin = self._begin(start)
        if begin not in self._files:
            start = min(self._files, default=0)
        elif start != begin and self._unit_at(start - UNIT_SIZE) is None:
            start = begin  # a truncation was not recorded in the checkpoint
        found: list[tuple[int, TimerUnit]] = []
        self.end = start
        for position, unit in self.units(start):
            if unit.physical >= messages_end:
                break
            found.append((position, unit))
            self.end = position + UNIT_SIZE
        if not found:
            self._step_back(messages_end)
        self._erase_tail()
        self._written_from = self.end
        return found

    def units(self, start: int | None = None) -> Iterator[tuple[int, TimerUnit]]:
        """Iterate over positions and entries, up to the first invalid one.

        :param start: position of the first entry; None for the oldest.
        """
        at = min(self._files, default=0) if start is None else start
        while self._begin(at) in self._files:
            data = self._file(at).read(at % self._file_size, UNIT_SIZE * _UNITS_AT_ONCE)
            if data[12:16] == _BLANK_MAGIC.to_bytes(4, "big", signed=True) or not data:
                at = self._begin(at) + self._file_size
                continue
            before = at
            for offset in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
                unit = _unit(data, offset)
                if unit is None:
                    break
                yield at, unit
                at += UNIT_SIZE
            if at == before:
                return

    def unit_before(self, end: int, most: int) -> int:
        """Position of an entry at most ``most`` entries before ``end``."""
        at = max(min(self._files, default=0), end - most * UNIT_SIZE)
        return at - (at - self._begin(at)) % UNIT_SIZE

    def rest_of_file(self, position: int) -> int:
        """Bytes from a position to the end of its file if no entry fits there; else 0."""
        room = self._file_size - position % self._file_size
        return room if room < UNIT_SIZE + _BLANK.size else 0

    def _step_back(self, messages_end: int) -> None:
        """Drop the last entries whose messages begin at ``messages_end``, the end of the commit log, or later."""
        while (newest := self.newest()) is not None and newest.physical >= messages_end:
            self.end -= UNIT_SIZE
            before = self.end - self._file_size
            if self.end % self._file_size == 0 and self._begin(before) in self._files:
                self.end = before + self._last_at + UNIT_SIZE

    def truncate(self, position: int) -> None:
        """Remove the entry at a position and all entries after it."""
        self.end = position
        self._erase_tail()

    def _erase_tail(self) -> None:
        """Remove files and zero bytes after the end, which could be read as entries after the next append."""
        for start in [start for start in self._files if start > self.end]:
            self._remove(start)
        if self._begin(self.end) in self._files:
            self._file(self.end).erase(self.end % self._file_size)

    def append(self, unit: TimerUnit) -> int:
        """Append an entry; returns its position.

        :raises OSError: the disk is full or fails.
        """
        room = self._file_size - self.end % self._file_size
        if room < UNIT_SIZE + _BLANK.size:
            self._file(self.end).write(self.end % self._file_size, _BLANK.pack(room, 0, _BLANK_MAGIC))
            self.end += room
        position = self.end
        self._file(position).write(position % self._file_size, _UNIT.pack(UNIT_SIZE, *unit))
        self.end = position + UNIT_SIZE
        return position

    def read(self, position: int) -> TimerUnit | None:
        """Entry at a position; None if there is none."""
        return self._unit_at(position) if 0 <= position <= self.end - UNIT_SIZE else None

    def needs(self, position: int, residency: Residency) -> range:
        """Add the entry at a position to what a read needs, and entries before it: chains of slots lead to these.

        Nothing is added for an entry that this process wrote recently; it counts as in memory.

        :returns: the positions that need not be added any more.
        """
        begin = self._begin(position)
        first = max(begin, position - _CHECKED_BYTES)
        if begin not in self._files or position >= max(self._written_from, self.end - HOT_BYTES):
            return range(position, position + 1)
        residency.need(self._file(position), first - begin, position - first + UNIT_SIZE)
        return range(first, position + 1)

    def _unit_at(self, position: int) -> TimerUnit | None:
        if self._begin(position) not in self._files:
            return None
        return _unit(self._file(position).read(position % self._file_size, UNIT_SIZE), 0)

    def newest(self) -> TimerUnit | None:
        """Last entry; None if there is none, or if it is in another file than the end of the log."""
        return self.read(self.end - UNIT_SIZE) if self.end % self._file_size >= UNIT_SIZE else None

    def mark(self, marks: Sequence[tuple[int, int]]) -> None:
        """Set the marks of entries, given as position of the entry and physical offset of the delivered message.

        Adjacent entries, such as those of messages sent together, are written with one call.

        :raises OSError: the disk fails.
        """
        first = 0
        for at in range(1, len(marks) + 1):
            if at == len(marks) or not self._follow(marks[at - 1][0], marks[at][0]):
                self._mark_run(marks[first:at])
                first = at

    def _follow(self, position: int, following: int) -> bool:
        return following == position + UNIT_SIZE and following % self._file_size != 0

    def _mark_run(self, run: Sequence[tuple[int, int]]) -> None:
        begin = run[0][0]
        file, at = self._file(begin), begin % self._file_size
        if len(run) == 1:
            file.write(at + _MARK_AT, _MARK.pack(run[0][1]))
            return
        units = bytearray(file.read(at, len(run) * UNIT_SIZE))
        for offset, (_, physical) in zip(range(_MARK_AT, len(units), UNIT_SIZE), run, strict=True):
            _MARK.pack_into(units, offset, physical)
        file.write(at, bytes(units))

    def dirty(self, since: int) -> list[Path]:
        """Return the files to sync: those with entries appended since the log ended at ``since``.

        Marks may have been written to other files, too; they need no sync.
        """
        return [self._path(start) for start in self._files if start + self._file_size > since]

    def remove_before(self, physical: int) -> int:
        """Remove the oldest files whose messages are all before offset ``physical`` of the commit log.

        The newest file stays. Returns the number of removed files.
        """
        removed = 0
        for start in sorted(self._files)[:-1]:
            unit = self.read(start + self._last_at)
            if unit is not None and unit.physical >= physical:
                break
            self._remove(start)
            removed += 1
        return removed

    def _remove(self, start: int) -> None:
        """Close and remove the file that begins at ``start``."""
        file = self._files.pop(start)
        if file is not None:
            file.close()
        self._fs.remove(self._path(start))

    def close(self) -> None:
        for file in self._files.values():
            if file is not None:
                file.close()
        self._files = {}

    @property
    def _last_at(self) -> int:
        """Position of the last entry in a full file."""
        return self._file_size - (self._file_size - _BLANK.size) % UNIT_SIZE - _BLANK.size - UNIT_SIZE

    def _begin(self, position: int) -> int:
        return position - position % self._file_size

    def _path(self, start: int) -> Path:
        return self._directory / segment_name(start)

    def _file(self, position: int) -> File:
        start = self._begin(position)
        file = self._files.get(start)
        if file is None:
            file = self._files[start] = self._fs.open(self._path(start), self._file_size)
        return file


def _unit(data: bytes, offset: int) -> TimerUnit | None:
    """Decode the entry at ``offset`` of ``data``; None if there is none, or only a part of one."""
    if len(data) < offset + UNIT_SIZE:
        return None
    size, *fields = _UNIT.unpack_from(data, offset)
    unit = TimerUnit(*fields)
    if size != UNIT_SIZE or not 0 < unit.magic <= _MAGIC_MOST or unit.written <= 0:
        return None
    is_message = unit.physical >= 0 and unit.size > 0
    return unit if is_message or (unit.is_of_no_message and unit.size == 0) else None


class TimerCheckpoint:
    """Progress of the timers. Times are milliseconds since the epoch.

    :ivar read_ms: time of the first slot that is not completely delivered.
    :ivar log_end: position of the timer log up to which log and wheel are on disk.
    :ivar queue_offset: offset in the timers' topic of the first message whose entry is not on disk.
    :ivar master_offset: offset of the first message without an entry; on a slave, that of its master.
    """

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self.path = path
        self._fs = fs
        data = fs.read(path) or b""
        self.exists = len(data) >= 32
        fields = _fields(data)
        self.read_ms, self.log_end, self.queue_offset, self.master_offset = fields[:4]
        self.state_version, self.timestamp, self.counter = fields[4:]
        self._written = b""

    def take_master_state(self, data: bytes) -> None:
        """Take over a master's checkpoint, except the positions of this broker's own files."""
        self.read_ms, _, _, self.master_offset, self.state_version, self.timestamp, self.counter = _fields(data)

    def reset(self) -> None:
        """Forget all progress, as if there were no file."""
        self.exists = False
        self.read_ms = self.log_end = self.queue_offset = self.master_offset = 0
        self.state_version = self.timestamp = self.counter = 0

    def encode(self) -> bytes:
        """Content of the file; slaves request the same bytes."""
        return _CHECK.pack(
            self.read_ms, self.log_end, self.queue_offset, self.master_offset, self.state_version, self.timestamp,
            self.counter,
        )  # fmt: skip

    def write(self) -> None:
        """Write the file if anything changed; it is durable after the next sync of ``path``.

        :raises OSError: the disk is full or fails.
        """
        data = self.encode()
        if data != self._written:
            file = self._fs.open(self.path, _CHECK_SIZE)
            try:
                file.write(0, data)
            finally:
                file.close()
            self._written = data


def _fields(data: bytes) -> tuple[int, ...]:
    """Fields of a checkpoint; those that an older format lacks are 0."""
    return _CHECK.unpack_from(data.ljust(_CHECK.size, b"\0"))


def progress(check: bytes) -> tuple[int, int]:
    """``read_ms`` and ``master_offset`` of an encoded checkpoint."""
    fields = _fields(check)
    return fields[0], fields[3]
