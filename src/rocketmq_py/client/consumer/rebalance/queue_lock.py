"""Acquires, renews and releases the locks of queues at brokers.

Concurrent and broadcasting consumers need no lock. An orderly consumer locks a queue at its broker before it consumes
(LOCK_BATCH_MQ, 41), renews the lock, and unlocks the queue (UNLOCK_BATCH_MQ, 42) after the running listener has ended
and the offset is stored. Only then can another member lock it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.core.consumer import orderly
from rocketmq_py.core.consumer.orderly import OrderedQueue
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import LockBatchRequest, LockBatchResponse, MessageQueueBody
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

TIMEOUT = 1.0
"""Seconds to wait for a broker's answer to a lock request."""
_LOCK_LIFE = 60.0
"""Seconds after which brokers let a lock expire that is not renewed."""


class QueueLock(Protocol):
    """Makes queues ready to consume, and releases them: with locks at brokers or without."""

    async def take(self, queues: Collection[MessageQueue]) -> list[ProcessQueue]:
        """Lock queues if needed; returns new process queues of those that may be consumed now."""
        ...

    async def release(self, queues: Collection[ProcessQueue]) -> None:
        """Store the offsets of dropped queues, and unlock them."""
        ...

    def connection_lost(self, process: ProcessQueue) -> None:
        """Stop consuming a queue until its lock is confirmed, because the connection to its broker is lost."""
        ...

    def renew_soon(self) -> None:
        """Renew the locks now instead of at the next interval, because a queue waits for its lock."""
        ...

    async def close(self) -> None:
        """Unlock all queues. Call it after the listeners have ended and the offsets are stored."""
        ...


