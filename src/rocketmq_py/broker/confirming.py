"""Answering a send only when its message is safe: on disk (SYNC_FLUSH), with enough slaves (SYNC_MASTER).

Knows how long to wait, which messages do not want to, and what is answered to those that waited too long. One watch of
the disk and one timer serve all who wait. Refuses to know how flushing and replication are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config import SYNC_MASTER, BrokerConfig
from rocketmq_py.core.replication import Wait, Waits
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Hold, Reply, Responder
from rocketmq_py.server.peer import answer_all
from rocketmq_py.store import MessageStore
from rocketmq_py.store.config import SYNC_FLUSH

CONFIRMED = "confirmed"
"""The key of what is held here."""


_LOOK_SECONDS = 1.0
"""At least so often it is looked who has waited too long: settings may have changed."""


class Unconfirmed(NamedTuple):
    """An answer that waits, since ``since_ms``, for the log to be safe up to ``end``."""

    reply: Reply
    end: int
    since_ms: int


class Confirming:
    """Tells which answers have to wait."""

    def __init__(self, store: MessageStore, config: BrokerConfig, clock: Callable[[], int]) -> None:
        self._flushes = flushes(store)
        self._config = config
        self._clock = clock

    @classmethod
    def of(cls, store: MessageStore, config: BrokerConfig, clock: Callable[[], int]) -> Confirming | None:
        """None where messages are flushed and replicated later anyway."""
        return cls(store, config, clock) if flushes(store) or config.broker_role == SYNC_MASTER else None

    def answer(self, reply: Reply, end: int, properties: str | None) -> Reply | Hold:
        """The answer itself for a message that does not wait (property WAIT=false), else a hold of it."""
        if properties and "WAIT\x01false" in properties:
            return reply
        if not self._flushes and not slaves_wanted(self._config):
            return reply
        now, config = self._clock(), self._config
        return Hold(CONFIRMED, now + max(config.sync_flush_timeout, config.slave_timeout), Unconfirmed(reply, end, now))


def flushes(store: MessageStore) -> bool:
    """Whether messages are to be on disk before they are answered."""
    return store.config.flush_disk_type == SYNC_FLUSH


def slaves_wanted(config: BrokerConfig) -> int:
    """How many slaves are to have a message before it is answered."""
    return config.in_sync_replicas - 1 if config.broker_role == SYNC_MASTER else 0


_Waiter = tuple[Responder, Reply]


class UnconfirmedSends:
    """The answers that wait.

    :param acknowledged: up to where at least so many slaves have the log.
    """

    def __init__(
        self, store: MessageStore, config: BrokerConfig, clock: Callable[[], int], acknowledged: Callable[[int], int]
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._acknowledged = acknowledged
        self._flushes = flushes(store)
        self._waits: Waits[_Waiter] = Waits()
        self._flushing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waits)

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Answer a held send when its message is safe."""
        unconfirmed: Unconfirmed = hold.payload
        self._waits.add(unconfirmed.end, unconfirmed.since_ms, (responder, unconfirmed.reply))
        if self._flushes and self._flushing is None:
            self._watch_disk()
        if self._timer is None:
            self._set_timer()

    def release(self) -> None:
        """More of the log has become safe: answer those who waited for it."""
        if self._waits:
            answer_all(self._waits.reached(self._safe_end()))

    def _safe_end(self) -> int:
        slaves = slaves_wanted(self._config)
        ends = [self._acknowledged(slaves)] if slaves > 0 else []
        if self._flushes:
            ends.append(self._store.flushed_offset)
        return min(ends, default=self._waits.furthest)

    # -- the disk

    def _watch_disk(self) -> None:
        """Hear of the next flush that brings something new."""
        self._flushing = self._store.flushed(self._waits.furthest)
        if self._flushing is not None:
            self._flushing.add_done_callback(self._flushed)
        else:
            self.release()

    def _flushed(self, flushed: asyncio.Future[None]) -> None:
        self._flushing = None
        error = None if flushed.cancelled() else flushed.exception()
        if error is None:
            self.release()
        else:
            refused = self._waits.reached(self._waits.furthest)
            answer_all((responder, _late(reply, Code.FLUSH_DISK_TIMEOUT, str(error))) for responder, reply in refused)
        if self._waits and self._waits.furthest > self._store.flushed_offset:
            self._watch_disk()

    # -- time

    def _deadline(self, wait: Wait[_Waiter]) -> int:
        """Until when somebody waits: as long as for the disk, or for slaves once only they are missing."""
        config = self._config
        slaves, disk = wait.since_ms + config.slave_timeout, wait.since_ms + config.sync_flush_timeout
        if self._flushes and wait.end > self._store.flushed_offset:
            return max(disk, slaves) if slaves_wanted(config) else disk
        return slaves

    def _set_timer(self) -> None:
        first = self._waits.first
        if first is None:
            self._timer = None
            return
        seconds = min(max(0, self._deadline(first) - self._clock()) / 1000, _LOOK_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.release()
        now = self._clock()
        late: list[_Waiter] = []
        while (first := self._waits.first) is not None and self._deadline(first) <= now:
            responder, reply = self._waits.pop()
            late.append((responder, _late(reply, self._lateness(first.end))))
        answer_all(late)
        self._set_timer()

    def _lateness(self, end: int) -> Code:
        """What a message is told that is stored and not safe in time."""
        slaves = slaves_wanted(self._config)
        if slaves and self._acknowledged(slaves) < end:
            return Code.FLUSH_SLAVE_TIMEOUT
        return Code.FLUSH_DISK_TIMEOUT


def _late(reply: Reply, code: Code, remark: str | None = None) -> Reply:
    """The answer for a message that is stored, but not known to be safe."""
    return Reply(code, remark, ext=reply.ext)
