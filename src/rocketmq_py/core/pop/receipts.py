"""Popped messages on the client: receipts, invisible times, and redelivery of failed messages.

A popped message is invisible to other clients for some time. The client that has its receipt acks it within that time,
or changes the time at which it becomes visible again. Rules: ConsumeMessagePopConcurrentlyService, PopProcessQueue.
Times are arguments, in seconds of the consumer's monotonic clock unless noted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rocketmq_py.core.consumer.orderly import OrderedQueue
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import ConsumeFromWhere, MessageExt, MessageQueue
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.pop import BatchAck
from rocketmq_py.protocol.headers.pop import PopResponse
from rocketmq_py.protocol.pop_handle import (
    ExtraInfo,
    InitMode,
    Place,
    encode_bits,
    offset_count_key,
    parse_msg_offsets,
    parse_order_counts,
    parse_start_offsets,
    retry_flag,
)

ALL_QUEUES = -1
"""The queue id that stands for all queues of a broker."""
MOST_MESSAGES = 32
"""Maximum number of messages that a broker returns for one pop."""
RETRY_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until a failed message is redelivered, by the number of earlier deliveries or by the listener's delay level.
"""
GIVE_BACK = 1.0
"""Seconds until a popped message that was not passed to the application becomes visible again."""
RENEW_AT = 0.4
"""Fraction of the invisible time after which the invisible time of a message still being consumed is extended."""

_CK = Property.POP_CK.encode() + b"\x01"
_FIRST_POP = Property.FIRST_POP_TIME.encode() + b"\x01"


def retry_delay(reconsume_times: int, level: int) -> int:
    """Return the seconds until a failed message is redelivered.

    :param reconsume_times: number of earlier deliveries.
    :param level: delay level set by the listener, an index of :data:`RETRY_DELAYS`; 0 uses ``reconsume_times``.
    """
    return RETRY_DELAYS[min(level or reconsume_times, len(RETRY_DELAYS) - 1)]


def are_retries_used_up(reconsume_times: int, max_times: int, level: int) -> bool:
    """Return True if a failed message must not be redelivered.

    That is so if it has no retries left, or the listener has set a negative delay level.
    """
    return level < 0 or reconsume_times >= max_times


def init_mode(consume_from: ConsumeFromWhere) -> InitMode:
    """Return the init mode of pops for a consumer's option; TIMESTAMP, which POP does not support, becomes MAX."""
    return InitMode.MIN if consume_from is ConsumeFromWhere.FIRST_OFFSET else InitMode.MAX


def pop_numbers(most: int, at_once: int) -> list[int]:
    """Return the numbers of messages that the next pops ask for: together at most ``most``.

    :param at_once: maximum number of pops.
    """
    numbers: list[int] = []
    while most > 0 and len(numbers) < at_once:
        numbers.append(min(most, MOST_MESSAGES))
        most -= MOST_MESSAGES
    return numbers


# -- receipts


class PoppedMessage(NamedTuple):
    """A popped message and its receipt."""

    message: MessageExt
    receipt: ExtraInfo


def attach_receipts(
    messages: Iterable[MessageExt], topic: str, broker_name: str, answer: PopResponse, *, order: bool
) -> list[PoppedMessage]:
    """Return the messages of a pop with their receipts, which are also stored in their property POP_CK.

    The topic of messages from a retry topic is replaced with the popped one.

    :param messages: the decoded messages of the response. :param topic: the topic that was popped.
    :param answer: header of the response.
    :param order: True for an orderly pop; sets the reconsume times of the messages from the header.
    :raises BadHeader: the offset texts in the header are malformed.
    """
    starts = parse_start_offsets(answer.start_offset_info)
    counts = parse_order_counts(answer.order_count_info) if order else {}
    popped = []
    for message in messages:
        # Popped from a retry topic: the broker has set the receipt.
        receipt = _own_receipt(message)
        if receipt is None:
            receipt = _receipt(message, starts, broker_name, answer)
            _count(message, receipt, counts)
        added = {Property.POP_CK: receipt.encode()}
        if _FIRST_POP not in message.raw_properties:
            added[Property.FIRST_POP_TIME] = str(answer.pop_time)
        message.add_properties(added)
        message.topic = topic
        popped.append(PoppedMessage(message, receipt))
    return popped


