"""Stored messages as messages of gRPC."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from rocketmq_py.core.grpc.messages import BORN_HOST, LITE_TOPIC, RESERVED, TRACE_CONTEXT, type_of
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.grpc.definition import (
    DeadLetterQueue,
    Digest,
    Duration,
    Message,
    Resource,
    SystemProperties,
    Timestamp,
)
from rocketmq_py.protocol.grpc.enums import DigestType, Encoding
from rocketmq_py.wire.record import COMPRESSED


def message_of(stored: MessageExt, topic: str, handle: str | None = None, invisible_ms: int | None = None) -> Message:
    """Return the message for a client.

    :param stored: the message with the body as it is stored, which may be compressed.
    :param topic: its topic, as the client knows it.
    :param handle: its receipt handle; None for a message that was not received.
    :param invisible_ms: how long it is invisible to others; None for a message that was not received.
    """
    properties = stored.properties
    body = stored.body
    head = stored.head
    system = SystemProperties(
        tag=properties.get(Property.TAGS), keys=properties.get(Property.KEYS, "").split(),
        message_id=properties.get(Property.UNIQUE_KEY) or stored.offset_msg_id,
        body_digest=Digest(type=DigestType.MD5, checksum=hashlib.md5(body, usedforsecurity=False).hexdigest().upper()),
        body_encoding=Encoding.GZIP if head.sys_flag & COMPRESSED else Encoding.IDENTITY,
        message_type=type_of(properties),
        born_timestamp=Timestamp.of_ms(head.born_timestamp),
        born_host=properties.get(BORN_HOST) or stored.born_host,
        store_timestamp=Timestamp.of_ms(head.store_timestamp), store_host=stored.store_host,
        delivery_timestamp=_timestamp(properties.get(Property.TIMER_DELIVER_MS)),
        receipt_handle=handle, queue_id=head.queue_id, queue_offset=stored.queue_offset,
        invisible_duration=None if invisible_ms is None else Duration.of_ms(invisible_ms),
        delivery_attempt=stored.reconsume_times + 1,
        message_group=properties.get(Property.SHARDING_KEY), trace_context=properties.get(TRACE_CONTEXT),
        orphaned_transaction_recovery_duration=_seconds(properties.get(Property.CHECK_IMMUNITY_TIME)),
        dead_letter_queue=_dead_letter(properties), lite_topic=properties.get(LITE_TOPIC),
        priority=_number(properties.get(Property.PRIORITY)),
    )  # fmt: skip
    own = {name: value for name, value in properties.items() if name not in RESERVED}
    return Message(topic=Resource(name=topic), user_properties=own, system_properties=system, body=body)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _timestamp(text: str | None) -> Timestamp | None:
    number = _number(text)
    return None if number is None else Timestamp.of_ms(number)


def _seconds(text: str | None) -> Duration | None:
    number = _number(text)
    return None if number is None else Duration(seconds=number)


def _dead_letter(properties: Mapping[str, str]) -> DeadLetterQueue | None:
    topic, message_id = properties.get(Property.DLQ_ORIGIN_TOPIC), properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
    return None if not topic or not message_id else DeadLetterQueue(topic=topic, message_id=message_id)
