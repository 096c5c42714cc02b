"""The files of the timers, opened together, brought in line with each other, and put on disk.

Knows in which order they are written and what holds after a crash. Refuses to know what an entry's message says.

The wheel tells where the last entry of each slot is, every entry where the one before it is. Both are written at once,
the checkpoint after them; up to where all are on disk is told by ``log_end``. What lies behind was perhaps written and
perhaps not: the slots of its entries are written again at the start.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from rocketmq_py.core.timers import DEFAULT, DELETE, WHEEL_SLOTS
from rocketmq_py.store import FileSystem, StoreConfig
from rocketmq_py.store.layout import StoreLayout
from rocketmq_py.store.timerwheel import NOWHERE, Slot, TimerCheckpoint, TimerLog, TimerWheel, Unit

_log = logging.getLogger(__name__)


class TimerFiles:
    """Wheel, log and checkpoint.

    :raises StoreCorrupt: the wheel has an impossible size. :raises OSError: the disk fails.
    """

    def __init__(self, fs: FileSystem, layout: StoreLayout, config: StoreConfig) -> None:
        self._fs = fs
        self.precision = config.timer_precision_ms
        had_wheel = bool(fs.size(layout.timer_wheel))
        self.check = TimerCheckpoint(fs, layout.timer_check)
        self.log = TimerLog(fs, layout.timer_log, config.mapped_file_size_timer_log)
        self.is_new = not had_wheel or self.log.is_empty
        """Whether wheel or log is missing, so that every entry has to be written anew."""
        self._directory = layout.timer_log
        if self.is_new:
            self._start_anew(layout)
        self.wheel = TimerWheel(fs, layout.timer_wheel, WHEEL_SLOTS * 2, self.precision)
        self.last: Unit | None = None
        """The newest entry, where that is known."""
        self._recover()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rocketmq-timer")
        self._syncing: Future[None] | None = None
        self._is_failing = False
        self._wrote = True

    def _start_anew(self, layout: StoreLayout) -> None:
        """A wheel without its log, or the reverse, tells nothing."""
        self.log.close()
        self._fs.remove_tree(layout.timer_log)
        self._fs.remove(layout.timer_wheel)
        self.check.log_end = 0

    def _recover(self) -> None:
        for position, unit in self.log.recover(self.check.log_end):
            known = self.wheel.get(unit.slot)
            if known is None or known.last < position or known.last >= self.log.end:
                first = known.first if known is not None and unit.previous != NOWHERE else position
                self.wheel.put(unit.slot, Slot(first, position, known.number if known is not None else 1))
        self.last = self.log.newest()

    def write(self, slot: int, magic: int, written: int, physical: int, size: int, topic_hash: int) -> int:
        """Write an entry into a slot; returns its position.

        :raises OSError: the disk is full or fails.
        """
        known = self.wheel.get(slot)
        previous = known.last if known is not None else NOWHERE
        position = self.log.append(Unit(previous, magic, written, slot - written, physical, size, topic_hash))
        first, number = (known.first, known.number) if known is not None else (position, 0)
        self.wheel.put(slot, Slot(first, position, number + (-1 if magic & DELETE else 1)))
        self._wrote = True
        return position

    def rewrite(self, slot: int, entries: list[Unit]) -> None:
        """Let a slot have these entries and no others.

        A Java broker links a slot anew to its newest entry in the log, so an empty one gets an entry of no message.

        :raises OSError: the disk is full or fails.
        """
        entries = entries or [Unit(NOWHERE, DEFAULT, slot, 0, NOWHERE, 0, 0)]
        first = previous = NOWHERE
        for unit in entries:
            previous = self.log.append(unit._replace(previous=previous, delay=slot - unit.written))
            first = previous if first == NOWHERE else first
        self.wheel.put(slot, Slot(first, previous, len(entries)))
        self._wrote = True

    def end_nowhere(self, slot: int) -> None:
        """Write an entry of a slot that is over, and of no message: a Java broker takes the queue offset from the
        newest entry's message, and from the checkpoint when there is none.
        """
        self.log.append(Unit(NOWHERE, DEFAULT, slot, 0, NOWHERE, 0, 0))
        self._wrote = True

    # -- to the disk

    def flush(self) -> None:
        """Begin to put everything on disk, unless that is under way; the checkpoint tells of it with the next write."""
        if self._syncing is not None:
            if not self._syncing.done():
                return
            self._ended(self._syncing)
        if self._wrote:
            self._wrote = False
            paths, end = self._paths(), self.log.end
            self._flushing = end
            self._syncing = self._thread.submit(self._fs.sync, paths)

    def _ended(self, syncing: Future[None]) -> None:
        self._syncing = None
        failure = syncing.exception()
        if failure is None:
            self.check.log_end = self._flushing
            if self._is_failing:
                _log.warning("the timer log can be put on disk again")
            self._is_failing = False
            return
        self._wrote = True
        if not self._is_failing:
            _log.error("the timer log cannot be put on disk, the next flush tries again: %s", failure)
        self._is_failing = True

    def _paths(self) -> list[Path]:
        return [*self.log.dirty(self.check.log_end), self.wheel.path, self.check.path]

    def close(self) -> None:
        """Put everything on disk and close the files.

        :raises OSError: the disk is full or fails.
        """
        self._thread.shutdown(wait=True)
        try:
            self._fs.sync(self._paths())
            self.check.log_end = self.log.end
            self.check.write()
            self._fs.sync([self.check.path])
        finally:
            self.log.close()
            self.wheel.close()
