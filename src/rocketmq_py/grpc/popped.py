"""Popped messages as the messages of an answer: plain ones by the accelerator, the others one by one."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.accelerator import Accelerator, PopParts, PoppedMessages
from rocketmq_py.core.grpc.messages import BORN_HOST, LITE_TOPIC, RESERVED, TRACE_CONTEXT
from rocketmq_py.core.pop.receipts import PoppedMessage, attach_receipts
from rocketmq_py.grpc.conversion import message_of
from rocketmq_py.grpc.receipts import Receipt
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.grpc.service import ReceiveMessageResponse
from rocketmq_py.protocol.headers.pop import PopMessage, PopResponse
from rocketmq_py.protocol.pop_handle import ExtraInfo, parse_start_offsets, retry_flag
from rocketmq_py.server.reply import Buffer, Reply
from rocketmq_py.wire.record import messages_at, record_size, stored_messages

_FIELDS = {
    Property.TAGS: 1, Property.KEYS: 2, Property.UNIQUE_KEY: 3, BORN_HOST: 8, Property.SHARDING_KEY: 17,
    TRACE_CONTEXT: 18, LITE_TOPIC: 21,
}  # fmt: skip
"""Fields of SystemProperties that have the value of a property."""
_UNUSUAL = (
    Property.TRANSACTION_PREPARED, Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_MS, Property.CHECK_IMMUNITY_TIME, Property.DLQ_ORIGIN_TOPIC, Property.DLQ_ORIGIN_MESSAGE_ID,
    Property.PRIORITY, Property.POP_CK,
)  # fmt: skip
"""Properties with which :func:`message_of` has to be asked."""
_MOST_ATTEMPTS = (1 << 31) - 1


class Wanted(NamedTuple):
    """Which messages a client receives.

    :ivar tags: the tags that it wants; None for all.
    :ivar most_attempts: those delivered more often before are dead letters; 0 for no limit.
    """

    tags: frozenset[str] | None
    most_attempts: int

    def has_tag(self, message: MessageExt) -> bool:
        """Return whether the client wants the tag of a message."""
        return self.tags is None or message.tags in self.tags

    def has_attempts(self, message: MessageExt) -> bool:
        """Return whether a message may be delivered once more."""
        return not 0 < self.most_attempts <= message.reconsume_times


class Popped(NamedTuple):
    """What a pop has found.

    :ivar items: in order, encoded messages that the client receives, and messages about which has to be decided.
    :ivar receipts: those of the encoded messages, by handle, if they were asked for.
    """

    items: list[bytes | PoppedMessage]
    receipts: dict[str, Receipt]


class PoppedAnswers:
    """Encodes what pops have found."""

    def __init__(self, accelerator: Accelerator | None) -> None:
        self._encoder: PoppedMessages | None = None
        if accelerator is not None:
            names = dict.fromkeys(RESERVED, 0) | _FIELDS | dict.fromkeys(_UNUSUAL, -1)
            self._encoder = accelerator.PoppedMessages([(name.encode(), field) for name, field in names.items()])

    def read(self, pop: Inner, reply: Reply, wanted: Wanted, *, receipts: bool) -> Popped:
        """Return what a pop has found.

        :param receipts: whether the receipts of encoded messages are wanted, too.
        :raises BadHeader: a receipt is malformed.
        :raises CorruptRecord: a message is damaged.
        """
        header: PopMessage = pop.header
        pieces, answer = reply.body, reply.header
        body = bytes(pieces) if isinstance(pieces, Buffer) else b"".join(pieces)
        assert isinstance(answer, PopResponse)
        if self._encoder is None or header.order:
            found = stored_messages(body, pop.broker)
            return Popped(list(attach_receipts(found, header.topic, pop.broker, answer, order=header.order)), {})
        return _plain(self._encoder, body, pop, answer, wanted, receipts=receipts)


def _plain(
    encoder: PoppedMessages, body: bytes, inner: Inner, answer: PopResponse, wanted: Wanted, *, receipts: bool
) -> Popped:
    topic, broker = inner.header.topic, inner.broker
    pop, flag = _parts(inner, answer), retry_flag(topic)
    tags = None if wanted.tags is None else [tag.encode() for tag in wanted.tags]
    most = min(max(wanted.most_attempts, 0), _MOST_ATTEMPTS)
    found: list[bytes | MessageExt] = []
    held: dict[str, Receipt] = {}
    position, end = 0, len(body)
    while position < end:
        plain, position, places = encoder.responses(body, position, pop, tags, most, receipts)
        found += plain
        for handle, start, queue_id, offset, physical in places:
            info = ExtraInfo(
                start, answer.pop_time, answer.invisible_time, answer.revive_qid, flag, broker, queue_id,
                offset,
            )  # fmt: skip
            held[handle] = Receipt(info, physical)
        if position < end:
            size = record_size(body, position)
            found += messages_at(body, position, broker)
            position += size
    odd = [one for one in found if not isinstance(one, bytes)]
    attached = iter(attach_receipts(odd, topic, broker, answer, order=False) if odd else ())
    return Popped([one if isinstance(one, bytes) else next(attached) for one in found], held)


def _parts(pop: Inner, answer: PopResponse) -> PopParts:
    header: PopMessage = pop.header
    flag = retry_flag(header.topic)
    starts = parse_start_offsets(answer.start_offset_info)
    middle = f" {answer.pop_time} {answer.invisible_time} {answer.revive_qid} {flag} {pop.broker} "
    return (
        header.topic.encode(),
        [(queue_id, start) for (kind, queue_id), start in starts.items() if kind == flag],
        middle.encode(),
        header.invisible_time,
    )


def encoded(one: PoppedMessage, header: PopMessage) -> tuple[bytes, str]:
    """Return a message that was decoded as a message of the answer, and its handle."""
    handle = Receipt.of(one.receipt, one.message).text
    out = message_of(one.message, header.topic, handle, header.invisible_time)
    return ReceiveMessageResponse(message=out).encode(), handle
