"""The broker's table of queue locks: a queue consumed in order is locked by one client of the group.

A lock expires some time after its last renewal, so that a dead client does not block its queues; its owner may renew it
at any time. Times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketmq_py.model import MessageQueue

MAX_LIVE_MS = 60_000
"""Lifetime of a lock after its last renewal, in milliseconds (``rocketmq.broker.rebalance.lockMaxLiveTime``)."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class LockTable:
    """The queue locks of all consumer groups.

    :param max_live_ms: lifetime of a lock after its last renewal, in milliseconds.
    """

    def __init__(self, max_live_ms: int = MAX_LIVE_MS) -> None:
        self.max_live_ms = max_live_ms
        """Lifetime of a lock; it may be changed at any time, and existing locks follow it, too."""
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Acquire or renew locks for a client; return those of ``queues`` that it has locked now."""
        locks = self._groups.setdefault(group, {})
        return [queue for queue in queues if self._try(locks, queue, client_id, now_ms)]

    def _try(self, locks: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now_ms: int) -> bool:
        held = locks.get(queue)
        if held is not None and held.client_id != client_id and not self._is_expired(held, now_ms):
            return False
        locks[queue] = _Lock(client_id, now_ms)
        return True

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release a client's locks of ``queues``; locks of other clients stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def is_ordered(self, group: str, now_ms: int) -> bool:
        """Return True if the group holds any lock that has not expired, which means that it consumes in order."""
        return any(not self._is_expired(held, now_ms) for held in self._groups.get(group, {}).values())

    def _is_expired(self, held: _Lock, now_ms: int) -> bool:
        return now_ms - held.renewed_ms > self.max_live_ms
