"""How far the brokers of one name have come with timed messages, and what they may say of it to each other.

Knows which messages such a word covers, which it must leave out, and which nobody takes from a slave that acts for its
master. Refuses to know files and requests. Times are milliseconds since the epoch, places are queue offsets of the
timers' topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_py.core.timer.timers import TimerEntry, wheel_position


class DeliveryProgress(NamedTuple):
    """What a broker has said of its deliveries.

    Messages before ``queue_offset`` that come out of slots before ``read_ms`` have been delivered.

    :ivar waiting: places of those that have not, all the same.
    :ivar acted_from: a slave acted from this time on, and gave others what was to go round the wheel once more, too.
    """

    queue_offset: int
    read_ms: int
    waiting: frozenset[int] = frozenset()
    acted_from: int | None = None

    def covers(self, queue_offset: int, out_ms: int, stored_ms: int, window_slots: int, precision: int) -> bool:
        """Whether a message needs no delivery any more.

        :param out_ms: the slot it comes out of at last. :param stored_ms: when it was stored.
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
    """Messages whose slot was over when they got their entry, so that they are in a later one.

    A word about the slots before would seem to cover them: until that slot is over, it ends before the first of them.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._slot = 0

    def add(self, queue_offset: int, slot: int) -> None:
        """A message has got an entry in ``slot``, which is not its own."""
        if self._first is None:
            self._first = queue_offset
        self._slot = max(self._slot, slot)

    def limit(self, queue_offset: int, read_ms: int) -> int:
        """Up to where messages may be spoken of.

        :param queue_offset: of the first one without an entry. :param read_ms: the first slot not said to be over.
        """
        if self._first is not None and self._slot < read_ms:
            self._first = None
        return queue_offset if self._first is None else min(queue_offset, self._first)


class UndeliveredEntries:
    """Messages that are due and nobody takes; others are delivered meanwhile.

    :param most: how many; a broker names all of them when it says how far it has come.
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
        """Nobody takes a message; False when there is no room for another one."""
        if entry.position not in self._entries and len(self._entries) >= self._most:
            return False
        self._entries[entry.position] = entry, queue_offset
        return True

    def done(self, entry: TimerEntry) -> None:
        """Somebody has taken a message, or it is no more."""
        self._entries.pop(entry.position, None)

    @property
    def first_slot(self) -> int | None:
        """The first slot one of them came out of; None when there are none."""
        return min((entry.slot for entry, _ in self._entries.values()), default=None)

    def places(self) -> list[int]:
        """Where in the timers' topic they are."""
        return sorted(queue_offset for _, queue_offset in self._entries.values())
