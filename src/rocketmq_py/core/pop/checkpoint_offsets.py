"""Where a group stands in queues it pops from while nothing of that can be written down.

Knows what is out of each queue, where the next pop begins, and up to where everything is done: an offset that may be
told to others, who would otherwise leave out what is out here. Refuses to know pops, stores and when messages come
back.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class GroupQueue(NamedTuple):
    """A queue of a topic, for a group."""

    group: str
    topic: str
    queue_id: int


class _Out:
    """What is out of one queue: ``times`` says how often each message is, ``offsets`` is a heap of its keys."""

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
    """The queues messages are out of; a queue of which everything is done is forgotten."""

    def __init__(self) -> None:
        self._out: dict[GroupQueue, _Out] = {}

    def __len__(self) -> int:
        return len(self._out)

    def next_offset(self, place: GroupQueue) -> int | None:
        """Where the next pop of a queue begins; None when nothing is out of it: the offset others know says so."""
        out = self._out.get(place)
        return None if out is None else out.next_offset

    def add_popped(self, place: GroupQueue, offsets: Iterable[int], told: int) -> None:
        """Messages are out, or out once more: whoever has one twice has to settle it twice.

        :param offsets: in order. :param told: the offset others know of; messages before it are not accounted for here.
        """
        for offset in offsets:
            if offset >= told:
                self._out.setdefault(place, _Out(told)).add(offset)

    def set_next_offset(self, place: GroupQueue, following: int) -> int:
        """The next pop of a queue begins at ``next_offset``; the offset that may be told now."""
        out = self._out.get(place)
        if out is None:
            return following
        out.next_offset = following
        return out.floor

    def settle(self, place: GroupQueue, offsets: Iterable[int]) -> int | None:
        """Messages are done; the offset that may be told now, None when nothing is known to be out of this queue."""
        out = self._out.get(place)
        if out is None:
            return None
        for offset in offsets:
            out.remove(offset)
        if not out.offsets:
            del self._out[place]
        return out.floor

    def forget(self, place: GroupQueue) -> None:
        """Nothing is out of a queue any more, whatever becomes of its messages."""
        self._out.pop(place, None)

    def clear(self) -> None:
        """As :meth:`forget`, of all queues."""
        self._out.clear()
