"""What is in the log but may not be read yet: under SYNC_FLUSH nobody sees a message before it is on disk.

Otherwise a consumer could have a message, and commit its offset, that a loss of power takes away. Knows which entries
belong to which end of the log. Refuses to know how flushing is done and what entries mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.store.queue.consume_queue import ConsumeQueue


class Entries(NamedTuple):
    """Flat entries of a queue, and the offset after the last of them."""

    queue: ConsumeQueue
    flat: list[int]
    next_offset: int


class Part(NamedTuple):
    """What one settle wrote: up to where in the log, the store time of its newest message, the entries it made."""

    end: int
    timestamp: int
    entries: list[Entries]


class ConfirmOffset:
    """Parts in the order of the log.

    ``end`` and ``timestamp`` say up to where everything has been handed out by :meth:`take`.
    """

    def __init__(self, end: int, timestamp: int) -> None:
        self.end = end
        self.timestamp = timestamp
        self._parts: deque[Part] = deque()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, end: int, timestamp: int, touched: Iterable[ConsumeQueue]) -> None:
        """Take the pending entries of queues whose messages end at ``end`` of the log."""
        entries = []
        for queue in touched:
            entries.append(Entries(queue, queue.pending, queue.next_offset))
            queue.pending = []
        self._parts.append(Part(end, timestamp, entries))

    def take(self, flushed: int) -> list[Part]:
        """The parts that end at ``flushed`` or before."""
        parts = self._parts
        taken = []
        while parts and parts[0].end <= flushed:
            taken.append(parts.popleft())
        if taken:
            self.end, self.timestamp = taken[-1].end, taken[-1].timestamp
        return taken
