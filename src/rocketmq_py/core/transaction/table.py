"""The states of half messages, and the progress in the op queue (TransactionalMessageServiceImpl,
EndTransactionProcessor).

A half message is identified by its offset in the queue of the half topic. An op message lists half messages that have
ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK

COMMIT, ROLLBACK, UNKNOWN = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_NOT
"""Outcomes of a transaction, as in the field ``commitOrRollback`` of END_TRANSACTION."""
OPEN = 0
"""State of a half message that has not ended."""
ENDED = 1
"""State of a half message that has ended, when the table does not have its outcome."""
_OPEN_BYTE = bytes((OPEN,))
_MOST_GIVEN_UP = 10_000


def run_length(places: Sequence[int], offsets: Sequence[int], at: int) -> tuple[int, int]:
    """Return how many half messages, from index ``at`` on, may be adjacent in the commit log, and the size of each.

    Their queue offsets are consecutive and their commit log offsets have equal distances: the returned size in bytes.
    They are adjacent if each of them really has this size, which the caller must check.

    :param places: commit log offsets of the half messages. :param offsets: their offsets in the half topic.
    :param at: index in both lists.
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
    """The states of the half messages from ``base`` on; all before it have been processed by checks.

    A half message ends once: it cannot be committed twice, or committed after a rollback. A check stores a half message
    again at the end of the queue (:meth:`move`); a producer may still end it by an earlier offset.

    Half messages before ``since``, the value of ``base`` at creation, count as open unless their end is recorded, as in
    Apache RocketMQ.

    :param base: offset of the first half message that no check has processed.
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
        """Record the end of a half message; return all offsets at which it was stored, to write to the op queue.

        The latest offset is the last.

        :param half: any of these offsets.
        """
        current = self._current.get(half, half)
        earlier = self._earlier.get(current) if self._earlier else None
        places = [current] if earlier is None else [*earlier, current]
        if current < self.base:
            self._given_up.pop(current, None)
            self._forget(current)
            self._stale.update((half, current))
            return places
        self._set(current, outcome)
        return places

    def _set(self, half: int, state: int) -> None:
        states, index = self._states, half - self.base
        missing = index + 1 - len(states)
        if missing > 0:
            states += bytes(missing)
        states[index] = state

    def are_open(self, half: int, count: int) -> bool:
        """Return True if ``count`` half messages, from offset ``half`` on, are open and were never stored again.

        False for offsets before ``since`` or ``base``; the caller then tests each with :meth:`outcome`.
        """
        index, halves = half - self.base, range(half, half + count)
        if half < max(self.base, self.since) or not self._current.keys().isdisjoint(halves):
            return False
        states = self._states[index : index + count]
        return states.count(OPEN) == len(states) and self._earlier.keys().isdisjoint(halves)

    def end_all(self, half: int, count: int, outcome: int) -> None:
        """Record the end of ``count`` half messages for which :meth:`are_open` returned True."""
        index = half - self.base
        missing = index + count - len(self._states)
        if missing > 0:
            self._states += bytes(missing)
        self._states[index : index + count] = bytes((outcome,)) * count

    def outcome(self, half: int) -> int:
        """Return how the transaction of a half message ended, such as ``COMMIT``; ``OPEN`` if it is still open.

        ``ENDED`` means that it ended, but nobody remembers whether by a commit or a rollback.

        :param half: the offset of the half message in its queue.
        """
        current = self._current.get(half, half)
        index = current - self.base
        if index >= 0:
            return self._states[index] if index < len(self._states) else OPEN
        if current in self._stale:
            return ENDED
        return OPEN if current < self.since or current in self._given_up else ENDED

    def move(self, half: int, place: int) -> None:
        """Record that the half message at offset ``half`` was stored again at offset ``place``."""
        earlier = [*self._earlier.pop(half, ()), half]
        self._earlier[place] = [*self._earlier.get(place, ()), *earlier]
        for offset in earlier:
            self._current[offset] = place

    def replace(self, half: int, place: int) -> None:
        """As :meth:`move`, for a half message that :meth:`advance` has not passed: it is not checked there any more."""
        self.move(half, place)
        self._set(half, ENDED)

    def current(self, half: int) -> int:
        """Return the latest offset at which a half message was stored, given any of its offsets."""
        return self._current.get(half, half)

    def give_up(self, half: int) -> None:
        """Record that a half message is not checked any more, but stays open: its producer may still end it.

        Only the latest 10,000 of these half messages stay in memory. For the others :meth:`outcome` returns ``ENDED``,
        although they may be open; :meth:`may_be_forgotten` returns True for them.
        """
        self._given_up[half] = None
        if len(self._given_up) > _MOST_GIVEN_UP:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._forget(oldest)
            self._has_forgotten = True

    def may_be_forgotten(self, half: int) -> bool:
        """Return True if a half message may be open although :meth:`outcome` returns ``ENDED``.

        That is so if :meth:`give_up` may have removed it from memory.
        """
        return self._has_forgotten and self.since <= half < self.base and half not in self._stale

    def recall(self, half: int) -> None:
        """Call :meth:`give_up` again for a half message that it removed from memory and that the caller found open."""
        self.give_up(half)

    def open_count(self, end: int) -> int:
        """Return how many half messages before ``end`` are open and not processed by checks."""
        return self._states.count(_OPEN_BYTE) + max(0, end - self.base - len(self._states))

    def next_open(self, end: int) -> int:
        """Return the offset of the first open half message from ``base`` on; ``end`` if there is none before it."""
        index = self._states.find(_OPEN_BYTE)
        return min(end, self.base + (len(self._states) if index < 0 else index))

    def advance(self, base: int) -> None:
        """Set ``base``: checks have processed all half messages before it."""
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
    """Progress in the op queue: the offset of the first op message that is still needed.

    An op message is needed while it lists a half message that checks have not processed.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._waiting: deque[tuple[int, int]] = deque()

    def add(self, offset: int, halves: Iterable[int]) -> None:
        """Add the op message at an offset of the op queue, with the offsets of the half messages that it lists."""
        self._waiting.append((offset, max(halves, default=-1)))

    def passed(self, base: int) -> int:
        """Return the offset of the first op message that is still needed, after half messages before ``base`` were
        processed.
        """
        while self._waiting and self._waiting[0][1] < base:
            self.offset = self._waiting.popleft()[0] + 1
        return self.offset
