"""POP requests: pop (200050), ack (200051, in batches 200151), change invisible time (200053), notification (200054).

Sends them to the master of the broker and decodes the answers.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.calls.decoding import decode_pop
from rocketmq_py.client.consumer.calls.single_pull import SinglePulls
from rocketmq_py.client.consumer.filters import check_version, make_subscription
from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook, filter_messages
from rocketmq_py.core.consumer.pull_result import filter_by_tags
from rocketmq_py.core.pop.receipts import GIVE_BACK, PoppedMessage, attach_receipts, batch_acks, missing_offsets
from rocketmq_py.errors import (
    BrokerError,
    CorruptRecord,
    NetworkError,
    NoRouteError,
    RequestNotSupported,
    RocketMQError,
)
from rocketmq_py.model import MessageExt, MessageQueue, RecordHead
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
from rocketmq_py.protocol.namespaces import queue_without_namespace, with_namespace, without_namespace
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode, Place, parse_msg_offsets, real_topic
from rocketmq_py.wire.record import BodyRules

_log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds to wait for the answer to an ack or to a change of the invisible time."""
GRACE = 10.0
"""Seconds to wait for the answer to a pop or notification, beyond the time the broker may hold the request."""

_MOST_LEFT_OUT = 1000
_NOTHING = frozenset({ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})


class PopAnswer(NamedTuple):
    """The answer to a pop.

    :ivar popped: the messages to deliver.
    :ivar unwanted: messages to ack without delivery: filtered out, damaged or impossible to decode.
    :ivar pop_time_ms: when the broker popped them, in milliseconds of its clock.
    """

    popped: list[PoppedMessage]
    unwanted: list[PoppedMessage]
    pop_time_ms: int


class AttemptIds:
    """Makes the attempt ids of the orderly pops of one queue: a new id for each pop, except after a lost answer.

    While messages of a queue are invisible, the broker returns them again to a pop with the same attempt id, and
    nothing to other pops. So a pop whose answer was lost must be repeated with its id.
    """

    def __init__(self) -> None:
        self._lost: str | None = None

    def next(self) -> str:
        """Return the attempt id of the next pop."""
        lost, self._lost = self._lost, None
        return lost or uuid.uuid4().hex

    def lost(self, attempt_id: str) -> None:
        """Make :meth:`next` return this id again: its pop got no answer, but the broker may have popped messages."""
        self._lost = attempt_id


