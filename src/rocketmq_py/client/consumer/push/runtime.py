"""Creates and closes the working parts of a push consumer: pull, POP, dispatcher, rebalancer, queue locks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from rocketmq_py.client.consumer.calls.pop_calls import PopCalls
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import ConcurrentDispatcher, Listeners, SendBack
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.push.listener_watch import ListenerWatch
from rocketmq_py.client.consumer.push.pop_orderly import OrderlyPopDelivery
from rocketmq_py.client.consumer.push.pop_strategy import ConcurrentPopDelivery, PopAcks, PopDelivery, PopStrategy
from rocketmq_py.client.consumer.push.pull_strategy import PullStrategy
from rocketmq_py.client.consumer.rebalance.queue_lock import BrokerQueueLock, NoQueueLock, QueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged, Rebalancer
from rocketmq_py.client.consumer.send_message_back import DropFailed, FailureHandler, SendMessageBack
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.model import MessageExt
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

STATS_INTERVAL = 10.0
"""Seconds between samples of the statistics."""
CLOSE_NOTICE = 5.0
"""Seconds between log lines while ``close`` waits for listeners."""
CLOSE_NOTICE_CALLS = 5
"""Maximum number of running listeners that such a log line names."""


class PushRuntime:
    """The working parts of one push consumer: message fetcher, dispatcher (runs listeners), rebalancer, queue locks.

    It handles their events: lost connections, illegal offsets and deleted topics of pull loops, free capacity and
    expired locks of dispatchers.
    """

    def __init__(self, group: ConsumerGroup, listeners: Listeners[Any], queues_changed: QueuesChanged | None) -> None:
        self._group = group
        failures: FailureHandler = DropFailed(group) if group.is_broadcasting else SendMessageBack(group)
        self.dispatcher: ConcurrentDispatcher | OrderlyDispatcher
        self.queue_lock: QueueLock
        if group.options.orderly:
            self.dispatcher, self.queue_lock = self._orderly(listeners, failures)
        else:
            self.dispatcher, self.queue_lock = self._concurrent(listeners, failures), NoQueueLock(group)
        calls = PopCalls(
            group.instance, group.name, group.options.body_rules, group.skipped, group.single_pulls,
            group.options.filter_hooks, group.namespace,
        )  # fmt: skip
        self._acks = PopAcks(group, calls, failures.dead_letter)
        self.fetcher = MessageFetcher(
            PullStrategy(group, self.dispatcher, self),
            PopStrategy(group, calls, self._acks, self._pop_delivery(calls)),
        )
        self.rebalancer = Rebalancer(group, self.fetcher.take, self._stop_queue, self.queue_lock, queues_changed)
        self._watch = ListenerWatch(group, self.dispatcher, lambda: any(each.is_async for each in listeners))
        self._sampling = Background()
        self._sampling.start(self._sample())

    def _concurrent(self, listeners: Listeners[Any], failures: FailureHandler) -> ConcurrentDispatcher:
        group = self._group
        return ConcurrentDispatcher(
            listeners, group.threads, group.offsets, self._send_back(failures), group.stats,
            self._capacity_freed, f"{group.name}-listener",
        )  # fmt: skip

    def _orderly(self, listeners: Listeners[Any], failures: FailureHandler) -> tuple[OrderlyDispatcher, QueueLock]:
        group = self._group
        dispatcher = OrderlyDispatcher(
            listeners, group.threads, group.options, group.offsets, failures.dead_letter, group.stats,
            self._capacity_freed, self._lock_expired, f"{group.name}-listener",
        )  # fmt: skip
        if group.is_broadcasting:
            return dispatcher, NoQueueLock(group)
        return dispatcher, BrokerQueueLock(group, dispatcher, self._lock_lost)

    def _pop_delivery(self, calls: PopCalls) -> PopDelivery:
        if isinstance(self.dispatcher, OrderlyDispatcher):
            return OrderlyPopDelivery(self._group, self.dispatcher, calls, self._acks)
        return ConcurrentPopDelivery(self._group, self.dispatcher, self._acks)

    def _send_back(self, failures: FailureHandler) -> SendBack:
        """Return the function that sends failed messages back to the broker, pulled ones and popped ones."""

        async def send_back(queue: ProcessQueue, message: MessageExt, level: int) -> bool:
            if isinstance(queue, PopQueue):
                return await self._acks.send_back(queue, message, level)
            return await failures.send_back(message, level)

        return send_back

    # -- what the parts report

    def _capacity_freed(self, queue: ProcessQueue) -> None:
        self.fetcher.wake(queue)

    def _lock_expired(self) -> None:
        self.queue_lock.renew_soon()

    async def _lock_lost(self, queues: Collection[ProcessQueue]) -> None:
        await self.rebalancer.lose(queues)

    def _stop_queue(self, queue: ProcessQueue) -> None:
        self.fetcher.drop(queue)
        if not queue.has_invisible_time:
            self.dispatcher.drop(queue)

    def connection_lost(self, queue: ProcessQueue) -> None:
        """Pause an orderly queue until its broker has confirmed the lock again; others need no lock."""
        self.queue_lock.connection_lost(queue)

    async def offset_illegal(self, queue: ProcessQueue, offset: int, next_offset: int) -> None:
        """Restart the queue at ``next_offset``, which its broker suggests instead of ``offset``."""
        _log.warning(
            "offset %d of %s lies outside the queue or was reset: on from %d", offset, queue.queue, next_offset
        )
        await self.rebalancer.reset(queue, next_offset)

    async def topic_deleted(self, queue: ProcessQueue) -> None:
        """Release the queue and remove its offset from memory."""
        await self.rebalancer.forget(queue)

    # -- life

    async def _sample(self) -> None:
        while True:
            self._group.sample_stats()
            await asyncio.sleep(STATS_INTERVAL)

    def resize(self, threads: int) -> None:
        """Change how many listeners may run at the same time."""
        self._group.threads = threads
        self.dispatcher.resize(threads)

    async def close(self, timeout: float | None) -> None:
        """Close all parts except the queue locks, which are released after the offsets are stored.

        :param timeout: seconds to wait for running listeners; None: no limit.
        """
        await self._sampling.stop()
        await self._watch.close()
        await self.rebalancer.close()
        await self.fetcher.close()
        notice = Background()
        notice.start(self._log_waiting())
        try:
            async with asyncio.timeout(timeout):
                await self.dispatcher.close()
        except TimeoutError:
            _log.warning("listeners of group %s still run after %g s; close does not wait", self._group.name, timeout)
        finally:
            await notice.stop()
        await self.fetcher.finish()

    async def _log_waiting(self) -> None:
        """Log every ``CLOSE_NOTICE`` seconds which running listeners ``close`` waits for."""
        self.dispatcher.running_calls()  # a call is returned only if an earlier check saw it, too
        while True:
            await asyncio.sleep(CLOSE_NOTICE)
            calls = self.dispatcher.running_calls()
            where = [
                f"{call.messages[0].queue} at {call.messages[0].queue_offset}" for call in calls[:CLOSE_NOTICE_CALLS]
            ]
            if where:
                _log.warning(
                    "closing the consumer of group %s waits for %d running listeners (%s%s); close(timeout=...) or the "
                    "option close_timeout limits that", self._group.name, len(calls), ", ".join(where),
                    ", ..." if len(calls) > len(where) else "",
                )  # fmt: skip


class MessageFetcher:
    """Fetches the messages of queues: a :class:`PopQueue` by POP, others by pull."""

    def __init__(self, pull: PullStrategy, pop: PopStrategy) -> None:
        self._pull = pull
        self._pop = pop

    def take(self, queue: ProcessQueue, delay: float) -> None:
        """Start to fetch a queue: by POP at once, by pull after ``delay`` seconds."""
        if isinstance(queue, PopQueue):
            self._pop.take(queue)
        else:
            self._pull.take(queue, delay)

    def drop(self, queue: ProcessQueue) -> None:
        """Stop fetching a queue."""
        if isinstance(queue, PopQueue):
            self._pop.drop(queue)
        else:
            self._pull.drop(queue)

    def wake(self, queue: ProcessQueue) -> None:
        """Check flow control of a queue now, because messages of it were removed from memory."""
        (self._pop if queue.has_invisible_time else self._pull).wake(queue)

    def wake_all(self) -> None:
        """Check flow control of all queues now, because the application has resumed the suspended consumer."""
        self._pull.wake_all()
        self._pop.wake_all()

    async def close(self) -> None:
        """Stop fetching all queues."""
        await self._pull.close()
        await self._pop.close()

    async def finish(self) -> None:
        """Ack consumed messages of POP queues and return the others. Call it after the listeners have ended."""
        await self._pop.finish()
