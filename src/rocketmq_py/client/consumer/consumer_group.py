"""The state that the parts of one consumer share: its group, subscriptions, queues, offsets and statistics.

Fetching, dispatching and rebalancing are in the packages ``push``, ``lite_pull``, ``pull``, ``simple``, ``dispatch``
and ``rebalance``.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from time import monotonic, time

import msgspec

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.calls.single_pull import SinglePulls
from rocketmq_py.client.consumer.failure_log import FailureLog, Problems
from rocketmq_py.client.consumer.filters import make_subscription
from rocketmq_py.client.consumer.offsets.local_offsets import LocalOffsetStore
from rocketmq_py.client.consumer.offsets.offset_store import BrokerOffsetStore, OffsetStore
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.consumer.orderly import OrderedQueue
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.stuck_listeners import StuckCallDetector
from rocketmq_py.model import MessageExt, MessageModel, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.namespaces import queue_without_namespace, with_namespace, without_namespace


class ConsumerState(enum.Enum):
    """The state of a consumer, from construction to close."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class ConsumerGroup:
    """The shared state of one consumer, which is one member of a consumer group.

    :ivar name: the name of the group, with its namespace.
    :ivar subscriptions: the current subscriptions of the application, by topic with namespace.
    :ivar announced: the subscriptions of the last heartbeat. Pulls carry their versions, because a broker refuses a
        pull whose version is newer than that of the last heartbeat.
    :ivar queues: the queues this member owns.
    :ivar leaving: queues it no longer owns but still has locked, because a listener has messages of them.
    :ivar limits: flow control limits by topic.
    :ivar threads: maximum number of listeners that may run at the same time.
    :ivar stopwatch: measures how long each running listener takes.
    :ivar announced_at: when ``announced`` was sent, in seconds of :meth:`now`; -1 before the first time.
    :ivar problems: current errors; while there are any, ``health().ok`` is False. The keys say what fails, for example
        ``("queue", queue)``.
    :ivar skipped: counts the messages that this consumer could not decode.
    :ivar single_pulls: pulls messages one by one after a damaged answer.
    """

    def __init__(self, name: str, instance: ClientInstance, options: PushOptions) -> None:
        self.name = name
        self.instance = instance
        self.options = options
        self.retry_topic = retry_topic(name)
        self.namespace = options.namespace
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
        self._stats: dict[str, ConsumeStats] = {}
        self.announced_at = -1.0
        self.problems: Problems = {}
        self.skipped = SkippedMessages(name, options.on_damaged)
        self.single_pulls = SinglePulls(instance, name, options.body_rules, self.skipped, self.namespace)

    def _make_offsets(self) -> OffsetStore:
        if self.is_broadcasting:
            return LocalOffsetStore(self.instance, self.name, self.options.local_offset_dir)
        return BrokerOffsetStore(self.instance, self.name)

    def failure_log(self, key: Hashable, broker_name: str) -> FailureLog:
        """Make a :class:`FailureLog` for repeated requests to a broker; ``key`` is their key in ``problems``."""
        return FailureLog(key, broker_name, self.instance.outages, self.problems, self.now)

    def make_queue(self, queue: MessageQueue) -> ProcessQueue:
        """Make an empty process queue; an :class:`OrderedQueue` for an orderly consumer."""
        if self.options.orderly:
            return OrderedQueue(queue, self.now(), needs_lock=not self.is_broadcasting)
        return ProcessQueue(queue, self.now())

    def now(self) -> float:
        """The current monotonic time in seconds."""
        return monotonic()

    # -- topic names: brokers use them with the namespace prefix, the application without

    def named_topic(self, topic: str) -> str:
        """The name of a topic with the namespace prefix, as brokers use it."""
        return with_namespace(self.namespace, topic)

    def named(self, queue: MessageQueue) -> MessageQueue:
        """The queue with the namespace prefix in its topic, as brokers use it."""
        return queue._replace(topic=with_namespace(self.namespace, queue.topic)) if self.namespace else queue

    def shown_topic(self, topic: str) -> str:
        """The name of a topic without the namespace prefix, as the application uses it."""
        return without_namespace(self.namespace, topic)

    def shown(self, queue: MessageQueue) -> MessageQueue:
        """The queue without the namespace prefix in its topic, as the application uses it."""
        return queue_without_namespace(self.namespace, queue)

    def show(self, messages: Iterable[MessageExt]) -> None:
        """Remove the namespace prefix from the topics of messages, in place."""
        if self.namespace:
            for message in messages:
                message.topic = without_namespace(self.namespace, message.topic)

    # -- statistics

    def stats(self, topic: str) -> ConsumeStats:
        """The statistics of a topic, with or without namespace; created at the first call."""
        topic = with_namespace(self.namespace, topic) if self.namespace else topic
        found = self._stats.get(topic)
        if found is None:
            found = self._stats[topic] = ConsumeStats.starting(self.now())
        return found

    def sample_stats(self) -> None:
        """Record the current counts of all statistics; rates per second are computed from these records."""
        for stats in self._stats.values():
            stats.sample(self.now())

    def is_pop_retry(self, topic: str) -> bool:
        """True if ``topic`` is a POP retry topic of this group, for messages that it popped and did not ack."""
        return topic.startswith(f"{self.retry_topic}_")

    def subscribe(self, topic: str, tags: str | None, sql: str | None = None) -> None:
        """Subscribe to a topic, or replace its subscription by one with a newer version.

        :param topic: with namespace.

        :raises ConfigError: the expression is illegal.
        """
        self.subscriptions[topic] = make_subscription(topic, tags, sql, self._next_version(topic))

    def renew_subscription(self, topic: str) -> None:
        """Give a subscription a newer version, so that brokers replace their copy; do nothing if there is none."""
        known = self.subscriptions.get(topic)
        if known is not None:
            self.subscriptions[topic] = msgspec.structs.replace(known, sub_version=self._next_version(topic))

    def _next_version(self, topic: str) -> int:
        """The version of a new subscription: the time in milliseconds, or more if the last version is not smaller."""
        known = self.subscriptions.get(topic)
        return max(int(time() * 1000), known.sub_version + 1 if known is not None else 0)

    async def announce(self) -> None:
        """Send the subscriptions to all brokers by heartbeat; later pulls use their versions."""
        announced = dict(self.subscriptions)
        await self.instance.heartbeat_all()
        self.announced = announced
        self.announced_at = self.now()

    def owned(self, topic: str) -> dict[MessageQueue, ProcessQueue]:
        """The queues of a topic that this member owns."""
        return {queue: process for queue, process in self.queues.items() if queue.topic == topic}

    def share_limits(self, topic: str) -> None:
        """Divide the flow control limits of a topic among the queues of the topic that this member owns."""
        options = self.options
        self.limits[topic] = options.limits.shared(
            options.pull_threshold_for_topic, options.pull_threshold_size_for_topic, len(self.owned(topic))
        )
