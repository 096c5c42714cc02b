"""States of half messages and progress of the op queue (TransactionalMessageServiceImpl, EndTransactionProcessor).

Offsets are those of the half topic's queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK

COMMIT, ROLLBACK, UNKNOWN = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_NOT
"""The outcome of a transaction as END_TRANSACTION carries it."""
OPEN = 0
ENDED = 1
"""Ended with an outcome that is no longer known."""
_OPEN_BYTE = bytes((OPEN,))
_MOST_GIVEN_UP = 10_000


def run_length(places: Sequence[int], offsets: Sequence[int], at: int) -> tuple[int, int]:
    """Return how many half messages from ``at`` on may be adjacent in log and half topic, and the size of each.

    They are adjacent if all have this size.
    """
    place, offset, last = places[at], offsets[at], len(places) - 1
    size = places[at + 1] - place if at < last else 1
    if size <= 0:
        return 1, 1
    end = at
    while end < last and places[end + 1] - places[end] == size and offsets[end + 1] - offset == end + 1 - at:
        end += 1
    return end + 1 - at, size


class TransactionTable:
    """The states of half messages from ``base``, the first one that is not processed yet.

    A half message ends once: after a rollback it cannot be committed, and it is committed only once. A check stores a
    half message again at the end of the queue (:meth:`move`); a producer that knows only the earlier position can still
    end it.

    Half messages before ``since``, the base at creation, count as open unless their end is recorded, as in Apache
    RocketMQ.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self.since = base
        self._states = bytearray()
        self._current: dict[int, int] = {}
        self._earlier: dict[int, list[int]] = {}
        self._given_up: dict[int, None] = {}
        self._has_forgotten = False
        self._stale: set[int] = set()

    def end(self, half: int, outcome: int = ENDED) -> list[int]:
        """Record the end of a half message; return its positions to write to the op queue, the latest last."""
        current = self.current(half)
        places = [*self._earlier.get(current, ()), current]
        if current < self.base:
            self._given_up.pop(current, None)
            self._forget(current)
            self._stale.update((half, current))
            return places
        self._set(current, outcome)
        return places

    def _set(self, half: int, state: int) -> None:
        index = half - self.base
        missing = index + 1 - len(self._states)
        if missing > 0:
            self._states += bytes(missing)
        self._states[index] = state

    def are_open(self, half: int, count: int) -> bool:
        """True if ``count`` half messages from one on are known to be open and were never moved.

        False for those from before ``since``, and if they must be checked one by one.
        """
        index, halves = half - self.base, range(half, half + count)
        if half < max(self.base, self.since) or not self._current.keys().isdisjoint(halves):
            return False
        states = self._states[index : index + count]
        return states.count(OPEN) == len(states) and self._earlier.keys().isdisjoint(halves)

    def end_all(self, half: int, count: int, outcome: int) -> None:
        """Record the end of half messages that :meth:`are_open`."""
        index = half - self.base
        missing = index + count - len(self._states)
        if missing > 0:
            self._states += bytes(missing)
        self._states[index : index + count] = bytes((outcome,)) * count

    def outcome(self, half: int) -> int:
        """Return ``OPEN``, or the outcome of a half message."""
        current = self.current(half)
        index = current - self.base
        if index >= 0:
            return self._states[index] if index < len(self._states) else OPEN
        if current in self._stale:
            return ENDED
        return OPEN if current < self.since or current in self._given_up else ENDED

    def move(self, half: int, place: int) -> None:
        """Record that a half message was stored again."""
        earlier = [*self._earlier.pop(half, ()), half]
        self._earlier[place] = [*self._earlier.get(place, ()), *earlier]
        for offset in earlier:
            self._current[offset] = place

    def replace(self, half: int, place: int) -> None:
        """As :meth:`move`, for a half message that :meth:`advance` has not passed: it is not checked there any more."""
        self.move(half, place)
        self._set(half, ENDED)

    def current(self, half: int) -> int:
        """Return the current position of a half message."""
        return self._current.get(half, half)

    def give_up(self, half: int) -> None:
        """Stop the checks of a half message; a producer may still end it.

        Only the latest ones are kept in memory; for the others, :meth:`may_be_forgotten` is true.
        """
        self._given_up[half] = None
        if len(self._given_up) > _MOST_GIVEN_UP:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._forget(oldest)
            self._has_forgotten = True

    def may_be_forgotten(self, half: int) -> bool:
        """True if a half message that counts as ended may have been given up and forgotten."""
        return self._has_forgotten and self.since <= half < self.base and half not in self._stale

    def recall(self, half: int) -> None:
        """Record again that a half message was given up and has not ended."""
        self.give_up(half)

    def next_open(self, end: int) -> int:
        """Return the first open half message from the base on, or ``end``."""
        index = self._states.find(_OPEN_BYTE)
        return min(end, self.base + (len(self._states) if index < 0 else index))

    def advance(self, base: int) -> None:
        """Record that everything before ``base`` is processed."""
        passed = range(self.base, base)
        for half in passed if len(passed) < len(self._earlier) else [half for half in self._earlier if half < base]:
            if half in self._earlier and half not in self._given_up:
                self._forget(half)
        del self._states[: base - self.base]
        self.base = base

    def _forget(self, half: int) -> None:
        for offset in self._earlier.pop(half, ()):
            self._current.pop(offset, None)


class OpProgress:
    """Progress in the op queue: up to the first op message that names a half message not processed yet."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._waiting: deque[tuple[int, int]] = deque()

    def add(self, offset: int, halves: Iterable[int]) -> None:
        """Add an op message with the half messages it ends."""
        self._waiting.append((offset, max(halves, default=-1)))

    def passed(self, base: int) -> int:
        """Return the offset of the first op message needed when half messages before ``base`` are processed."""
        while self._waiting and self._waiting[0][1] < base:
            self.offset = self._waiting.popleft()[0] + 1
        return self.offset
