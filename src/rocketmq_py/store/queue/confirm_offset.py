"""Queue entries of records that are written but not yet flushed: under SYNC_FLUSH consumers must not read them.

Otherwise a consumer could receive a message and commit its offset, and a power failure could lose the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.store.queue.consume_queue import ConsumeQueue


class Entries(NamedTuple):
    """Entries of a queue, as a flat list of fields, and the offset after the last entry."""

    queue: ConsumeQueue
    flat: list[int]
    next_offset: int


class Part(NamedTuple):
    """Result of one write: the end of the log, the store timestamp of the newest message, the entries of all queues."""

    end: int
    timestamp: int
    entries: list[Entries]


class ConfirmOffset:
    """Keeps the queue entries of writes that are not flushed yet, in the order of the log. True if there are any.

    :ivar end: end offset in the log of the last write that :meth:`take` has returned; before that, the parameter.
    :ivar timestamp: store timestamp (ms) of its newest message; before that, the parameter.
    :ivar parts: the writes.
    """

    def __init__(self, end: int, timestamp: int) -> None:
        self.end = end
        self.timestamp = timestamp
        self.parts: deque[Part] = deque()

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, end: int, timestamp: int, touched: Iterable[ConsumeQueue]) -> None:
        """Add a write that ends at offset ``end`` of the log, and move the pending entries of ``touched`` into it."""
        entries = []
        for queue in touched:
            entries.append(Entries(queue, queue.pending, queue.next_offset))
            queue.pending = []
        self.parts.append(Part(end, timestamp, entries))

    def replace(self, queue: ConsumeQueue, whole: ConsumeQueue) -> None:
        """Let the entries of a queue that wait for their flush be those of the queue that has taken its place."""
        for part in self.parts:
            part.entries[:] = [one._replace(queue=whole) if one.queue is queue else one for one in part.entries]

    def take(self, flushed: int) -> list[Part]:
        """Remove and return the writes that end at offset ``flushed`` of the log or before."""
        parts = self.parts
        taken = []
        while parts and parts[0].end <= flushed:
            taken.append(parts.popleft())
        if taken:
            self.end, self.timestamp = taken[-1].end, taken[-1].timestamp
        return taken
