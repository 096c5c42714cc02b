"""Message types, and whether a topic accepts them; Java leaves this check to its proxy.

Rules and remarks are Apache RocketMQ's (TopicMessageType, DefaultTopicMessageTypeValidator).
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.broker.metadata.topic_attributes import MIXED, PRIORITY
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import MESSAGE_TYPE

_INT_DIGITS = 11
_DELAYS = (Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS)


def message_type(properties: Mapping[str, str]) -> str:
    """Return the type of a message from its properties: TRANSACTION, DELAY, FIFO, PRIORITY or NORMAL."""
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return "TRANSACTION"
    if any(name in properties for name in _DELAYS):
        return "DELAY"
    if Property.SHARDING_KEY in properties:
        return "FIFO"
    return PRIORITY if Property.PRIORITY in properties else "NORMAL"


def priority(properties: Mapping[str, str]) -> int | None:
    """Return the priority of a message, 0 or more; None if it is missing, malformed or too large for Java's ``int``."""
    text = properties.get(Property.PRIORITY, "")
    number = int(text) if len(text) <= _INT_DIGITS and text.removeprefix("+").isdecimal() else -1
    return number if 0 <= number < 2**31 else None


def has_priorities(topic: TopicConfig) -> bool:
    """True if pops of a topic read messages of a high priority first (``message.type`` is PRIORITY)."""
    return topic.attributes.get(MESSAGE_TYPE) == PRIORITY


def type_fault(topic: TopicConfig, properties: Mapping[str, str]) -> str | None:
    """Return an error message if a topic does not accept a message's type, otherwise None.

    A topic without ``message.type`` accepts normal messages only; retry and dead-letter topics accept every type.
    """
    wanted = topic.attributes.get(MESSAGE_TYPE, "NORMAL")
    if wanted == MIXED or topic.topic_name.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
        return None
    found = message_type(properties)
    if found == wanted:
        return None
    return f"TopicMessageType validate failed, the expected type is {wanted}, but actual type is {found}"
