"""Where a send goes: the checks that depend only on topic and queue, done once and remembered until topics change.

Knows Java's order of checks and its words (AbstractSendMessageProcessor.msgCheck). Refuses to know messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.message_types import type_fault
from rocketmq_py.broker.metadata.name_validator import topic_fault
from rocketmq_py.broker.metadata.topic_attributes import has_batch_queues
from rocketmq_py.broker.metadata.topics import UNIT_FLAG, UNIT_SUB_FLAG, TopicConfigs, is_writable, topic_text
from rocketmq_py.broker.send.message_properties import decode
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.send import SendMessage, SendMessageV2
from rocketmq_py.protocol.sys_flag import MULTI_TAGS

SendHeader = SendMessage | SendMessageV2


class SendTarget(msgspec.Struct, frozen=True, gc=False):
    """A queue messages may be sent to.

    ``queue_text`` is the queue id as answers carry it, ``sys_flag`` what the topic adds to a message's, ``is_retry``
    tells the topic of a group's failed messages, ``is_batched`` one with batch consume queues.
    """

    topic: str
    queue_id: int
    queue_text: str
    sys_flag: int
    is_retry: bool
    is_batched: bool


class SendTargets:
    """Checked targets by topic and queue.

    :param clock: the time in milliseconds.
    """

    def __init__(self, config: BrokerConfig, topics: TopicConfigs, clock: Callable[[], int]) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        self.known: dict[tuple[str, int], SendTarget] = {}
        """Targets found before; cleared when topics change."""

    def find(self, header: SendHeader, address: str) -> SendTarget:
        """The target of a send, its topic created when it may be.

        :param address: who sends, for the remark of a refusal.
        :raises BrokerError: the send is refused.
        """
        self._check(header.topic)
        topic = self._topics.get(header.topic) or self._create(header)
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        queue_id = header.queue_id
        if queue_id >= queues:
            said = f"request queueId[{queue_id}] is illegal, {topic_text(topic)} Producer: {address}"
            raise BrokerError.of(Code.INVALID_PARAMETER, said)
        chosen = queue_id if queue_id >= 0 else random.randrange(max(1, topic.write_queue_nums))
        target = SendTarget(
            topic.topic_name, chosen, str(chosen), MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else 0,
            names.is_retry_topic(topic.topic_name), has_batch_queues(topic.attributes),
        )  # fmt: skip
        if self._config.enable_topic_message_type_check:
            self._check_type(topic, header)
        elif queue_id >= 0:
            self.known[topic.topic_name, queue_id] = target
        return target

    def _check(self, topic: str) -> None:
        accept_from = self._config.start_accept_send_request_time_stamp
        if accept_from and self._clock() < accept_from:
            raise BrokerError.of(Code.SYSTEM_ERROR, f"broker unable to service, until {accept_from}")
        if not is_writable(self._config.broker_permission) and self._topics.is_order(topic):
            raise BrokerError.of(Code.NO_PERMISSION, remarks.sending_forbidden(self._config.broker_ip1))
        fault = topic_fault(topic)
        if fault is not None:
            raise BrokerError.of(Code.INVALID_PARAMETER, fault)
        if topic in names.NOT_ALLOWED_TO_SEND:
            raise BrokerError.of(Code.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")

    def _check_type(self, topic: TopicConfig, header: SendHeader) -> None:
        """Depends on the message: with this check on, targets are not remembered."""
        fault = type_fault(topic, decode(header.properties or ""))
        if fault is not None:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, fault)

    def _create(self, header: SendHeader) -> TopicConfig:
        is_retry = names.is_retry_topic(header.topic)
        sys_flag = (UNIT_SUB_FLAG if is_retry else UNIT_FLAG) if header.unit_mode else 0
        created = self._topics.create_by_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, sys_flag
        )
        if created is not None:
            return created
        if is_retry:
            return self._topics.create_for_group(header.topic, 1, sys_flag)
        raise BrokerError.of(Code.TOPIC_NOT_EXIST, remarks.no_topic_to_send(header.topic))
