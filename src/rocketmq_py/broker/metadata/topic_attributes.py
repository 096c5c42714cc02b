"""Topic attributes: their names, their values, and the effect of changes.

Rules and remarks are Apache RocketMQ's (TopicAttributes, AttributeParser, AttributeUtil). Values this broker cannot
store are refused with remarks of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.names import MESSAGE_TYPE

MIXED = "MIXED"
PRIORITY = "PRIORITY"

_VALUES: dict[str, tuple[str, ...]] = {
    "queue.type": ("BatchCQ", "SimpleCQ"),
    "cleanup.policy": ("COMPACTION", "DELETE"),
    MESSAGE_TYPE: ("UNSPECIFIED", MIXED, "TRANSACTION", PRIORITY, "FIFO", "DELAY", "LITE", "NORMAL"),
}
"""Values of each attribute that Java brokers accept, in the order in which they list them."""
_ELSEWHERE = {
    "cleanup.policy": ("COMPACTION",),
    MESSAGE_TYPE: ("LITE",),
}
_QUEUE_TYPE = "queue.type"
_BATCH_QUEUE = "BatchCQ"
_RESERVE_TIME = "reserve.time"
BATCHED = {_QUEUE_TYPE: _BATCH_QUEUE}
"""Attributes of a topic with batch consume queues."""
_FIXED = ("queue.type", "cleanup.policy")
_LARGEST = 2**63 - 1
_NUMBER = re.compile(r"-?[0-9]{1,19}")

Changes = Mapping[str, str]
"""Values by attribute name, prefixed with ``+`` (set) or ``-`` (remove)."""


def parse_changes(text: str | None) -> dict[str, str]:
    """Parse changes such as ``+message.type=FIFO,-reserve.time``.

    :raises BrokerError: the text is malformed, or names an attribute twice.
    """
    changes: dict[str, str] = {}
    for entry in filter(None, (text or "").split(",")):
        key, separator, value = entry.partition("=")
        if separator and "+" not in key:
            raise _refused(f"add/alter attribute format is wrong: {key}")
        if not separator and "-" not in key:
            raise _refused(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _refused(f"key duplication: {key}")
        changes[key] = value
    return changes


def has_batch_queues(attributes: Mapping[str, str]) -> bool:
    """True if a topic has batch consume queues, which store a batch as one record."""
    return attributes.get(_QUEUE_TYPE) == _BATCH_QUEUE


def refuse_mixed(changes: Changes, *, allowed: bool) -> None:
    """Refuse the message type MIXED, unless ``enableMixedMessageType`` allows it.

    :raises BrokerError: INVALID_PARAMETER.
    """
    if not allowed and changes.get(f"+{MESSAGE_TYPE}") == MIXED:
        raise BrokerError.of(Code.INVALID_PARAMETER, "MIXED message type is not supported.")


def alter(current: Mapping[str, str] | None, changes: Changes) -> dict[str, str]:
    """Return a topic's attributes after changes.

    :param current: the topic's attributes; None for a new topic.
    :raises BrokerError: an unknown attribute, an illegal value, or an attribute that cannot be changed.
    """
    _check_keys(changes)
    attributes = dict(current or {})
    for key, value in changes.items():
        sign, name = key[0], key[1:]
        if current is None and sign != "+":
            raise _refused(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in "+-":
            raise _refused(f"wrong format key: {name}")
        if sign == "-" and name not in attributes:
            raise _refused(f"attempt to delete a nonexistent key: {name}")
        if name not in _VALUES and name != _RESERVE_TIME:
            raise _refused(f"unsupported key: {name}")
        if current is not None and name in _FIXED:
            raise _refused(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            del attributes[name]
        else:
            attributes[name] = _checked(name, value)
    return attributes


def _check_keys(keys: Iterable[str]) -> None:
    names = [key[1:] for key in keys]
    if any(not name or "+" in name or "-" in name for name in names):
        raise _refused("kv string format wrong.")
    for name in names:
        if names.count(name) > 1:
            raise _refused(f"alter duplication key. key: {name}")


def _checked(name: str, value: str) -> str:
    if name == _RESERVE_TIME:
        if _NUMBER.fullmatch(value) is None or not -1 <= int(value) <= _LARGEST:
            raise _refused(f"value is not in range(-1, {_LARGEST})")
        return value
    if value not in _VALUES[name]:
        raise _refused(f"value is not in set: [{', '.join(_VALUES[name])}]")
    if value in _ELSEWHERE.get(name, ()):
        here = [other for other in _VALUES[name] if other not in _ELSEWHERE[name]]
        raise _refused(f"{name}={value} is not supported by this broker; supported: {', '.join(here)}")
    return value


def _refused(why: str) -> BrokerError:
    return BrokerError.of(Code.SYSTEM_ERROR, why)
