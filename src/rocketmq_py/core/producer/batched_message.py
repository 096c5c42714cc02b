"""Messages on their way into a batch, and the result of a batch divided among its messages."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count, repeat

import msgspec

from rocketmq_py.model import Message, SendResult
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names

_HEAD, _LENGTH = 20, 2
"""Bytes of a record in a batch before the body, and of the length of the properties after it."""
_LONELY = frozenset(
    {
        Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS, Property.TIMER_DEL_UNIQKEY,
        Property.TRANSACTION_PREPARED, Property.PRODUCER_GROUP, Property.MESSAGE_TYPE, Property.CORRELATION_ID,
        Property.PRIORITY,
    }
)  # fmt: skip
"""Properties that a broker acts on when they are those of the request, not of a message in a batch."""
_DELAY_OR_LONELY = _LONELY | {"DELAY"}
UNUSUAL = _DELAY_OR_LONELY | {"UNIQ_KEY"}
"""Properties that a plain message does not have when it is handed over."""
PLAIN = (None, True, 0)
"""The kind of a plain message: not compressed, and the broker's answer waits for what the broker is configured for."""


class BatchedMessage(msgspec.Struct, gc=False, eq=False):
    """A message, checked and encoded as a record of a batch.

    :ivar sys_flag: the bits of compression if the body is compressed.
    :ivar kind: equal for messages that can be in one batch.
    """

    topic: str
    msg_id: str
    record: bytes
    body_size: int
    flag: int
    sys_flag: int
    born_ms: int
    waits: bool
    kind: Hashable

    @property
    def body(self) -> bytes:
        """The body as it is sent."""
        return self.record[_HEAD : _HEAD + self.body_size]

    @property
    def properties(self) -> str:
        """The properties in their stored form."""
        return self.record[_HEAD + self.body_size + _LENGTH :].decode()


def goes_alone(message: Message) -> bool:
    """Return True if a message cannot be in a batch: brokers handle it by properties of the request, or refuse it."""
    properties = message.properties
    if _DELAY_OR_LONELY.isdisjoint(properties):  # most messages
        return message.topic.startswith(names.RETRY_PREFIX)
    return not _LONELY.isdisjoint(properties) or message.delay_level > 0 or message.topic.startswith(names.RETRY_PREFIX)


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
    transaction_ids = msg_ids if transaction_id else repeat(transaction_id)
    fields = zip(
        repeat(status), msg_ids, repeat(queue), count(first), offset_ids, transaction_ids, repeat(region),
        repeat(trace_on), repeat(None),
    )  # fmt: skip
    return list(map(tuple.__new__, repeat(SendResult), fields))  # as SendResult(...), without steps in Python
