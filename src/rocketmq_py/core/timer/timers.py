"""Timed messages: delivery times, slots of the timer wheel, and an agenda of the messages that are due soon.

Rules: HookUtils and TimerMessageStore. Times are milliseconds since the epoch. Apache RocketMQ sorts timed messages
into slots of ``precision`` milliseconds, which are identified by their start: a message in slot ``T`` is due after
``T`` and at the latest at ``T + precision``. Its properties have the exact time.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from rocketmq_py.properties import Property

DEFAULT, ROLL, DELETE = 1, 2, 4
"""Bits of an entry's magic. ROLL: the message must be written to the wheel again. DELETE: it cancels another one."""
WHEEL_SLOTS = 7 * 24 * 3600
"""Half the number of slots of a wheel, independent of the precision."""
BLANK_SLOTS = 60

_ASKS = ((Property.TIMER_DELAY_SEC, 1000, True), (Property.TIMER_DELAY_MS, 1, True),
         (Property.TIMER_DELIVER_MS, 1, False))  # fmt: skip
"""Properties that request a delivery time, highest priority first: name, unit in milliseconds, True for a delay from
now.
"""
ASKING = tuple(name for name, _, _ in _ASKS)
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


def is_timer(properties: Mapping[str, str]) -> bool:
    """Return True if a message requests a delivery time and has not been in the timer wheel yet."""
    return Property.TIMER_OUT_MS not in properties and any(name in properties for name in ASKING)


class Properties(Protocol):
    """An object with the properties of a message."""

    def get(self, name: str, /) -> str | None: ...


def requested_time(properties: Properties, now: int) -> int:
    """Return the delivery time that a message requests, in milliseconds since the epoch.

    :param now: time from which delays count.
    :raises ValueError: no property requests a time, or its value is not a whole number.
    """
    for name, unit, counts_from_now in _ASKS:
        text = properties.get(name)
        if text is not None:
            if not _LONG.fullmatch(text):
                raise ValueError(f"{name} is {text!r}: a whole number is expected")
            return int(text) * unit + (now if counts_from_now else 0)
    raise ValueError("no property asks for a delivery time")


def slot_of(deliver_ms: int, precision: int) -> int:
    """Return the start of the slot of a delivery time, in milliseconds since the epoch: the property TIMER_OUT_MS.

    :param precision: length of a slot in milliseconds.
    """
    return (deliver_ms - 1) // precision * precision


def due_ms(properties: Properties, out_ms: int, stored_ms: int, precision: int) -> int:
    """Return the time at which a message is due, in milliseconds since the epoch.

    This is the time that its properties request if that lies in the message's slot, else the end of the slot. The time
    is outside, for example, if a message with a delay was stored again, because delays count from ``stored_ms``.

    :param out_ms: start of the message's slot, in milliseconds since the epoch.
    :param stored_ms: its latest store time in milliseconds since the epoch.
    :param precision: length of a slot in milliseconds.
    """
    end = out_ms + precision
    try:
        asked = requested_time(properties, stored_ms)
    except ValueError:
        return end
    return asked if out_ms < asked <= end else end


class TimerPosition(NamedTuple):
    """The slot of the timer wheel to which a message is written.

    ``rolls`` is True if its delivery time is later: when the slot is due, the message is written to the wheel again.
    """

    slot: int
    rolls: bool


