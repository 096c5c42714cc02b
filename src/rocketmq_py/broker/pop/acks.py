"""Acknowledging popped messages, and changing how long they stay invisible.

The checks and answers are those of AckMessageProcessor and ChangeInvisibleTimeProcessor. A message that was acked, or
whose invisible time is over, is no longer in flight: acking it again changes nothing, as in Java; changing its
invisible time is refused, where Java would deliver it to its group once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.long_polling import PopPolling
from rocketmq_py.broker.pop.reader import PopOffsets
from rocketmq_py.broker.pop.revive_log import ReviveLog, revive_queue
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.core.pop.order import OrderKey, OrderTable
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeResponse
from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey
from rocketmq_py.protocol.pop_handle import ORDER_REVIVE_QUEUE, ExtraInfo, decode_bits, real_topic
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.store import Appended, MessageStore


class PopAcks:
    """Acknowledges popped messages.

    :param polling: notified when a group may pop a queue in order again.
    :param ack_waiter: delays answers until the ack is on disk and on slaves; None: answers are immediate.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        offsets: PopOffsets,
        checks: PopChecks,
        revive_log: ReviveLog,
        orders: OrderTable,
        polling: PopPolling,
        ack_waiter: AckWaiter | None,
        clock: Callable[[], int],
    ) -> None:
        self._name = config.broker_name
        self._revive_queues = config.revive_queue_num
        self._store = store
        self._offsets = offsets
        self._checks = checks
        self._revive_log = revive_log
        self._orders = orders
        self._polling = polling
        self._ack_waiter = ack_waiter
        self._clock = clock

    # -- acks

    def ack(self, peer: Peer, header: AckMessage) -> Reply | Hold:
        """Acknowledge one message.

        :raises BrokerError: the queue has no such message, or one that was popped in order cannot be acked.
        """
        self.check(peer, header)
        info = ExtraInfo.parse(header.extra_info)
        if info.is_order:
            key = OrderKey(header.topic, header.consumer_group, header.queue_id)
            self._ack_in_order(peer, key, header.offset, info.pop_time)
            return Reply()
        return self._answer(Reply(), self._revive_log.ack(_key(header, info), [header.offset]))

    def check(self, peer: Peer, header: AckMessage) -> None:
        """Check that the message of an ack exists.

        :raises BrokerError: the queue has no such message.
        """
        self._checks.check_ack(peer, header, end_included=True)

    def ack_batch(self, peer: Peer, request: BatchAckRequest) -> Reply | Hold:
        """Acknowledge several messages.

        :raises BrokerError: the request names none, or one that was popped in order cannot be acked.
        """
        if not request.acks:
            raise BrokerError.of(Code.NO_MESSAGE, "the request names no message")
        last = None
        for one in request.acks:
            last = self._ack_one_pop(peer, one, request.broker_name or self._name) or last
        return self._answer(Reply(), last)

    def _ack_one_pop(self, peer: Peer, one: BatchAck, broker_name: str) -> Appended | None:
        topic = real_topic(one.topic, one.consumer_group, one.retry)
        first, end = self._store.queue_range(topic, one.queue_id)
        offsets = _between(one.start_offset, decode_bits(one.bits), first, end)
        if one.revive_queue_id == ORDER_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_in_order(peer, OrderKey(topic, one.consumer_group, one.queue_id), offset, one.pop_time)
            return None
        key = CkKey(topic, one.consumer_group, one.queue_id, one.start_offset, one.pop_time, broker_name)
        return self._revive_log.ack(key, offsets)

    def _ack_in_order(self, peer: Peer, key: OrderKey, offset: int, pop_time: int) -> None:
        group, topic, queue_id = key.group, key.topic, key.queue_id
        before = self._offsets.query(group, topic, queue_id)
        if offset < before:
            return
        try:
            following = self._orders.ack(key, offset, pop_time)
        except KeyError:
            remark = (
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{before}, commit:{offset}, next:-1, "
                f"/{peer.address}"
            )
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, remark) from None
        if following is None:
            return
        if not self._offsets.has_reset(group, topic, queue_id):
            self._offsets.commit(group, topic, queue_id, following, peer.address)
        if not self._orders.is_blocked(key, None, self._clock()):
            self._polling.messages_back(key.topic, key.group, key.queue_id)

    # -- changing the invisible time

    def change_invisible(self, peer: Peer, header: ChangeInvisibleTime) -> Reply | Hold:
        """Make a popped message invisible for ``header.invisible_time`` milliseconds from now.

        :raises BrokerError: the message is no longer in flight.
        """
        self._checks.check_ack(peer, header)
        self._checks.check_invisible_time(header.invisible_time)
        info = ExtraInfo.parse(header.extra_info)
        if info.is_order:
            return self._change_in_order(header, info)
        key, now = _key(header, info), self._clock()
        one = self._revive_log.inflight.find(key)
        if one is None or not one.out([header.offset]):
            raise BrokerError.of(
                Code.NO_MESSAGE,
                f"message {header.offset} of topic {header.topic} queue {header.queue_id} is no longer in flight: it "
                f"was acked, or its invisible time is over",
            )  # fmt: skip
        queue = revive_queue(header.invisible_time, self._revive_queues)
        check_point = CheckPoint(
            topic=header.topic, group=header.consumer_group, queue_id=header.queue_id, start_offset=header.offset,
            pop_time=now, broker_name=info.broker_name, invisible_ms=header.invisible_time, count=1, diffs=[0],
        )  # fmt: skip
        if check_point.key == key:
            now = check_point.pop_time = now + 1  # the ack stored next is for the old check-point only
        self._revive_log.check_point(check_point, queue)
        appended = self._revive_log.ack(key, [header.offset])
        answer = ChangeInvisibleTimeResponse(pop_time=now, invisible_time=header.invisible_time, revive_qid=queue)
        return self._answer(Reply(header=answer), appended)

    def _change_in_order(self, header: ChangeInvisibleTime, info: ExtraInfo) -> Reply:
        if header.offset < self._offsets.query(header.consumer_group, header.topic, header.queue_id):
            return Reply(header=ChangeInvisibleTimeResponse(pop_time=0, invisible_time=0, revive_qid=0))
        visible_at = self._clock() + header.invisible_time
        key = OrderKey(header.topic, header.consumer_group, header.queue_id)
        self._orders.set_visible(key, header.offset, info.pop_time, visible_at)
        answer = ChangeInvisibleTimeResponse(
            pop_time=info.pop_time, invisible_time=visible_at - info.pop_time, revive_qid=info.revive_queue
        )
        return Reply(header=answer)

    def _answer(self, reply: Reply, appended: Appended | None) -> Reply | Hold:
        if self._ack_waiter is None or appended is None:
            return reply
        return self._ack_waiter.answer_regardless(reply, appended.physical_offset + appended.size)


def _between(start: int, distances: Sequence[int], first: int, last: int) -> Sequence[int]:
    """Return the offsets from ``first`` to ``last`` (inclusive) that have one of the distances from ``start``."""
    if isinstance(distances, range):
        return range(max(start + distances.start, first), min(start + distances.stop, last + 1))
    return [start + distance for distance in distances if first <= start + distance <= last]


def _key(header: AckMessage | ChangeInvisibleTime, info: ExtraInfo) -> CkKey:
    return CkKey(
        header.topic, header.consumer_group, header.queue_id, info.start_offset, info.pop_time, info.broker_name
    )
