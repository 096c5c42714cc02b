"""The table of held pulls (long polling).

It decides which pulls to answer when messages arrive, when time runs out and when a sweep looks for missed arrivals. A
held pull is an opaque token. Times are milliseconds and passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from rocketmq_py.core.consumer.subscription import RecordFilter, TagsCodeFilter, accepts_any

T = TypeVar("T")

_NEVER = 1 << 62


class QueueKey(NamedTuple):
    """The queue a pull waits at."""

    topic: str
    queue_id: int


class Held(NamedTuple, Generic[T]):
    """One waiting pull.

    ``offset`` is the next offset to read, ``deadline_ms`` when the pull is answered even if nothing has arrived.
    ``tags_filter`` and ``record_filter`` decide which messages match; None matches every message.
    """

    offset: int
    deadline_ms: int
    tags_filter: TagsCodeFilter | None
    token: T
    record_filter: RecordFilter | None = None


class HoldTable(Generic[T]):
    """Held pulls by queue."""

    def __init__(self) -> None:
        self._held: dict[QueueKey, list[Held[T]]] = {}
        self._count = 0
        self._next_deadline = _NEVER

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, key: QueueKey, held: Held[T]) -> None:
        """Hold a pull until another method takes it."""
        self._held.setdefault(key, []).append(held)
        self._count += 1
        self._next_deadline = min(self._next_deadline, held.deadline_ms)

    def waiting(self, key: QueueKey) -> bool:
        """True if any pull waits at the queue."""
        return key in self._held

    def arrived(
        self, key: QueueKey, max_offset: int, tags_codes: Iterable[int], records: Callable[[], Iterable[bytes]] = tuple
    ) -> list[T]:
        """Take the pulls that new messages satisfy.

        :param max_offset: the max offset of the queue after the arrival.
        :param tags_codes: of the new messages. A pull whose filter matches none of them stays.
        :param records: reads the new messages; called only for pulls that filter records.
        """
        if key not in self._held:
            return []
        codes = list(tags_codes)

        def due(held: Held[T]) -> bool:
            if held.offset >= max_offset or not accepts_any(held.tags_filter, codes):
                return False
            return held.record_filter is None or any(map(held.record_filter, records()))

        return self._take(key, due)

    def sweep(self, now_ms: int, max_offset: Callable[[str, int], int]) -> list[T]:
        """Take every pull whose queue has grown without notice, or whose time is up; filters are not applied."""

        def take(key: QueueKey, end: int) -> list[T]:
            return self._take(key, lambda held: held.offset < end or held.deadline_ms <= now_ms)

        return [token for key in list(self._held) for token in take(key, max_offset(*key))]

    def expired(self, now_ms: int) -> list[T]:
        """Take every pull whose time is up; cheap if there is none."""
        if now_ms < self._next_deadline:
            return []
        late = [token for key in list(self._held) for token in self._take(key, lambda held: held.deadline_ms <= now_ms)]
        left = (held.deadline_ms for waiting in self._held.values() for held in waiting)
        self._next_deadline = min(left, default=_NEVER)
        return late

    def take(self, key: QueueKey, wanted: Callable[[T], bool]) -> list[T]:
        """Take the pulls of a queue for which ``wanted`` is true."""
        return self._take(key, lambda held: wanted(held.token)) if key in self._held else []

    def drain(self, unwanted: Callable[[T], bool] = lambda _: True) -> list[T]:
        """Take every pull for which ``unwanted`` is true; all of them by default."""
        return [token for key in list(self._held) for token in self._take(key, lambda held: unwanted(held.token))]

    def _take(self, key: QueueKey, due: Callable[[Held[T]], bool]) -> list[T]:
        held = self._held[key]
        kept: list[Held[T]] = []
        taken: list[T] = []
        for one in held:
            if due(one):
                taken.append(one.token)
            else:
                kept.append(one)
        self._count -= len(taken)
        if kept:
            self._held[key] = kept
        else:
            del self._held[key]
        return taken
