"""Processing of the messages of a pull on the client (PullAPIWrapper.processPullResult).

The broker filters by the hash of tags, so the client compares the tags themselves. It also adds the queue's min and max
offset and transaction ids to messages. Properties are decoded only if necessary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rocketmq_py.core.logical_queues import is_logical
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.properties import Property
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.record import DEFAULT_RULES, BodyRules, Origin, UndecodedRecord, decode_response, relocate_records

_TAGS = b"TAGS\x01"
_PREPARED = b"TRAN_MSG\x01"
_SEPARATOR = 2


class PulledMessages(NamedTuple):
    """The messages of a pull after decoding and filtering.

    :ivar next_offset: offset of the next pull. It is smaller than the broker's suggestion if messages were not decoded
        because of the limits, or if there is a damaged message.
    :ivar undecoded: messages that match the subscription, but have bodies that cannot be decoded.
    :ivar damage: the error of the damaged message at or after ``next_offset``; None if there is none.
    """

    messages: list[MessageExt]
    next_offset: int
    undecoded: Sequence[UndecodedRecord] = ()
    damage: CorruptRecord | None = None


def pulled_messages(
    body: bytes, header: PullResponse, queue: MessageQueue, offset: int, tags: Collection[str],
    rules: BodyRules = DEFAULT_RULES,
) -> PulledMessages:  # fmt: skip
    """Decode the body of a pull response to the messages for the application, up to the first damaged one.

    :param header: header of the response.
    :param queue: the queue that was pulled.
    :param offset: the offset that was pulled.
    :param tags: the subscribed tags; messages with other tags are left out. Empty for all messages and for SQL
        expressions, which only the broker evaluates.
    :param rules: how to decode bodies.
    :raises BadHeader: the header's list of damaged messages is malformed.
    """
    left_out = damaged_offsets(header, offset)
    try:
        body = located_records(body, header, queue.queue_id)
    except CorruptRecord as e:
        return PulledMessages([], offset, damage=e)
    decoded = decode_response(body, queue.broker_name, rules, _origin(header, queue, offset))
    stop = left_out[0] if left_out else header.next_begin_offset
    found = decoded.messages if not left_out else [one for one in decoded.messages if one.queue_offset < stop]
    messages = filter_by_tags(found, tags)
    add_queue_bounds(messages, header.min_offset, header.max_offset)
    if may_be_transactional(body):
        restore_transaction_ids(messages)
    if not decoded.undecoded and not decoded.postponed and decoded.damage is None and not left_out:
        return PulledMessages(messages, header.next_begin_offset)
    undecoded = [record for record in decoded.undecoded if record.message.queue_offset < stop or not left_out]
    wanted = [record for record in undecoded if not tags or tag_of(record.message) in tags]
    postponed = [record.message.queue_offset for record in decoded.postponed[:1]]
    if postponed and (postponed[0] < stop or not left_out):
        return PulledMessages(messages, min(header.next_begin_offset, *postponed), wanted)  # damage is found again
    if decoded.damage is not None:
        last = [one.queue_offset + 1 for one in (*found[-1:], *(record.message for record in undecoded[-1:]))]
        return PulledMessages(messages, max([offset, *last]), wanted, decoded.damage)
    if left_out:
        return PulledMessages(messages, stop, wanted, CorruptRecord("its broker found it damaged and does not send it"))
    return PulledMessages(messages, header.next_begin_offset, wanted)


def _origin(header: PullResponse, queue: MessageQueue, offset: int) -> Origin | None:
    """Return the topic, queue id and offset range that every record in a pull's answer must have.

    None for a queue of a static topic: its records carry the ids and offsets of the physical queues behind it, so they
    cannot be compared with what was pulled.

    :param offset: the offset that was pulled.
    """
    if is_logical(queue):
        return None
    return Origin(queue.topic, queue.queue_id, offset, header.next_begin_offset)


def damaged_offsets(header: PullResponse, offset: int) -> list[int]:
    """Return the offsets, from ``offset`` on, of the messages that the broker left out because they are damaged.

    :raises BadHeader: the field is malformed.
    """
    if header.damaged is None:
        return []
    try:
        return sorted(at for at in map(int, header.damaged.split(",")) if offset <= at < header.next_begin_offset)
    except ValueError:
        raise BadHeader(f"the field damaged={header.damaged!r} of a pull's answer is no list of offsets") from None


def tag_of(message: MessageExt) -> str | None:
    """Return a message's tag without decoding all of its properties; None if it has none."""
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
    """Set the properties MIN_OFFSET and MAX_OFFSET of messages to the queue's offsets from the pull response."""
    bounds = {Property.MIN_OFFSET: str(min_offset), Property.MAX_OFFSET: str(max_offset)}
    for message in messages:
        message.add_properties(bounds)


def queue_end(messages: Sequence[MessageExt]) -> int:
    """Return the queue's max offset at the time of a pull, from the property of its messages; 0 without messages."""
    return int(messages[-1].properties[Property.MAX_OFFSET]) if messages else 0


def located_records(body: bytes, header: PullResponse, queue_id: int) -> bytes:
    """Return the records of a pull with queue id and offsets of the pulled queue.

    Records of a logical queue are stored with id and offsets of a physical queue, which are replaced; others are
    returned unchanged.

    :raises CorruptRecord: the size of a record is too small, or exceeds the body.
    """
    return body if header.offset_delta is None else relocate_records(body, queue_id, header.offset_delta)


def may_be_transactional(body: bytes) -> bool:
    """Return False if a pull body contains no transactional message; a fast test, with rare false positives."""
    return _PREPARED in body


def restore_transaction_ids(messages: Iterable[MessageExt]) -> None:
    """Set ``transaction_id`` of the transactional messages to their unique key."""
    for message in messages:
        if message.properties.get(Property.TRANSACTION_PREPARED) == "true":
            message.transaction_id = message.properties.get(Property.UNIQUE_KEY)


def restore_topic(messages: Iterable[MessageExt], retry_topic: str) -> None:
    """Replace the group's retry topic in messages with their original topic."""
    for message in messages:
        if message.topic == retry_topic:
            message.topic = message.properties.get(Property.RETRY_TOPIC, retry_topic)
