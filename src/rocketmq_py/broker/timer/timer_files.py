"""The timer files: wheel, timer log and checkpoint, opened, recovered and flushed together.

The wheel has the log position of the last entry of each slot, and every entry has the position of the entry before it.
Both are written immediately, the checkpoint after them; its ``log_end`` is the position up to which everything is on
disk. Behind that position, a power loss may have lost any part: entries are valid up to the first missing one, slots
that point behind it are rebuilt, and all of that is flushed before anything is appended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

from rocketmq_py.core.timer.progress import DeliveryProgress
from rocketmq_py.core.timer.timers import DEFAULT, DELETE, WHEEL_SLOTS
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.store import FileSystem, StoreConfig
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.timer.timer_wheel import (
    NOWHERE,
    Slot,
    TimerCheckpoint,
    TimerLog,
    TimerUnit,
    TimerWheel,
    progress,
)

_log = logging.getLogger(__name__)


class TimerFiles:
    """Wheel, timer log and checkpoint.

    :param messages_end: the end offset of the commit log; entries of messages behind it are invalid.
    :param find_fault: returns what is wrong with the log or the checkpoint, None if nothing.
    :param thread: an executor that flushes the files; :meth:`close` shuts it down.
    :raises OSError: the disk fails.
    """

    def __init__(
        self,
        fs: FileSystem,
        layout: StoreLayout,
        config: StoreConfig,
        messages_end: int,
        thread: Executor,
        find_fault: Callable[[TimerLog, TimerCheckpoint], str | None] = lambda *_: None,
    ) -> None:
        self._fs = fs
        self._file_size = config.mapped_file_size_timer_log
        self.precision = config.timer_precision_ms
        wheel_size, expected_size = fs.size(layout.timer_wheel) or 0, TimerWheel.size_of(WHEEL_SLOTS * 2)
        self.check = TimerCheckpoint(fs, layout.timer_check)
        self.log = TimerLog(fs, layout.timer_log, config.mapped_file_size_timer_log)
        fault = None
        if wheel_size == expected_size:
            fault = find_fault(self.log, self.check)
        elif wheel_size:
            fault = f"its file has {wheel_size} bytes instead of {expected_size}"
        if fault is not None:
            _log.warning("the timer wheel is written again from the messages in the timer topic: %s", fault)
        self.is_new = not wheel_size or self.log.is_empty or fault is not None
        """True if wheel or log is missing, so that every entry has to be written again."""
        self._directory = layout.timer_log
        if self.is_new:
            self._remove_all(layout)
        self.wheel = TimerWheel(fs, layout.timer_wheel, WHEEL_SLOTS * 2, self.precision)
        self.newest: list[TimerUnit] = []
        """The entries behind the flushed part of the log; if there are none, only the last entry."""
        self._recover(messages_end)
        self._thread = thread
        self._syncing: Future[None] | None = None
        self._is_failing = False
        self._wrote = True
        self._flushing = (0, 0)

    def _remove_all(self, layout: StoreLayout) -> None:
        """Remove wheel and log, because one is useless without the other."""
        self.log.close()
        self._fs.remove_tree(layout.timer_log)
        self._fs.remove(layout.timer_wheel)
        self.check.log_end = 0
        self.log = TimerLog(self._fs, layout.timer_log, self._file_size)

    def _recover(self, messages_end: int) -> None:
        found = self._valid_entries(self.log.recover(self.check.log_end, messages_end))
        lost = set() if self.is_new else self.wheel.pointing_beyond(self.log.end)
        if lost:
            self._relink(lost)
        for position, unit in found:
            known = self.wheel.get(unit.slot)
            if known is None or known.last < position:
                first = known.first if known is not None and unit.previous != NOWHERE else position
                self.wheel.put(unit.slot, Slot(first, position, known.number if known is not None else 1))
        self.check.log_end = min(self.check.log_end, self.log.end)
        if not self.is_new:
            self._fs.sync(self._paths())

    def _valid_entries(self, found: list[tuple[int, TimerUnit]]) -> list[tuple[int, TimerUnit]]:
        """Return those entries of the timer log that are valid, and truncate the others.

        A shutdown rewrites half-delivered slots at the end of the log; if it did not finish, the rewritten ones are
        invalid. Also sets ``newest`` to the entries before the rewritten ones.

        :param found: the entries after the checkpoint, with their positions.
        """
        marks = [number for number, (_, unit) in enumerate(found) if unit.is_of_no_message]
        before = found[: marks[0]] if marks else found
        self.newest = [unit for _, unit in before]
        if marks:
            begin, end = found[marks[0]][1], found[-1][1]
            if len(found) - 1 == marks[0] or not end.is_of_no_message or end.slot != begin.slot:
                self.log.truncate(found[marks[0]][0])
                return before
        newest = self.log.newest()
        if not found and newest is not None:
            self.newest = [newest]
        return found

    def _relink(self, times: set[int]) -> None:
        """Rebuild the slots of these times (ms) from the log; in the wheel they point behind the end of the log."""
        slots: dict[int, Slot] = {}
        for position, unit in self.log.units():
            if unit.slot in times:
                known = slots.get(unit.slot) if unit.previous != NOWHERE else None
                first, number = (known.first, known.number) if known is not None else (position, 0)
                number += -1 if unit.magic & DELETE else 1
                slots[unit.slot] = Slot(first, position, number)
        for time in times:
            if time in slots:
                self.wheel.put(time, slots[time])
            else:
                self.wheel.clear(time)

    def write(self, slot: int, magic: int, written: int, physical: int, size: int, topic_hash: int) -> int:
        """Append an entry to a slot and return its position in the timer log.

        :param slot: time of the slot in milliseconds since the epoch; ``written`` is the time for the entry's field.
        :param magic: the flags of the entry, such as ``DELETE`` for a recall.
        :param physical: commit log offset of the message in the timer topic; ``size`` is its size in bytes.
        :param topic_hash: hash of its real topic.
        :raises OSError: the disk is full or fails.
        """
        known = self.wheel.get(slot)
        previous = known.last if known is not None else NOWHERE
        position = self.log.append(TimerUnit(previous, magic, written, slot - written, physical, size, topic_hash))
        first, number = (known.first, known.number) if known is not None else (position, 0)
        self.wheel.put(slot, Slot(first, position, number + (-1 if magic & DELETE else 1)))
        self._wrote = True
        return position

    def rewrite(self, slot: int, entries: list[TimerUnit]) -> None:
        """Replace the entries of a slot.

        A Java broker links a slot to its newest entry in the log, so an empty slot gets an entry without a message.

        :raises OSError: the disk is full or fails.
        """
        entries = entries or [TimerUnit(NOWHERE, DEFAULT, slot, 0, NOWHERE, 0, 0)]
        first = previous = NOWHERE
        for unit in entries:
            previous = self.log.append(unit._replace(previous=previous, delay=slot - unit.written))
            first = previous if first == NOWHERE else first
        self.wheel.put(slot, Slot(first, previous, len(entries)))
        self._wrote = True

    def write_rewrite_mark(self, slot: int) -> None:
        """Append an entry without a message, as a mark before or after rewritten slots.

        Rewritten slots are valid only between two marks. A Java broker reads the queue offset from the message of the
        newest entry, or from the checkpoint if that entry has no message.

        :param slot: a slot whose messages are all delivered, in milliseconds.
        """
        self.log.append(TimerUnit(NOWHERE, DEFAULT, slot, 0, NOWHERE, 0, 0))
        self._wrote = True

    # -- flushing

    def flush(self, queue_offset: int) -> None:
        """Start to flush everything unless a flush is running; :meth:`poll_flush` updates the checkpoint afterwards.

        :param queue_offset: the offset in the timer topic of the first message without an entry.
        """
        if self._syncing is not None:
            return
        if self._wrote:
            self._wrote = False
            self._flushing = self.log.end, queue_offset
            self._syncing = self._thread.submit(self._fs.sync, self._paths())
        else:
            self.check.queue_offset = queue_offset

    def poll_flush(self) -> None:
        """Update the checkpoint if a flush has finished."""
        if self._syncing is None or not self._syncing.done():
            return
        failure, self._syncing = self._syncing.exception(), None
        if failure is None:
            self.check.log_end, self.check.queue_offset = self._flushing
            if self._is_failing:
                _log.warning("the timer log can be flushed again")
            self._is_failing = False
            return
        self._wrote = True
        if not self._is_failing:
            _log.error("the timer log cannot be flushed, trying again: %s", failure)
        self._is_failing = True

    def _paths(self) -> list[Path]:
        return [*self.log.dirty(self.check.log_end), self.wheel.path, self.check.path]

    def close(self, queue_offset: int) -> None:
        """Flush everything and close the files.

        :param queue_offset: the offset in the timer topic of the first message without an entry.
        :raises OSError: the disk is full or fails.
        """
        self._thread.shutdown(wait=True)
        try:
            self._fs.sync(self._paths())
            self.check.log_end, self.check.queue_offset = self.log.end, queue_offset
            self.check.write()
            self._fs.sync([self.check.path])
        finally:
            self.log.close()
            self.wheel.close()


def parse_checkpoint(check: bytes, more: TimerCheckPointResponse | None) -> DeliveryProgress:
    """Decode a timer checkpoint and the header fields sent with it.

    :raises ValueError: they cannot be decoded.
    """
    read_ms, queue_offset = progress(check)
    if more is None or more.delivered_before is None:
        return DeliveryProgress(queue_offset, read_ms)
    waiting = frozenset(map(int, more.waiting.split(","))) if more.waiting else frozenset[int]()
    return DeliveryProgress(queue_offset, more.delivered_before, waiting, more.acted_from)
