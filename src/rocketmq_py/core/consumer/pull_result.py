"""Processing of a pull's messages on the client (PullAPIWrapper.processPullResult).

The broker filters by the tags' hash, so tags are compared again; bounds, offsets and transaction ids are added. Works
on whole lists and does not decode properties unless it must.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.properties import Property
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.record import DEFAULT_RULES, BodyRules, UndecodedRecord, decode_response, relocate_records

_TAGS = b"TAGS\x01"
_PREPARED = b"TRAN_MSG\x01"
_SEPARATOR = 2


class PulledMessages(NamedTuple):
    """The messages of a pull.

    :ivar next_offset: where the next pull begins; before the broker's suggestion if messages are postponed.
    :ivar undecoded: messages that were asked for and cannot be decoded.
    """

    messages: list[MessageExt]
    next_offset: int
    undecoded: Sequence[UndecodedRecord] = ()


def pulled_messages(
    body: bytes, header: PullResponse, queue: MessageQueue, tags: Collection[str], rules: BodyRules = DEFAULT_RULES
) -> PulledMessages:
    """Return the messages of a pull as users get them; empty if none has one of the tags.

    :param queue: the queue that was pulled.
    :param tags: subscribed tags; empty for all, and for SQL expressions.
    :param rules: what is wanted of their bodies.
    :raises CorruptRecord: the lengths of the records contradict themselves.
    """
    body = located_records(body, header, queue.queue_id)
    decoded = decode_response(body, queue.broker_name, rules)
    messages = filter_by_tags(decoded.messages, tags)
    add_queue_bounds(messages, header.min_offset, header.max_offset)
    if may_be_transactional(body):
        restore_transaction_ids(messages)
    if not decoded.undecoded and not decoded.postponed:
        return PulledMessages(messages, header.next_begin_offset)
    undecoded = [record for record in decoded.undecoded if not tags or tag_of(record.message) in tags]
    resume = [record.message.queue_offset for record in decoded.postponed[:1]]
    return PulledMessages(messages, min([header.next_begin_offset, *resume]), undecoded)


def tag_of(message: MessageExt) -> str | None:
    """Return the message's tag without decoding all of its properties."""
    raw = message.raw_properties
    at = raw.find(_TAGS)
    if at > 0 and raw[at - 1] != _SEPARATOR:
        return message.tags  # the end of another property's name or value
    if at < 0:
        return None
    end = raw.find(b"\x02", at)
    return raw[at + 5 : end if end >= 0 else None].decode("utf-8", "replace") or None


def filter_by_tags(messages: list[MessageExt], tags: Collection[str]) -> list[MessageExt]:
    """Return the messages whose tag is one of ``tags``; all of them if ``tags`` is empty."""
    return [message for message in messages if tag_of(message) in tags] if tags else messages


def add_queue_bounds(messages: Iterable[MessageExt], min_offset: int, max_offset: int) -> None:
    """Add the queue's min and max offset, from the pull response, to the messages' properties."""
    bounds = {Property.MIN_OFFSET: str(min_offset), Property.MAX_OFFSET: str(max_offset)}
    for message in messages:
        message.add_properties(bounds)


def located_records(body: bytes, header: PullResponse, queue_id: int) -> bytes:
    """Return the records of a pull with their place in the queue that was pulled; those of a logical queue are stored
    with that in a physical one.

    :raises CorruptRecord: the bytes contradict themselves.
    """
    return body if header.offset_delta is None else relocate_records(body, queue_id, header.offset_delta)


def may_be_transactional(body: bytes) -> bool:
    """True if a pull body may contain a message of a transaction; cheap, with rare false positives."""
    return _PREPARED in body


def restore_transaction_ids(messages: Iterable[MessageExt]) -> None:
    """Set the transaction id of transactional messages: their unique key."""
    for message in messages:
        if message.properties.get(Property.TRANSACTION_PREPARED) == "true":
            message.transaction_id = message.properties.get(Property.UNIQUE_KEY)


def restore_topic(messages: Iterable[MessageExt], retry_topic: str) -> None:
    """Set the original topic of retried messages."""
    for message in messages:
        if message.topic == retry_topic:
            message.topic = message.properties.get(Property.RETRY_TOPIC, retry_topic)
