"""The requests of POP: pop, ack, keep invisible, tell me when there is something.

Knows codes 200050, 200051, 200053, 200054 and 200151, which broker takes each, and what answers mean. When to make
them is the consumer's decision.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.filters import check_version
from rocketmq_py.core.consumer.pull_result import filter_by_tags
from rocketmq_py.core.pop.receipts import PoppedMessage, attach_receipts, batch_acks
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, RequestNotSupported, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.bodies.pop import BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    Notification,
    NotificationResponse,
    PopMessage,
    PopResponse,
)
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode, real_topic
from rocketmq_py.wire.record import decode_records

_log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds to wait for the answer to an ack or to a change of the invisible time."""
GRACE = 10.0
"""Seconds to wait for the answer to a pop or notification beyond those the broker may hold it."""
MOST_MESSAGES = 32
"""The most messages a broker pops at a time."""

_NOTHING = frozenset({ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})


class PopAnswer(NamedTuple):
    """What was popped; ``pop_time_ms`` is the broker's time then. ``unwanted`` have another tag: to be acked unseen."""

    popped: list[PoppedMessage]
    unwanted: list[PoppedMessage]
    pop_time_ms: int


class AttemptIds:
    """The names of orderly pops of a queue: each has its own, and one whose answer was lost is made again in its name.

    A broker gives nothing of a queue out while a message of it is under way; to whoever asks in the name under which
    the messages were given out it gives them again.
    """

    def __init__(self) -> None:
        self._lost: str | None = None

    def name(self) -> str:
        """The name of the next pop."""
        lost, self._lost = self._lost, None
        return lost or uuid.uuid4().hex

    def lost(self, name: str) -> None:
        """No answer has come to the pop of that name, but there may have been one."""
        self._lost = name


