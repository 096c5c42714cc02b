"""What a consumer does to the messages of a pull before anyone sees them (PullAPIWrapper.processPullResult).

The broker filters by hash, so tags are compared again; offsets and transaction ids are put where users look for them.
Works on whole slices and leaves properties undecoded wherever it can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.record import decode_records

_TAGS = b"TAGS\x01"
_PREPARED = b"TRAN_MSG\x01"
_SEPARATOR = 2


def pulled_messages(body: bytes, header: PullResponse, broker_name: str, tags: Collection[str]) -> list[MessageExt]:
    """The messages a pull found, as users get them; empty when none has one of the tags.

    :param tags: what is subscribed to; empty for all, and for a filter by SQL.
    """
    messages = filter_by_tags(decode_records(body, broker_name), tags)
    add_queue_bounds(messages, header.min_offset, header.max_offset)
    if header.offset_delta:
        shift_offsets(messages, header.offset_delta)
    if may_be_transactional(body):
        restore_transaction_ids(messages)
    return messages


def tag_of(message: MessageExt) -> str | None:
    """The message's tag, without decoding all of its properties."""
    raw = message.raw_properties
    at = raw.find(_TAGS)
    if at > 0 and raw[at - 1] != _SEPARATOR:
        return message.tags  # the end of another property's name or value
    if at < 0:
        return None
    end = raw.find(b"\x02", at)
    return raw[at + 5 : end if end >= 0 else None].decode("utf-8", "replace") or None


def filter_by_tags(messages: list[MessageExt], tags: Collection[str]) -> list[MessageExt]:
    """The messages whose tag is one of ``tags``; all of them when no tags are asked for."""
    return [message for message in messages if tag_of(message) in tags] if tags else messages


def add_queue_bounds(messages: Iterable[MessageExt], min_offset: int, max_offset: int) -> None:
    """Adds the bounds of the queue, which the pull response told beside the messages, to their properties."""
    bounds = {Property.MIN_OFFSET: str(min_offset), Property.MAX_OFFSET: str(max_offset)}
    for message in messages:
        message.add_properties(bounds)


def shift_offsets(messages: Iterable[MessageExt], delta: int) -> None:
    """Moves queue offsets by what a pull response of a static topic says."""
    for message in messages:
        message.queue_offset += delta


def may_be_transactional(body: bytes) -> bool:
    """Whether a pull body holds anything like a message of a transaction: cheap, and seldom wrong."""
    return _PREPARED in body


def restore_transaction_ids(messages: Iterable[MessageExt]) -> None:
    """Gives messages that were sent in a transaction its id, their unique key."""
    for message in messages:
        if message.properties.get(Property.TRANSACTION_PREPARED) == "true":
            message.transaction_id = message.properties.get(Property.UNIQUE_KEY)


def restore_topic(messages: Iterable[MessageExt], retry_topic: str) -> None:
    """Gives retried messages the topic they were first sent to."""
    for message in messages:
        if message.topic == retry_topic:
            message.topic = message.properties.get(Property.RETRY_TOPIC, retry_topic)