def wheel_position(out_ms: int, now: int, window_slots: int, precision: int) -> TimerPosition:
    """Return the slot of the wheel to which to write a message.

    A message beyond the window is written to an earlier slot and again when that is due (``rolls``). As in Java, the
    earlier slot is chosen so that the last wait is at least a third of the window.

    :param out_ms: start of the slot of the message's delivery, in milliseconds since the epoch.
    :param now: current time in milliseconds since the epoch.
    :param window_slots: number of slots that the wheel covers from now on (the window).
    :param precision: length of a slot in milliseconds.
    """
    window, written = window_slots * precision, now // precision * precision
    rest = out_ms - written - window
    if rest < 0:
        return TimerPosition(out_ms, rolls=False)
    if rest < window_slots // 3 * precision:
        return TimerPosition(written + window_slots // 2 * precision, rolls=True)
    return TimerPosition(written + window, rolls=True)


def window_slots(configured: int) -> int:
    """Return how many slots from now on the timer wheel may use (the window).

    :param configured: the broker's setting, a number of slots; an invalid one means the largest possible number.
    """
    longest = WHEEL_SLOTS - BLANK_SLOTS
    return configured if 2 <= configured <= longest else longest


def delete_keys(topic: str, unique_key: str) -> tuple[str, str]:
    """Return the two forms in which a cancelling message may refer to the message it cancels.

    Brokers use the unique key, or topic, ``+`` and unique key, depending on version and setting.
    """
    return unique_key, f"{topic}+{unique_key}"


class TimerEntry(NamedTuple):
    """The timer log entry of a message that is due soon. Times are milliseconds since the epoch.

    :ivar due: time at which it is due.
    :ivar position: offset of the entry in the timer log.
    :ivar slot: slot of the wheel.
    :ivar physical: commit log offset of the message. :ivar size: its size in bytes.
    :ivar magic: bits :data:`ROLL` and :data:`DELETE`.
    :ivar written: time at which the entry was written; 0 if unknown.
    """

    due: int
    position: int
    slot: int
    physical: int
    size: int
    magic: int
    written: int


class _Waiting:
    """Entries that are due at the same time; they are removed in order of arrival, that is, of their positions."""

    __slots__ = ("_in_order", "entries")

    def __init__(self) -> None:
        self.entries: list[TimerEntry] = []
        """In reverse order, so that the first entry is removed from the end; the timer log is read in this order, too.
        """
        self._in_order = True

    def add(self, entry: TimerEntry) -> None:
        self._in_order = self._in_order and not (self.entries and self.entries[-1].position < entry.position)
        self.entries.append(entry)

    def take(self, most: int) -> list[TimerEntry]:
        """Remove and return the first entries in order, at most ``most``."""
        if not self._in_order:
            self.entries.sort(reverse=True)
            self._in_order = True
        taken = self.entries[-most:]
        del self.entries[-most:]
        taken.reverse()
        return taken


class Agenda:
    """The messages that are due soon, ordered by due time and then by arrival.

    It also counts the unfinished entries of each slot of the timer wheel: those not yet delivered or dropped.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        """A heap of the due times; each may have many entries in ``_waiting``."""
        self._waiting: dict[int, _Waiting] = {}
        self._open: dict[int, int] = {}
        self._begun: set[int] = set()
        self._cancelled: dict[int, dict[tuple[str, str], TimerEntry]] = {}

    def __len__(self) -> int:
        return sum(len(waiting.entries) for waiting in self._waiting.values())

    def add(self, entry: TimerEntry) -> None:
        self._put(entry)
        self.hold(entry.slot)

    def _put(self, entry: TimerEntry) -> None:
        waiting = self._waiting.get(entry.due)
        if waiting is None:
            waiting = self._waiting[entry.due] = _Waiting()
            heapq.heappush(self._times, entry.due)
        waiting.add(entry)

    def hold(self, slot: int) -> None:
        """Count one more unfinished entry of a slot: :meth:`is_complete` is False until :meth:`release` is called."""
        self._open[slot] = self._open.get(slot, 0) + 1

    def release(self, slot: int, count: int = 1) -> None:
        rest = self._open[slot] - count
        if rest:
            self._open[slot] = rest
        else:
            del self._open[slot]

    def cancel(self, topic: str, key: str, entry: TimerEntry) -> None:
        """Cancel a message in the slot of ``entry``.

        :param topic: topic of the message to cancel.
        :param key: its unique key, or topic, ``+`` and unique key.
        :param entry: timer log entry of the message that requests the cancellation.
        """
        self._cancelled.setdefault(entry.slot, {})[topic, key] = entry

    def has_cancelled(self, slot: int) -> bool:
        """Return True if any message of a slot is cancelled."""
        return slot in self._cancelled

    def is_cancelled(self, slot: int, topic: str, unique_key: str) -> bool:
        """Return True if the message of a slot with this topic and unique key is cancelled."""
        cancelled = self._cancelled.get(slot)
        return cancelled is not None and any((topic, key) in cancelled for key in delete_keys(topic, unique_key))

    def take(self, now: int, most: int) -> list[TimerEntry]:
        """Remove and return entries that are due, at most ``most``; the caller passes each to :meth:`done` or
        :meth:`back`.
        """
        times, taken = self._times, list[TimerEntry]()
        while times and times[0] <= now and len(taken) < most:
            waiting = self._waiting[times[0]]
            taken += waiting.take(most - len(taken))
            if not waiting.entries:
                del self._waiting[heapq.heappop(times)]
        return taken

    def back(self, entries: Iterable[TimerEntry]) -> None:
        """Put back entries that could not be delivered."""
        for entry in entries:
            self._put(entry)

    def done(self, entries: Iterable[TimerEntry]) -> None:
        """Record that entries returned by :meth:`take` were delivered or dropped."""
        for slot, count in Counter([entry.slot for entry in entries]).items():
            self._begun.add(slot)
            self.release(slot, count)

    def is_complete(self, slot: int) -> bool:
        """Return True if all entries of a slot are delivered or dropped."""
        return slot not in self._open

    def forget(self, slot: int) -> None:
        """Remove a complete slot, with its cancellations, from memory."""
        self._begun.discard(slot)
        self._cancelled.pop(slot, None)

    def begun(self) -> list[int]:
        """Return the slots with at least one delivered or dropped entry, sorted, until :meth:`forget` removes them."""
        return sorted(self._begun)

    def rest(self, slot: int) -> Iterator[TimerEntry]:
        """Yield the undelivered entries of a slot in order of arrival, then the entries of cancelling messages."""
        entries = (entry for waiting in self._waiting.values() for entry in waiting.entries if entry.slot == slot)
        yield from sorted(entries, key=lambda entry: entry.position)
        yield from self._cancelled.get(slot, {}).values()
