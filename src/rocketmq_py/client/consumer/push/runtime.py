"""What a running push consumer is made of, for each way to consume: put together here, and taken apart again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import ConcurrentDispatcher, Listeners, SendBack
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.pop_calls import PopCalls
from rocketmq_py.client.consumer.push.listener_watch import ListenerWatch
from rocketmq_py.client.consumer.push.pop_orderly import OrderlyPopDelivery
from rocketmq_py.client.consumer.push.pop_strategy import ConcurrentPopDelivery, PopAcks, PopDelivery, PopStrategy
from rocketmq_py.client.consumer.push.pull_strategy import PullStrategy
from rocketmq_py.client.consumer.rebalance.queue_lock import BrokerQueueLock, NoQueueLock, QueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.client.consumer.send_message_back import DropFailed, FailureHandler, SendMessageBack
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

STATS_INTERVAL = 10.0

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""Told a topic, all of its queues, and those that are now this consumer's."""


class PushRuntime:
    """A strategy that fetches messages, a dispatcher that takes them to listeners, a rebalancer that says which queues
    are ours, and a queue_lock that makes sure of it.
    """

    def __init__(self, group: ConsumerGroup, listeners: Listeners[Any], queues_changed: QueuesChanged | None) -> None:
        self._group = group
        failures: FailureHandler = DropFailed(group) if group.is_broadcasting else SendMessageBack(group)
        self.dispatcher: ConcurrentDispatcher | OrderlyDispatcher
        self.queue_lock: QueueLock
        if group.options.orderly:
            self.dispatcher, self.queue_lock = self._in_order(listeners, failures)
        else:
            self.dispatcher, self.queue_lock = self._side_by_side(listeners, failures), NoQueueLock(group)
        calls = PopCalls(group.instance, group.name)
        receipts = self._acks = PopAcks(group, calls, failures.dead_letter)
        self.fetcher = MessageFetcher(
            PullStrategy(group, self.dispatcher, self._reset),
            PopStrategy(group, calls, receipts, self._pop_delivery(calls)),
        )
        self.rebalancer = Rebalancer(
            group, self.fetcher.take, self._release, self.queue_lock, queues_changed or _nobody
        )  # fmt: skip
        group.vanished = self.rebalancer.forget
        self._watch = ListenerWatch(group, self.dispatcher, lambda: any(each.is_async for each in listeners))
        self._sampling = Background()
        self._sampling.start(self._sample())

    def _side_by_side(self, listeners: Listeners[Any], failures: FailureHandler) -> ConcurrentDispatcher:
        group = self._group
        return ConcurrentDispatcher(
            listeners, group.threads, group.offsets, self._sender_back(failures), group.stats,
            self._settled, f"{group.name}-listener",
        )  # fmt: skip

    def _pop_delivery(self, calls: PopCalls) -> PopDelivery:
        if isinstance(self.dispatcher, OrderlyDispatcher):
            return OrderlyPopDelivery(self._group, self.dispatcher, calls, self._acks)
        return ConcurrentPopDelivery(self._group, self.dispatcher, self._acks)

    def _sender_back(self, failures: FailureHandler) -> SendBack:
        """What has failed messages delivered again, those of either kind of queue."""

        async def send_back(queue: ProcessQueue, message: MessageExt, level: int) -> bool:
            if isinstance(queue, PopQueue):
                return await self._acks.send_back(queue, message, level)
            return await failures.send_back(message, level)

        return send_back

    def _in_order(self, listeners: Listeners[Any], failures: FailureHandler) -> tuple[OrderlyDispatcher, QueueLock]:
        group = self._group
        dispatcher = OrderlyDispatcher(
            listeners, group.threads, group.options, group.offsets, failures.dead_letter, group.stats, self._settled,
            self._unlocked, f"{group.name}-listener",
        )  # fmt: skip
        if group.is_broadcasting:
            return dispatcher, NoQueueLock(group)
        return dispatcher, BrokerQueueLock(group, dispatcher, self._lose)

    def _settled(self, queue: ProcessQueue) -> None:
        self.fetcher.wake(queue)

    def _unlocked(self) -> None:
        if isinstance(self.queue_lock, BrokerQueueLock):
            self.queue_lock.renew_soon()

    async def _lose(self, queues: Collection[ProcessQueue]) -> None:
        await self.rebalancer.lose(queues)

    def _release(self, queue: ProcessQueue) -> None:
        self.fetcher.drop(queue)
        if not queue.has_invisible_time:
            self.dispatcher.drop(queue)

    async def _reset(self, queue: ProcessQueue, offset: int, next_offset: int) -> None:
        _log.warning(
            "offset %d of %s lies outside the queue or was reset: on from %d", offset, queue.queue, next_offset
        )
        await self.rebalancer.reset(queue, next_offset)

    async def _sample(self) -> None:
        while True:
            self._group.sample_stats()
            await asyncio.sleep(STATS_INTERVAL)

    def resize(self, threads: int) -> None:
        """Has at most so many listeners at work at one time."""
        self._group.threads = threads
        self.dispatcher.resize(threads)

    async def close(self, timeout: float | None) -> None:
        """Ends all parts but the queue_lock, those first that make work for others."""
        await self._sampling.stop()
        await self._watch.close()
        await self.rebalancer.close()
        await self.fetcher.close()
        try:
            async with asyncio.timeout(timeout):
                await self.dispatcher.close()
        except TimeoutError:
            _log.warning(
                "listeners of group %s still run after %g s; they are not waited for", self._group.name, timeout
            )
        await self.fetcher.finish()


class MessageFetcher:
    """Fetches messages of each queue in its way."""

    def __init__(self, pull: PullStrategy, pop: PopStrategy) -> None:
        self._pull = pull
        self._pop = pop

    def take(self, queue: ProcessQueue, delay: float) -> None:
        """Begins to fetch messages of a queue; pulling it only after ``delay`` seconds."""
        if isinstance(queue, PopQueue):
            self._pop.take(queue)
        else:
            self._pull.take(queue, delay)

    def drop(self, queue: ProcessQueue) -> None:
        """Fetches nothing more of a queue."""
        if isinstance(queue, PopQueue):
            self._pop.drop(queue)
        else:
            self._pull.drop(queue)

    def wake(self, queue: ProcessQueue) -> None:
        """The queue holds less than before."""
        (self._pop if queue.has_invisible_time else self._pull).wake(queue)

    def wake_all(self) -> None:
        """The consumer fetches messages again."""
        self._pull.wake_all()
        self._pop.wake_all()

    async def close(self) -> None:
        """Fetches nothing more."""
        await self._pull.close()
        await self._pop.close()

    async def finish(self) -> None:
        """The listeners have ended: brokers are told what became of messages."""
        await self._pop.finish()


def _nobody(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
    """Stands in where nobody wants to know of changes."""