class PopCalls:
    """Sends the POP requests of one consumer group.

    :param rules: how to check and decompress message bodies.
    :param skipped: records messages that cannot be decoded.
    :param single_pulls: pulls popped messages one by one if the answer is damaged.
    :param filter_hooks: select the messages to deliver; the others are ``unwanted``.
    :param namespace: of the group; it is removed from the topics of popped messages.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        rules: BodyRules,
        skipped: SkippedMessages,
        single_pulls: SinglePulls,
        filter_hooks: Sequence[FilterMessageHook] = (),
        namespace: str | None = None,
    ) -> None:
        self._rules = rules
        self._skipped = skipped
        self._single_pulls = single_pulls
        self._instance = instance
        self._group = group
        self._filter_hooks = filter_hooks
        self._namespace = namespace
        self._left_out: OrderedDict[tuple[MessageQueue, int], None] = OrderedDict()
        """Damaged messages that brokers have left out, the latest last: an orderly pop that is repeated names them
        again.
        """

    async def master(self, broker_name: str, topic: str) -> str:
        """The ``host:port`` of a broker's master, which alone serves POP requests.

        :param topic: its route is refreshed if no master is known.
        :raises NoRouteError: the refreshed route has no master, either.
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
        """Pop messages; returns None if there are none.

        :param most: maximum number of messages, 1 to 32.
        :param invisible: seconds that the messages are invisible to all members.
        :param poll: seconds that the broker may hold the request until a message arrives (long polling).
        :param start: where a group without a committed offset starts.
        :param order: the attempt ids of an orderly pop; None for a concurrent one.
        :raises BrokerError: the broker refuses the pop; POLLING_FULL (209) if it holds too many requests already.
        :raises NetworkError: the broker cannot be reached.
        """
        address = await self.master(queue.broker_name, queue.topic)
        check_version(self._instance, address, subscription)
        header = PopMessage(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, max_msg_nums=most,
            invisible_time=_millis(invisible), poll_time=_millis(poll), init_mode=start, order=order is not None,
            exp_type=subscription.expression_type, exp=subscription.sub_string, bname=queue.broker_name,
            attempt_id=None if order is None else order.next(),
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
            self._note_left_out(queue, answer.ext.get("damaged"), address)
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address)
        response = PopResponse.from_ext(answer.ext)
        self._note_left_out(queue, response.damaged, address)
        popped, skipped = await self._decode(answer.body, queue, response, order=order is not None)
        if not subscription.tags_set and not self._filter_hooks:
            return PopAnswer(popped, skipped, response.pop_time)
        messages = filter_by_tags([one.message for one in popped], subscription.tags_set)
        shown = queue_without_namespace(self._namespace, queue)
        wanted = set(filter_messages(self._filter_hooks, self._group, shown, messages))
        return PopAnswer(
            [one for one in popped if one.message in wanted],
            [*skipped, *(one for one in popped if one.message not in wanted)], response.pop_time,
        )  # fmt: skip

    def _note_left_out(self, queue: MessageQueue, text: str | None, address: str) -> None:
        """Record damaged messages that a broker has left out of a pop, each once.

        :param queue: the queue of the pop request.
        :param text: the field ``damaged`` of the answer.
        :raises BadHeader: the field is illegal.
        """
        for (flag, queue_id), offsets in parse_msg_offsets(text).items():
            topic = real_topic(queue.topic, self._group, flag)
            source = queue_without_namespace(self._namespace, MessageQueue(topic, queue.broker_name, queue_id))
            for offset in offsets:
                if (source, offset) in self._left_out:
                    continue
                self._left_out[source, offset] = None
                if len(self._left_out) > _MOST_LEFT_OUT:
                    self._left_out.popitem(last=False)
                self._skipped.damaged(source, offset, CorruptRecord(f"broker {address} has left it out"))

    async def _decode(
        self, body: bytes, queue: MessageQueue, response: PopResponse, *, order: bool
    ) -> tuple[list[PoppedMessage], list[PoppedMessage]]:
        """Decode the body of a pop answer.

        Messages beyond the total decompression limit are made visible again at the broker.

        :returns: the messages to deliver, and those to ack without delivery, as they cannot be decoded.
        """
        messages, undecoded, postponed, damage = await decode_pop(body, queue.broker_name, self._rules)
        if undecoded or postponed:
            messages = sorted(
                [*messages, *(record.message for record in (*undecoded, *postponed))], key=lambda one: one.queue_offset
            )
        popped = attach_receipts(messages, queue.topic, queue.broker_name, response, order=order)
        damaged: list[PoppedMessage] = []
        if damage is not None:
            _log.info("the answer to a pop of %s is damaged: %s", queue, damage)
            for place, offset in missing_offsets(popped, response):
                more, is_whole = await self._pull(queue, place, offset, response, order=order)
                (popped if is_whole else damaged).extend(more)
            popped.sort(key=lambda one: one.message.queue_offset)
        if self._namespace:
            for message, _ in (*popped, *damaged):
                message.topic = without_namespace(self._namespace, message.topic)
        if not undecoded and not postponed:
            return popped, damaged
        self._skipped.undecoded(queue_without_namespace(self._namespace, queue), undecoded)
        skipped, returned = {record.message for record in undecoded}, {record.message for record in postponed}
        await self.give_back([one for one in popped if one.message in returned], GIVE_BACK)
        whole = [one for one in popped if one.message not in skipped | returned]
        return whole, [*damaged, *(one for one in popped if one.message in skipped)]

    async def _pull(
        self, queue: MessageQueue, place: Place, offset: int, response: PopResponse, *, order: bool
    ) -> tuple[list[PoppedMessage], bool]:
        """Pull a popped message by its offset, as its record in the pop answer is damaged.

        :param queue: the queue of the pop request.
        :param place: retry flag (which topic: the popped one or a retry topic) and queue id of the message.
        :param offset: queue offset of the message.
        :param response: header of the pop answer.
        :returns: the message in a list, and True. If the stored message is damaged, too: a stand-in to ack, and False.
            If the broker cannot be reached: an empty list and False; the message becomes visible again.
        """
        flag, queue_id = place
        source = MessageQueue(real_topic(queue.topic, self._group, flag), queue.broker_name, queue_id)
        try:
            pulled = await self._single_pulls.pull(source, offset, make_subscription(source.topic, "*", None, 0))
        except RocketMQError as e:
            _log.warning("offset %d of %s was popped, but could not be read: %s", offset, source, e)
            return [], False
        found = [message for message in pulled.messages if message.queue_offset == offset]
        messages = found or [_nothing(source, offset)]
        return attach_receipts(messages, queue.topic, queue.broker_name, response, order=order), bool(found)

    async def notified(self, queue: MessageQueue, *, poll: float, order: bool) -> bool:
        """Wait at the broker until a message can be popped (long polling); returns False if none arrives in time.

        :param poll: seconds that the broker may hold the request.
        :param order: as of the pops that follow: True for orderly ones.
        :raises BrokerError: the broker refuses the request; POLLING_FULL (209) if it holds too many already.
        :raises NetworkError: the broker cannot be reached.
        """
        address = await self.master(queue.broker_name, queue.topic)
        header = Notification(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, poll_time=_millis(poll),
            order=order, bname=queue.broker_name,
        )  # fmt: skip
        answer = await self._instance.connections.invoke(
            address, RequestCode.NOTIFICATION, header, timeout=poll + GRACE
        )
        response = NotificationResponse.from_ext(answer.ext)
        if response.polling_full:
            raise BrokerError.of(ResponseCode.POLLING_FULL, "too many consumers wait already", address)
        return response.has_msg

    async def ack(self, messages: Iterable[PoppedMessage]) -> list[tuple[Sequence[PoppedMessage], RocketMQError]]:
        """Ack messages, with one request per broker.

        :returns: for each broker whose request failed, its messages and the error; empty if all are acked.
        """
        by_broker: dict[str, list[PoppedMessage]] = defaultdict(list)
        for one in messages:
            by_broker[one.receipt.broker_name].append(one)
        parts = list(by_broker.items())
        results = await asyncio.gather(*(self._ack(*part) for part in parts))
        return [(part, error) for (_, part), error in zip(parts, results, strict=True) if error is not None]

    async def _ack(self, broker_name: str, messages: Sequence[PoppedMessage]) -> RocketMQError | None:
        try:
            address = await self.master(broker_name, self._topic_of(messages[0].message))
            if len(messages) == 1:
                header = self._ack_header(messages[0])
                await self._instance.connections.invoke(address, RequestCode.ACK_MESSAGE, header, timeout=TIMEOUT)
            else:
                await self._ack_batch(broker_name, address, messages)
        except RocketMQError as e:
            return e
        return None

    async def _ack_batch(self, broker_name: str, address: str, messages: Sequence[PoppedMessage]) -> None:
        body = BatchAckRequest(
            broker_name=broker_name, acks=batch_acks(self._group, map(self._named, messages))
        ).encode()
        connections = self._instance.connections
        try:
            await connections.invoke(address, RequestCode.BATCH_ACK_MESSAGE, None, body, timeout=TIMEOUT)
        except RequestNotSupported:  # brokers of 5.0 support single acks only
            for one in messages:
                await connections.invoke(address, RequestCode.ACK_MESSAGE, self._ack_header(one), timeout=TIMEOUT)

    def _ack_header(self, one: PoppedMessage) -> AckMessage:
        message, receipt = one
        return AckMessage(
            consumer_group=self._group, topic=real_topic(self._topic_of(message), self._group, receipt.retry),
            queue_id=receipt.queue_id, extra_info=receipt.encode(), offset=_offset(one), bname=receipt.broker_name,
        )  # fmt: skip

    async def extend(self, one: PoppedMessage, seconds: float) -> ExtraInfo:
        """Make a message invisible for ``seconds`` from now; returns its new receipt.

        :raises InvalidReceipt: the invisible time is over, so that the receipt is no longer valid.
        :raises BrokerError: the broker refuses the request.
        :raises NetworkError: the broker cannot be reached.
        """
        message, receipt = one
        address = await self.master(receipt.broker_name, self._topic_of(message))
        ack, offset = self._ack_header(one), _offset(one)
        header = ChangeInvisibleTime(
            consumer_group=ack.consumer_group, topic=ack.topic, queue_id=ack.queue_id,
            extra_info=ack.extra_info, offset=offset, invisible_time=_millis(seconds), bname=ack.bname,
        )  # fmt: skip
        answer = await self._instance.connections.invoke(
            address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, timeout=TIMEOUT
        )
        response = ChangeInvisibleTimeResponse.from_ext(answer.ext)
        return receipt._replace(
            start_offset=offset, pop_time=response.pop_time, invisible_ms=response.invisible_time,
            revive_queue=response.revive_qid, offset=offset,
        )  # fmt: skip

    def _topic_of(self, message: MessageExt) -> str:
        """The topic of a message with the namespace prefix, as brokers know it."""
        return with_namespace(self._namespace, message.topic)

    def _named(self, one: PoppedMessage) -> PoppedMessage:
        """Return a copy of a popped message with the namespace in its topic; the message itself without a namespace."""
        if not self._namespace:
            return one
        message = copy.copy(one.message)
        message.topic = self._topic_of(message)
        return PoppedMessage(message, one.receipt)

    async def give_back(self, messages: Iterable[PoppedMessage], seconds: float) -> None:
        """Make popped messages visible again after ``seconds``; failures are logged.

        Without this they become visible when their invisible time is over.
        """
        results = await asyncio.gather(*(self.extend(one, seconds) for one in messages), return_exceptions=True)
        for result in results:
            if isinstance(result, RocketMQError):
                _log.info("a message of group %s comes again only after its invisible time: %s", self._group, result)
            elif isinstance(result, BaseException):
                raise result


def _nothing(queue: MessageQueue, offset: int) -> MessageExt:
    """Return a message without content, with the queue and offset of a damaged message, to ack that."""
    head = RecordHead(0, 0, 0, queue.queue_id, 0, offset, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, 0)
    return MessageExt(tuple(head), queue.topic, b"", b"", queue.broker_name)


def _offset(one: PoppedMessage) -> int:
    return one.message.queue_offset if one.receipt.offset is None else one.receipt.offset


def _millis(seconds: float) -> int:
    return math.ceil(seconds * 1000)