class NoQueueLock:
    """For concurrent and broadcasting consumers: queues are consumed without a lock."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group

    async def take(self, queues: Collection[MessageQueue]) -> list[ProcessQueue]:
        return [self._group.make_queue(queue) for queue in queues]

    async def release(self, queues: Collection[ProcessQueue]) -> None:
        released = [process.queue for process in queues]
        await self._group.offsets.persist(released)
        for queue in released:
            self._group.offsets.remove(queue)

    def connection_lost(self, process: ProcessQueue) -> None:
        """Do nothing: cached messages may be consumed without a connection to the broker."""

    def renew_soon(self) -> None:
        """Do nothing: there are no locks."""

    async def close(self) -> None:
        """Do nothing: there are no locks."""


class BrokerQueueLock:
    """For orderly consumers: queues are locked at their brokers, and the locks are renewed in the background.

    :param dispatcher: runs the listeners.
    :param lose: called to release queues that another member has locked.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        dispatcher: OrderlyDispatcher,
        lose: Callable[[Collection[ProcessQueue]], Awaitable[None]],
    ) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._lose = lose
        self._renew_now = asyncio.Event()
        self._failures: dict[str, FailureLog] = {}
        self._requested: set[MessageQueue] = set()  # queues that brokers may have locked for this member
        self._unsure: dict[MessageQueue, float] = {}
        """Queues that a broker may lock for this member later, as a request was not answered; and the time of it."""
        self._asking: Counter[MessageQueue] = Counter()
        self._addresses: dict[str, str] = {}  # the last known master address by broker name
        self._leaving: set[asyncio.Task[None]] = set()
        self._renewal = Background()
        self._renewal.start(self._renew_all())

    def renew_soon(self) -> None:
        """Renew the locks now instead of at the next interval, because a queue waits for its lock."""
        self._renew_now.set()

    def connection_lost(self, process: ProcessQueue) -> None:
        """Stop consuming a queue until its lock is confirmed, because the connection to its broker is lost.

        A restarted broker has no locks, and another member may have acquired this one.
        """
        if not process.dropped:
            _ordered(process).unlock()
            self.renew_soon()

    # -- take and release

    async def take(self, queues: Collection[MessageQueue]) -> list[ProcessQueue]:
        group = self._group
        asked_at = group.now()
        wanted = [group.make_queue(queue) for queue in queues if queue not in group.leaving]
        granted, _ = await self._ask([process.queue for process in wanted])
        if self._unsure:
            self.renew_soon()  # which unlocks them, unless they are ours by then
        taken = [process for process in wanted if process.queue in granted]
        for process in taken:
            _ordered(process).lock(asked_at)
        return taken

    async def release(self, queues: Collection[ProcessQueue]) -> None:
        for process in queues:
            self._group.leaving[process.queue] = process
            task = asyncio.ensure_future(self._hand_over(process))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _hand_over(self, process: ProcessQueue) -> None:
        """Wait until no listener has messages of a queue, store its offset and unlock it."""
        group, queue = self._group, process.queue
        try:
            await self._dispatcher.wait_idle(process)
            if not process.is_usable(group.now()):
                await self.renew()
            if process.is_usable(group.now()):
                await group.offsets.persist_confirmed([queue])
                await self._unlock([queue])
        finally:
            group.offsets.remove(queue)
            del group.leaving[queue]

    async def close(self) -> None:
        await self._renewal.stop()
        if self._leaving:
            _, unfinished = await asyncio.wait(self._leaving, timeout=TIMEOUT)
            for task in unfinished:
                task.cancel()
        # A queue whose listener still runs stays locked until the lock expires at the broker.
        busy = {process.queue for process in self._held() if not self._dispatcher.is_idle(process)}
        await self._unlock(self._requested - busy)

    # -- renew

    async def _renew_all(self) -> None:
        while True:
            is_urgent = self._unsure or any(process.is_stale(self._group.now()) for process in self._held())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(orderly.RELOCK_DELAY if is_urgent else orderly.LOCK_REFRESH):
                    await self._renew_now.wait()
            try:
                await self._unlock_unused()
                await self.renew()
            except Exception:  # noqa: BLE001 - the next renewal is tried in any case: without locks nothing is consumed
                _log.exception("renewing the locks of group %s failed", self._group.name)
            if self._renew_now.is_set():
                self._renew_now.clear()
                await asyncio.sleep(orderly.PAUSES[0])

    def _held(self) -> list[OrderedQueue]:
        held = (*self._group.queues.values(), *self._group.leaving.values())
        return [_ordered(process) for process in held if not process.has_invisible_time]

    async def renew(self) -> None:
        """Renew the locks of all owned queues, and of released ones whose listeners still run."""
        held = self._held()
        self._forget_failures(self._by_broker(process.queue for process in held))
        asked_at = self._group.now()
        granted, refused = await self._ask([process.queue for process in held])
        lost = [process for process in held if process.queue in refused]
        for process in lost:
            process.unlock()
        kept = [process for process in held if process.queue in granted]
        lost += [process for process in kept if not await self._renewed(process, asked_at)]
        lost = [process for process in lost if not process.dropped]
        if lost:
            _log.warning(
                "group %s has lost its locks of %s: another member had them meanwhile", self._group.name,
                ", ".join(str(process.queue) for process in lost),
            )  # fmt: skip
            await self._lose(lost)

    async def _renewed(self, process: OrderedQueue, asked_at: float) -> bool:
        """Record a renewed lock and continue to consume the queue.

        :param asked_at: when the renewal was requested, on the group's monotonic clock.
        :returns: False if another member has consumed the queue since the lock expired.
        """
        was_usable = process.is_usable(asked_at)
        if not was_usable:
            mine, stored = self._group.offsets.get(process.queue), await self._stored(process.queue)
            if mine is not None and stored is not None and stored > mine:
                process.unlock()
                return False
        process.lock(asked_at)
        if not was_usable:
            self._dispatcher.wake(process)
        return True

    async def _stored(self, queue: MessageQueue) -> int | None:
        try:
            return await self._group.offsets.fetch(queue)
        except RocketMQError as e:
            _log.warning("the offset of %s cannot be read: %s", queue, e)
            return None

    # -- requests

    async def _ask(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Send lock requests to the brokers of ``queues``.

        :returns: the queues that are locked for this member, and those that another member has locked. Queues of
            brokers that do not answer are in neither set.
        """
        granted: set[MessageQueue] = set()
        refused: set[MessageQueue] = set()
        asked = self._by_broker(queues)
        wanted = [queue for part in asked.values() for queue in part]
        self._requested.update(wanted)
        self._asking.update(wanted)
        try:
            answers = await asyncio.gather(*(self._lock(name, part) for name, part in asked.items()))
        finally:
            self._asking.subtract(wanted)
        for part, answer in zip(asked.values(), answers, strict=True):
            if answer is not None:
                granted |= answer
                refused |= set(part) - answer
        return granted, refused

    async def _unlock_unused(self) -> None:
        """Unlock queues whose lock request was not answered and that are not ours: the broker may have got it later.

        Otherwise nobody could consume them until the lock expires.
        """
        now, held = self._group.now(), {process.queue for process in self._held()}
        for queue, since in list(self._unsure.items()):
            if now - since > _LOCK_LIFE:
                del self._unsure[queue]
        await self._unlock([queue for queue in self._unsure if queue not in held and self._asking[queue] <= 0])

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        try:
            body = await self._invoke(RequestCode.LOCK_BATCH_MQ, broker_name, queues)
            held = LockBatchResponse.decode(body).lock_ok_mq_set
        except RocketMQError as e:
            if isinstance(e, NetworkError):  # the broker may have got the request, or get it later
                self._unsure |= dict.fromkeys(queues, self._group.now())
            level = self._failures_at(broker_name).failed(e)
            lasting = self._failures_at(broker_name).duration
            _log.log(level, "%d queues cannot be locked at broker %s%s: %s", len(queues), broker_name, lasting, e)
            # A failed pull would refresh the route, but without a lock there are no pulls.
            await self._group.instance.routes.refresh_all({queue.topic for queue in queues})
            return None
        self._know(queues)
        recovery = self._failures_at(broker_name).recovered()
        if recovery is not None:
            _log.log(recovery, "queues can be locked at broker %s again", broker_name)
        return {MessageQueue(mq.topic, mq.broker_name, mq.queue_id) for mq in held}

    def _failures_at(self, broker_name: str) -> FailureLog:
        return self._failures.setdefault(broker_name, self._group.failure_log(("lock", broker_name), broker_name))

    def _forget_failures(self, brokers: Collection[str]) -> None:
        """Clear the failures of brokers that are not in ``brokers``: this member has no queue there."""
        for broker_name in [name for name in self._failures if name not in brokers]:
            self._failures.pop(broker_name).close()

    async def _unlock(self, queues: Iterable[MessageQueue]) -> None:
        queues = set(queues)
        self._requested -= queues
        for broker_name, part in self._by_broker(queues).items():
            try:
                await self._invoke(RequestCode.UNLOCK_BATCH_MQ, broker_name, part)
            except RocketMQError as e:
                if isinstance(e, NetworkError):
                    self._unsure = dict.fromkeys(part, self._group.now()) | self._unsure
                _log.warning(
                    "%d queues cannot be unlocked at broker %s, where the locks expire in a minute: %s",
                    len(part), broker_name, e,
                )  # fmt: skip
            else:
                self._know(part)

    def _know(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._unsure.pop(queue, None)

    async def _invoke(self, code: RequestCode, broker_name: str, queues: list[MessageQueue]) -> bytes:
        instance = self._group.instance
        address = instance.routes.broker_address(broker_name, MASTER_ID, only_this=True)
        if address is None:
            await instance.routes.refresh_all({queue.topic for queue in queues})
            address = instance.routes.broker_address(broker_name, MASTER_ID, only_this=True)
        if address is None and code == RequestCode.UNLOCK_BATCH_MQ:
            address = self._addresses.get(broker_name)  # the broker may run although no name server lists it
        if address is None:
            raise NoRouteError(f"broker {broker_name!r} has no master now")
        self._addresses[broker_name] = address
        body = LockBatchRequest(
            consumer_group=self._group.name,
            client_id=instance.client_id,
            mq_set=[
                MessageQueueBody(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
                for queue in queues
            ],
        )
        return (await instance.connections.invoke(address, code, None, body.encode(), TIMEOUT)).body

    def _by_broker(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """Group queues by the name of the broker that serves them."""
        found: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            found[self._group.instance.routes.broker_of(queue)].append(queue)
        return found


def _ordered(process: ProcessQueue) -> OrderedQueue:
    assert isinstance(process, OrderedQueue)
    return process
