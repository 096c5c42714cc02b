"""Answering a send only when its message is safe: on disk (SYNC_FLUSH), with enough slaves (SYNC_MASTER).

Knows how long to wait, which messages do not want to, and what is answered to those that waited too long, or that too
few brokers are there for. One watch of the disk and one timer serve all who wait. Refuses to know how flushing and
replication are done, and how many slaves are wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.core.broker.replication import Wait, Waits
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Hold, Reply, Responder
from rocketmq_py.server.peer import answer_all
from rocketmq_py.store import MessageStore
from rocketmq_py.store.settings import SYNC_FLUSH

ACK_WAIT = "ack wait"
"""The key of what is held here."""


_LOOK_SECONDS = 1.0
"""At least so often it is looked who has waited too long: settings may have changed."""


class WaitingSend(NamedTuple):
    """An answer that waits, since ``since_ms``, for the log to be safe up to ``end``, with so many slaves."""

    reply: Reply
    end: int
    since_ms: int
    slaves: int
    late: Reply | None = None
    """What is answered when the wait was too long; None for the code of what was waited for."""


class AckWaiter:
    """Tells which answers have to wait, and which messages are not to be stored at all.

    :param slaves_wanted: how many slaves are to have a message; None where too few brokers are there to take it.
    :param clock: the time in milliseconds.
    """

    def __init__(
        self, store: MessageStore, config: BrokerConfig, slaves_wanted: Callable[[], int | None],
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._flushes = flushes(store)
        self._config = config
        self._slaves_wanted = slaves_wanted
        self._clock = clock

    @classmethod
    def of(
        cls, store: MessageStore, config: BrokerConfig, slaves_wanted: Callable[[], int | None],
        clock: Callable[[], int],
    ) -> AckWaiter | None:  # fmt: skip
        """None where messages are flushed and replicated later anyway."""
        is_needed = flushes(store) or config.broker_role == SYNC_MASTER
        return cls(store, config, slaves_wanted, clock) if is_needed else None

    def check(self, properties: str | None) -> None:
        """Before a message is stored: whether there are brokers enough to have it.

        :raises BrokerError: there are not, and the message wants to wait for them.
        """
        if self._slaves_wanted() is None and not _is_hurried(properties):
            raise BrokerError.of(Code.SYSTEM_ERROR, remarks.TOO_FEW_REPLICAS)

    def answer(self, reply: Reply, end: int, properties: str | None) -> Reply | Hold:
        """The answer itself for a message that does not wait (property WAIT=false), else a hold of it."""
        return reply if _is_hurried(properties) else self._hold(reply, end, None)

    def answer_regardless(self, reply: Reply, end: int) -> Reply | Hold:
        """As :meth:`answer` for what the broker itself has stored: whoever waited too long gets the same answer."""
        return self._hold(reply, end, reply)

    def _hold(self, reply: Reply, end: int, late: Reply | None) -> Reply | Hold:
        config, wanted = self._config, self._slaves_wanted()
        slaves = config.in_sync_replicas - 1 if wanted is None else wanted
        if not self._flushes and not slaves:
            return reply
        now = self._clock()
        waiting = WaitingSend(reply, end, now, slaves, late)
        return Hold(ACK_WAIT, now + max(config.sync_flush_timeout, config.slave_timeout), waiting)


def flushes(store: MessageStore) -> bool:
    """Whether messages are to be on disk before they are answered."""
    return store.config.flush_disk_type == SYNC_FLUSH


def _is_hurried(properties: str | None) -> bool:
    return properties is not None and "WAIT\x01false" in properties


_Waiter = tuple[Responder, WaitingSend]


class WaitingSends:
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
        self._waits: dict[int, Waits[_Waiter]] = {}
        """By how many slaves are waited for."""
        self._flushing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waits.values()))

    @property
    def _furthest(self) -> int:
        return max((waits.furthest for waits in self._waits.values()), default=0)

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Answer a held send when its message is safe."""
        waiting: WaitingSend = hold.payload
        waits = self._waits.get(waiting.slaves)
        if waits is None:
            waits = self._waits[waiting.slaves] = Waits()
        waits.add(waiting.end, waiting.since_ms, (responder, waiting))
        if self._flushes and self._flushing is None:
            self._watch_disk()
        if self._timer is None:
            self._set_timer()

    def release(self) -> None:
        """More of the log has become safe: answer those who waited for it."""
        for slaves, waits in self._waits.items():
            if waits:
                reached = waits.reached(self._safe_end(slaves, waits.furthest))
                answer_all((responder, waiting.reply) for responder, waiting in reached)

    def _safe_end(self, slaves: int, furthest: int) -> int:
        ends = [self._acknowledged(slaves)] if slaves > 0 else []
        if self._flushes:
            ends.append(self._store.flushed_offset)
        return min(ends, default=furthest)

    # -- the disk

    def _watch_disk(self) -> None:
        """Hear of the next flush that brings something new."""
        self._flushing = self._store.flushed(self._furthest)
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
            refused = [waiter for waits in self._waits.values() for waiter in waits.reached(waits.furthest)]
            answer_all((responder, _late(one, Code.FLUSH_DISK_TIMEOUT, str(error))) for responder, one in refused)
        if len(self) and self._furthest > self._store.flushed_offset:
            self._watch_disk()

    # -- time

    def _deadline(self, wait: Wait[_Waiter]) -> int:
        """Until when somebody waits: as long as for the disk, or for slaves once only they are missing."""
        config = self._config
        slaves, disk = wait.since_ms + config.slave_timeout, wait.since_ms + config.sync_flush_timeout
        if self._flushes and wait.end > self._store.flushed_offset:
            return max(disk, slaves) if wait.waiter[1].slaves else disk
        return slaves

    def _set_timer(self) -> None:
        firsts = [waits.first for waits in self._waits.values() if waits.first is not None]
        if not firsts:
            self._timer = None
            return
        due = min(map(self._deadline, firsts))
        seconds = min(max(0, due - self._clock()) / 1000, _LOOK_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.release()
        now = self._clock()
        late: list[tuple[Responder, Reply]] = []
        for waits in self._waits.values():
            while (first := waits.first) is not None and self._deadline(first) <= now:
                responder, waiting = waits.pop()
                late.append((responder, _late(waiting, self._lateness(waiting))))
        answer_all(late)
        self._set_timer()

    def _lateness(self, waiting: WaitingSend) -> Code:
        """What a message is told that is stored and not safe in time."""
        slaves = waiting.slaves
        if slaves and self._acknowledged(slaves) < waiting.end:
            return Code.FLUSH_SLAVE_TIMEOUT
        return Code.FLUSH_DISK_TIMEOUT


def _late(waiting: WaitingSend, code: Code, remark: str | None = None) -> Reply:
    """The answer for a message that is stored, but not known to be safe."""
    return waiting.late or Reply(code, remark, ext=waiting.reply.ext)
