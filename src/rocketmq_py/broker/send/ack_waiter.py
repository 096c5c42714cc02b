"""Acknowledges a send only when its message is safe: on disk (SYNC_FLUSH), and on enough slaves (SYNC_MASTER).

Decides which sends wait and how long, and what is answered after a timeout or with too few replicas. One flush future
and one timer serve all waiting sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.core.broker.put_times import PutTimes
from rocketmq_py.core.broker.replication import ReplicaWait, ReplicaWaits
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Hold, Reply, Responder
from rocketmq_py.server.peer import answer_all
from rocketmq_py.store import MessageStore
from rocketmq_py.store.settings import SYNC_FLUSH

ACK_WAIT = "ack wait"
"""The hold key of waiting sends."""


_LOOK_SECONDS = 1.0
"""The longest interval between two checks for timeouts, since the timeout settings may change."""


class WaitingSend(NamedTuple):
    """The answer of a send that waits, since ``since_ms``, until the log up to offset ``end`` is safe.

    Safe means on disk (SYNC_FLUSH) and on ``slaves`` slaves.
    """

    reply: Reply
    end: int
    since_ms: int
    slaves: int
    late: Reply | None = None
    """The answer after a timeout; None: FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT."""
    sends: int = 1
    """The number of sends that are answered together."""


class AckWaiter:
    """Decides which answers wait until the log is safe, and refuses messages for lack of replicas.

    Safe means on disk, under SYNC_FLUSH, and on enough slaves, at a SYNC_MASTER.

    :param slaves_wanted: returns the number of slaves that must have a message; None if too few are in sync.
    :param clock: returns the time in milliseconds since the epoch.
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
        """Create an ack waiter; None if no send has to wait (ASYNC_FLUSH, and no SYNC_MASTER)."""
        is_needed = flushes(store) or config.broker_role == SYNC_MASTER
        return cls(store, config, slaves_wanted, clock) if is_needed else None

    def check(self, properties: str | None) -> None:
        """Check, before a message is stored, that enough replicas are in sync.

        :raises BrokerError: SYSTEM_ERROR, too few are in sync; never for a message with the property WAIT=false.
        """
        if self.lacks_replicas() and not skips_wait(properties):
            raise BrokerError.of(Code.SYSTEM_ERROR, remarks.TOO_FEW_REPLICAS)

    def lacks_replicas(self) -> bool:
        """Return True if too few replicas are in sync for messages that wait."""
        return self._slaves_wanted() is None

    def answer(self, reply: Reply, end: int, properties: str | None) -> Reply | Hold:
        """Return a hold until the log is safe up to ``end``; ``reply`` itself if the message need not wait.

        It need not wait if it has the property WAIT=false, or no flush and no slaves are required.
        """
        return reply if skips_wait(properties) else self._hold(reply, end, None)

    def hold_run(self, end: int, count: int) -> Hold | None:
        """Return the hold of the answers to ``count`` sends, none of which skips the wait; None if none has to wait.

        :param end: the offset of the log after the last of them.
        """
        held = self._hold(Reply(), end, None, count)
        return held if isinstance(held, Hold) else None

    def answer_regardless(self, reply: Reply, end: int) -> Reply | Hold:
        """As :meth:`answer`, for records that the broker itself stored, so that no property can prevent the wait.

        If the log is not safe up to ``end`` before the timeout, the answer is ``reply`` nevertheless.
        """
        return self._hold(reply, end, reply)

    def _hold(self, reply: Reply, end: int, late: Reply | None, count: int = 1) -> Reply | Hold:
        config, wanted = self._config, self._slaves_wanted()
        slaves = config.in_sync_replicas - 1 if wanted is None else wanted
        if not self._flushes and not slaves:
            return reply
        now = self._clock()
        waiting = WaitingSend(reply, end, now, slaves, late, count)
        return Hold(ACK_WAIT, now + max(config.sync_flush_timeout, config.slave_timeout), waiting)


def flushes(store: MessageStore) -> bool:
    """True if sends are answered only after the flush to disk (SYNC_FLUSH)."""
    return store.config.flush_disk_type == SYNC_FLUSH


def skips_wait(properties: str | None) -> bool:
    """Return True if a message has the property WAIT=false: its answer does not wait until it is safe."""
    return properties is not None and "WAIT\x01false" in properties


