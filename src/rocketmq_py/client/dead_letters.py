"""Dead letters: their original topics, which of them have been resent, and the messages that resend them.

The progress of a resend is stored in the cluster, as the committed offset of the group TOOLS_CONSUMER in the
dead-letter topic. No other program commits that offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from rocketmq_py.errors import RocketMQError
from rocketmq_py.properties import Property, own_properties
from rocketmq_py.protocol.names import TOOLS_GROUP, retry_topic

if TYPE_CHECKING:  # the command imports this module for every verb below dlq, also to print its help
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import Message, MessageExt, MessageQueue

TOPIC, GROUP = "topic", "group"
"""Receivers of a resent message: all groups of the original topic, or only the group whose dead letter it is."""

RENEW_SECONDS = 20.0
"""Interval at which the locks are renewed."""


def origin_of(message: MessageExt) -> str | None:
    """Return the original topic of a dead letter; None if its properties do not contain it."""
    properties = message.properties
    return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)


async def resent_to(admin: Admin, queue: MessageQueue) -> int | None:
    """Return the offset after the last resent dead letter of a queue; None if none was resent."""
    return await admin.group_offset(TOOLS_GROUP, queue)


async def mark_resent(admin: Admin, queue: MessageQueue, offset: int) -> None:
    """Store in the cluster that the dead letters of a queue before ``offset`` have been resent."""
    await admin.set_group_offset(TOOLS_GROUP, queue, offset)


def receiving_topic(origin: str | None, group: str, receiver: str) -> str | None:
    """Return the topic to which a dead letter is sent.

    :param origin: its original topic.
    :param receiver: ``topic`` to send to the original topic, ``group`` to send to the retry topic of ``group``.
    """
    return retry_topic(group) if receiver == GROUP else origin


def message_to_resend(message: MessageExt, group: str, receiver: str) -> Message:
    """Return the message to send for a dead letter, with its unique id, so that consumers can detect duplicates.

    :param receiver: as for :func:`receiving_topic`.
    """
    from rocketmq_py.model import Message

    origin = origin_of(message) or ""
    properties = own_properties(message.properties)
    unique_id = message.properties.get(Property.UNIQUE_KEY)
    if unique_id:
        properties[Property.UNIQUE_KEY] = unique_id
    if receiver == GROUP:
        properties[Property.RETRY_TOPIC] = origin
    return Message(
        receiving_topic(origin, group, receiver) or "", message.body, message.tags, message.keys,
        sharding_key=message.sharding_key, flag=message.flag, properties=properties,
    )  # fmt: skip


class DeadLetterLock:
    """The brokers' locks of dead-letter queues. One resend holds them, so that no other can start.

    They are the queue locks of orderly consumers. A lock expires a minute after its last renewal.

    :param clock: monotonic clock, in seconds.
    """

    def __init__(
        self, admin: Admin, queues: Collection[MessageQueue], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._queues = sorted(queues)
        self._clock = clock
        self._held: list[MessageQueue] = []
        self._since = 0.0

    async def acquire(self) -> MessageQueue | None:
        """Take the locks; locks that are held are renewed if they are older than ``RENEW_SECONDS``.

        :returns: the queue whose lock another resend holds; None if all locks are held now.
        """
        if self._held and self._clock() - self._since < RENEW_SECONDS:
            return None
        self._since = self._clock()
        for queue in self._queues:
            if not await self._admin.lock_queue(TOOLS_GROUP, queue):
                return queue
            if queue not in self._held:
                self._held.append(queue)
        return None

    async def release(self) -> dict[MessageQueue, RocketMQError]:
        """Release the locks; returns the queues that stay locked for a minute, with the reason."""
        failed: dict[MessageQueue, RocketMQError] = {}
        for queue in self._held:
            try:
                await self._admin.unlock_queue(TOOLS_GROUP, queue)
            except RocketMQError as e:
                failed[queue] = e
        self._held.clear()
        return failed
