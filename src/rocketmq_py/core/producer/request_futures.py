"""Request-reply: requests that wait for their reply messages, by correlation id (RequestFutureHolder).

The latest requests that ended without a reply are kept, to recognise late replies.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_REMEMBERED = 1024


class Ended(NamedTuple):
    """A request that ended without a reply: its topic, and when it ended, in seconds of the caller's clock."""

    topic: str
    at: float


class RequestFutures(Generic[T]):
    """The requests that wait for a reply. ``T`` is the type of the waiters, which receive the replies."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, T]] = {}
        self._ended: dict[str, Ended] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: str, topic: str, waiter: T) -> None:
        """Register a request that was sent to ``topic``, with the object that waits for its reply."""
        self._waiting[correlation_id] = (topic, waiter)

    def take(self, correlation_id: str) -> T | None:
        """Remove the request of a reply and return its waiter; None if no request waits with this correlation id."""
        found = self._waiting.pop(correlation_id, None)
        return None if found is None else found[1]

    def end(self, correlation_id: str, now: float) -> None:
        """Remove a waiting request, because it ended without a reply; :meth:`ended` returns it later.

        :param now: current time in seconds.
        """
        found = self._waiting.pop(correlation_id, None)
        if found is None:
            return
        self._ended[correlation_id] = Ended(found[0], now)
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def ended(self, correlation_id: str) -> Ended | None:
        """Remove and return the ended request of a late reply; None if it is not among the latest 1,024."""
        return self._ended.pop(correlation_id, None)

    def abandon(self, now: float) -> list[T]:
        """End all waiting requests without a reply (:meth:`end`); return their waiters. ``now`` is in seconds."""
        waiters = [waiter for _, waiter in self._waiting.values()]
        for correlation_id in list(self._waiting):
            self.end(correlation_id, now)
        return waiters
