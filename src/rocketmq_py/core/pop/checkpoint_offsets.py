"""Committable offsets of popped queues, for a slave that acts as master and cannot write check-points.

The table holds the unacked messages of each queue, the offset of the next pop, and the offset before which everything
is acked. That offset may be published as the group's: a reader that starts there misses no unacked message.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class GroupQueue(NamedTuple):
    """A group's queue of a topic."""

    group: str
    topic: str
    queue_id: int


class _Out:
    """Unacked messages of one queue: ``times`` counts the pops of each, ``offsets`` is a heap of its keys."""

    __slots__ = ("next_offset", "offsets", "times")

    def __init__(self, following: int) -> None:
        self.next_offset = following
        self.offsets: list[int] = []
        self.times: dict[int, int] = {}

    def add(self, offset: int) -> None:
        if offset not in self.times:
            self.times[offset] = 0
            heappush(self.offsets, offset)
        self.times[offset] += 1

    def remove(self, offset: int) -> None:
        times = self.times.get(offset, 0)
        if times:
            self.times[offset] = times - 1
        while self.offsets and not self.times[self.offsets[0]]:
            del self.times[heappop(self.offsets)]

    @property
    def floor(self) -> int:
        return min(self.offsets[0], self.next_offset) if self.offsets else self.next_offset


class CommittableOffsets:
    """The queues with unacked messages; a queue is removed when everything is acked."""

    def __init__(self) -> None:
        self._out: dict[GroupQueue, _Out] = {}

    def __len__(self) -> int:
        return len(self._out)

    def next_offset(self, place: GroupQueue) -> int | None:
        """Return the offset of a queue's next pop; None if nothing is unacked, and the group's published offset
        applies.
        """
        out = self._out.get(place)
        return None if out is None else out.next_offset

    def add_popped(self, place: GroupQueue, offsets: Iterable[int], published: int) -> None:
        """Add popped messages; one that is popped twice must be acked twice.

        :param offsets: in order. :param published: the group's published offset; messages before it are not tracked.
        """
        for offset in offsets:
            if offset >= published:
                self._out.setdefault(place, _Out(published)).add(offset)

    def set_next_offset(self, place: GroupQueue, following: int) -> int:
        """Set the offset of a queue's next pop; return the offset that may be published now."""
        out = self._out.get(place)
        if out is None:
            return following
        out.next_offset = following
        return out.floor

    def settle(self, place: GroupQueue, offsets: Iterable[int]) -> int | None:
        """Ack messages; return the offset that may be published now, None if the queue has no unacked messages here."""
        out = self._out.get(place)
        if out is None:
            return None
        for offset in offsets:
            out.remove(offset)
        if not out.offsets:
            del self._out[place]
        return out.floor

    def forget(self, place: GroupQueue) -> None:
        """Remove a queue, whatever its messages' state."""
        self._out.pop(place, None)

    def clear(self) -> None:
        """Remove all queues."""
        self._out.clear()
