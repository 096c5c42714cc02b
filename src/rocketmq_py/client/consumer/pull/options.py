"""The options of the older pull consumer, their defaults and what is allowed.

Names and defaults are those of Java's DefaultMQPullConsumer, in seconds and whole words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer.allocation import Allocation, Average
from rocketmq_py.core.consumer.consume_result import DEFAULT_MAX_RECONSUME
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageModel
from rocketmq_py.wire.compression import DEFAULT_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """How a pull consumer pulls. Times are seconds.

    :param message_model: BROADCASTING: offsets are kept in a local file, and ``assignment`` returns all queues.
    :param local_offset_dir: where a broadcasting consumer keeps its offsets; ``~/.rocketmq_offsets`` by default, as
        Java clients.
    :param pull_timeout: how long to wait for the answer to a pull.
    :param broker_suspend_time: how long a broker may hold a pull with ``wait=True`` that finds nothing.
    :param timeout_when_suspend: how long to wait for the answer to such a pull.
    :param max_reconsume_times: how often a message may be sent back before it goes to the dead letters.
    :param rebalance_interval: time between two checks whether the shares of queues are up to date, 0.01 to 3600.
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
    pull_timeout: float = 10.0
    broker_suspend_time: float = 20.0
    timeout_when_suspend: float = 30.0
    max_reconsume_times: int = DEFAULT_MAX_RECONSUME
    rebalance_interval: float = 20.0
    namespace: str | None = None
    filter_hooks: Sequence[FilterMessageHook] = ()
    pull_from_broker_id: int | None = None
    max_decompressed_body: int = DEFAULT_LIMITS.max_body
    max_decompressed_pull: int = DEFAULT_LIMITS.max_total
    decode_body: bool = True
    decompress_body: bool = True
    allocation: Allocation = field(default_factory=Average)

    def __post_init__(self) -> None:
        for name in ("pull_timeout", "broker_suspend_time", "timeout_when_suspend"):
            value = getattr(self, name)
            if not 0 < value <= _LONGEST:
                raise ConfigError(f"{name}={value!r} is out of range: it must be positive and at most {_LONGEST:g}")
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
            max_reconsume_times=self.max_reconsume_times,
            rebalance_interval=self.rebalance_interval,
            namespace=self.namespace,
            filter_hooks=self.filter_hooks,
            pull_from_broker_id=self.pull_from_broker_id,
            max_decompressed_body=self.max_decompressed_body,
            max_decompressed_pull=self.max_decompressed_pull,
            decode_body=self.decode_body,
            decompress_body=self.decompress_body,
            allocation=self.allocation,
        )


class PullSettings(ClientSettings, total=False):
    """The names and types of :class:`PullOptions` and of the client's settings, for keyword arguments."""

    message_model: MessageModel
    local_offset_dir: str | os.PathLike[str] | None
    pull_timeout: float
    broker_suspend_time: float
    timeout_when_suspend: float
    max_reconsume_times: int
    rebalance_interval: float
    namespace: str | None
    filter_hooks: Sequence[FilterMessageHook]
    pull_from_broker_id: int | None
    max_decompressed_body: int
    max_decompressed_pull: int
    decode_body: bool
    decompress_body: bool
    allocation: Allocation


_LONGEST = 3600.0
