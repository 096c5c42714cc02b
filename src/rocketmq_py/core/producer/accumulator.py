"""Collects messages into batches: which messages leave together, in which order, and when. No IO.

Messages wait in lanes. The lane of a topic takes messages for any of its queues: several of its batches may be under
way at once. The lane of a queue keeps order: one of its batches is under way at a time, and the next leaves when that
one has ended, also if it was retried. A message that cannot join the last batch of its lane begins another one behind
it, so nothing overtakes anything within a lane. Times are seconds of the caller's clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

E = TypeVar("E")

Linger = float | Literal["natural"]
"""The longest time in seconds that a message waits for others, or ``"natural"``: while a request is under way."""

MAX_BYTES = 32 * 1024
MAX_MESSAGES = 1024
"""Maximum number of messages in a batch. Larger ones are not stored faster, and delay other sends."""
BUFFER_BYTES = 32 * 1024 * 1024

_SHARE = 0.125
"""The part of a round trip after which a natural batch leaves although a request is under way."""
_SMOOTHING = 0.125
"""The weight of the last round trip in the smoothed one."""
_MAX_LANES = 4096
"""Number of lanes at which idle ones are forgotten."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch leaves.

    :param linger: the longest wait of a batch's first message in seconds, at most half of its timeout; ``"natural"``:
        until no request of the lane is under way, or for an eighth of a round trip; 0: no batches.
    :param max_bytes: a batch leaves before it would have more bytes; a larger message goes alone.
    :param max_messages: maximum number of messages of a batch.
    :raises ConfigError: a limit is out of range.
    """

    linger: Linger = 0.0
    max_bytes: int = MAX_BYTES
    max_messages: int = MAX_MESSAGES

    def __post_init__(self) -> None:
        if isinstance(self.linger, str):
            if self.linger != "natural":
                raise ConfigError(f"batch_linger={self.linger!r} must be seconds or 'natural'")
        elif not 0 <= self.linger <= 60:
            raise ConfigError(f"batch_linger={self.linger!r} is out of range: 0 to 60 seconds, or 'natural'")
        for name, value in (("batch_max_bytes", self.max_bytes), ("batch_max_messages", self.max_messages)):
            if value < 1:
                raise ConfigError(f"{name}={value} must be at least 1")

    @property
    def is_natural(self) -> bool:
        """True if a batch waits for a request that is under way, not for a time."""
        return self.linger == "natural"

    @property
    def makes_batches(self) -> bool:
        """False if every message goes alone."""
        return self.is_natural or float(self.linger) > 0


class Lane(NamedTuple):
    """Where messages wait: those for any queue of ``topic`` if ``queue`` is None, else those for this queue."""

    topic: str
    queue: MessageQueue | None = None


@dataclass(slots=True, eq=False)
class Parcel(Generic[E]):
    """Messages that leave in one request.

    :ivar kind: what messages must have in common to be in one batch; None for a message that goes alone.
    :ivar began: when its first message came.
    :ivar deadline: when it fails if it has not left.
    :ivar closed: True if no message is added and it need not wait for more.
    :ivar left_at: when it left.
    """

    lane: Lane
    kind: Hashable
    began: float
    deadline: float
    entries: list[E] = field(default_factory=list)
    size: int = 0
    closed: bool = False
    left_at: float = 0.0


class Taken(NamedTuple, Generic[E]):
    """What :meth:`Accumulator.take` returns: parcels to send now, and those that waited until their deadline."""

    leaving: list[Parcel[E]]
    late: list[Parcel[E]]


class _State(Generic[E]):
    """The parcels of one lane.

    :ivar waiting: parcels that have not left; only the last one may be open.
    :ivar under_way: number of parcels that have left and whose requests have not ended.
    :ivar round_trip: smoothed seconds from leaving to the end; 0 before the first end.
    :ivar last_count: number of messages of the last parcel that left.
    """

    __slots__ = ("last_count", "round_trip", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Parcel[E]] = deque()
        self.under_way = 0
        self.round_trip = 0.0
        self.last_count = 0


class Accumulator(Generic[E]):
    """The messages of a producer that wait to leave in batches.

    Call :meth:`take` at :attr:`next_at`, and at the end of a turn of the event loop in which another call has set
    :attr:`waits_for_turn`.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._max_bytes, self._max_messages = limits.max_bytes, limits.max_messages  # each message comes here
        self._lanes: dict[Lane, _State[E]] = {}
        self._busy: dict[Lane, _State[E]] = {}  # the lanes in which parcels wait
        self.next_at = math.inf
        """When a waiting parcel is due by time; ``math.inf`` if none is."""
        self.waits_for_turn = False
        """True if a parcel may leave at the end of this turn of the event loop."""

    def add(
        self, lane: Lane, entry: E, size: int, kind: Hashable, now: float, deadline: float, *, follows: bool = False
    ) -> Sequence[Parcel[E]]:
        """Add a message; return the parcels that leave at once, which may be none.

        :param size: bytes of the message in a batch.
        :param kind: messages of different kinds are never in one batch; None: the message goes alone.
        :param deadline: when the message fails if it has not left.
        :param follows: a request of the lane is under way that did not pass here, so that others may come, too.
        """
        if self.join(lane, entry, size, kind):
            return ()
        state = self._lanes.get(lane) or self._state(lane)
        limits = self._limits
        last = state.waiting[-1] if state.waiting else None
        if last is not None and not last.closed:
            last.closed = last.kind != kind or kind is None or last.size + size > limits.max_bytes
        if last is None or last.closed:
            last = Parcel(lane, kind, now, deadline)
            state.waiting.append(last)
            self._busy[lane] = state
        last.entries.append(entry)
        last.size += size
        if kind is None or last.size >= limits.max_bytes or len(last.entries) >= limits.max_messages:
            last.closed = True
        leaving = list[Parcel[E]]()
        if last.closed or len(state.waiting) > 1 or (not follows and self._is_alone(state)):
            leaving = self._leave(lane, state, now, turn_ends=False)
        if state.waiting:
            self.next_at = min(self.next_at, self._due(state, last))
            if limits.is_natural:
                self.waits_for_turn = True
        return leaving

    def _state(self, lane: Lane) -> _State[E]:
        if len(self._lanes) >= _MAX_LANES:
            idle = [each for each, known in self._lanes.items() if not known.waiting and not known.under_way]
            for each in idle:
                del self._lanes[each]
        state = self._lanes[lane] = _State()
        return state

    def join(self, lane: Lane, entry: E, size: int, kind: Hashable) -> bool:
        """Add a message, as most are, to the last batch of its lane if that neither leaves nor is full then.

        Return False if the message was not added. Arguments as of :meth:`add`.
        """
        parcel = self.filling(lane)
        return parcel is not None and self.fill(parcel, entry, size, kind)

    def filling(self, lane: Lane) -> Parcel[E] | None:
        """Return the parcel of a lane that waits for more messages, or None."""
        state = self._busy.get(lane)
        if state is None:
            return None
        last = state.waiting[-1]
        return None if last.closed else last

    def fill(self, parcel: Parcel[E], entry: E, size: int, kind: Hashable) -> bool:
        """Add a message to a parcel of :meth:`filling` if that neither leaves nor is full then.

        Return False if the message was not added. Arguments as of :meth:`add`.
        """
        grown = parcel.size + size
        if grown >= self._max_bytes or parcel.kind != kind or kind is None:
            return False
        entries = parcel.entries
        if len(entries) + 1 >= self._max_messages:
            return False
        parcel.size = grown
        entries.append(entry)
        return True

    def is_quiet(self, lane: Lane) -> bool:
        """Return True if a message for ``lane`` would leave at once without others, and the last one did, too.

        May be called in any thread.
        """
        state = self._lanes.get(lane)
        return self._limits.is_natural and (state is None or (not state.waiting and self._is_alone(state)))

    def _is_alone(self, state: _State[E]) -> bool:
        """Return True if a first message need not wait for the end of the turn: the last one had no company."""
        return self._limits.is_natural and not state.under_way and state.last_count <= 1

    def take(self, now: float) -> Taken[E]:
        """Return what leaves at the end of this turn and what is too late, and compute :attr:`next_at`."""
        leaving: list[Parcel[E]] = []
        late: list[Parcel[E]] = []
        self.next_at = math.inf
        self.waits_for_turn = False
        for lane, state in list(self._busy.items()):
            late += self._expire(state, now)
            leaving += self._leave(lane, state, now, turn_ends=True)
            for parcel in state.waiting:
                self.next_at = min(self.next_at, self._due(state, parcel))
        return Taken(leaving, late)

    def ended(self, parcel: Parcel[E], now: float) -> None:
        """Record that the request of a parcel has ended, whether it succeeded or failed."""
        state = self._lanes[parcel.lane]
        state.under_way -= 1
        took = now - parcel.left_at
        state.round_trip += (took - state.round_trip) * (_SMOOTHING if state.round_trip else 1.0)
        if state.waiting:
            self.waits_for_turn = True

    def put_back(self, parcel: Parcel[E]) -> None:
        """Let the messages of a parcel whose request has ended leave again, each alone, before those that wait."""
        state = self._lanes[parcel.lane]
        for entry in reversed(parcel.entries):
            alone = Parcel(parcel.lane, None, parcel.began, parcel.deadline, [entry], closed=True)
            state.waiting.appendleft(alone)
        self._busy[parcel.lane] = state
        self.waits_for_turn = True

    def release(self, topic: str | None = None) -> None:
        """Let what waits leave as soon as order allows.

        :param topic: only the lanes of this topic; None for all.
        """
        for lane, state in self._busy.items():
            if topic in (None, lane.topic):
                for parcel in state.waiting:
                    parcel.closed = True
                self.waits_for_turn = True

    def wait_longer(self, seconds: float) -> None:
        """Extend the deadlines of all messages that wait, by time in which none could leave."""
        for state in self._busy.values():
            for parcel in state.waiting:
                parcel.deadline += seconds

    def __len__(self) -> int:
        return sum(len(parcel.entries) for state in self._busy.values() for parcel in state.waiting)

    def _due(self, state: _State[E], parcel: Parcel[E]) -> float:
        """Return when a parcel leaves or fails if nothing else happens."""
        if parcel.closed or (parcel.lane.queue is not None and state.under_way):
            return parcel.deadline
        linger = state.round_trip * _SHARE if self._limits.is_natural else float(self._limits.linger)
        return parcel.began + min(linger, (parcel.deadline - parcel.began) / 2)

    def _leave(self, lane: Lane, state: _State[E], now: float, *, turn_ends: bool) -> list[Parcel[E]]:
        leaving: list[Parcel[E]] = []
        while state.waiting and self._may_leave(state, state.waiting[0], now, turn_ends=turn_ends):
            parcel = state.waiting.popleft()
            parcel.closed = True
            parcel.left_at = now
            state.under_way += 1
            state.last_count = len(parcel.entries)
            leaving.append(parcel)
        if not state.waiting:
            self._busy.pop(lane, None)
        return leaving

    def _may_leave(self, state: _State[E], first: Parcel[E], now: float, *, turn_ends: bool) -> bool:
        if first.lane.queue is not None and state.under_way:
            return False
        if first.closed:
            return True
        if self._limits.is_natural and not state.under_way:
            return turn_ends or state.last_count <= 1
        return turn_ends and self._due(state, first) <= now

    def _expire(self, state: _State[E], now: float) -> list[Parcel[E]]:
        """Remove the parcels whose deadline has passed."""
        late = [parcel for parcel in state.waiting if parcel.deadline <= now]
        if late:
            state.waiting = deque(parcel for parcel in state.waiting if parcel.deadline > now)
        return late
