"""The options of a lite pull consumer, their defaults and what is allowed.

Names and defaults are those of Java's DefaultLitePullConsumer, in seconds and whole words.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.allocation import Allocation, Average
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, MessageModel
from rocketmq_py.wire.compression import DEFAULT_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullOptions:
    """How a lite pull consumer consumes. Times are seconds.

    :param message_model: BROADCASTING: every member gets all messages of subscribed topics; offsets are kept in a file
        of this machine.
    :param local_offset_dir: where a broadcasting consumer keeps its offsets; ``~/.rocketmq_offsets`` by default, as
        Java clients.
    :param consume_from: where a group without stored offsets starts. While the first message of a queue is still in
        memory, brokers let a new group start there, whatever this option says.
    :param consume_timestamp: the time ``ConsumeFromWhere.TIMESTAMP`` starts at: an aware or local ``datetime``, or
        Java's ``yyyyMMddHHmmss``; half an hour before the start by default.
    :param pull_batch_size: the most messages per pull, and per poll.
    :param pull_threshold_for_all: flow control: stop to pull while more messages of all queues are held; every batch
        counts as a full one.
    :param pull_threshold_for_queue: flow control: stop to pull a queue while more messages of it are held.
    :param pull_threshold_size_for_queue: flow control: stop to pull a queue while more MiB of it are held.
    :param consume_max_span: flow control: stop to pull a queue while its held messages span more offsets.
    :param auto_commit: a poll commits what earlier polls returned, if the last commit is old enough.
    :param auto_commit_interval: the least time between two such commits.
    :param broker_suspend_time: how long a broker may hold a pull that finds nothing.
    :param timeout_when_suspend: how long to wait for the answer to a pull.
    :param metadata_check_interval: pause between two checks of watched topics.
    :param first_pull_delay: pause before the first pull of a queue that another member may have owned, which gives that
        member time to store its offset. The only member of a group, and one with assigned queues, does not wait.
    :param rebalance_interval: time between two checks whether the shares of queues are up to date, 0.01 to 3600.
    :param pull_delay_after_error: pause of a queue after a pull that failed, 0 to 3600.
    :param namespace: prefix of the group and its topics (``namespace%topic``), as Java's ``setNamespace`` adds it;
        messages and queues have names without it.
    :param filter_hooks: drop messages before they are delivered; see :class:`~rocketmq_py.FilterMessageHook`. Dropped
        messages count as consumed.
    :param pull_from_broker_id: pull from this replica of each broker (0 is the master) as long as it exists, instead of
        the one that the broker suggests. (Java: ``connectBrokerByUser``, ``defaultBrokerId``)
    :param max_decompressed_body: bytes that a compressed body may have when it is decompressed. A message with more is
        skipped, with an error in the log that names its topic, queue and offset; it remains at the broker.
    :param max_decompressed_pull: bytes that the compressed bodies of one pull or pop may have together; messages beyond
        them are pulled again, or become visible again after a second.
    :param decode_body: False: messages come without their bodies. (Java: ``decodeReadBody``)
    :param decompress_body: False: bodies stay as they are stored, which ``sys_flag`` tells. (Java:
        ``decodeDecompressBody``)
    :param allocation: the strategy that shares queues among members; must be the same for all members.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    local_offset_dir: str | os.PathLike[str] | None = None
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp: datetime.datetime | str | None = None
    pull_batch_size: int = 10
    pull_threshold_for_all: int = 10000
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100
    consume_max_span: int = 2000
    auto_commit: bool = True
    auto_commit_interval: float = 5.0
    broker_suspend_time: float = 20.0
    timeout_when_suspend: float = 30.0
    metadata_check_interval: float = 30.0
    first_pull_delay: float = 0.5
    rebalance_interval: float = 20.0
    pull_delay_after_error: float = 1.0
    namespace: str | None = None
    filter_hooks: Sequence[FilterMessageHook] = ()
    pull_from_broker_id: int | None = None
    max_decompressed_body: int = DEFAULT_LIMITS.max_body
    max_decompressed_pull: int = DEFAULT_LIMITS.max_total
    decode_body: bool = True
    decompress_body: bool = True
    allocation: Allocation = field(default_factory=Average)

    def __post_init__(self) -> None:
        for name, (low, high) in _ALLOWED.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name}={value!r} is out of range: {low} to {high} is allowed")
        if self.timeout_when_suspend < self.broker_suspend_time:
            raise ConfigError(
                f"timeout_when_suspend={self.timeout_when_suspend!r} is less than broker_suspend_time="
                f"{self.broker_suspend_time!r}: a pull would be given up while its broker still holds it"
            )
        self.shared()

    def shared(self) -> PushOptions:
        """The options that this consumer has in common with a push consumer.

        :raises ConfigError: one of them is out of range.
        """
        return PushOptions(
            message_model=self.message_model,
            local_offset_dir=self.local_offset_dir,
            consume_from=self.consume_from,
            consume_timestamp=self.consume_timestamp,
            pull_batch_size=self.pull_batch_size,
            pull_threshold_for_queue=self.pull_threshold_for_queue,
            pull_threshold_size_for_queue=self.pull_threshold_size_for_queue,
            consume_max_span=self.consume_max_span,
            first_pull_delay=self.first_pull_delay,
            rebalance_interval=self.rebalance_interval,
            pull_delay_after_error=self.pull_delay_after_error,
            namespace=self.namespace,
            filter_hooks=self.filter_hooks,
            pull_from_broker_id=self.pull_from_broker_id,
            max_decompressed_body=self.max_decompressed_body,
            max_decompressed_pull=self.max_decompressed_pull,
            decode_body=self.decode_body,
            decompress_body=self.decompress_body,
            allocation=self.allocation,
        )


class LitePullSettings(ClientSettings, total=False):
    """The names and types of :class:`LitePullOptions` and of the client's settings, for keyword arguments."""

    message_model: MessageModel
    local_offset_dir: str | os.PathLike[str] | None
    consume_from: ConsumeFromWhere
    consume_timestamp: datetime.datetime | str | None
    pull_batch_size: int
    pull_threshold_for_all: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    consume_max_span: int
    auto_commit: bool
    auto_commit_interval: float
    broker_suspend_time: float
    timeout_when_suspend: float
    metadata_check_interval: float
    first_pull_delay: float
    rebalance_interval: float
    pull_delay_after_error: float
    namespace: str | None
    filter_hooks: Sequence[FilterMessageHook]
    pull_from_broker_id: int | None
    max_decompressed_body: int
    max_decompressed_pull: int
    decode_body: bool
    decompress_body: bool
    allocation: Allocation


_ALLOWED: dict[str, tuple[float, float]] = {
    "pull_threshold_for_all": (1, 6553500),
    "auto_commit_interval": (1, 86400),
    "broker_suspend_time": (0.001, 3600),
    "timeout_when_suspend": (0.001, 3600),
    "metadata_check_interval": (0.001, 86400),
}
