"""Committable offsets of popped queues, for a slave that acts as master and cannot write check-points.

For each queue, the table has the unacked messages, the offset of the next pop, and the committable offset: the one
before which every message is acked. Publishing it as the group's offset is safe, because a consumer that starts there
misses no unacked message.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class GroupQueue(NamedTuple):
    """A queue of a topic as consumed by one group."""

    group: str
    topic: str
    queue_id: int


class _Out:
    """The unacked messages of one queue: ``times`` is the number of unacked pops by offset, ``offsets`` a heap of its
    keys.
    """

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
    """For each queue with unacked popped messages: these messages, the offset of the next pop, the committable offset.

    All messages before the committable offset are acked. A queue is removed when all its messages are acked.
    """

    def __init__(self) -> None:
        self._out: dict[GroupQueue, _Out] = {}

    def __len__(self) -> int:
        return len(self._out)

    def next_offset(self, place: GroupQueue) -> int | None:
        """Return the offset at which the next pop of a queue starts.

        None if the queue has no unacked messages; then the pop starts at the group's committed offset.
        """
        out = self._out.get(place)
        return None if out is None else out.next_offset

    def add_popped(self, place: GroupQueue, offsets: Iterable[int], published: int) -> None:
        """Add popped messages of a queue as unacked; a message that is popped twice must be acked twice.

        :param offsets: their queue offsets, in order.
        :param published: the group's committed offset; messages before it are ignored.
        """
        for offset in offsets:
            if offset >= published:
                self._out.setdefault(place, _Out(published)).add(offset)

    def set_next_offset(self, place: GroupQueue, following: int) -> int:
        """Set the offset at which the next pop of a queue starts.

        :returns: the committable offset: every message before it is acked.
        """
        out = self._out.get(place)
        if out is None:
            return following
        out.next_offset = following
        return out.floor

    def settle(self, place: GroupQueue, offsets: Iterable[int]) -> int | None:
        """Ack the messages of a queue that have the given queue offsets.

        :returns: the committable offset (every message before it is acked); None if the queue had no unacked messages.
        """
        out = self._out.get(place)
        if out is None:
            return None
        for offset in offsets:
            out.remove(offset)
        if not out.offsets:
            del self._out[place]
        return out.floor

    def forget(self, place: GroupQueue) -> None:
        """Remove a queue, even if it has unacked messages."""
        self._out.pop(place, None)

    def clear(self) -> None:
        """Remove all queues."""
        self._out.clear()
