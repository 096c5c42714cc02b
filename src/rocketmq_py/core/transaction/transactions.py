"""Transactions: which half messages are still open, and what a check does about one of them.

Knows the rules of TransactionalMessageServiceImpl and EndTransactionProcessor. Refuses to know stores, connections and
clocks: offsets are those of the half topic's queue, times are milliseconds, passed in.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from struct import pack, unpack
from typing import NamedTuple

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import Property
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK

COMMIT, ROLLBACK, UNKNOWN = TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_NOT
"""What a producer says of a transaction, as END_TRANSACTION carries it."""

_OFFSET_SIZE = 8

OPEN = 0
ENDED = 1
"""Ended, and nobody remembers how."""
_OPEN_BYTE = bytes((OPEN,))
_MOST_GIVEN_UP = 10_000


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Places in the log, as the answer to SEND_HALF_MESSAGES carries them."""
    return pack(f">{len(offsets)}q", *offsets)


def decode_offsets(data: bytes) -> tuple[int, ...]:
    """What :func:`encode_offsets` was given.

    :raises CorruptRecord: it is cut off.
    """
    if len(data) % _OFFSET_SIZE:
        raise CorruptRecord(f"{len(data)} bytes are no list of offsets: {_OFFSET_SIZE} are expected for each")
    return unpack(f">{len(data) // _OFFSET_SIZE}q", data)


def encode_places(places: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Where half messages are, as END_TRANSACTIONS carries it.

    :param places: of each its place in the log, and ``offsets`` that in the half topic.
    """
    flat = [0] * (2 * len(places))
    flat[0::2], flat[1::2] = places, offsets
    return encode_offsets(flat)


def decode_places(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What :func:`encode_places` was given.

    :raises CorruptRecord: it is cut off.
    """
    flat = decode_offsets(data)
    if len(flat) % 2:
        raise CorruptRecord(f"{len(data)} bytes are no list of places: {2 * _OFFSET_SIZE} are expected for each")
    return flat[0::2], flat[1::2]


def row_length(places: Sequence[int], offsets: Sequence[int], at: int) -> tuple[int, int]:
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

        Only the last ones are kept in memory. Of all others :meth:`is_unsure`.
        """
        self._given_up[half] = None
        if len(self._given_up) > _MOST_GIVEN_UP:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._forget(oldest)
            self._has_forgotten = True

    def is_unsure(self, half: int) -> bool:
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


def op_body(halves: Iterable[int]) -> bytes:
    """The body of an op message."""
    return "".join([f"{half}," for half in halves]).encode()


def parse_op_body(body: bytes) -> list[int]:
    """The half messages an op message ends; what is no number is left out, as Java does."""
    return [int(text) for text in body.split(b",") if text.isdigit()]


# -- checks


class CheckStep(enum.Enum):
    """What a check does about an open half message."""

    CHECK = "store it again and ask a producer of its group"
    POSTPONE = "store it again and ask nobody yet"
    WAIT = "end this round: it and all that follow are too young"
    GIVE_UP = "move it to TRANS_CHECK_MAX_TIME_TOPIC"


class Rules(NamedTuple):
    """Settings of a broker: transactionTimeOut, transactionCheckMax, fileReservedTime."""

    timeout_ms: int
    check_max: int
    reserved_ms: int


class HalfMessage(NamedTuple):
    """What counts of an open half message."""

    born_ms: int
    stored_ms: int
    checks: int = 0
    immunity: str | None = None


def half_of(properties: Mapping[str, str], born_ms: int, stored_ms: int) -> HalfMessage:
    """A half message by its properties."""
    checks = number(properties.get(Property.TRANSACTION_CHECK_TIMES))
    return HalfMessage(born_ms, stored_ms, max(0, checks), properties.get(Property.CHECK_IMMUNITY_TIME))


def judge(half: HalfMessage, rules: Rules, round_began_ms: int, now_ms: int) -> CheckStep:
    """What to do about an open half message."""
    age = now_ms - half.born_ms
    if half.checks >= rules.check_max or age > rules.reserved_ms:
        return CheckStep.GIVE_UP
    if half.stored_ms >= round_began_ms:
        return CheckStep.WAIT
    if half.immunity is not None:
        return CheckStep.POSTPONE if age <= immunity_ms(half.immunity, rules.timeout_ms) else CheckStep.CHECK
    return CheckStep.WAIT if 0 <= age <= rules.timeout_ms else CheckStep.CHECK


def immunity_ms(text: str, timeout_ms: int) -> int:
    """How old a message must be before anyone is asked, by its CHECK_IMMUNITY_TIME_IN_SECONDS."""
    seconds = number(text)
    return timeout_ms if seconds == -1 else seconds * 1000


def is_too_late(properties: Mapping[str, str], born_ms: int, timeout_ms: int, now_ms: int) -> bool:
    """Whether a producer that was not asked comes too late, and must wait until it is (ILLEGAL_OPERATION)."""
    text = properties.get(Property.CHECK_IMMUNITY_TIME)
    return bool(text) and now_ms - born_ms > max(timeout_ms, number(text) * 1000)


def number(text: str | None) -> int:
    """A whole number in a property; -1 for anything else, as Java reads them."""
    try:
        return int(text) if text is not None else -1
    except ValueError:
        return -1
