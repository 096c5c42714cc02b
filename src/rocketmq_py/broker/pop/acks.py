"""What becomes of popped messages: acked, or kept invisible for longer.

Knows what Java checks and answers (AckMessageProcessor, ChangeInvisibleTimeProcessor). Refuses to know how it is
written down. A message whose time was up, or that was acked, is not out any more: acking it changes nothing, as in
Java; it cannot be kept invisible, where Java would give it to its group once more.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.revive_log import ReviveLog, revive_queue
from rocketmq_py.core.pop.order import OrderKey, OrderTable
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeResponse
from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey
from rocketmq_py.protocol.pop_handle import ORDER_REVIVE_QUEUE, ExtraInfo, decode_bits, real_topic
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.store import Appended


class PopAcks:
    """Settles popped messages."""

    def __init__(self, parts: PopParts, checks: PopChecks, log: ReviveLog, orders: OrderTable) -> None:
        self._name = parts.config.broker_name
        self._revive_queues = parts.config.revive_queue_num
        self._store = parts.store
        self._offsets = parts.offsets
        self._clock = parts.clock
        self._checks = checks
        self._log = log
        self._orders = orders
        self._confirming = parts.confirming
        self.on_unblocked: Callable[[OrderKey], None] = lambda _: None
        """Called when a group may pop a queue in order again."""

    # -- acks

    def ack(self, peer: Peer, header: AckMessage) -> Reply | Hold:
        """One message is done.

        :raises BrokerError: there is no such message.
        """
        self._checks.settling(peer, header, end_included=True)
        info = ExtraInfo.parse(header.extra_info)
        if info.is_order:
            key = OrderKey(header.topic, header.consumer_group, header.queue_id)
            self._ack_in_order(peer, key, header.offset, info.pop_time)
            return Reply()
        return self._answer(Reply(), self._log.ack(_key(header, info), [header.offset]))

    def ack_batch(self, peer: Peer, request: BatchAckRequest) -> Reply | Hold:
        """Several messages are done.

        :raises BrokerError: there are none, or one that was popped in order cannot be acked.
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
        start = one.start_offset
        offsets = [start + place for place in decode_bits(one.bits) if first <= start + place <= end]
        if one.revive_queue_id == ORDER_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_in_order(peer, OrderKey(topic, one.consumer_group, one.queue_id), offset, one.pop_time)
            return None
        key = CkKey(topic, one.consumer_group, one.queue_id, one.start_offset, one.pop_time, broker_name)
        return self._log.ack(key, offsets)

    def _ack_in_order(self, peer: Peer, key: OrderKey, offset: int, pop_time: int) -> None:
        group, topic, queue_id = key.group, key.topic, key.queue_id
        before = self._offsets.query(group, topic, queue_id)
        if offset < before:
            return
        try:
            following = self._orders.ack(key, offset, pop_time)
        except KeyError:
            said = (
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{before}, commit:{offset}, next:-1, "
                f"/{peer.address}"
            )
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, said) from None
        if following is None:
            return
        if not self._offsets.has_reset(group, topic, queue_id):
            self._offsets.commit(group, topic, queue_id, following, peer.address)
        if not self._orders.is_blocked(key, None, self._clock()):
            self.on_unblocked(key)

    # -- keeping invisible

    def change_invisible(self, peer: Peer, header: ChangeInvisibleTime) -> Reply | Hold:
        """A message stays invisible for another while, beginning now.

        :raises BrokerError: it is not out any more.
        """
        self._checks.settling(peer, header)
        info = ExtraInfo.parse(header.extra_info)
        if info.is_order:
            return self._change_in_order(header, info)
        key, now = _key(header, info), self._clock()
        one = self._log.ledger.find(key)
        if one is None or not one.out([header.offset]):
            raise BrokerError.of(
                Code.NO_MESSAGE,
                f"message {header.offset} of topic {header.topic} queue {header.queue_id} is not out any more: it was "
                f"acked, or its time was up",
            )  # fmt: skip
        queue = revive_queue(header.invisible_time, self._revive_queues)
        check_point = CheckPoint(
            topic=header.topic, group=header.consumer_group, queue_id=header.queue_id, start_offset=header.offset,
            pop_time=now, broker_name=info.broker_name, invisible_ms=header.invisible_time, count=1, diffs=[0],
        )  # fmt: skip
        if check_point.key == key:
            now = check_point.pop_time = now + 1  # what is written down next must not end it
        self._log.check_point(check_point, queue)
        appended = self._log.ack(key, [header.offset])
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
        if self._confirming is None or appended is None:
            return reply
        return self._confirming.answer_regardless(reply, appended.physical_offset + appended.size)


def _key(header: AckMessage | ChangeInvisibleTime, info: ExtraInfo) -> CkKey:
    return CkKey(
        header.topic, header.consumer_group, header.queue_id, info.start_offset, info.pop_time, info.broker_name
    )
