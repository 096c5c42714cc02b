"""What the parts of a push consumer share: its group, subscriptions, queues, offsets and meters.

ConsumerState and nothing else; the parts that act on it stand in the other ``push_*`` modules.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from time import monotonic, time

import msgspec

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.filters import make_subscription
from rocketmq_py.client.consumer.local_offsets import LocalOffsetStore
from rocketmq_py.client.consumer.offsets import BrokerOffsetStore, OffsetStore
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.consumer.orderly import OrderedQueue
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.stuck_listeners import StuckCallDetector
from rocketmq_py.model import MessageModel, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.names import retry_topic


class ConsumerState(enum.Enum):
    """Where in its life a consumer is."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class ConsumerGroup:
    """One member of a consumer group.

    ``announced`` are the subscriptions the brokers are known to have: pulls carry their versions, since a broker
    refuses a pull whose version is newer than the heartbeat it has seen. ``queues`` are ours; ``leaving`` are ours no
    more, but still locked, since a listener has messages of them. ``doubt`` is told of queues whose broker was lost,
    ``vanished`` of those whose topic is gone.
    ``threads`` is how many listeners may be at work at one time, ``stopwatch`` knows how long they have been.
    """

    def __init__(self, name: str, instance: ClientInstance, options: PushOptions) -> None:
        self.name = name
        self.instance = instance
        self.options = options
        self.retry_topic = retry_topic(name)
        self.state = ConsumerState.NEW
        self.started_at = 0.0
        self.suspended = False
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.announced: dict[str, SubscriptionData] = {}
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self.leaving: dict[MessageQueue, ProcessQueue] = {}
        self.limits: dict[str, FlowLimits] = {}
        self.is_broadcasting = options.message_model is MessageModel.BROADCASTING
        self.offsets = self._make_offsets()
        self.threads = options.consume_threads
        self.stopwatch = StuckCallDetector(options.stuck_after)
        self.doubt: Callable[[ProcessQueue], None] = _no_doubt
        self.vanished: Callable[[ProcessQueue], Awaitable[None]] = _no_loss
        self._stats: dict[str, ConsumeStats] = {}
        self.announced_at = -1.0

    def _make_offsets(self) -> OffsetStore:
        if self.is_broadcasting:
            return LocalOffsetStore(self.instance, self.name, self.options.local_offset_dir)
        return BrokerOffsetStore(self.instance, self.name)

    def make_queue(self, queue: MessageQueue) -> ProcessQueue:
        """An empty process queue of the kind this consumer needs."""
        if self.options.orderly:
            return OrderedQueue(queue, self.now(), needs_lock=not self.is_broadcasting)
        return ProcessQueue(queue, self.now())

    def now(self) -> float:
        """Seconds of the clock event loops use."""
        return monotonic()

    def stats(self, topic: str) -> ConsumeStats:
        """The meters of a topic."""
        found = self._stats.get(topic)
        if found is None:
            found = self._stats[topic] = ConsumeStats.starting(self.now())
        return found

    def sample_stats(self) -> None:
        for stats in self._stats.values():
            stats.sample(self.now())

    def is_pop_retry(self, topic: str) -> bool:
        """Whether a topic holds what this group has popped of another one and not acked."""
        return topic.startswith(f"{self.retry_topic}_")

    def subscribe(self, topic: str, tags: str | None, sql: str | None = None) -> None:
        """Subscribes to a topic, with a new version if it was subscribed to already.

        :raises ConfigError: the expression cannot be understood.
        """
        self.subscriptions[topic] = make_subscription(topic, tags, sql, self._next_version(topic))

    def renew_subscription(self, topic: str) -> None:
        """Gives a subscription a new version, so that brokers take it over."""
        known = self.subscriptions.get(topic)
        if known is not None:
            self.subscriptions[topic] = msgspec.structs.replace(known, sub_version=self._next_version(topic))

    def _next_version(self, topic: str) -> int:
        """The time, but never less than before, even when the clock is set back: brokers keep the greater version."""
        known = self.subscriptions.get(topic)
        return max(int(time() * 1000), known.sub_version + 1 if known is not None else 0)

    async def announce(self) -> None:
        """Tells all brokers what is subscribed; pulls ask for it from then on."""
        told = dict(self.subscriptions)
        await self.instance.heartbeat_all()
        self.announced = told
        self.announced_at = self.now()

    def owned(self, topic: str) -> dict[MessageQueue, ProcessQueue]:
        """The queues held of a topic."""
        return {queue: process for queue, process in self.queues.items() if queue.topic == topic}

    def share_limits(self, topic: str) -> None:
        """Recomputes the limits of a topic's queues from the limits of the topic."""
        options = self.options
        self.limits[topic] = options.limits.shared(
            options.pull_threshold_for_topic, options.pull_threshold_size_for_topic, len(self.owned(topic))
        )


def _no_doubt(process: ProcessQueue) -> None:
    """A queue without a lock can be consumed whatever becomes of its broker."""


async def _no_loss(process: ProcessQueue) -> None:
    """Where nobody can let go of a queue it stays, and is pulled again."""
