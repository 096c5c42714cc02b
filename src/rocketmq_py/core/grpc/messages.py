"""Checks of messages that clients send by gRPC, and the properties with which they are stored.

Rules and codes are those of Apache RocketMQ's proxy (SendMessageActivity, GrpcValidator).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rocketmq_py.properties import SYSTEM_PROPERTIES, Property
from rocketmq_py.protocol.grpc.definition import Message, SystemProperties
from rocketmq_py.protocol.grpc.enums import Code, Encoding, MessageType
from rocketmq_py.protocol.grpc.refusal import CallRefused

MAX_PROPERTIES = 128
MAX_PROPERTIES_BYTES = 16 * 1024
MAX_GROUP_BYTES = 64
MAX_DELAY_MS = 24 * 3_600_000
MAX_RECOVERY_MS = 3_600_000

TRACE_CONTEXT = "__TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
LITE_TOPIC = "__LITE_TOPIC"

RESERVED = frozenset(SYSTEM_PROPERTIES | {TRACE_CONTEXT, LITE_TOPIC}) - {Property.TIMER_DEL_UNIQKEY}
"""Names that the properties of applications may not have; on the way out they are left out of them."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TYPE_NAMES = {kind.name: kind for kind in MessageType}
MIXED_TYPES = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)


def topic_types(attribute: str | None) -> Sequence[MessageType]:
    """Return the types of messages that a topic takes.

    :param attribute: the topic's attribute ``message.type``; None for a topic without it.
    """
    if attribute == "MIXED":
        return MIXED_TYPES
    return (_TYPE_NAMES.get(attribute or "NORMAL", MessageType.UNSPECIFIED),)


def check_message(message: Message, max_body: int, now_ms: int) -> None:
    """Check one message of a send.

    :param max_body: limit of the body, in bytes.
    :param now_ms: the time, in milliseconds since the epoch.
    :raises CallRefused: the message is not accepted.
    """
    if not message.body:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(message.body) > max_body:
        raise CallRefused(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body has {len(message.body)} bytes, at most {max_body} are possible"
        )
    system = message.system_properties or SystemProperties()
    _check_system(system, now_ms)
    _check_user(message.user_properties, system)


def _check_system(system: SystemProperties, now_ms: int) -> None:
    if system.tag and (not system.tag.strip() or "|" in system.tag or _CONTROL.search(system.tag)):
        raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, "a tag is not blank and has neither | nor control characters")
    for key in system.keys:
        if not key.strip() or _CONTROL.search(key):
            raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, "a key is not blank and has no control characters")
    if not system.message_id.strip() or _CONTROL.search(system.message_id):
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be null or blank")
    group = system.message_group
    if group is not None and (not group.strip() or len(group.encode()) >= MAX_GROUP_BYTES or _CONTROL.search(group)):
        raise CallRefused(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"a message group is not blank, has less than {MAX_GROUP_BYTES} bytes and no control characters",
        )
    if system.delivery_timestamp is not None and system.delivery_timestamp.ms - now_ms > MAX_DELAY_MS:
        raise CallRefused(Code.ILLEGAL_DELIVERY_TIME, f"the max delay time of message is {MAX_DELAY_MS} ms")
    recovery = system.orphaned_transaction_recovery_duration
    if recovery is not None and recovery.ms > MAX_RECOVERY_MS:
        raise CallRefused(Code.BAD_REQUEST, f"the max transaction recovery duration is {MAX_RECOVERY_MS} ms")
    for text in (system.trace_context, system.born_host, system.lite_topic):
        if text and _CONTROL.search(text):
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "a property has a control character")


def _check_user(properties: Mapping[str, str], system: SystemProperties) -> None:
    if len(properties) > MAX_PROPERTIES:
        text = f"{len(properties)} properties are too many: at most {MAX_PROPERTIES} are possible"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size = len((system.tag or "").encode()) + sum(len(key.encode()) for key in system.keys)
    for name, value in properties.items():
        if name in RESERVED:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} is used by the system")
        if _CONTROL.search(name) or _CONTROL.search(value):
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "a property has a control character")
        size += len(name.encode()) + len(value.encode())
    if size > MAX_PROPERTIES_BYTES:
        text = f"the properties have {size} bytes: at most {MAX_PROPERTIES_BYTES} are possible"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)


def stored_properties(message: Message, topic: str, born_host: str) -> dict[str, str]:
    """Return the properties with which a checked message is stored.

    :param topic: its topic, which is also its producer group.
    :param born_host: ``ip:port`` of the client, if the message does not name a host.
    """
    system = message.system_properties or SystemProperties()
    properties = dict(message.user_properties)
    if system.tag:
        properties[Property.TAGS] = system.tag
    if system.keys:
        properties[Property.KEYS] = " ".join(system.keys)
    properties |= _system_properties(system)
    properties[Property.PRODUCER_GROUP] = topic
    properties[BORN_HOST] = system.born_host or born_host
    return {name: value for name, value in properties.items() if name and value}


def _system_properties(system: SystemProperties) -> dict[str, str]:
    """Return properties by name; those that the message does not have are empty."""
    is_prepared = system.message_type == MessageType.TRANSACTION
    recovery = system.orphaned_transaction_recovery_duration if is_prepared else None
    delivery, born, priority = system.delivery_timestamp, system.born_timestamp, system.priority
    return {
        Property.UNIQUE_KEY: system.message_id,
        Property.TRANSACTION_PREPARED: "true" if is_prepared else "",
        Property.CHECK_IMMUNITY_TIME: str(recovery.ms // 1000) if recovery is not None else "",
        Property.TIMER_DELIVER_MS: str(delivery.ms) if delivery is not None else "",
        Property.RECONSUME_TIME: str(system.delivery_attempt) if system.delivery_attempt else "",
        Property.SHARDING_KEY: system.message_group or "",
        Property.PRIORITY: str(priority) if priority is not None and priority >= 0 else "",
        TRACE_CONTEXT: system.trace_context or "",
        BORN_TIMESTAMP: str(born.ms) if born is not None else "",
    }


def type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message from its properties."""
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    delays = (Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS)
    if any(name in properties for name in delays):
        return MessageType.DELAY
    if Property.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.PRIORITY if Property.PRIORITY in properties else MessageType.NORMAL


def is_zlib(encoding: int) -> bool:
    """Return whether a body is compressed, which its flags have to say.

    :raises CallRefused: the encoding is unknown, so no consumer could read it.
    """
    if encoding not in (0, Encoding.IDENTITY, Encoding.GZIP):
        raise CallRefused(Code.MESSAGE_CORRUPTED, f"the body encoding {encoding} is unknown")
    return encoding == Encoding.GZIP
