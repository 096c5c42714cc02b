"""Which client of a group may consume a queue in order: the broker's lock table.

Knows owners and when they last renewed. A lock lives for a while after its last renewal, so that a client that died
does not stop its queues for ever; its owner may take it again at any time. Refuses to know clocks: time is
milliseconds, passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketmq_py.model import MessageQueue

MAX_LIVE_MS = 60_000
"""How long a lock lives after its last renewal (``rocketmq.broker.rebalance.lockMaxLiveTime``)."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class LockTable:
    """Locks of queues by consumer group.

    :param max_live_ms: how long a lock lives after its last renewal.
    """

    def __init__(self, max_live_ms: int = MAX_LIVE_MS) -> None:
        self.max_live_ms = max_live_ms
        """May be changed at any time; holds for locks that are out, too."""
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Take or renew locks; returns the queues that ``client_id`` holds now."""
        locks = self._groups.setdefault(group, {})
        return [queue for queue in queues if self._try(locks, queue, client_id, now_ms)]

    def _try(self, locks: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now_ms: int) -> bool:
        held = locks.get(queue)
        if held is not None and held.client_id != client_id and not self._is_expired(held, now_ms):
            return False
        locks[queue] = _Lock(client_id, now_ms)
        return True

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give locks back; those of other clients stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def is_ordered(self, group: str, now_ms: int) -> bool:
        """Whether the group holds any live lock, that is, consumes in order."""
        return any(not self._is_expired(held, now_ms) for held in self._groups.get(group, {}).values())

    def _is_expired(self, held: _Lock, now_ms: int) -> bool:
        return now_ms - held.renewed_ms > self.max_live_ms
