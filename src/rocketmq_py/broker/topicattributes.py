"""Topic attributes: which there are, which values they take, and what a request to change them leaves.

Knows the rules of TopicAttributes and AttributeUtil. A kind of topic this broker cannot store is refused in words.
"""

from __future__ import annotations

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import ResponseCode as Code

_MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION")
_VALUES: dict[str, tuple[str, ...]] = {
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    "message.type": _MESSAGE_TYPES,
    "reserve.time": (),
}
_ELSEWHERE = {"queue.type": ("BatchCQ",), "cleanup.policy": ("COMPACTION",)}
_IMMUTABLE = ("queue.type", "cleanup.policy")


def alter(current: dict[str, str] | None, change: str | None) -> dict[str, str]:
    """The attributes after a change such as ``+message.type=FIFO,-reserve.time``.

    :param current: attributes of the topic as it is; None when it is new.
    :raises BrokerError: an unknown attribute, a value it cannot take, or one that cannot be changed any more.
    """
    attributes = dict(current or {})
    for entry in filter(None, (part.strip() for part in (change or "").split(","))):
        sign, (name, _, value) = entry[0], entry[1:].partition("=")
        if sign not in "+-":
            raise _refused(f"attribute change {entry!r} must begin with + or -")
        if name not in _VALUES:
            raise _refused(f"unsupported key: {name}")
        if current is not None and name in _IMMUTABLE and (sign == "-" or attributes.get(name) != value):
            raise _refused(f"attempt to update unchangeable attribute: {name}")
        if sign == "-":
            attributes.pop(name, None)
        else:
            attributes[name] = _checked(name, value)
    return attributes


def _checked(name: str, value: str) -> str:
    if value in _ELSEWHERE.get(name, ()):
        raise _refused(f"{name}={value} is not supported by this broker; supported: {', '.join(_VALUES[name])}")
    if name == "message.type" and value == "MIXED":
        raise BrokerError.of(Code.INVALID_PARAMETER, "MIXED message type is not supported.")
    if (_VALUES[name] and value not in _VALUES[name]) or (name == "reserve.time" and not value.lstrip("-").isdecimal()):
        raise _refused(f"value of {name} is not valid: {value}")
    return value


def _refused(why: str) -> BrokerError:
    return BrokerError.of(Code.SYSTEM_ERROR, why)