class PopCalls:
    """What one consumer group asks of brokers."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def master(self, broker_name: str, topic: str) -> str:
        """The address of the broker whose receipts are asked about: only its master has them.

        :raises NoRouteError: no route names it, even after asking the name server again.
        """
        address = self._instance.routes.master(broker_name)
        if address is None:
            await self._instance.routes.refresh(topic)
            address = self._instance.routes.master(broker_name)
        if address is None:
            raise NoRouteError(
                f"broker {broker_name!r} of topic {topic!r} has no master now: POP needs it; is it running, and "
                "registered at the name server?"
            )
        return address

    async def pop(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        *,
        most: int,
        invisible: float,
        poll: float,
        start: InitMode,
        order: AttemptIds | None,
    ) -> PopAnswer | None:
        """Pops messages; None when there are none.

        :param most: the most messages, up to 32.
        :param invisible: seconds they are ours.
        :param poll: seconds the broker may wait for one to come.
        :param order: the pop is orderly, and named by this.
        :raises BrokerError: the broker refuses; POLLING_FULL (209) when too many wait already.
        :raises NetworkError: it cannot be asked.
        """
        address = await self.master(queue.broker_name, queue.topic)
        check_version(self._instance, address, subscription)
        header = PopMessage(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, max_msg_nums=most,
            invisible_time=_millis(invisible), poll_time=_millis(poll), init_mode=start, order=order is not None,
            exp_type=subscription.expression_type, exp=subscription.sub_string, bname=queue.broker_name,
            attempt_id=None if order is None else order.name(),
        )  # fmt: skip
        try:
            answer = await self._instance.connections.invoke(
                address, RequestCode.POP_MESSAGE, header, timeout=poll + GRACE, check=False
            )
        except NetworkError:
            if order is not None and header.attempt_id is not None:
                order.lost(header.attempt_id)
            raise
        if answer.code in _NOTHING:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address)
        told = PopResponse.from_ext(answer.ext)
        messages = decode_records(answer.body, queue.broker_name)
        popped = attach_receipts(messages, queue.topic, queue.broker_name, told, order=order is not None)
        wanted = set(filter_by_tags(messages, subscription.tags_set)) if subscription.tags_set else None
        if wanted is None:
            return PopAnswer(popped, [], told.pop_time)
        return PopAnswer(
            [one for one in popped if one.message in wanted], [one for one in popped if one.message not in wanted],
            told.pop_time,
        )  # fmt: skip

    async def notified(self, queue: MessageQueue, *, poll: float, order: bool) -> bool:
        """Waits at the broker until there may be something to pop; whether there may be now.

        :raises BrokerError: the broker refuses.
        :raises NetworkError: it cannot be asked.
        """
        address = await self.master(queue.broker_name, queue.topic)
        header = Notification(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, poll_time=_millis(poll),
            order=order, bname=queue.broker_name,
        )  # fmt: skip
        answer = await self._instance.connections.invoke(
            address, RequestCode.NOTIFICATION, header, timeout=poll + GRACE
        )
        told = NotificationResponse.from_ext(answer.ext)
        if told.polling_full:
            raise BrokerError.of(ResponseCode.POLLING_FULL, "too many consumers wait already", address)
        return told.has_msg

    async def ack(self, messages: Iterable[PoppedMessage]) -> list[tuple[Sequence[PoppedMessage], RocketMQError]]:
        """Tells the brokers that messages are done, all those of a broker at once; returns what failed, and why."""
        by_broker: dict[str, list[PoppedMessage]] = defaultdict(list)
        for one in messages:
            by_broker[one.receipt.broker_name].append(one)
        parts = list(by_broker.items())
        results = await asyncio.gather(*(self._ack(*part) for part in parts))
        return [(part, error) for (_, part), error in zip(parts, results, strict=True) if error is not None]

    async def _ack(self, broker_name: str, messages: Sequence[PoppedMessage]) -> RocketMQError | None:
        try:
            address = await self.master(broker_name, messages[0].message.topic)
            if len(messages) == 1:
                header = self._about(messages[0])
                await self._instance.connections.invoke(address, RequestCode.ACK_MESSAGE, header, timeout=TIMEOUT)
            else:
                await self._ack_batch(broker_name, address, messages)
        except RocketMQError as e:
            return e
        return None

    async def _ack_batch(self, broker_name: str, address: str, messages: Sequence[PoppedMessage]) -> None:
        body = BatchAckRequest(broker_name=broker_name, acks=batch_acks(self._group, messages)).encode()
        connections = self._instance.connections
        try:
            await connections.invoke(address, RequestCode.BATCH_ACK_MESSAGE, None, body, timeout=TIMEOUT)
        except RequestNotSupported:  # brokers of 5.0 take them one by one
            for one in messages:
                await connections.invoke(address, RequestCode.ACK_MESSAGE, self._about(one), timeout=TIMEOUT)

    def _about(self, one: PoppedMessage) -> AckMessage:
        message, receipt = one
        return AckMessage(
            consumer_group=self._group, topic=real_topic(message.topic, self._group, receipt.retry),
            queue_id=receipt.queue_id, extra_info=receipt.encode(), offset=_offset(one), bname=receipt.broker_name,
        )  # fmt: skip

    async def extend(self, one: PoppedMessage, seconds: float) -> ExtraInfo:
        """Keeps a message invisible for another while, from now on; returns its new receipt.

        :raises InvalidReceipt: the broker has no such message.
        :raises BrokerError: the broker refuses.
        :raises NetworkError: it cannot be asked.
        """
        message, receipt = one
        address = await self.master(receipt.broker_name, message.topic)
        about, offset = self._about(one), _offset(one)
        header = ChangeInvisibleTime(
            consumer_group=about.consumer_group, topic=about.topic, queue_id=about.queue_id,
            extra_info=about.extra_info, offset=offset, invisible_time=_millis(seconds), bname=about.bname,
        )  # fmt: skip
        answer = await self._instance.connections.invoke(
            address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, timeout=TIMEOUT
        )
        told = ChangeInvisibleTimeResponse.from_ext(answer.ext)
        return receipt._replace(
            start_offset=offset, pop_time=told.pop_time, invisible_ms=told.invisible_time,
            revive_queue=told.revive_qid, offset=offset,
        )  # fmt: skip

    async def give_back(self, messages: Iterable[PoppedMessage], seconds: float) -> None:
        """Has messages popped for nobody delivered again soon; without that, it happens when they lapse."""
        results = await asyncio.gather(*(self.extend(one, seconds) for one in messages), return_exceptions=True)
        for result in results:
            if isinstance(result, RocketMQError):
                _log.info("group %s: a message is delivered again only when its time is over: %s", self._group, result)
            elif isinstance(result, BaseException):
                raise result


def _offset(one: PoppedMessage) -> int:
    return one.message.queue_offset if one.receipt.offset is None else one.receipt.offset


def _millis(seconds: float) -> int:
    return math.ceil(seconds * 1000)
