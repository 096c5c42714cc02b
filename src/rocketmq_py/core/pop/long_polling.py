"""The table of pops that wait for messages (long polling).

Pops wait by topic, group and queue (-1: any queue). When messages arrive, only one pop of each group is woken, because
others would find no messages. Each waiting pop is represented by a token that the caller chooses. Times are arguments,
in milliseconds.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from rocketmq_py.core.consumer.subscription import RecordFilter, TagsCodeFilter, accepts_any

T = TypeVar("T")

ANY_QUEUE = -1
_NEVER = 1 << 62


class PollKey(NamedTuple):
    """The topic, group and queue (-1: any queue) that pops wait for."""

    topic: str
    group: str
    queue_id: int


class Poll(NamedTuple, Generic[T]):
    """One waiting pop: its deadline, its filters by tags code and by record (None accepts all messages), its token."""

    deadline_ms: int
    tags_filter: TagsCodeFilter | None
    record_filter: RecordFilter | None
    token: T


class PollTable(Generic[T]):
    """Waiting pops by topic, group and queue.

    :param last_first: True wakes the pop with the latest deadline first; False the one with the earliest.
    """

    def __init__(self, *, last_first: bool = False) -> None:
        self._take_at = -1 if last_first else 0
        self._polls: dict[str, dict[PollKey, list[Poll[T]]]] = {}
        self.waiting = 0
        """Number of waiting pops."""
        self._next_deadline = _NEVER

    def __len__(self) -> int:
        return self.waiting

    def __iter__(self) -> Iterator[tuple[PollKey, Poll[T]]]:
        """Iterate over the pops, without removing them; the table must not change meanwhile."""
        return ((key, poll) for keys in self._polls.values() for key, polls in keys.items() for poll in polls)

    def count(self, key: PollKey) -> int:
        """Return the number of pops that wait with this key."""
        return len(self._polls.get(key.topic, {}).get(key, ()))

    def has_room(self, key: PollKey, per_key: int, total: int) -> bool:
        """Return True if one more pop may wait with this key.

        :param per_key: limit of waiting pops with the same key; as in Java, ``per_key`` + 1 may wait.
        :param total: limit of all waiting pops.
        """
        return self.waiting < total and self.count(key) <= per_key

    def add(self, key: PollKey, poll: Poll[T]) -> None:
        """Add a pop; it stays until another method removes it."""
        insort(self._polls.setdefault(key.topic, {}).setdefault(key, []), poll, key=lambda one: one.deadline_ms)
        self.waiting += 1
        self._next_deadline = min(self._next_deadline, poll.deadline_ms)

    def arrived(
        self, topic: str, queue_id: int, tags_codes: Iterable[int], records: Callable[[], Iterable[bytes]] = tuple
    ) -> list[T]:
        """Remove the pops to wake after messages have arrived in a queue, and return their tokens.

        For each group these are one pop that waits for the queue and one that waits for any queue, if its filters
        accept at least one message.

        :param tags_codes: tags codes of the new messages.
        :param records: returns the records of the new messages; called only for pops with a record filter.
        """
        keys = self._polls.get(topic)
        if not keys:
            return []
        codes = list(tags_codes)
        waiting = [key for key in keys if key.queue_id in (queue_id, ANY_QUEUE)]
        return [token for key in waiting for token in self._take_one(key, codes, records)]

    def _take_one(self, key: PollKey, codes: list[int], records: Callable[[], Iterable[bytes]]) -> list[T]:
        poll = self._polls[key.topic][key][self._take_at]
        if not accepts_any(poll.tags_filter, codes) or not (
            poll.record_filter is None or any(map(poll.record_filter, records()))
        ):
            return []
        return self.wake(key)

    def wake(self, key: PollKey) -> list[T]:
        """Remove one pop with this key, without applying filters; return its token as a list, empty without a pop."""
        polls = self._polls.get(key.topic, {}).get(key)
        if not polls:
            return []
        taken = polls.pop(self._take_at)
        self.waiting -= 1
        if not polls:
            self._drop(key)
        return [taken.token]

    def keys_of(self, topic: str, group: str) -> list[PollKey]:
        """Return the keys with which pops of a group wait for messages of a topic."""
        return [key for key in self._polls.get(topic, ()) if key.group == group]

    def expired(self, now_ms: int) -> list[T]:
        """Remove the pops whose deadline has passed and return their tokens; fast if there are none."""
        if now_ms < self._next_deadline:
            return []
        late = self._take(lambda poll: poll.deadline_ms <= now_ms)
        left = (polls[0].deadline_ms for keys in self._polls.values() for polls in keys.values())
        self._next_deadline = min(left, default=_NEVER)
        return late

    def drain(self, unwanted: Callable[[T], bool] = lambda _: True) -> list[T]:
        """Remove the pops for whose tokens ``unwanted`` returns True, by default all; return these tokens."""
        return self._take(lambda poll: unwanted(poll.token))

    def _take(self, due: Callable[[Poll[T]], bool]) -> list[T]:
        taken: list[T] = []
        for key, polls in [item for keys in self._polls.values() for item in keys.items()]:
            found = [poll.token for poll in polls if due(poll)]
            if found:
                polls[:] = [poll for poll in polls if not due(poll)]
                taken += found
                if not polls:
                    self._drop(key)
        self.waiting -= len(taken)
        return taken

    def _drop(self, key: PollKey) -> None:
        keys = self._polls[key.topic]
        del keys[key]
        if not keys:
            del self._polls[key.topic]
