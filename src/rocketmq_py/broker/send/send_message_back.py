"""Messages that consumers send back: stored in the group's retry topic, and finally in its dead-letter topic.

The rules are Java's (AbstractSendMessageProcessor.consumerSendMsgBack).
"""

from __future__ import annotations

import random

from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import UNIT_SUB_FLAG, TopicConfigs, is_writable
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.broker.send.send import Redirect
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.timer.delay_levels import retry_level
from rocketmq_py.errors import BrokerError, CorruptRecord
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import ResponseCode as Code, Version
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.sys_flag import HOSTS_V6
from rocketmq_py.server import Hold, Reply
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.java_hash import tags_code

_DEAD_LETTER_QUEUES = 1


class SendBackService:
    """Stores messages that consumers send back."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups,
        redirect: Redirect,
        stats: Stats,
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._redirect = redirect
        self._stats = stats

    def take(self, header: ConsumerSendMsgBack, version: int) -> Reply | Hold:
        """Store a failed message again, with its retry count increased by one.

        :param version: the client's version; clients before 3.4.9 do not send ``maxReconsumeTimes``.
        :raises BrokerError: the request is refused.
        """

        def read(residency: Residency | None) -> Reply:
            self._store.check_message(header.offset, residency)
            self._take(header, version)
            return Reply()

        return answer_when_loaded(read, self._store.new_residency())

    def _take(self, header: ConsumerSendMsgBack, version: int) -> None:
        group = self._groups.find(header.group)
        if group is None:
            raise BrokerError.of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remarks.no_group(header.group))
        if not is_writable(self._config.broker_permission):
            raise BrokerError.of(Code.NO_PERMISSION, remarks.sending_forbidden(self._config.broker_ip1))
        if group.retry_queue_nums <= 0:
            return
        retry_topic = self._retry_topic(header, group)
        message = self._look_up(header.offset)
        limit = group.retry_max_times
        if version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        is_dead = message.head.reconsume_times >= limit or header.delay_level < 0
        if is_dead:
            dead = self._topics.create_for_group(names.dlq_topic(header.group), _DEAD_LETTER_QUEUES)
            self._put(message, dead.topic_name, 0, 0)
        else:
            level = header.delay_level or retry_level(message.head.reconsume_times)
            self._put(message, retry_topic, random.randrange(group.retry_queue_nums), level)
        first_sent_to = decode_properties(message.properties).get("RETRY_TOPIC", message.topic)
        self._stats.sent_back(header.group, first_sent_to, dead=is_dead)

    def _retry_topic(self, header: ConsumerSendMsgBack, group: SubscriptionGroupConfig) -> str:
        sys_flag = UNIT_SUB_FLAG if header.unit_mode else 0
        topic = self._topics.create_for_group(names.retry_topic(header.group), group.retry_queue_nums, sys_flag)
        if not is_writable(topic.perm):
            raise BrokerError.of(Code.NO_PERMISSION, f"the topic[{topic.topic_name}] sending message is forbidden")
        return topic.topic_name

    def _look_up(self, offset: int) -> StoredRecord:
        raw = self._store.message_at(offset)
        if raw is None:
            raise BrokerError.of(Code.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        try:
            return read_stored(raw)
        except CorruptRecord as e:  # the offset is the client's: no message begins there
            raise BrokerError.of(Code.SYSTEM_ERROR, f"look message by offset failed, {offset}: {e}") from e

    def _put(self, message: StoredRecord, topic: str, queue_id: int, level: int) -> None:
        head = message.head
        properties = decode_properties(message.properties)
        properties.setdefault("RETRY_TOPIC", message.topic)
        properties.setdefault("ORIGIN_MESSAGE_ID", offset_msg_id(head.store_host, head.physical_offset))
        properties |= {"WAIT": "false", "DELAY": str(level)}
        record = NewRecord(
            topic, queue_id, message.body, encode(properties).encode(), tags_code(properties.get("TAGS")),
            head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, head.born_host, head.reconsume_times + 1, 0,
            properties.get("UNIQ_KEY"), properties.get("KEYS"),
        )  # fmt: skip
        self._redirect(record, properties)
        self._store.append(record)
