"""Messages on their way into a batch, and the result of a batch divided among its messages."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from rocketmq_py.model import Message, SendResult
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names

_LONELY = frozenset(
    {
        Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS, Property.TIMER_DEL_UNIQKEY,
        Property.TRANSACTION_PREPARED, Property.PRODUCER_GROUP, Property.MESSAGE_TYPE, Property.CORRELATION_ID,
        Property.PRIORITY,
    }
)  # fmt: skip
"""Properties that a broker acts on when they are those of the request, not of a message in a batch."""


class BatchedMessage(msgspec.Struct, gc=False, eq=False):
    """A message, checked, as it was when it was handed over; it is encoded with the others of its batch.

    :ivar body: the body as it is sent.
    :ivar properties: a copy of the properties.
    :ivar size: bytes of its record in a batch.
    :ivar sys_flag: the bits of compression if the body is compressed.
    :ivar kind: equal for messages that can be in one batch.
    """

    topic: str
    msg_id: str
    flag: int
    body: bytes
    properties: dict[str, str]
    size: int
    sys_flag: int
    born_ms: int
    waits: bool
    kind: Hashable


def goes_alone(message: Message) -> bool:
    """Return True if a message cannot be in a batch: brokers handle it by properties of the request, or refuse it."""
    properties = message.properties
    if not _LONELY.isdisjoint(properties):
        return True
    return ("DELAY" in properties and message.delay_level > 0) or names.is_retry_topic(message.topic)


def results_of(result: SendResult, msg_ids: Sequence[str]) -> list[SendResult]:
    """Return the results of the messages of a batch, in order, from that of the batch.

    A topic with batch queues stores a batch as one record, so its messages share the broker's id.

    :param msg_ids: the unique keys of the messages.
    """
    if len(msg_ids) == 1:
        return [result]
    offset_ids: Sequence[str] = result.offset_msg_id.split(",")
    if len(offset_ids) != len(msg_ids):
        offset_ids = [result.offset_msg_id] * len(msg_ids)
    status, _, queue, first, _, transaction_id, region, trace_on, _ = result
    new, offsets = tuple.__new__, range(first, first + len(msg_ids))  # as SendResult(...), without a call in Python
    return [
        new(
            SendResult,
            (status, msg_id, queue, offset, offset_id, transaction_id and msg_id, region, trace_on, None),
        )
        for offset, msg_id, offset_id in zip(offsets, msg_ids, offset_ids, strict=True)
    ]
