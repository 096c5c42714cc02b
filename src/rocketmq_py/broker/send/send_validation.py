"""Checks of sends that depend only on topic and queue; their results are cached until topics or settings change.

Order and remarks of the checks are Java's (AbstractSendMessageProcessor.msgCheck).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from rocketmq_py.accelerator import SendKind
from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.message_types import type_fault
from rocketmq_py.broker.metadata.name_validator import topic_fault
from rocketmq_py.broker.metadata.topic_attributes import has_batch_queues
from rocketmq_py.broker.metadata.topics import UNIT_FLAG, UNIT_SUB_FLAG, TopicConfigs, is_writable, topic_text
from rocketmq_py.broker.records.message_properties import decode
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.send import SendMessage, SendMessageV2
from rocketmq_py.protocol.sys_flag import MULTI_TAGS
from rocketmq_py.store import KindTarget

SendHeader = SendMessage | SendMessageV2


class SendTarget(msgspec.Struct, frozen=True, gc=False):
    """The topic and queue in which a send is stored, and what the send path must know of that topic.

    ``queue_text`` is the queue id as text for answers, ``sys_flag`` the flags that the topic adds to a message,
    ``is_retry`` marks a retry topic, ``is_batched`` a topic with batch consume queues, ``write_queues`` is the
    number of the topic's queues for sends.
    """

    topic: str
    queue_id: int
    queue_text: str
    sys_flag: int
    is_retry: bool
    is_batched: bool
    write_queues: int

    def of_priority(self, priority: int) -> SendTarget:
        """Return the target for a priority: the queue of that number, or the nearest one that the topic has."""
        queue_id = max(0, min(priority, self.write_queues - 1))
        return msgspec.structs.replace(self, queue_id=queue_id, queue_text=str(queue_id))


class SendTargets:
    """Checks topic and queue of sends, and caches the result (:class:`SendTarget`) of accepted ones.

    The key of the cache is the topic and the queue id of the request; a send that lets the broker choose the queue
    (negative queue id) is not cached.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, config: BrokerConfig, topics: TopicConfigs, clock: Callable[[], int]) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        self.known: dict[tuple[str, int], SendTarget] = {}
        """Cached targets."""
        self.plain: dict[SendKind, KindTarget] = {}
        """What :class:`~rocketmq_py.broker.send.send_runs.SendRuns` has made of them."""

        self.on_forget: Callable[[], None] = lambda: None
        """Called when the caches are cleared."""

    @property
    def refuses_halves(self) -> bool:
        """True if half messages are not accepted."""
        return self._config.reject_transaction_message

    def forget(self) -> None:
        """Clear the cache, because topics or settings have changed."""
        self.known.clear()
        self.plain.clear()
        self.on_forget()

    def find(self, header: SendHeader, address: str) -> SendTarget:
        """Check a send, without using the cache, and return the topic and queue to store it in.

        The topic is created if it does not exist and may be created; for a negative queue id a random queue is chosen.

        :param address: the client's address, for the remark of a refusal.
        :raises BrokerError: the send is refused.
        """
        self._check(header.topic)
        topic = self._topics.get(header.topic) or self._create(header)
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        queue_id = header.queue_id
        if queue_id >= queues:
            remark = f"request queueId[{queue_id}] is illegal, {topic_text(topic)} Producer: {address}"
            raise BrokerError.of(Code.INVALID_PARAMETER, remark)
        chosen = queue_id if queue_id >= 0 else random.randrange(max(1, topic.write_queue_nums))
        target = SendTarget(
            topic.topic_name, chosen, str(chosen), MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else 0,
            names.is_retry_topic(topic.topic_name), has_batch_queues(topic.attributes),
            topic.write_queue_nums,
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
        """Check the message type. Targets are not cached while this check is on, since its result depends on the
        message.

        :raises BrokerError: MESSAGE_ILLEGAL, the topic does not accept this type.
        """
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
