"""The options of a push consumer, their defaults and what is allowed.

Names and defaults are those of Java's DefaultMQPushConsumer, in seconds and whole words.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from time import time

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.core.consumer.allocation import Allocation, Average
from rocketmq_py.core.consumer.consume_result import max_reconsume_times
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.consumer.orderly import MAX_RECONSUME, PAUSES
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, MessageModel

TIMESTAMP_FORMAT = "%Y%m%d%H%M%S"
HALF_AN_HOUR = 1800
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """How a push consumer consumes. Times are seconds.

    :param orderly: consumes each queue's messages one after the other, in the order they were stored, by one member at
        a time. A message that fails holds up its queue: it is consumed again after ``suspend_seconds``.
    :param message_model: BROADCASTING: every member gets all messages; offsets are kept in a file of this machine, and
        a message that fails is dropped.
    :param consume_from: where a group without stored offsets starts. A broker answers a young topic's first offset
        (0) for a new group, whatever is asked here, while its messages are still in memory.
    :param consume_timestamp: the time ``ConsumeFromWhere.TIMESTAMP`` starts at: an aware or local ``datetime``, or
        Java's ``yyyyMMddHHmmss``; half an hour before the start by default.
    :param consume_threads: the most listeners at work at one time.
    :param consume_batch_size: the most messages a listener gets in one call.
    :param pull_batch_size: the most messages a pull asks for.
    :param pull_batch_bytes: the most bytes a pull asks for.
    :param pull_interval: pause between two pulls of a queue.
    :param pull_threshold_for_queue: messages held of a queue before pulling waits.
    :param pull_threshold_size_for_queue: MiB held of a queue before pulling waits.
    :param pull_threshold_for_topic: messages held of a topic, shared by its queues; -1 for no such limit.
    :param pull_threshold_size_for_topic: MiB held of a topic, shared by its queues; -1 for no such limit.
    :param consume_max_span: offsets between the first and the last message held of a queue before pulling waits.
    :param max_reconsume_times: deliveries after the first before a message goes to the dead letters; -1 stands for 16,
        and for as many as it takes in an orderly consumer.
    :param consume_timeout: how long a listener may take. Every so often, messages at the head of a queue that took
        longer are sent back, 16 of a queue at most, and delivered again; not in an orderly consumer.
    :param stuck_after: after how long a listener that is still at work on a message is warned of, once.
    :param suspend_seconds: how long an orderly consumer leaves a queue alone after a failure; 0.01 to 30.
    :param client_rebalance: members share the queues among themselves. False: a broker assigns them, and says for each
        topic whether the group pulls its messages or pops them (POP), which an administrator sets and may change at any
        time. All members should say the same; broadcasting consumers always share. Orderly consumers written in Java
        share, too, whatever they say: an orderly group with such members must not pop.
    :param pop_invisible_time: how long popped messages are invisible to other members: a listener that takes longer has
        worked for nothing. 5 to 300.
    :param pop_batch_size: the most messages a pop asks for, up to 32.
    :param pop_threshold_for_queue: popped messages held of an assignment before popping waits.
    :param local_offset_dir: where a broadcasting consumer keeps its offsets; ``~/.rocketmq_offsets`` by default, as
        Java clients.
    :param first_pull_delay: pause before a queue taken over from other members is pulled first, which gives them time
        to finish and persist. A consumer that is alone in its group does not wait.
    :param post_subscription_when_pull: sends the subscription along with every pull.
    :param allocation: how the group shares queues; must be the same for all members.
    """

    orderly: bool = False
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp: datetime.datetime | str | None = None
    consume_threads: int = 20
    consume_batch_size: int = 1
    pull_batch_size: int = 32
    pull_batch_bytes: int = 256 * 1024
    pull_interval: float = 0.0
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    consume_max_span: int = 2000
    max_reconsume_times: int = -1
    consume_timeout: float = 900.0
    stuck_after: float = 60.0
    suspend_seconds: float = 1.0
    client_rebalance: bool = True
    pop_invisible_time: float = 60.0
    pop_batch_size: int = 32
    pop_threshold_for_queue: int = 96
    local_offset_dir: str | os.PathLike[str] | None = None
    first_pull_delay: float = 0.5
    post_subscription_when_pull: bool = False
    allocation: Allocation = field(default_factory=Average)

    def __post_init__(self) -> None:
        for name, (low, high) in _ALLOWED.items():
            value = getattr(self, name)
            if not low <= value <= high and not (value == -1 and name in _MAY_BE_UNSET):
                raise ConfigError(f"{name}={value!r} is out of range: {low} to {high} is allowed")
        if not isinstance(self.consume_from, ConsumeFromWhere):
            raise ConfigError(f"consume_from={self.consume_from!r} must be a ConsumeFromWhere")
        if not isinstance(self.message_model, MessageModel):
            raise ConfigError(f"message_model={self.message_model!r} must be a MessageModel")
        self.start_timestamp_ms()

    @property
    def limits(self) -> FlowLimits:
        span = None if self.orderly else self.consume_max_span
        return FlowLimits(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, span)

    @property
    def is_assigned(self) -> bool:
        """Whether a broker says which queues are ours."""
        return not self.client_rebalance and self.message_model is MessageModel.CLUSTERING

    @property
    def pop_limits(self) -> FlowLimits:
        return FlowLimits(self.pop_threshold_for_queue, UNLIMITED, None)

    @property
    def most_reconsume_times(self) -> int:
        """Deliveries after the first, the default resolved."""
        if self.orderly and self.max_reconsume_times == -1:
            return MAX_RECONSUME
        return max_reconsume_times(self.max_reconsume_times)

    def start_timestamp_ms(self) -> int:
        """The consume timestamp in milliseconds since the epoch.

        :raises ConfigError: it cannot be parsed.
        """
        given = self.consume_timestamp
        if given is None:
            return int((time() - HALF_AN_HOUR) * 1000)
        if isinstance(given, datetime.datetime):
            return int(given.timestamp() * 1000)
        try:
            return int(datetime.datetime.strptime(given, TIMESTAMP_FORMAT).astimezone().timestamp() * 1000)
        except (TypeError, ValueError) as e:
            raise ConfigError(f"consume_timestamp={given!r} must be a datetime or text like 20250131235959") from e


class PushSettings(ClientSettings, total=False):
    """The names and types of :class:`PushOptions`, beside those of the client, for keyword arguments."""

    orderly: bool
    message_model: MessageModel
    consume_from: ConsumeFromWhere
    consume_timestamp: datetime.datetime | str | None
    consume_threads: int
    consume_batch_size: int
    pull_batch_size: int
    pull_batch_bytes: int
    pull_interval: float
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    consume_max_span: int
    max_reconsume_times: int
    consume_timeout: float
    stuck_after: float
    suspend_seconds: float
    client_rebalance: bool
    pop_invisible_time: float
    pop_batch_size: int
    pop_threshold_for_queue: int
    local_offset_dir: str | os.PathLike[str] | None
    first_pull_delay: float
    post_subscription_when_pull: bool
    allocation: Allocation


_ALLOWED: dict[str, tuple[float, float]] = {
    "consume_threads": (1, 1000),
    "consume_batch_size": (1, 1024),
    "pull_batch_size": (1, 1024),
    "pull_batch_bytes": (1, 2**31 - 1),
    "pull_interval": (0, 65.535),
    "pull_threshold_for_queue": (1, 65535),
    "pull_threshold_size_for_queue": (1, 1024),
    "pull_threshold_for_topic": (1, 6553500),
    "pull_threshold_size_for_topic": (1, 102400),
    "consume_max_span": (1, 65535),
    "max_reconsume_times": (0, 2**31 - 1),
    "consume_timeout": (0.01, 10 * 86400),
    "stuck_after": (0.01, 10 * 86400),
    "suspend_seconds": PAUSES,
    "pop_invisible_time": (5, 300),
    "pop_batch_size": (1, 32),
    "pop_threshold_for_queue": (1, 65535),
    "first_pull_delay": (0, 60),
}
_MAY_BE_UNSET = {"pull_threshold_for_topic", "pull_threshold_size_for_topic", "max_reconsume_times"}