def missing_offsets(popped: Sequence[PoppedMessage], answer: PopResponse) -> list[tuple[Place, int]]:
    """Return which messages of a pop are missing in ``popped``: those that only the response header lists.

    Each is identified by ((retry flag, queue id), queue offset). Empty if the header does not list the messages.

    :param popped: the messages that could be decoded.
    :param answer: header of the response.
    :raises BadHeader: the list in the header is malformed.
    """
    found = {((receipt.retry, receipt.queue_id), message.queue_offset) for message, receipt in popped}
    told = parse_msg_offsets(answer.msg_offset_info)
    return [(place, offset) for place, offsets in told.items() for offset in offsets if (place, offset) not in found]


def _own_receipt(message: MessageExt) -> ExtraInfo | None:
    """Return the receipt in the properties of a message; None if there is none.

    What is no receipt was set by the producer of the message, and must not cost others of the same pop.
    """
    own = message.properties.get(Property.POP_CK) if _CK in message.raw_properties else None  # may end another name
    if own is None:
        return None
    try:
        return ExtraInfo.parse(own)
    except BadHeader:
        return None


def _receipt(message: MessageExt, starts: dict[Place, int], broker_name: str, answer: PopResponse) -> ExtraInfo:
    flag = retry_flag(message.topic)
    # Without startOffsetInfo, the pop started at the first message of each queue.
    start = starts.setdefault((flag, message.queue_id), message.queue_offset)
    return ExtraInfo(
        start, answer.pop_time, answer.invisible_time, answer.revive_qid, flag, broker_name, message.queue_id,
        message.queue_offset,
    )  # fmt: skip


def _count(message: MessageExt, receipt: ExtraInfo, counts: dict[tuple[str, str], int]) -> None:
    """Set ``reconsume_times`` of a message popped in order, which is redelivered without being stored again.

    The header has a count for the message, or one for all messages of its queue.
    """
    own = counts.get((receipt.retry, offset_count_key(message.queue_id, message.queue_offset)))
    count = counts.get((receipt.retry, str(message.queue_id))) if own is None else own
    if count:
        message.reconsume_times = count


def batch_acks(group: str, messages: Iterable[PoppedMessage]) -> list[BatchAck]:
    """Return the acks of messages of one broker; messages of one pop and queue share a :class:`BatchAck`."""
    together: dict[tuple[str, ExtraInfo], list[int]] = defaultdict(list)
    for message, receipt in messages:
        offset = message.queue_offset if receipt.offset is None else receipt.offset
        together[message.topic, receipt._replace(offset=None)].append(offset - receipt.start_offset)
    return [
        BatchAck(
            consumer_group=group, topic=topic, retry=pop.retry, start_offset=pop.start_offset, queue_id=pop.queue_id,
            revive_queue_id=pop.revive_queue, pop_time=pop.pop_time, invisible_time=pop.invisible_ms,
            bits=encode_bits(distances),
        )
        for (topic, pop), distances in together.items()
    ]  # fmt: skip


class BrokerClock:
    """Estimates the broker's clock from its pop responses, to compare the times in receipts with the client's clock.

    The estimate is never later than the broker's clock, unless that was set back by less than a minute.
    """

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: float | None = None

    def observe(self, pop_time_ms: int, now: float) -> None:
        """Record the time of a pop by the broker's clock, from its response.

        :param pop_time_ms: milliseconds since the epoch.
        :param now: time at which the response was received, in monotonic seconds.
        """
        ahead = pop_time_ms / 1000 - now
        # The response with the shortest delay is the most exact; after a clock was set back, a new estimate begins.
        if self._ahead is None or ahead > self._ahead or ahead < self._ahead - _CLOCK_WAS_SET:
            self._ahead = ahead

    def overdue(self, receipt: ExtraInfo, now: float) -> float | None:
        """Return how many seconds ago a receipt's invisible time ended; negative if it has not ended.

        None before the first :meth:`observe`.

        :param now: current time in monotonic seconds.
        """
        if self._ahead is None:
            return None
        return now + self._ahead - (receipt.pop_time + receipt.invisible_ms) / 1000


_CLOCK_WAS_SET = 60.0


# -- unacked messages of a consumer


class _Held(NamedTuple):
    receipt: ExtraInfo
    visible_at: float


