"""Delivery progress of timed messages, as a master and its slaves exchange it.

Decides which messages such a progress covers. Times are milliseconds since the epoch, positions are queue offsets of
the timer topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_py.core.timer.timers import TimerEntry, wheel_position


class DeliveryProgress(NamedTuple):
    """Which delayed messages another broker has delivered.

    It has delivered the messages before ``queue_offset`` of the timer topic that were due before ``read_ms``, a time in
    milliseconds.

    :ivar waiting: queue offsets in that range whose messages it has not delivered yet.
    :ivar acted_from: when a slave began to act as master. From then on it also delivered messages that a master would
        have written into the wheel again.
    """

    queue_offset: int
    read_ms: int
    waiting: frozenset[int] = frozenset()
    acted_from: int | None = None

    def covers(self, queue_offset: int, out_ms: int, stored_ms: int, window_slots: int, precision: int) -> bool:
        """True if a message needs no delivery any more.

        :param out_ms: the slot of its final delivery. :param stored_ms: its store time.
        """
        if queue_offset >= self.queue_offset or queue_offset in self.waiting:
            return False
        if out_ms < self.read_ms:
            return True
        if self.acted_from is None:
            return False
        return self.acted_from <= wheel_position(out_ms, stored_ms, window_slots, precision).slot < self.read_ms


NO_PROGRESS = DeliveryProgress(0, 0)


class LateEntries:
    """Messages whose slot had passed when their entry was written, so that they are in a later slot.

    Progress up to their own slot would seem to cover them; until the later slot is done, it ends before the first of
    them.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._slot = 0

    def add(self, queue_offset: int, slot: int) -> None:
        """Record that a message has its entry in ``slot``, which is not its own."""
        if self._first is None:
            self._first = queue_offset
        self._slot = max(self._slot, slot)

    def limit(self, queue_offset: int, read_ms: int) -> int:
        """Return the queue offset up to which progress may be reported.

        :param queue_offset: of the first message without an entry. :param read_ms: the first slot that is not done.
        """
        if self._first is not None and self._slot < read_ms:
            self._first = None
        return queue_offset if self._first is None else min(queue_offset, self._first)


class UndeliveredEntries:
    """Due messages that no broker accepts, while others are delivered.

    :param most: their limit; a broker lists all of them when it reports its progress.
    """

    def __init__(self, most: int = 1000) -> None:
        self._most = most
        self._entries: dict[int, tuple[TimerEntry, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[TimerEntry]:
        return iter([entry for entry, _ in self._entries.values()])

    def __contains__(self, entry: TimerEntry) -> bool:
        return entry.position in self._entries

    def add(self, entry: TimerEntry, queue_offset: int) -> bool:
        """Add a message; False if there is no room."""
        if entry.position not in self._entries and len(self._entries) >= self._most:
            return False
        self._entries[entry.position] = entry, queue_offset
        return True

    def done(self, entry: TimerEntry) -> None:
        """Remove a message that was delivered or is gone."""
        self._entries.pop(entry.position, None)

    @property
    def first_slot(self) -> int | None:
        """The earliest slot of these messages; None if there are none."""
        return min((entry.slot for entry, _ in self._entries.values()), default=None)

    def places(self) -> list[int]:
        """Return their positions in the timer topic."""
        return sorted(queue_offset for _, queue_offset in self._entries.values())
