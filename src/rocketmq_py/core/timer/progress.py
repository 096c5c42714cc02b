"""Delivery progress of timed messages, which a master and its slaves exchange so that no message is delivered twice.

Times are milliseconds since the epoch; positions are queue offsets in the timer topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketmq_py.core.timer.timers import TimerEntry, wheel_position


class DeliveryProgress(NamedTuple):
    """Describes which timed messages another broker has delivered.

    It has delivered the messages that lie before ``queue_offset`` in the timer topic and were due before ``read_ms``.

    :ivar waiting: queue offsets in this range of messages that it has not delivered yet.
    :ivar acted_from: time at which the other broker, a slave, began to act as master; None if it did not. Since then it
        has also delivered messages that a master would only have moved to a later slot of the wheel.
    """

    queue_offset: int
    read_ms: int
    waiting: frozenset[int] = frozenset()
    acted_from: int | None = None

    def covers(self, queue_offset: int, out_ms: int, stored_ms: int, window_slots: int, precision: int) -> bool:
        """Return True if the other broker has delivered a message.

        :param queue_offset: offset of the message in the timer topic.
        :param out_ms: start of the slot of its delivery, in milliseconds since the epoch.
        :param stored_ms: its store time in milliseconds since the epoch.
        :param window_slots: number of slots that the timer wheel covers.
        :param precision: length of a slot in milliseconds.
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
    """Messages that were added to the timer wheel too late for the slot of their delivery time, so in a later slot.

    Another broker takes a message as delivered once the reported progress is past its delivery time. So until the later
    slot is finished, progress is reported only up to the first of these messages.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._slot = 0

    def add(self, queue_offset: int, slot: int) -> None:
        """Record that a message was added to a later slot than that of its delivery time.

        :param queue_offset: offset of the message in the timer topic.
        :param slot: the later slot, in milliseconds since the epoch.
        """
        if self._first is None:
            self._first = queue_offset
        self._slot = max(self._slot, slot)

    def limit(self, queue_offset: int, read_ms: int) -> int:
        """Return the queue offset up to which (exclusive) progress may be reported.

        :param queue_offset: offset in the timer topic of the first message that is not in the timer wheel yet.
        :param read_ms: the first slot whose messages are not all delivered, in milliseconds since the epoch.
        """
        if self._first is not None and self._slot < read_ms:
            self._first = None
        return queue_offset if self._first is None else min(queue_offset, self._first)


class UndeliveredEntries:
    """Due messages that could not be delivered yet, because no broker accepts them.

    :param most: maximum number of messages; each is listed in the broker's progress report (``waiting`` of
        :class:`DeliveryProgress`).
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
        """Add a message; return False if the limit is reached.

        :param queue_offset: offset of the message in the timer topic.
        """
        if entry.position not in self._entries and len(self._entries) >= self._most:
            return False
        self._entries[entry.position] = entry, queue_offset
        return True

    def done(self, entry: TimerEntry) -> None:
        """Remove a message that was delivered or dropped."""
        self._entries.pop(entry.position, None)

    @property
    def first_slot(self) -> int | None:
        """The earliest slot of these messages; None if there are none."""
        return min((entry.slot for entry, _ in self._entries.values()), default=None)

    def places(self) -> list[int]:
        """Return the queue offsets of the messages in the timer topic, sorted."""
        return sorted(queue_offset for _, queue_offset in self._entries.values())
