"""Recalling a timed message before its delivery (RecallMessageProcessor).

A recall is a message that is stored in the same slot of the timer wheel and cancels the other one.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_writable
from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.send.send import Redirect
from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.wire.java_hash import tags_code

_TAG = "_RECALL_TAG_"
_NOT_AVAILABLE = "recall failed, broker service not available"


class RecallService:
    """Recalls timed messages.

    :param redirect: changes the topic of a record with a delivery time to the timer topic.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        redirect: Redirect,
        clock: Callable[[], int],
    ) -> None:
        self._config, self._store, self._topics = config, store, topics
        self._redirect, self._clock = redirect, clock

    def recall(self, header: RecallMessage, host: bytes) -> str:
        """Recall the message of a handle and return its unique key, also if the message has been delivered already.

        :param host: the packed address of the client.
        :raises BrokerError: the request is refused.
        """
        now, handle = self._clock(), self._check(header)
        longest = self._store.config.timer_max_delay_sec * 1000
        if not 0 < handle.timestamp - now < longest:
            raise BrokerError.of(Code.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
        properties = {
            Property.TAGS: _TAG,
            Property.TIMER_DEL_UNIQKEY: self._key(handle), Property.UNIQUE_KEY: handle.unique_key,
            Property.TIMER_DELIVER_MS: str(handle.timestamp), "BORN_TIMESTAMP": str(now),
        }  # fmt: skip
        if header.producer_group:
            properties[Property.PRODUCER_GROUP] = header.producer_group
        record = NewRecord(
            handle.topic, 0, b"0", encode(properties).encode(), tags_code(_TAG), born_timestamp=now, born_host=host,
            uniq_key=handle.unique_key,
        )  # fmt: skip
        self._redirect(record, properties)
        self._store.append(record)
        return handle.unique_key

    def _key(self, handle: RecallHandle) -> str:
        with_topic = self._config.append_topic_for_timer_delete_key
        return f"{handle.topic}+{handle.unique_key}" if with_topic else handle.unique_key

    def _check(self, header: RecallMessage) -> RecallHandle:
        """Check a recall and decode its handle, in Java's order of checks.

        :raises BrokerError: a check failed.
        """
        config = self._config
        if not config.recall_message_enable:
            raise BrokerError.of(Code.NO_PERMISSION, "recall failed, operation is forbidden")
        if config.is_slave:
            raise BrokerError.of(Code.SLAVE_NOT_AVAILABLE, _NOT_AVAILABLE)
        may_write = is_writable(config.broker_permission) or config.allow_recall_when_broker_not_writeable
        if self._clock() < config.start_accept_send_request_time_stamp or not may_write:
            raise BrokerError.of(Code.SERVICE_NOT_AVAILABLE, _NOT_AVAILABLE)
        if self._topics.get(header.topic) is None:
            raise BrokerError.of(Code.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except ConfigError as e:
            raise BrokerError.of(Code.ILLEGAL_OPERATION, str(e)) from e
        if handle.topic != header.topic:
            raise BrokerError.of(Code.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != config.broker_name:
            raise BrokerError.of(Code.ILLEGAL_OPERATION, _NOT_AVAILABLE)
        return handle
