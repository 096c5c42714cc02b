"""Orderly pops: the unacked messages of each queue and group, and when the next messages may be popped.

There is one entry per queue and group (ConsumerOrderInfoManager). A queue is blocked while a message of the last pop is
neither acked nor visible again; repeating that pop with the same attempt id is allowed. Times are arguments, in
milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.wire.integers import Int32, Int64

_NEVER = 1 << 62

FORGET_AFTER_MS = 24 * 3600 * 1000
"""Milliseconds after its last pop at which the entry of a queue is removed."""


class OrderKey(NamedTuple):
    """A queue of a topic as popped by one group."""

    topic: str
    group: str
    queue_id: int


class OrderInfo(Body, kw_only=True, rename={
    "attempt_id": "a", "acked_bits": "cm", "invisible_ms": "i", "last_pop_time": "l", "distances": "o",
    "counts": "oc", "visible_times": "ot", "pop_time": "popTime",
}):  # fmt: skip
    """The last orderly pop of a queue; an entry of ``consumerOrderInfo.json``.

    The first item of ``distances`` is the queue offset of the first message, the others are the distances of the other
    messages from it. Bit i of ``acked_bits`` is set if the i-th message is acked. ``counts`` is the number of earlier
    pops of a message by queue offset; ``visible_times`` the time at which a message becomes visible again, by queue
    offset, for messages whose invisible time was changed.
    """

    attempt_id: str | None = None
    acked_bits: Int64 = 0
    invisible_ms: Int64 | None = None
    last_pop_time: Int64 = 0
    distances: list[Int64] = msgspec.field(default_factory=list)
    counts: dict[Int64, Int32] | UnsetType = UNSET
    visible_times: dict[Int64, Int64] | UnsetType = UNSET
    pop_time: Int64 = 0

    @property
    def offsets(self) -> list[int]:
        """Queue offsets of the messages."""
        first, *others = self.distances or [0]
        return [first, *(first + distance for distance in others)] if self.distances else []

    def unacked(self) -> Iterator[int]:
        """Return the queue offsets of the unacked messages, in order."""
        return (offset for bit, offset in enumerate(self.offsets) if not self.acked_bits >> bit & 1)

    def visible_at(self, offset: int) -> int:
        """Return when the message at a queue offset becomes visible again if it is not acked (ms since the epoch)."""
        usual = self.pop_time + (self.invisible_ms or 0)
        return self.visible_times.get(offset, usual) if self.visible_times else usual

    def free_at(self) -> int:
        """Return when all unacked messages are visible again, in ms since the epoch; 0 if all messages are acked."""
        return max(map(self.visible_at, self.unacked()), default=0)


class OrderedPop(NamedTuple):
    """The number of earlier pops of the messages of a pop: by queue offset, and the minimum of all messages.

    Messages that were never popped before are not in ``counts``; then ``least`` is 0.
    """

    counts: dict[int, int]
    least: int


class OrderTable:
    """The last pop of every group and queue."""

    def __init__(self) -> None:
        self.entries: dict[OrderKey, OrderInfo] = {}
        self._changed: dict[OrderKey, None] = {}
        self._free: list[tuple[int, OrderKey]] = []
        self._watched: dict[OrderKey, int] = {}

    def load(self, key: OrderKey, info: OrderInfo) -> None:
        """Add an entry read from ``consumerOrderInfo.json``."""
        self.entries[key] = info
        self._changed[key] = None
        self._watch(key, info)

    def take_changed(self) -> list[OrderKey]:
        """Return the queues whose entries were added, changed or removed since the last call."""
        changed, self._changed = list(self._changed), {}
        return changed

    def is_blocked(self, key: OrderKey, attempt_id: str | None, now_ms: int, invisible_ms: int = 0) -> bool:
        """Return True if a queue may not be popped now, because messages of the last pop are unacked and invisible.

        :param attempt_id: attempt id of the pop, or None. A pop with the attempt id of the last pop is not blocked.
        :param now_ms: current time in milliseconds since the epoch.
        :param invisible_ms: invisible time in milliseconds to assume if the last pop was recorded without one.
        """
        info = self.entries.get(key)
        if info is None or not info.distances:
            return False
        if info.attempt_id is not None and info.attempt_id == attempt_id:
            return False
        if (info.invisible_ms or 0) <= 0:
            info.invisible_ms = invisible_ms
            self._changed[key] = None
        return any(now_ms < info.visible_at(offset) for offset in info.unacked())

    def pop(
        self,
        key: OrderKey,
        attempt_id: str | None,
        offsets: Sequence[int],
        pop_time: int,
        invisible_ms: int,
        now_ms: int,
    ) -> OrderedPop:
        """Record a pop, which replaces the last one; return how often its messages were popped before.

        :param attempt_id: attempt id of the pop, which the client repeats if it got no response; None without one.
        :param offsets: queue offsets of its messages, in order; at least one.
        :param pop_time: time of the pop in its messages' receipts, in milliseconds since the epoch.
        :param invisible_ms: invisible time of the messages, from ``pop_time`` on.
        :param now_ms: current time in milliseconds since the epoch.
        """
        before = self.entries.get(key)
        counts = _counts(before, attempt_id, offsets) if before is not None else {}
        first = offsets[0]
        info = OrderInfo(
            attempt_id=attempt_id, invisible_ms=invisible_ms, last_pop_time=now_ms, pop_time=pop_time,
            distances=[first, *(offset - first for offset in offsets[1:])],
            counts=UNSET if before is None else counts,
        )  # fmt: skip
        self.entries[key] = info
        self._changed[key] = None
        self._watch(key, info)
        return OrderedPop(counts, min(counts.values()) if counts and len(counts) == len(offsets) else 0)

    def ack(self, key: OrderKey, offset: int, pop_time: int) -> int | None:
        """Ack a message; return the offset to commit, None if the queue was popped again meanwhile.

        :param offset: queue offset of the message. :param pop_time: time of the message's pop, as in its receipt.
        :raises KeyError: the last pop did not return this message.
        """
        info = self.entries.get(key)
        if info is None:
            return offset + 1
        if not info.distances:
            raise KeyError(offset)
        if info.pop_time != pop_time:
            return None
        offsets = info.offsets
        if offset not in offsets:
            raise KeyError(offset)
        info.acked_bits |= 1 << offsets.index(offset)
        self._changed[key] = None
        self._watch(key, info)
        return next(info.unacked(), offsets[-1] + 1)

    def set_visible(self, key: OrderKey, offset: int, pop_time: int, visible_at: int) -> None:
        """Set the time at which a message becomes visible again; ignored if the queue was popped again meanwhile.

        :param offset: queue offset of the message. :param pop_time: time of the message's pop, as in its receipt.
        :param visible_at: the new time in milliseconds since the epoch.
        """
        info = self.entries.get(key)
        if info is None or info.pop_time != pop_time:
            return
        if info.visible_times is UNSET:
            info.visible_times = {}
        info.visible_times[offset] = visible_at
        self._changed[key] = None
        self._watch(key, info)

    def forget(self, key: OrderKey) -> None:
        """Remove the entry of a queue, because its offset was reset; no effect without one."""
        if self.entries.pop(key, None) is not None:
            self._changed[key] = None

    def take_free(self, now_ms: int) -> list[OrderKey]:
        """Return the queues that became unblocked since the last call, because their messages are visible again."""
        found = []
        while self._free and self._free[0][0] <= now_ms:
            at, key = heapq.heappop(self._free)
            if self._watched.get(key) != at:
                continue
            del self._watched[key]
            info = self.entries.get(key)
            if info is not None and 0 < info.free_at() <= now_ms:
                found.append(key)
            elif info is not None:
                self._watch(key, info)
        return found

    def _watch(self, key: OrderKey, info: OrderInfo) -> None:
        """Schedule a check of the queue by :meth:`take_free`, at the earliest time at which it can be unblocked."""
        at = info.free_at()
        if at and at < self._watched.get(key, _NEVER):
            self._watched[key] = at
            heapq.heappush(self._free, (at, key))


def _counts(before: OrderInfo, attempt_id: str | None, offsets: Sequence[int]) -> dict[int, int]:
    known = before.counts if before.counts is not UNSET else {}
    if before.attempt_id is not None and before.attempt_id == attempt_id:
        return dict(known)
    popped = set(before.offsets)
    return {offset: known.get(offset, 0) + 1 for offset in offsets if offset in popped}
