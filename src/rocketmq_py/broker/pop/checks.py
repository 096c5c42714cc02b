"""The checks of every request about pops, in Java's order and with Java's remarks: permissions, topics, queues, groups
and offsets.
"""

from __future__ import annotations

from typing import Protocol

from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_readable
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Peer
from rocketmq_py.store import MessageStore

MAX_INVISIBLE_MS = 365 * 24 * 3_600_000
"""The longest invisible time: one year. Java has no limit, so that a huge value loses the message for good."""


_FACTOR_DIGITS = 3


class PopTarget(Protocol):
    """A request that reads messages of a queue for a group."""

    @property
    def consumer_group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...


class AckTarget(PopTarget, Protocol):
    """A request about one message of a queue."""

    @property
    def offset(self) -> int: ...


class PopChecks:
    """Checks POP requests; a failed check raises :class:`~rocketmq_py.errors.BrokerError`."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups

    def priority_factor(self, group: str) -> int:
        """Return the percentage of a group's pops that read high priorities first (attribute ``priority.factor``).

        It is 100 if the attribute is missing or malformed.
        """
        config = self._groups.get(group)
        text = config.attributes.get("priority.factor", "") if config is not None else ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _FACTOR_DIGITS else 100

    def check_broker_readable(self, what: str) -> None:
        """Check that this broker has read permission.

        :param what: the operation, for the remark.
        :raises BrokerError: NO_PERMISSION.
        """
        if not is_readable(self._config.broker_permission):
            raise BrokerError.of(Code.NO_PERMISSION, f"the broker[{self._config.broker_ip1}] {what} is forbidden")

    def check_readable(self, peer: Peer, header: PopTarget) -> TopicConfig:
        """Check topic, queue and group of a request, and return the topic.

        :raises BrokerError: one of them does not exist or may not be read.
        """
        topic = self._topic(header.topic)
        if not is_readable(topic.perm):
            raise BrokerError.of(Code.NO_PERMISSION, f"the topic[{header.topic}] peeking message is forbidden")
        if header.queue_id >= topic.read_queue_nums:
            raise BrokerError.of(Code.INVALID_PARAMETER, _illegal_queue(peer, header, topic))
        group = self._groups.find(header.consumer_group)
        if group is None:
            remark = remarks.no_subscription_group(header.consumer_group)
            raise BrokerError.of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise BrokerError.of(Code.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}")
        return topic

    def check_ack(self, peer: Peer, header: AckTarget, *, end_included: bool = False) -> None:
        """Check that the message of an ack or a change of invisible time exists in its queue.

        :param end_included: also accept the offset behind the last message, as Java does for acks.
        :raises BrokerError: there is no such topic, queue or message.
        """
        topic = self._topic(header.topic)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, _illegal_queue(peer, header, topic))
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset < end + end_included:
            remark = (
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{first}~{end}"
            )
            raise BrokerError.of(Code.NO_MESSAGE, remark)

    def check_invisible_time(self, invisible_ms: int) -> None:
        """Check the invisible time of a request, in milliseconds.

        :raises BrokerError: it is negative or longer than a year.
        """
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            remark = f"invisibleTime is {invisible_ms}: 0 to {MAX_INVISIBLE_MS} milliseconds are expected"
            raise BrokerError.of(Code.INVALID_PARAMETER, remark)

    def _topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise BrokerError.of(Code.TOPIC_NOT_EXIST, remarks.no_topic(name))
        return topic


def _illegal_queue(peer: Peer, header: PopTarget, topic: TopicConfig) -> str:
    return (
        f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]"
    )
