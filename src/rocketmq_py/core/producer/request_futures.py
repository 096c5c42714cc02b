"""Requests whose replies are awaited, by correlation id (RequestFutureHolder).

Knows which request a reply answers, and for a while which have ended without one. Refuses to know messages, connections
and clocks.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_REMEMBERED = 1024


class Ended(NamedTuple):
    """A request that ended without a reply: what it was about, and when."""

    topic: str
    at: float


class RequestFutures(Generic[T]):
    """What waits for replies; ``T`` is whatever hears of one."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, T]] = {}
        self._ended: dict[str, Ended] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: str, topic: str, waiter: T) -> None:
        """A request to ``topic`` is on its way."""
        self._waiting[correlation_id] = (topic, waiter)

    def take(self, correlation_id: str) -> T | None:
        """A reply has come: whom to tell; None when nobody waits for it (any more)."""
        found = self._waiting.pop(correlation_id, None)
        return None if found is None else found[1]

    def end(self, correlation_id: str, now: float) -> None:
        """Nobody waits any more; the latest such requests are remembered, so that late replies are known."""
        found = self._waiting.pop(correlation_id, None)
        if found is None:
            return
        self._ended[correlation_id] = Ended(found[0], now)
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def ended(self, correlation_id: str) -> Ended | None:
        """The request a late reply is for; forgotten by that."""
        return self._ended.pop(correlation_id, None)

    def abandon(self, now: float) -> list[T]:
        """Nobody will be told any more: all who still wait."""
        waiters = [waiter for _, waiter in self._waiting.values()]
        for correlation_id in list(self._waiting):
            self.end(correlation_id, now)
        return waiters
