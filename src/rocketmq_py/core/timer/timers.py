"""Timed messages: delivery times, positions in the wheel, and an agenda of what is due soon.

Rules: HookUtils and TimerMessageStore. Times are milliseconds since the epoch. Apache RocketMQ sorts timers into slots
of ``precision`` milliseconds; a message of slot ``T`` is due after ``T`` and not after ``T + precision``. Its
properties have the exact time.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from rocketmq_py.properties import Property

DEFAULT, ROLL, DELETE = 1, 2, 4
"""Bits of an entry's magic: ROLL goes round once more, DELETE takes another one out."""
WHEEL_SLOTS = 7 * 24 * 3600
"""Half the slots of a wheel, whatever its precision."""
BLANK_SLOTS = 60

_ASKS = ((Property.TIMER_DELAY_SEC, 1000, True), (Property.TIMER_DELAY_MS, 1, True),
         (Property.TIMER_DELIVER_MS, 1, False))  # fmt: skip
"""Properties that request a time, the strongest first: name, unit in milliseconds, whether it is relative to now."""
ASKING = tuple(name for name, _, _ in _ASKS)
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


def is_timer(properties: Mapping[str, str]) -> bool:
    """True if a message requests a time and has not waited yet."""
    return Property.TIMER_OUT_MS not in properties and any(name in properties for name in ASKING)


class Properties(Protocol):
    """An object with the properties of a message."""

    def get(self, name: str, /) -> str | None: ...


def requested_time(properties: Properties, now: int) -> int:
    """Return the delivery time a message requests.

    :param now: reference of relative times.
    :raises ValueError: it is not a number.
    """
    for name, unit, counts_from_now in _ASKS:
        text = properties.get(name)
        if text is not None:
            if not _LONG.fullmatch(text):
                raise ValueError(f"{name} is {text!r}: a whole number is expected")
            return int(text) * unit + (now if counts_from_now else 0)
    raise ValueError("no property asks for a delivery time")


def slot_of(deliver_ms: int, precision: int) -> int:
    """Return the slot of a delivery time (TIMER_OUT_MS)."""
    return (deliver_ms - 1) // precision * precision


def due_ms(properties: Properties, out_ms: int, stored_ms: int, precision: int) -> int:
    """Return when a message of slot ``out_ms`` that was stored at ``stored_ms`` is due.

    It is exact to the millisecond if the properties have the time. For a message that has gone round the wheel, a
    relative time counts from an earlier store time; it is due at the end of its slot.
    """
    end = out_ms + precision
    try:
        asked = requested_time(properties, stored_ms)
    except ValueError:
        return end
    return asked if out_ms < asked <= end else end


class TimerPosition(NamedTuple):
    """The slot of an entry, and whether it must be written to the wheel again then."""

    slot: int
    rolls: bool


def wheel_position(out_ms: int, now: int, window_slots: int, precision: int) -> TimerPosition:
    """Return the slot of the wheel for a message that is due at ``out_ms``, a time in milliseconds.

    A message beyond the window is put into an earlier slot, from which it is written again (``rolls``). As in Java it
    is written so that its last wait is at least a third of a window.

    :param window_slots: how many slots ahead a message may be written.
    :param precision: milliseconds of a slot.
    """
    window, written = window_slots * precision, now // precision * precision
    rest = out_ms - written - window
    if rest < 0:
        return TimerPosition(out_ms, rolls=False)
    if rest < window_slots // 3 * precision:
        return TimerPosition(written + window_slots // 2 * precision, rolls=True)
    return TimerPosition(written + window, rolls=True)


def window_slots(configured: int) -> int:
    """Return how many slots ahead a message may be written; the whole wheel if the setting is invalid."""
    longest = WHEEL_SLOTS - BLANK_SLOTS
    return configured if 2 <= configured <= longest else longest


def delete_keys(topic: str, unique_key: str) -> tuple[str, str]:
    """Return the keys by which a message that cancels another one may name it; they depend on the broker's version and
    setting.
    """
    return unique_key, f"{topic}+{unique_key}"


class TimerEntry(NamedTuple):
    """A message that is due soon.

    :ivar position: of its entry in the timer log. :ivar physical: of the message in the commit log.
    :ivar written: when the entry was written, 0 if unknown.
    """

    due: int
    position: int
    slot: int
    physical: int
    size: int
    magic: int
    written: int


class _Waiting:
    """Entries that are due at the same time, taken in order of arrival, which is that of their positions."""

    __slots__ = ("_in_order", "entries")

    def __init__(self) -> None:
        self.entries: list[TimerEntry] = []
        """In reverse order, so that the first is removed at no cost; chains are read in this order, too."""
        self._in_order = True

    def add(self, entry: TimerEntry) -> None:
        self._in_order = self._in_order and not (self.entries and self.entries[-1].position < entry.position)
        self.entries.append(entry)

    def take(self, most: int) -> list[TimerEntry]:
        """Remove and return the first ``most``, or all."""
        if not self._in_order:
            self.entries.sort(reverse=True)
            self._in_order = True
        taken = self.entries[-most:]
        del self.entries[-most:]
        taken.reverse()
        return taken


class Agenda:
    """Messages that are due soon, in order of time and then of arrival."""

    def __init__(self) -> None:
        self._times: list[int] = []
        """A heap of due times; each may have many entries."""
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
        """Keep a slot incomplete until :meth:`release`."""
        self._open[slot] = self._open.get(slot, 0) + 1

    def release(self, slot: int, count: int = 1) -> None:
        rest = self._open[slot] - count
        if rest:
            self._open[slot] = rest
        else:
            del self._open[slot]

    def cancel(self, topic: str, key: str, entry: TimerEntry) -> None:
        """Cancel the message of a topic with a key in the slot of ``entry``.

        :param topic: the real topic of the message that cancels; messages of other topics are not affected.
        :param key: a unique key, or topic, ``+`` and unique key.
        """
        self._cancelled.setdefault(entry.slot, {})[topic, key] = entry

    def has_cancelled(self, slot: int) -> bool:
        """True if any message of a slot is cancelled."""
        return slot in self._cancelled

    def is_cancelled(self, slot: int, topic: str, unique_key: str) -> bool:
        """True if a message is cancelled."""
        cancelled = self._cancelled.get(slot)
        return cancelled is not None and any((topic, key) in cancelled for key in delete_keys(topic, unique_key))

    def take(self, now: int, most: int) -> list[TimerEntry]:
        """Remove and return the next due entries; the caller passes each to :meth:`done` or :meth:`back`."""
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
        """Record that taken entries are delivered or dropped."""
        for slot, count in Counter([entry.slot for entry in entries]).items():
            self._begun.add(slot)
            self.release(slot, count)

    def is_complete(self, slot: int) -> bool:
        """True if nothing of a slot waits here."""
        return slot not in self._open

    def forget(self, slot: int) -> None:
        """Remove a finished slot."""
        self._begun.discard(slot)
        self._cancelled.pop(slot, None)

    def begun(self) -> list[int]:
        """Return the slots that are partly delivered."""
        return sorted(self._begun)

    def rest(self, slot: int) -> Iterator[TimerEntry]:
        """Yield the undelivered entries of a slot in order of arrival; cancelling entries come last."""
        entries = (entry for waiting in self._waiting.values() for entry in waiting.entries if entry.slot == slot)
        yield from sorted(entries, key=lambda entry: entry.position)
        yield from self._cancelled.get(slot, {}).values()
