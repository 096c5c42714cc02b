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
_DELAYS = frozenset((
    Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS,
))  # fmt: skip
_TYPE_NAMES = {kind.name: kind for kind in MessageType}
# A look-up in an enumeration takes ten times as long as one of a constant.
_NORMAL, _TRANSACTION = MessageType.NORMAL, MessageType.TRANSACTION
_IDENTITY, _GZIP = Encoding.IDENTITY, Encoding.GZIP
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


def _has_control(text: str) -> bool:
    """Return whether a text has control characters."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def _check_system(system: SystemProperties, now_ms: int) -> None:
    if system.tag and (not system.tag.strip() or "|" in system.tag or _has_control(system.tag)):
        raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, "a tag is not blank and has neither | nor control characters")
    for key in system.keys:
        if not key.strip() or _has_control(key):
            raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, "a key is not blank and has no control characters")
    if not system.message_id.strip() or _has_control(system.message_id):
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be null or blank")
    group = system.message_group
    if group is not None and (not group.strip() or len(group.encode()) >= MAX_GROUP_BYTES or _has_control(group)):
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
        if text and _has_control(text):
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "a property has a control character")


def _check_user(properties: Mapping[str, str], system: SystemProperties) -> None:
    if len(properties) > MAX_PROPERTIES:
        text = f"{len(properties)} properties are too many: at most {MAX_PROPERTIES} are possible"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size = len((system.tag or "").encode()) + sum(len(key.encode()) for key in system.keys)
    for name, value in properties.items():
        if name in RESERVED:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} is used by the system")
        if _has_control(name) or _has_control(value):
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
    properties = {name: value for name, value in message.user_properties.items() if name and value}
    if system.tag:
        properties[Property.TAGS] = system.tag
    if system.keys:
        properties[Property.KEYS] = " ".join(system.keys)
    if system.message_id:
        properties[Property.UNIQUE_KEY] = system.message_id
    if system.message_type == _TRANSACTION:
        _add_transaction(properties, system)
    if system.delivery_timestamp is not None:
        properties[Property.TIMER_DELIVER_MS] = str(system.delivery_timestamp.ms)
    if system.delivery_attempt:
        properties[Property.RECONSUME_TIME] = str(system.delivery_attempt)
    _add_optional(properties, system)
    if system.born_timestamp is not None:
        properties[BORN_TIMESTAMP] = str(system.born_timestamp.ms)
    properties[Property.PRODUCER_GROUP] = topic
    properties[BORN_HOST] = system.born_host or born_host
    return properties


def _add_transaction(properties: dict[str, str], system: SystemProperties) -> None:
    properties[Property.TRANSACTION_PREPARED] = "true"
    recovery = system.orphaned_transaction_recovery_duration
    if recovery is not None:
        properties[Property.CHECK_IMMUNITY_TIME] = str(recovery.ms // 1000)


def _add_optional(properties: dict[str, str], system: SystemProperties) -> None:
    if system.message_group:
        properties[Property.SHARDING_KEY] = system.message_group
    if system.priority is not None and system.priority >= 0:
        properties[Property.PRIORITY] = str(system.priority)
    if system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context


def type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message from its properties."""
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return _TRANSACTION
    if not _DELAYS.isdisjoint(properties):
        return MessageType.DELAY
    if Property.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.PRIORITY if Property.PRIORITY in properties else _NORMAL


def is_zlib(encoding: int) -> bool:
    """Return whether a body is compressed, which its flags have to say.

    :raises CallRefused: the encoding is unknown, so no consumer could read it.
    """
    if encoding not in (0, _IDENTITY, _GZIP):
        raise CallRefused(Code.MESSAGE_CORRUPTED, f"the body encoding {encoding} is unknown")
    return encoding == _GZIP
