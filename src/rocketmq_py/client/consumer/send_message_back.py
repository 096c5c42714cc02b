"""Sends failed messages back to brokers, which deliver them again through the group's retry topic or as dead letters.

Sends CONSUMER_SEND_MSG_BACK (36); if that fails, it sends a copy of the message to the retry topic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.send.options import Options
from rocketmq_py.client.send.sender import Sender
from rocketmq_py.core.consumer.consume_result import retry_message
from rocketmq_py.core.logical_queues import is_logical
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import NoRouteError, RocketMQError, shortened
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.names import dlq_topic

_log = logging.getLogger(__name__)

INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""The producer group (Java's name) of messages that a client sends without a producer of the application."""
_MOST_REASON = 1000
"""Characters of a reason that a dead letter keeps."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
TIMEOUT = 5.0
"""Seconds to wait for a broker's answer."""


class FailureHandler(Protocol):
    """Handles messages whose listeners fail: sends them back, or drops them when broadcasting."""

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        """Send a failed message back, to be delivered again.

        :param delay_level: 0: the broker chooses the delay; 1 to 18: a delay level; -1: to the dead-letter topic.
        :returns: True if the broker confirmed it; False: the consumer must consume the message again itself.
        """
        ...

    async def dead_letter(self, message: MessageExt) -> bool:
        """Send a message without retries left to the dead-letter topic; returns True if the broker confirmed it."""
        ...

    async def reject(self, message: MessageExt, reason: str) -> bool:
        """Send a message that no retry can help to the dead letters, with the reason in property ``DLQ_REASON``.

        :returns: True if the broker confirmed it.
        """
        ...


class DropFailed:
    """Drops failed messages of a broadcasting consumer: a redelivery would reach every member."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:  # noqa: ARG002
        return await self.dead_letter(message)

    async def dead_letter(self, message: MessageExt) -> bool:
        """Log that the message is dropped; returns True."""
        _log.warning("%r failed and is dropped: group %s is broadcasting", message, self._group.name)
        return True

    async def reject(self, message: MessageExt, reason: str) -> bool:
        """Log that the message is dropped, and why; returns True."""
        _log.warning("%r is dropped, group %s is broadcasting: %s", message, self._group.name, reason)
        return True


class SendMessageBack:
    """Sends failed messages of a clustering consumer back to the brokers that store them."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._sender = Sender(INNER_PRODUCER, group.instance, Options())
        self._max_times = group.options.most_reconsume_times

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        """Send a failed message back to the broker that stores it, to be delivered again.

        If that fails, or the topic is static, a copy is sent to the retry topic as an ordinary message.

        :param delay_level: 0: the broker chooses the delay; 1 to 18: a delay level; -1: to the dead-letter topic.
        :returns: True if a broker confirmed it; False: the consumer must consume the message again itself.
        """
        if delay_level < 0 or message.reconsume_times >= self._max_times:  # the broker's rule
            self._log_dead_letter(message)
        if is_logical(message.queue):  # it is not known which of the queue's brokers stores the message
            return await self._send_copy(message)
        try:
            await self._ask_broker(message, delay_level)
        except RocketMQError as e:
            _log.warning("%r could not be sent back, a copy goes to the retry topic: %s", message, e)
            return await self._send_copy(message)
        return True

    async def dead_letter(self, message: MessageExt) -> bool:
        """Send a copy without retries left to the retry topic: the broker moves it to the dead-letter topic.

        :returns: True if a broker confirmed it.
        """
        self._log_dead_letter(message)
        return await self._send_copy(message)

    async def reject(self, message: MessageExt, reason: str) -> bool:
        """Send a copy to the retry topic that has no retries, so that the broker moves it to the dead-letter topic.

        :returns: True if a broker confirmed it.
        """
        text = "".join(character if character.isprintable() else " " for character in shortened(reason, _MOST_REASON))
        _log.warning("dead letter: %r goes to topic %s: %s", message, dlq_topic(self._group.name), text)
        return await self._send_copy(message, 0, {Property.DLQ_REASON: text})

    def _log_dead_letter(self, message: MessageExt) -> None:
        times, topic = message.reconsume_times + 1, dlq_topic(self._group.name)
        _log.warning("dead letter: %r has failed %d times and goes to topic %s", message, times, topic)

    async def _ask_broker(self, message: MessageExt, delay_level: int) -> None:
        address = self._group.instance.routes.broker_address(message.broker_name, MASTER_ID, only_this=True)
        if address is None:
            raise NoRouteError(f"broker {message.broker_name!r} has no master now")
        header = ConsumerSendMsgBack(
            offset=message.commit_log_offset, group=self._group.name, delay_level=delay_level,
            origin_msg_id=message.msg_id, origin_topic=self._group.named_topic(message.topic), unit_mode=False,
            max_reconsume_times=self._max_times, bname=message.broker_name,
        )  # fmt: skip
        await self._group.instance.connections.invoke(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=TIMEOUT
        )

    async def _send_copy(
        self, message: MessageExt, max_times: int | None = None, more: Mapping[str, str] = _NOTHING
    ) -> bool:
        copy = retry_message(message, self._group.name, self._max_times if max_times is None else max_times)
        copy.properties[Property.RETRY_TOPIC] = self._group.named_topic(message.topic)
        copy.properties.update(more)
        try:
            await self._sender.deliver(self._sender.delivery(copy, None, None))
        except RocketMQError as e:
            _log.error("%r could not be sent to the retry topic either; it is consumed here again: %s", message, e)
            return False
        return True
