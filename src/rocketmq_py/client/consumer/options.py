"""Options that consumers share, and those of a push consumer: defaults and ranges.

The defaults are those of Java's DefaultMQPushConsumer; the names are too, spelled out. Times are in seconds.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from time import time

from rocketmq_py.accelerator import installed
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.allocation import Allocation, Average
from rocketmq_py.core.consumer.consume_result import max_reconsume_times
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.consumer.orderly import MAX_RECONSUME, PAUSES
from rocketmq_py.core.consumer.pulls_ahead import PullsInFlight, check_in_flight
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, DamagedMessage, MessageModel
from rocketmq_py.protocol.namespaces import check_namespace
from rocketmq_py.wire.compression import DEFAULT_LIMITS, DecompressionLimits
from rocketmq_py.wire.record import BodyRules

TIMESTAMP_FORMAT = "%Y%m%d%H%M%S"
HALF_AN_HOUR = 1800
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Options of every consumer.

    :param namespace: prefix of the group and its topics (``namespace%topic``), as Java's ``setNamespace`` adds it;
        the application sees messages and queues without it.
    :param filter_hooks: select the messages to deliver; see :class:`~rocketmq_py.FilterMessageHook`. Messages that a
        hook drops count as consumed.
    :param max_decompressed_body: maximum bytes of a decompressed body. A larger message is skipped, with an error in
        the log that names its topic, queue and offset; it remains at the broker.
    :param max_decompressed_pull: maximum bytes of all decompressed bodies of one pull or pop; messages beyond this
        limit are pulled again, or become visible again after a second.
    :param decode_body: False: messages are delivered without their bodies. (Java: ``decodeReadBody``)
    :param decompress_body: False: compressed bodies are not decompressed; the message's ``sys_flag`` names the
        compression. (Java: ``decodeDecompressBody``)
    :param check_crc: compare each body with its stored checksum. A message whose body differs is pulled once more, from
        each slave if there is one, and skipped if every copy is damaged.
    :param on_damaged: called with each message that is skipped because it is damaged or cannot be decoded. It runs in
        the consumer's event loop and must not block.
    """

    namespace: str | None = None
    filter_hooks: Sequence[FilterMessageHook] = ()
    max_decompressed_body: int = DEFAULT_LIMITS.max_body
    max_decompressed_pull: int = DEFAULT_LIMITS.max_total
    decode_body: bool = True
    decompress_body: bool = True
    check_crc: bool = True
    on_damaged: Callable[[DamagedMessage], None] | None = None

    def shared(self) -> PushOptions:
        """Copy these options to a :class:`PushOptions`, which has the defaults for all others.

        :raises ConfigError: an option is out of range.
        """
        known = {each.name for each in fields(PushOptions)}
        return PushOptions(**{each.name: getattr(self, each.name) for each in fields(self) if each.name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions(GroupOptions):
    """Options of consumers that own queues, besides those of :class:`GroupOptions`. Times are in seconds.

    :param message_model: CLUSTERING: the members share the messages. BROADCASTING: every member gets all messages;
        offsets are stored in a local file, and a push consumer drops messages that fail.
    :param local_offset_dir: folder of the offsets of a broadcasting consumer; ``~/.rocketmq_offsets`` by default, as in
        Java.
    :param rebalance_interval: time between two rebalances, 0.01 to 3600; a change of members causes one at once.
        (Java: ``rocketmq.client.rebalance.waitInterval``)
    :param pull_from_broker_id: the broker id of the replica to pull from (0 is the master), while it exists, instead of
        the replica that the broker suggests. (Java: ``connectBrokerByUser``, ``defaultBrokerId``)
    :param allocation: the strategy that allocates queues to members; must be the same for all members.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    local_offset_dir: str | os.PathLike[str] | None = None
    rebalance_interval: float = 20.0
    pull_from_broker_id: int | None = None
    allocation: Allocation = field(default_factory=Average)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullingOptions(QueueOptions):
    """Options of consumers that pull in the background, besides those of :class:`QueueOptions`. Times are in seconds.

    :param consume_from: where a group without stored offsets starts. Brokers ignore it and start at the first message
        of a queue while that message is still in memory.
    :param consume_timestamp: the time ``ConsumeFromWhere.TIMESTAMP`` starts at: an aware or local ``datetime``, or
        Java's ``yyyyMMddHHmmss`` in local time; half an hour before the start by default.
    :param pull_threshold_for_queue: flow control: pause pulling a queue while more than this many of its messages are
        cached.
    :param pull_threshold_size_for_queue: flow control: pause pulling a queue while more than this many MiB of its
        messages are cached.
    :param consume_max_span: flow control: pause pulling a queue while the offsets of its cached messages span more than
        this; not in an orderly consumer.
    :param first_pull_delay: pause before the first pull of a queue that another member may have owned, so that this
        member can store its offset first. The only member of a group does not pause, nor does ``assign``.
    :param pull_delay_after_error: pause of a queue after a failed pull, 0 to 3600. (Java:
        ``pullTimeDelayMillsWhenException``; 3 s in Java's 4.x)
    :param pulls_in_flight: how many pulls of a queue may be in flight while it has more messages: a number up to 64, or
        ``"auto"`` for as many as the distance to the broker needs, up to 32. 1, the default, is what Java does. Flow
        control counts the messages that they may bring. A queue without further messages always has one pull, which
        its broker holds. A group that pops has as many pops of an assignment in flight, unless it consumes in order.
    """

    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp: datetime.datetime | str | None = None
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100
    consume_max_span: int = 2000
    first_pull_delay: float = 0.5
    pull_delay_after_error: float = 1.0
    pulls_in_flight: PullsInFlight = 1


def check_ranges(options: GroupOptions, allowed: Mapping[str, tuple[float, float]]) -> None:
    """Check that options are within their ranges, inclusive; some may also be -1 for unset.

    :param allowed: the least and the greatest value of each option, by name.
    :raises ConfigError: an option is out of range.
    """
    for name, (low, high) in allowed.items():
        value = getattr(options, name)
        if not low <= value <= high and not (value == -1 and name in _MAY_BE_UNSET):
            raise ConfigError(f"{name}={value!r} is out of range: {low} to {high} is allowed")


def check_suspend(broker_suspend_time: float, timeout_when_suspend: float) -> None:
    """Check that ``timeout_when_suspend`` is at least ``broker_suspend_time``, both in seconds.

    :raises ConfigError: pulls would time out while the broker still holds them.
    """
    if timeout_when_suspend < broker_suspend_time:
        raise ConfigError(
            f"timeout_when_suspend={timeout_when_suspend!r} is less than broker_suspend_time="
            f"{broker_suspend_time!r}: a pull would be given up while its broker still holds it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions(PullingOptions):
    """Options of a push consumer, besides those of :class:`PullingOptions`. Times are in seconds.

    :param orderly: consume the messages of each queue one after the other, in the order they were stored, by one member
        at a time. A message that fails blocks its queue and is consumed again after ``suspend_seconds``.
    :param consume_threads: maximum number of listeners that run at the same time.
    :param consume_batch_size: maximum number of messages per call of a listener.
    :param pull_batch_size: maximum number of messages per pull.
    :param pull_batch_bytes: maximum bytes per pull.
    :param pull_interval: pause between two pulls of a queue.
    :param pull_threshold_for_topic: flow control: maximum number of cached messages of a topic, divided among its
        queues; -1: no limit per topic.
    :param pull_threshold_size_for_topic: flow control: maximum MiB of cached messages of a topic, divided among its
        queues; -1: no limit per topic.
    :param max_reconsume_times: redeliveries of a failed message before it is moved to the dead-letter topic; -1: 16, or
        without limit in an orderly consumer.
    :param consume_timeout: the time a listener may take. Every ``consume_timeout``, up to 16 messages at the start of
        each queue whose listeners have taken longer are sent back and delivered again; not in an orderly consumer.
    :param stuck_after: log a warning about a listener that is still running after this time.
    :param suspend_seconds: pause of a queue of an orderly consumer after a failure; 0.01 to 30.
    :param client_rebalance: True: the members compute which queues they own. False: a broker assigns the queues and
        decides for each topic whether the group pulls or pops (POP); an administrator sets this mode and may change it
        at any time. Use the same value for all members. Broadcasting consumers ignore it, and so do orderly consumers
        written in Java: an orderly group with such members must not pop.
    :param pop_invisible_time: how long popped messages are invisible to all members, 5 to 300. A message whose listener
        takes longer is delivered again.
    :param pop_batch_size: maximum number of messages per pop, up to 32.
    :param pop_threshold_for_queue: flow control: pause popping an assignment (a topic at a broker) while more than this
        many of its messages are cached. Pops in flight count with all they may bring: a consumer far from its brokers
        needs more than the default for many of them.
    :param post_subscription_when_pull: send the filter expression with every pull.
    :param close_timeout: how long ``close()`` and the end of a ``with`` block wait for running listeners; None: no
        limit.
    """

    orderly: bool = False
    consume_threads: int = 20
    consume_batch_size: int = 1
    pull_batch_size: int = 32
    pull_batch_bytes: int = 256 * 1024
    pull_interval: float = 0.0
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    max_reconsume_times: int = -1
    consume_timeout: float = 900.0
    stuck_after: float = 60.0
    suspend_seconds: float = 1.0
    client_rebalance: bool = True
    pop_invisible_time: float = 60.0
    pop_batch_size: int = 32
    pop_threshold_for_queue: int = 96
    post_subscription_when_pull: bool = False
    close_timeout: float | None = None

    def __post_init__(self) -> None:
        check_ranges(self, _ALLOWED)
        check_in_flight(self.pulls_in_flight)
        if self.close_timeout is not None and not self.close_timeout >= 0:
            raise ConfigError(f"close_timeout={self.close_timeout!r} must not be negative")
        if self.pull_from_broker_id is not None and self.pull_from_broker_id < 0:
            raise ConfigError(f"pull_from_broker_id={self.pull_from_broker_id!r} must not be negative")
        check_namespace(self.namespace)
        for hook in self.filter_hooks:
            if not isinstance(hook, FilterMessageHook):
                raise ConfigError(f"a filter hook must be a FilterMessageHook, {hook!r} is not")
        if not isinstance(self.consume_from, ConsumeFromWhere):
            raise ConfigError(f"consume_from={self.consume_from!r} must be a ConsumeFromWhere")
        if not isinstance(self.message_model, MessageModel):
            raise ConfigError(f"message_model={self.message_model!r} must be a MessageModel")
        if self.on_damaged is not None and not callable(self.on_damaged):
            raise ConfigError(f"on_damaged={self.on_damaged!r} must be a function")
        self.start_timestamp_ms()

    @property
    def limits(self) -> FlowLimits:
        span = None if self.orderly else self.consume_max_span
        return FlowLimits(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, span)

    @property
    def body_rules(self) -> BodyRules:
        """How to check and decompress message bodies, from these options."""
        limits = DecompressionLimits(self.max_decompressed_body, self.max_decompressed_pull)
        return BodyRules(
            limits, read=self.decode_body, decompress=self.decompress_body, check_crc=self.check_crc,
            accelerator=installed(),
        )  # fmt: skip

    @property
    def is_assigned(self) -> bool:
        """True if a broker assigns the queues; False if the members compute it, or when broadcasting."""
        return not self.client_rebalance and self.message_model is MessageModel.CLUSTERING

    @property
    def pop_limits(self) -> FlowLimits:
        return FlowLimits(self.pop_threshold_for_queue, UNLIMITED, None)

    @property
    def most_reconsume_times(self) -> int:
        """The effective ``max_reconsume_times``: -1 is replaced by 16, or by no limit in an orderly consumer."""
        if self.orderly and self.max_reconsume_times == -1:
            return MAX_RECONSUME
        return max_reconsume_times(self.max_reconsume_times)

    def start_timestamp_ms(self) -> int:
        """Return ``consume_timestamp`` in milliseconds since the epoch; None means half an hour ago.

        :raises ConfigError: the text cannot be parsed.
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
    "rebalance_interval": (0.01, 3600),
    "pull_delay_after_error": (0, 3600),
    "max_decompressed_body": (1, 2**31 - 1),
    "max_decompressed_pull": (1, 2**63 - 1),
}
_MAY_BE_UNSET = {"pull_threshold_for_topic", "pull_threshold_size_for_topic", "max_reconsume_times"}
