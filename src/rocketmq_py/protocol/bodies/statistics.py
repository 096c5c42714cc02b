"""JSON bodies of requests for statistics: counters, times, progress of all groups, producers, running consumers."""

from __future__ import annotations

from typing import Any

import msgspec

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import ConsumeStatsTable, OffsetWrapper, queue_of_key
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.client import LanguageCode, MessageQueueBody, SubscriptionData
from rocketmq_py.wire.integers import Int32, Int64


class CounterWindow(Body, kw_only=True):
    """The values of a counter in one window: sum of the amounts, sum per second (``tps``), average per call
    (``avgpt``).
    """

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class CounterValues(Body, kw_only=True):
    """The values of a counter over the last minute, hour and day (request code 315)."""

    stats_minute: CounterWindow = msgspec.field(default_factory=CounterWindow)
    stats_hour: CounterWindow = msgspec.field(default_factory=CounterWindow)
    stats_day: CounterWindow = msgspec.field(default_factory=CounterWindow)


class ConsumeTimes(Body, kw_only=True):
    """Store times in one queue in milliseconds, -1 if there is no such message.

    ``min_time_stamp`` is that of the oldest message, ``max_time_stamp`` of the newest, ``consume_time_stamp`` of the
    last consumed one. ``delay_time`` is the age of the next message to consume, 0 if there is none.
    """

    message_queue: MessageQueueBody
    min_time_stamp: Int64 = -1
    max_time_stamp: Int64 = -1
    consume_time_stamp: Int64 = -1
    delay_time: Int64 = 0

    @property
    def queue(self) -> MessageQueue:
        found = self.message_queue
        return MessageQueue(found.topic, found.broker_name, found.queue_id)


class ConsumeTimeSpans(Body, kw_only=True):
    """The store times in each queue of a topic on one broker, for one group (request code 303)."""

    consume_time_span_set: list[ConsumeTimes] = []


class BrokerProgress(Body, kw_only=True):
    """The progress of all groups on one broker (request code 317).

    ``consume_stats_list`` has a table of one group in each element; :meth:`groups` is easier to use.
    """

    broker_addr: str = ""
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0
    consume_stats_list: list[dict[str, list[ConsumeStatsTable]]] = []

    def groups(self) -> dict[str, dict[MessageQueue, OffsetWrapper]]:
        """Return the progress by group, then by queue."""
        found: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
        known: dict[str, MessageQueue] = {}  # most queues are those of many groups
        for element in self.consume_stats_list:
            for group, tables in element.items():
                queues = found.setdefault(group, {})
                for table in tables:
                    queues.update(table.queues(known))
        return found


class ProducerInfo(Body, kw_only=True, rename={
    "client_id": "clientId", "remote_ip": "remoteIP", "last_update_timestamp": "lastUpdateTimestamp",
}):  # fmt: skip
    """A connected producer. ``last_update_timestamp`` is the time of its last heartbeat in milliseconds."""

    client_id: str
    remote_ip: str = ""
    language: LanguageCode = "OTHER"
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTable(Body, kw_only=True):
    """All producers that are connected to one broker, by group (request code 328)."""

    data: dict[str, list[ProducerInfo]] = {}


class HeldRequest(Body, kw_only=True):
    """A request that a broker holds until messages arrive.

    :ivar kind: ``pull``, ``pop`` or ``notification``.
    :ivar queue_id: -1 for any queue of the topic.
    :ivar offset: where a pull reads on; None for pops, which read where the group is.
    :ivar since: when it was held, in milliseconds.
    :ivar until: when it is answered, also without messages, in milliseconds.
    """

    kind: str
    topic: str
    queue_id: Int32
    consumer_group: str
    client_addr: str
    since: Int64
    until: Int64
    offset: Int64 | None = None


class HeldRequests(Body, kw_only=True):
    """The requests that a broker holds (request code 300100), those that wait for the longest first.

    :ivar total: all that are held, also those that were not asked for or are too many.
    :ivar is_cut: there may be more of those that were asked for.
    """

    held: list[HeldRequest] = []
    total: Int64 = 0
    is_cut: bool = False


class TimerCount(Body, kw_only=True):
    """The number of timed messages that wait for one topic; ``time_stamp`` is the time of the last change."""

    count: Int64 = 0
    time_stamp: Int64 = 0


class TimerCounts(Body, kw_only=True):
    """The timed messages that wait on one broker, by topic (request code 61)."""

    timing_count: dict[str, TimerCount] = {}


class QueueEntry(Body, kw_only=True):
    """An entry of a consume queue: where the message is in the commit log, its size in bytes, the hash of its tag."""

    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    msg: str | None = None


class QueueEntries(Body, kw_only=True):
    """Entries of a consume queue (request code 321). ``max_queue_index`` is the offset of the next message."""

    min_queue_index: Int64 = 0
    max_queue_index: Int64 = 0
    queue_data: list[QueueEntry] = []


class HeldQueue(Body, kw_only=True, rename={
    "commit_offset": "commitOffset", "cached_min_offset": "cachedMsgMinOffset",
    "cached_max_offset": "cachedMsgMaxOffset", "cached_count": "cachedMsgCount", "cached_mib": "cachedMsgSizeInMiB",
    "last_lock_timestamp": "lastLockTimestamp", "dropped": "droped", "last_pull_timestamp": "lastPullTimestamp",
    "last_consume_timestamp": "lastConsumeTimestamp",
}):  # fmt: skip
    """The state of a queue that a consumer owns; times in milliseconds, ``cached_mib`` in MiB."""

    commit_offset: Int64 = -1
    cached_min_offset: Int64 = 0
    cached_max_offset: Int64 = 0
    cached_count: Int64 = 0
    cached_mib: Int64 = 0
    locked: bool = False
    last_lock_timestamp: Int64 = 0
    dropped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class ConsumeRates(Body, kw_only=True, rename={
    "pull_rt": "pullRT", "pull_tps": "pullTPS", "consume_rt": "consumeRT", "consume_ok_tps": "consumeOKTPS",
    "consume_failed_tps": "consumeFailedTPS", "consume_failed_msgs": "consumeFailedMsgs",
}):  # fmt: skip
    """What a consumer did with one topic in the last minute: messages a second, milliseconds a call; failures of the
    last hour.
    """

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: Int64 = 0


class ConsumerRunningInfo(Body, kw_only=True):
    """What a running consumer says about itself (request code 307).

    :ivar properties: its settings and state, by Java's names.
    :ivar mq_table: the state of its queues; the keys are queues as JSON text, see :meth:`queues`.
    :ivar status_table: its rates by topic.
    :ivar jstack: the stacks of its threads, if they were asked for.
    """

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[str, HeldQueue] = {}
    mq_pop_table: dict[str, Any] = {}
    status_table: dict[str, ConsumeRates] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None

    def queues(self) -> dict[MessageQueue, HeldQueue]:
        """Return the state of each queue that the consumer owns."""
        return {queue_of_key(key): state for key, state in self.mq_table.items()}

    def popped_queues(self) -> list[MessageQueue]:
        """Return the queues from which the consumer pops."""
        return sorted(map(queue_of_key, self.mq_pop_table))