_Waiter = tuple[Responder, WaitingSend]


class WaitingSends:
    """Holds the answers of sends until their messages are safe (see :class:`AckWaiter`) or a timeout passes.

    :param acknowledged: takes a number of slaves; returns the log offset that at least so many have reached.
    :param times: counts how long sends waited.
    """

    def __init__(
        self, store: MessageStore, config: BrokerConfig, clock: Callable[[], int], acknowledged: Callable[[int], int],
        times: PutTimes,
    ) -> None:  # fmt: skip
        self._times = times
        self._store = store
        self._config = config
        self._clock = clock
        self._acknowledged = acknowledged
        self._flushes = flushes(store)
        self._waits: dict[int, ReplicaWaits[_Waiter]] = {}
        """Waiting sends by the number of slaves that must have their messages."""
        self._flushing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0

    def __len__(self) -> int:
        """Number of sends that wait."""
        return self._size

    @property
    def _furthest(self) -> int:
        return max((waits.furthest for waits in self._waits.values()), default=0)

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Hold the answer of a send until its message is safe."""
        waiting: WaitingSend = hold.payload
        waits = self._waits.get(waiting.slaves)
        if waits is None:
            waits = self._waits[waiting.slaves] = ReplicaWaits()
        waits.add(waiting.end, waiting.since_ms, (responder, waiting))
        self._size += waiting.sends
        if self._flushes and self._flushing is None:
            self._await_flush()
        if self._timer is None:
            self._set_timer()

    def release(self) -> None:
        """Answer the sends whose messages have become safe."""
        for slaves, waits in self._waits.items():
            if waits:
                reached = self._reached(waits, self._safe_end(slaves, waits.furthest))
                self._count(waiting for _, waiting in reached)
                answer_all((responder, waiting.reply) for responder, waiting in reached)

    def _reached(self, waits: ReplicaWaits[_Waiter], end: int) -> list[_Waiter]:
        reached = waits.reached(end)
        self._size -= sum([waiting.sends for _, waiting in reached])
        return reached

    def _count(self, waited: Iterable[WaitingSend]) -> None:
        """Count how long sends waited; the broker's own records do not count."""
        now = self._clock()
        for waiting in waited:
            if waiting.late is None:
                self._times.observe(max(0, now - waiting.since_ms), waiting.sends)

    def _safe_end(self, slaves: int, furthest: int) -> int:
        ends = [self._acknowledged(slaves)] if slaves > 0 else []
        if self._flushes:
            ends.append(self._store.flushed_offset)
        return min(ends, default=furthest)

    # -- the disk

    def _await_flush(self) -> None:
        """Request a flush up to the last waiting message; when it is done, answer the sends that have become safe."""
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
            refused = [waiter for waits in self._waits.values() for waiter in self._reached(waits, waits.furthest)]
            answer_all((responder, _late(one, Code.FLUSH_DISK_TIMEOUT, str(error))) for responder, one in refused)
        if len(self) and self._furthest > self._store.flushed_offset:
            self._await_flush()

    # -- time

    def _deadline(self, wait: ReplicaWait[_Waiter]) -> int:
        """Return the time (ms since the epoch) at which a send times out.

        Under SYNC_FLUSH, while the message is not on disk, the flush timeout counts, or the later of both timeouts if
        slaves must have the message; otherwise the slave timeout counts.
        """
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
                self._size -= waiting.sends
                self._count([waiting])
                late.append((responder, _late(waiting, self._timeout_code(waiting))))
        answer_all(late)
        self._set_timer()

    def _timeout_code(self, waiting: WaitingSend) -> Code:
        """Return the code of a send that timed out: FLUSH_SLAVE_TIMEOUT if slaves lack it, else FLUSH_DISK_TIMEOUT."""
        slaves = waiting.slaves
        if slaves and self._acknowledged(slaves) < waiting.end:
            return Code.FLUSH_SLAVE_TIMEOUT
        return Code.FLUSH_DISK_TIMEOUT


def _late(waiting: WaitingSend, code: Code, remark: str | None = None) -> Reply:
    """Return the answer of a send that timed out or whose flush failed."""
    return waiting.late or Reply(code, remark, ext=waiting.reply.ext)
