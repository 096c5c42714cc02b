"""What every request about pops is checked for, in Java's order and words.

Knows permissions, topics, queues, groups and offsets. Refuses to know what happens after.
"""

from __future__ import annotations

from typing import Protocol

from rocketmq_py.broker import remarks
from rocketmq_py.broker.metadata.topics import is_readable
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Peer


class PopTarget(Protocol):
    """A request that wants to read messages of a queue for a group."""

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
    """Refuses what may not be."""

    def __init__(self, parts: PopParts) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups

    def may_read(self, what: str) -> None:
        """Whether this broker lets anybody read.

        :param what: what the request wants, for the remark.
        :raises BrokerError: it does not.
        """
        if not is_readable(self._config.broker_permission):
            raise BrokerError.of(Code.NO_PERMISSION, f"the broker[{self._config.broker_ip1}] {what} is forbidden")

    def reading(self, peer: Peer, header: PopTarget) -> TopicConfig:
        """The topic of a request that wants to read.

        :raises BrokerError: it may not.
        """
        topic = self._topic(header.topic)
        if not is_readable(topic.perm):
            raise BrokerError.of(Code.NO_PERMISSION, f"the topic[{header.topic}] peeking message is forbidden")
        if header.queue_id >= topic.read_queue_nums:
            raise BrokerError.of(Code.INVALID_PARAMETER, _illegal_queue(peer, header, topic))
        group = self._groups.find(header.consumer_group)
        if group is None:
            said = remarks.no_subscription_group(header.consumer_group)
            raise BrokerError.of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, said)
        if not group.consume_enable:
            raise BrokerError.of(Code.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}")
        return topic

    def settling(self, peer: Peer, header: AckTarget, *, end_included: bool = False) -> None:
        """Check a request about a message that was popped.

        :param end_included: the offset may also be that of the next message to come; Java lets such acks pass.
        :raises BrokerError: the message cannot have been popped.
        """
        topic = self._topic(header.topic)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, _illegal_queue(peer, header, topic))
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset < end + end_included:
            said = (
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{first}~{end}"
            )
            raise BrokerError.of(Code.NO_MESSAGE, said)

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
