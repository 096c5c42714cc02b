"""One batch consume queue: a unit for every record of a queue; a record can have several messages.

Java brokers use such queues (BatchConsumeQueue) for topics whose ``queue.type`` is ``BatchCQ``. A unit is an entry of
46 bytes that also has the store timestamp, the queue offset of the first message and the number of messages. An offset
is found by binary search. The files of units are handled by the code for plain consume queues, with units as entries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from rocketmq_py.store.codec.packing import Entries
from rocketmq_py.store.fs.filesystem import InnerFolder
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.settings import BATCH_QUEUE_UNIT

_log = logging.getLogger(__name__)

_UNIT = "qiqqqhii"
_NOT_COMPACTED = -1
_AT_ONCE = 64
MAX_UNIT_MESSAGES = 0x7FFF
"""Maximum number of messages in one record: the field is a short."""


class BatchUnit(NamedTuple):
    """A unit: physical offset and size of a record, its tags code, store timestamp (milliseconds), queue offset of its
    first message (``base``) and number of its messages.
    """

    physical: int
    size: int
    tags_code: int
    store_timestamp: int
    base: int
    messages: int

    @property
    def end(self) -> int:
        """Queue offset after the last message."""
        return self.base + self.messages


class _Units(ConsumeQueue):
    """The units of a batch consume queue, as a consume queue whose offsets are the numbers of the units."""

    width: ClassVar[int] = BATCH_QUEUE_UNIT
    layout: ClassVar[Struct] = Struct(">" + _UNIT)
    size_key: ClassVar[str] = "mapperFileSizeBatchConsumeQueue"
    packing: ClassVar[Entries] = Entries(_UNIT)

    __slots__ = ()

    def unit(self, number: int) -> BatchUnit:
        [unit] = self.units(number, 1)
        return unit

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        return self.unit(offset)[:3] if self.min_offset <= offset < self.max_offset else None

    def skip_blanks(self, offset: int, end: int, residency: Residency | None = None) -> int:
        del end, residency
        return offset  # units are never blank

    def units(self, number: int, count: int) -> Iterator[BatchUnit]:
        """Iterate over at most ``count`` units, from the one with this number on."""
        raw = self.read(number, count)
        whole = raw[: len(raw) - len(raw) % self.width]
        return (BatchUnit._make(fields[:6]) for fields in self.layout.iter_unpack(whole))


class BatchConsumeQueue(ConsumeQueue):
    """The batch consume queue of one topic and queue id; its offsets count messages, as in every queue.

    Records of pending entries must be in the log before :meth:`commit_pending`, which reads their store timestamps.

    :param stored_at: returns the store timestamp of the record at an offset of the log, in milliseconds.
    """

    is_batched: ClassVar = True

    __slots__ = ("_counts", "_stored_at", "_units")

    def __init__(
        self, topic: str, queue_id: int, root: Path, files: OpenFiles, stored_at: Callable[[int], int]
    ) -> None:
        super().__init__(topic, queue_id, root, files)
        self._units = _Units(topic, queue_id, root, files)
        self._stored_at = stored_at
        self._counts: dict[int, int] = {}
        """Number of messages of pending records that do not have exactly one, by physical offset."""
        self.tail = self._units.tail  # shared object: it is only changed in place

    @property
    def entry_queue(self) -> ConsumeQueue:
        return self._units

    # -- writing

    def add(self, physical: int, size: int, tags_code: int, count: int = 1) -> None:
        self.note_count(physical, count)
        super().add(physical, size, tags_code, count)

    def note_count(self, physical: int, count: int) -> None:
        """Note the number of messages of a record whose entry is to be published."""
        if count != 1:
            self._counts[physical] = count

    def commit_pending(self) -> None:
        flat, self.pending = self.pending, []
        self.publish(flat, self.next_offset)

    def publish(self, flat: list[int], next_offset: int) -> None:
        base, units = self.max_offset, list[int]()
        for physical, size, code in zip(flat[0::3], flat[1::3], flat[2::3], strict=True):
            count = self._counts.pop(physical, 1)
            units += (physical, size, code, self._stored_at(physical), base, count, _NOT_COMPACTED, 0)
            base += count
        self._units.publish(units, self._units.max_offset + len(flat) // 3)
        self.max_offset = next_offset

    def spill(self) -> None:
        self._units.spill()

    def begin_at(self, offset: int) -> None:
        self._units.min_offset = self._units.max_offset = self._units.tail_start = 0
        self.min_offset = self.max_offset = self.next_offset = offset

    def skip_to(self, offset: int) -> None:
        if self.is_empty:
            self.remove_files()
            self.begin_at(offset)
            return
        _log.error("%s: messages %d to %d are missing in the commit log", self, self.max_offset, offset - 1)
        self.max_offset = self.next_offset = offset

    # -- reading

    def needs(self, offset: int, count: int, residency: Residency) -> None:
        """Do nothing: only a read of units shows which of them have the messages."""

    def read(self, offset: int, count: int) -> bytes:
        """Return the units with messages from ``offset`` to ``offset + count`` (exclusive), as Java returns them.

        That is in the 20-byte layout of a plain queue's entries, which has no store timestamps and numbers of messages.
        """
        units = (unit for unit in self.units(offset, count) if unit.base < offset + count)
        return self.packing.pack([field for unit in units for field in (unit.physical, unit.size, unit.tags_code)])

    def units(self, offset: int, count: int) -> Iterator[BatchUnit]:
        """Iterate over at most ``count`` units, from the one that contains the message at ``offset`` on."""
        number = self._number_of(offset)
        end = min(number + count, self._units.max_offset)
        while number < end:
            found = list(self._units.units(number, min(_AT_ONCE, end - number)))
            yield from found
            if not found:
                return
            number += len(found)

    @property
    def units_range(self) -> tuple[int, int]:
        """Number of the first unit, and the number after the last one."""
        return self._units.min_offset, self._units.max_offset

    def unit_at(self, number: int) -> BatchUnit | None:
        """Unit with a number; None if its file is missing."""
        return next(self._units.units(number, 1), None)

    def replace_unit(self, number: int, unit: BatchUnit) -> None:
        """Replace a damaged unit by the original one; the file's checksum, of the original units, stays valid."""
        self._units.replace_raw(number, self._units.layout.pack(*unit, _NOT_COMPACTED, 0))

    def _number_of(self, offset: int) -> int:
        """Number of the first unit that ends after ``offset``."""
        units = self._units
        low, high = units.min_offset, units.max_offset
        while low < high:
            middle = (low + high) // 2
            if units.unit(middle).end <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def unit(self, offset: int) -> BatchUnit | None:
        """Unit that contains the message at ``offset``; None if there is none."""
        if not self.min_offset <= offset < self.max_offset:
            return None
        found = next(self.units(offset, 1), None)
        return found if found is not None and found.base <= offset else None

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        found = self.unit(offset)
        return None if found is None else (found.physical, found.size, found.tags_code)

    def span(self, low: int, high: int) -> list[tuple[int, int, int]]:
        units = (unit for unit in self.units(low, high - low) if low <= unit.base < high)
        return [(unit.physical, unit.size, unit.tags_code) for unit in units]

    def next_file(self, offset: int) -> int:
        del offset
        return self.max_offset

    # -- loading and truncating

    def load(self, folder: InnerFolder, expected_end: int = 0) -> None:
        self._units.load(folder, expected_end)
        self._take_range()

    def load_below(self, physical_end: int) -> None:
        self._units.load_below(physical_end)
        self._take_range()

    def loaded(self) -> None:
        self._units.loaded()

    def truncate(self, physical_end: int) -> None:
        self._units.truncate(physical_end)
        self._take_range()

    def _take_range(self) -> None:
        """Set minimum and maximum offset from the units on disk."""
        units = self._units
        last = next(units.units(units.max_offset - 1, 1), None) if units.max_offset else None
        self.max_offset = self.next_offset = last.end if last is not None else 0
        self._take_minimum()

    def _take_minimum(self) -> None:
        units = self._units
        is_empty = units.min_offset == units.max_offset
        self.min_offset = self.max_offset if is_empty else units.unit(units.min_offset).base

    def raise_minimum(self, physical_start: int, residency: Residency | None = None) -> None:
        self._units.raise_minimum(physical_start, residency)
        self._take_minimum()

    def remove_expired_files(self) -> None:
        self._units.remove_expired_files()

    def remove_files(self) -> None:
        self._units.remove_files()

    def last_physical_end(self) -> int:
        return self._units.last_physical_end()

    def __str__(self) -> str:
        return f"batch consume queue {self.topic}-{self.queue_id}"
