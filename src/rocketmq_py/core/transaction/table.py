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
    """How many half messages from ``at`` on may lie next to each other in log and half topic, and the size of each.

    They do if all have this size.
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
    """The states of half messages from ``base``, the first one not yet dealt with.

    A half message ends once: what has been rolled back is not committed later, what has been committed is not committed
    again. A check stores a half message again at the end of the queue (:meth:`move`); a producer that knows only its
    earlier place still ends it.

    Of half messages before ``since``, the base this ledger began with, it knows what it is told; the others count as
    open, as Apache RocketMQ takes all.
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
        """The transaction of a half message has ended; its places that are to be told of on disk, the latest last."""
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
        """Whether ``count`` half messages from one on are known to be open, each where it has always been.

        False for those from before ``since``, and where a closer look is needed.
        """
        index, halves = half - self.base, range(half, half + count)
        if half < max(self.base, self.since) or not self._current.keys().isdisjoint(halves):
            return False
        states = self._states[index : index + count]
        return states.count(OPEN) == len(states) and self._earlier.keys().isdisjoint(halves)

    def end_all(self, half: int, count: int, outcome: int) -> None:
        """The transactions of half messages have ended that :meth:`are_open`."""
        index = half - self.base
        missing = index + count - len(self._states)
        if missing > 0:
            self._states += bytes(missing)
        self._states[index : index + count] = bytes((outcome,)) * count

    def outcome(self, half: int) -> int:
        """``OPEN``, or how the transaction of a half message has ended."""
        current = self.current(half)
        index = current - self.base
        if index >= 0:
            return self._states[index] if index < len(self._states) else OPEN
        if current in self._stale:
            return ENDED
        return OPEN if current < self.since or current in self._given_up else ENDED

    def move(self, half: int, place: int) -> None:
        """A half message was stored again."""
        earlier = [*self._earlier.pop(half, ()), half]
        self._earlier[place] = [*self._earlier.get(place, ()), *earlier]
        for offset in earlier:
            self._current[offset] = place

    def current(self, half: int) -> int:
        """Where a half message is now."""
        return self._current.get(half, half)

    def give_up(self, half: int) -> None:
        """Nobody is asked about a half message any more; a producer may still end it.

        Only the last ones are kept in memory. Of all others :meth:`may_be_forgotten`.
        """
        self._given_up[half] = None
        if len(self._given_up) > _MOST_GIVEN_UP:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._forget(oldest)
            self._has_forgotten = True

    def may_be_forgotten(self, half: int) -> bool:
        """Whether a half message that counts as ended may have been given up, and forgotten."""
        return self._has_forgotten and self.since <= half < self.base and half not in self._stale

    def recall(self, half: int) -> None:
        """A half message was given up, and has not ended."""
        self.give_up(half)

    def next_open(self, end: int) -> int:
        """The first open half message from the base on, or ``end``."""
        index = self._states.find(_OPEN_BYTE)
        return min(end, self.base + (len(self._states) if index < 0 else index))

    def advance(self, base: int) -> None:
        """Everything before ``base`` has been dealt with."""
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
    """How far the op queue has been dealt with: up to the first op message that names a half message not passed yet."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._waiting: deque[tuple[int, int]] = deque()

    def add(self, offset: int, halves: Iterable[int]) -> None:
        """An op message, and the half messages that it ends."""
        self._waiting.append((offset, max(halves, default=-1)))

    def passed(self, base: int) -> int:
        """The offset of the first op message that is still needed when half messages before ``base`` are not."""
        while self._waiting and self._waiting[0][1] < base:
            self.offset = self._waiting.popleft()[0] + 1
        return self.offset
