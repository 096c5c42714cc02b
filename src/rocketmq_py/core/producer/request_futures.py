"""Requests that wait for replies, by correlation id (RequestFutureHolder).

Requests that ended without a reply are kept for a while, to recognise late replies.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_REMEMBERED = 1024


class Ended(NamedTuple):
    """A request that ended without a reply: its topic, and when."""

    topic: str
    at: float


class RequestFutures(Generic[T]):
    """Waiting requests; ``T`` is whatever receives the reply."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, T]] = {}
        self._ended: dict[str, Ended] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: str, topic: str, waiter: T) -> None:
        """Register a request to ``topic``."""
        self._waiting[correlation_id] = (topic, waiter)

    def take(self, correlation_id: str) -> T | None:
        """Remove and return the waiter for a reply; None if there is none."""
        found = self._waiting.pop(correlation_id, None)
        return None if found is None else found[1]

    def end(self, correlation_id: str, now: float) -> None:
        """Remove a request that ended without a reply; the latest such requests are kept."""
        found = self._waiting.pop(correlation_id, None)
        if found is None:
            return
        self._ended[correlation_id] = Ended(found[0], now)
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def ended(self, correlation_id: str) -> Ended | None:
        """Remove and return the ended request that a late reply belongs to."""
        return self._ended.pop(correlation_id, None)

    def abandon(self, now: float) -> list[T]:
        """End all requests; return their waiters."""
        waiters = [waiter for _, waiter in self._waiting.values()]
        for correlation_id in list(self._waiting):
            self.end(correlation_id, now)
        return waiters
