"""The table of held pulls (long polling): pulls that a broker answers when messages arrive or the pull times out.

Each held pull is represented by a token that the caller chooses. Times are arguments, in milliseconds.

Any number of pulls may wait for one queue. So methods that can remove many pulls return iterators, which remove and
yield the token of one pull at a time. After every 256 pulls that they examine without a result they yield None, so that
the caller can let the event loop run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from rocketmq_py.core.consumer.subscription import RecordFilter, TagsCodeFilter, accepts_any

T = TypeVar("T")

_PAUSE_EVERY = 256
"""Number of pulls that an iterator examines before it yields None."""
_STALE_DEADLINES = 1024
"""The heap of deadlines is rebuilt when it has more than twice as many entries as there are pulls, plus this number."""


class QueueKey(NamedTuple):
    """The queue whose messages a pull waits for."""

    topic: str
    queue_id: int


class Held(NamedTuple, Generic[T]):
    """One waiting pull.

    ``offset`` is the queue offset to read from. At ``deadline_ms`` the pull is answered even if no message arrived.
    ``tags_filter`` and ``record_filter`` select matching messages; None matches every message. ``owner`` identifies,
    for example, the connection: :meth:`HoldTable.remove` removes all pulls with the same owner.
    """

    offset: int
    deadline_ms: int
    tags_filter: TagsCodeFilter | None
    token: T
    record_filter: RecordFilter | None = None
    owner: Hashable = None


class HoldTable(Generic[T]):
    """Pulls that wait for messages, by queue, by deadline and by owner; each has a token that the caller chooses.

    The iterators that methods return also yield None from time to time, so that the caller can let the event loop run.
    """

    def __init__(self) -> None:
        self._queues: dict[QueueKey, dict[int, Held[T]]] = {}
        self._owned: dict[Hashable, dict[int, QueueKey]] = {}
        self._deadlines: list[tuple[int, int, QueueKey]] = []
        """A heap of deadline, ticket and queue; entries of removed pulls stay in it for a while."""
        self._tickets = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[tuple[QueueKey, Held[T]]]:
        """Iterate over the pulls, without removing them; the table must not change meanwhile."""
        return ((key, held) for key, queue in self._queues.items() for held in queue.values())

    def add(self, key: QueueKey, held: Held[T]) -> None:
        """Add a pull; it stays until another method removes it."""
        ticket = next(self._tickets)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = {}
        queue[ticket] = held
        self._count += 1
        heappush(self._deadlines, (held.deadline_ms, ticket, key))
        if held.owner is not None:
            owned = self._owned.get(held.owner)
            if owned is None:
                owned = self._owned[held.owner] = {}
            owned[ticket] = key
        if len(self._deadlines) > 2 * self._count + _STALE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._queues.get(entry[2], ())]
            heapify(self._deadlines)

    def waiting(self, key: QueueKey) -> bool:
        """Return True if any pull waits for the queue."""
        return key in self._queues

    def is_due(self, now_ms: int) -> bool:
        """Return True if :meth:`expired` may find a pull; False if none has timed out."""
        return bool(self._deadlines) and self._deadlines[0][0] <= now_ms

    def arrived(
        self, key: QueueKey, max_offset: int, tags_codes: Iterable[int], records: Callable[[], Iterable[bytes]] = tuple
    ) -> Iterator[T | None]:
        """Remove the pulls of a queue that new messages match, and yield their tokens (None: let the event loop run).

        :param max_offset: the queue's max offset after the arrival of the messages.
        :param tags_codes: tags codes of the new messages. A pull whose filters match none of the messages stays.
        :param records: returns the records of the new messages; called only for pulls with a record filter.
        """
        codes = list(tags_codes)

        def due(held: Held[T]) -> bool:
            if held.offset >= max_offset or not accepts_any(held.tags_filter, codes):
                return False
            return held.record_filter is None or any(map(held.record_filter, records()))

        return self._take(key, due)

    def sweep(self, max_offset: Callable[[str, int], int]) -> Iterator[T | None]:
        """Remove the pulls whose queue has messages at their offset, and yield their tokens; filters are ignored.

        This corrects missed calls of :meth:`arrived`. A None in between lets the caller run the event loop.

        :param max_offset: takes a topic and a queue id; returns the queue's max offset.
        """
        for key in list(self._queues):
            end = max_offset(*key)
            yield from self._take(key, lambda held: held.offset < end)  # noqa: B023 - used up within the loop
            yield None

    def expired(self, now_ms: int) -> Iterator[T | None]:
        """Remove the pulls whose deadline has passed, and yield their tokens (None: let the event loop run)."""
        looks = itertools.count(1)
        while self.is_due(now_ms):
            _, ticket, key = heappop(self._deadlines)
            held = self._remove(key, ticket)
            if held is not None:
                yield held.token
            elif not next(looks) % _PAUSE_EVERY:
                yield None

    def take(self, key: QueueKey, wanted: Callable[[T], bool]) -> list[T]:
        """Remove those pulls of a queue for whose token ``wanted(token)`` is True; return these tokens."""
        return [token for token in self._take(key, lambda held: wanted(held.token)) if token is not None]

    def remove(self, owner: Hashable) -> Iterator[T | None]:
        """Remove all pulls of an owner, and yield their tokens."""
        for ticket, key in list(self._owned.get(owner, {}).items()):
            held = self._remove(key, ticket)
            if held is not None:
                yield held.token

    def drain(self) -> list[T]:
        """Remove all pulls and return their tokens."""
        tokens = [held.token for queue in self._queues.values() for held in queue.values()]
        self._queues, self._owned, self._deadlines, self._count = {}, {}, [], 0
        return tokens

    def _take(self, key: QueueKey, due: Callable[[Held[T]], bool]) -> Iterator[T | None]:
        queue = self._queues.get(key)
        if queue is None:
            return
        for number, (ticket, held) in enumerate(list(queue.items()), 1):
            if ticket in queue and due(held) and self._remove(key, ticket) is not None:
                yield held.token
            elif not number % _PAUSE_EVERY:
                yield None

    def _remove(self, key: QueueKey, ticket: int) -> Held[T] | None:
        queue = self._queues.get(key)
        held = queue.pop(ticket, None) if queue is not None else None
        if queue is None or held is None:
            return None
        self._count -= 1
        if not queue:
            del self._queues[key]
        if held.owner is not None:
            owned = self._owned[held.owner]
            del owned[ticket]
            if not owned:
                del self._owned[held.owner]
        return held