class PopQueue(ProcessQueue):
    """The popped messages of an assigned queue that have no result yet, and the messages to ack.

    The queue id may be :data:`ALL_QUEUES`; then the messages are from several queues with overlapping offsets, so they
    are identified by object. Only this client may consume them during their invisible time, even if the queue is
    assigned to another client meanwhile.
    """

    __slots__ = ("_done", "_held")

    has_invisible_time = True

    def __init__(self, queue: MessageQueue, now: float) -> None:
        super().__init__(queue, now)
        self._held: dict[MessageExt, _Held] = {}
        self._done: list[tuple[PoppedMessage, float]] = []

    @property
    def count(self) -> int:
        return len(self._held)

    def take(self, popped: Sequence[PoppedMessage], visible_at: float) -> None:
        """Add popped messages.

        :param visible_at: time at which they become visible to other clients, in monotonic seconds.
        """
        self._held.update({message: _Held(receipt, visible_at) for message, receipt in popped})
        self.size += sum([len(message.body) for message, _ in popped])

    def holds(self, message: MessageExt) -> bool:
        return message in self._held

    def is_fresh(self, message: MessageExt, now: float) -> bool:
        """Return True if a message has no result yet and is invisible to other clients. ``now``: monotonic seconds."""
        held = self._held.get(message)
        return held is not None and now < held.visible_at

    def ack(self, messages: Iterable[MessageExt]) -> int | None:
        """Record messages as consumed, for the next :meth:`to_ack`. Returns None: POP has no offset to commit."""
        for message in messages:
            held = self._forget(message)
            if held is not None:
                self._done.append((PoppedMessage(message, held.receipt), held.visible_at))
        return None

    def release(self, message: MessageExt, now: float) -> PoppedMessage | None:
        """Remove a message that was not consumed; return it with its receipt, None if its invisible time is over.

        :param now: current time in monotonic seconds.
        """
        held = self._forget(message)
        return PoppedMessage(message, held.receipt) if held is not None and now < held.visible_at else None

    def to_ack(self) -> list[tuple[PoppedMessage, float]]:
        """Return the messages that :meth:`ack` has added since the last call of this method.

        :returns: each message with the end of its invisible time in monotonic seconds.
        """
        done, self._done = self._done, []
        return done

    def receipts(self, messages: Iterable[MessageExt]) -> list[PoppedMessage]:
        """Return those of ``messages`` that have no result yet, with their receipts."""
        return [PoppedMessage(message, self._held[message].receipt) for message in messages if message in self._held]

    def renew(self, message: MessageExt, receipt: ExtraInfo, visible_at: float) -> None:
        """Replace the receipt of a message after its invisible time was extended; ignored if it has a result.

        :param visible_at: the new end of its invisible time, in monotonic seconds.
        """
        if message in self._held:
            self._held[message] = _Held(receipt, visible_at)

    def _forget(self, message: MessageExt) -> _Held | None:
        held = self._held.pop(message, None)
        if held is not None:
            self.size -= len(message.body)
        return held

    def __repr__(self) -> str:
        return f"PopQueue({self.queue}, {'dropped' if self.dropped else f'{self.count} messages'})"


class PopRun(OrderedQueue):
    """The messages that one orderly pop returned from one queue; each is acked after it was consumed, in order.

    The broker returns no later messages of the queue until all of them are acked or visible again.

    :param owner: the pop queue that has the receipts of the messages.
    :param now: current time in monotonic seconds.
    :param visible_at: time at which the messages become visible to other clients, in monotonic seconds.
    """

    __slots__ = ("_done", "owner", "visible_at")

    has_invisible_time = True

    def __init__(
        self, owner: PopQueue, queue: MessageQueue, messages: Sequence[MessageExt], now: float, visible_at: float
    ) -> None:
        super().__init__(queue, now, needs_lock=False)
        self.owner = owner
        self.visible_at = visible_at
        self._done: list[MessageExt] = []
        self.put(messages)

    def is_usable(self, now: float) -> bool:
        return now < self.visible_at

    def may_commit(self, now: float) -> bool:
        return self.is_usable(now)

    def keep(self, messages: Iterable[MessageExt]) -> None:
        """Discard the messages at once, so that they are acked.

        POP has no later commit, because the broker returns no further messages before it.
        """
        self.discard(messages)

    def discard(self, messages: Iterable[MessageExt]) -> None:
        done = list(messages)
        super().discard(done)
        self._done += done

    def take_done(self) -> list[MessageExt]:
        """Return the messages that were consumed since the last call, to ack them."""
        done, self._done = self._done, []
        return done


def split_by_queue(owner: PopQueue, popped: Iterable[PoppedMessage], now: float, visible_at: float) -> list[PopRun]:
    """Return one :class:`PopRun` for each queue from which an orderly pop returned messages.

    :param owner: the pop queue that has the receipts of the messages.
    :param now: current time in monotonic seconds.
    :param visible_at: time at which the messages become visible to other clients, in monotonic seconds.
    """
    by_queue: dict[MessageQueue, list[MessageExt]] = defaultdict(list)
    for message, _ in popped:
        by_queue[message.queue].append(message)
    return [PopRun(owner, queue, messages, now, visible_at) for queue, messages in by_queue.items()]
