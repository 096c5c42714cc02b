"""Limits for the JSON bodies of requests, so that decoding one holds the event loop for a bounded time."""

from __future__ import annotations

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.fastjson import is_strict

MIB = 1024 * 1024

BODY_LIMITS = {
    **dict.fromkeys(
        (Code.HEART_BEAT, Code.CHECK_CLIENT_CONFIG, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.QUERY_ASSIGNMENT,
         Code.BATCH_ACK_MESSAGE, Code.SET_MESSAGE_REQUEST_MODE, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
         Code.UPDATE_BROKER_CONFIG, Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_CREATE_ACL,
         Code.AUTH_UPDATE_ACL),
        MIB,
    ),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: 4 * MIB,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: 4 * MIB,
}  # fmt: skip
"""Maximum body size in bytes by request code. Lists of topics and groups come from administrators and may be longer."""


DIALECT_LIMIT = 128 * 1024
"""Maximum size in bytes of a JSON body in fastjson's dialect.

Such a body is decoded character by character: 128 KiB take some 60 ms.
"""
_NOT_JSON = frozenset({Code.UPDATE_BROKER_CONFIG})


def body_fault(code: int, body: bytes) -> str | None:
    """Return an error message if a body is too long for its request, otherwise None."""
    limit = BODY_LIMITS.get(code)  # type: ignore[call-overload]
    if limit is None or len(body) <= DIALECT_LIMIT:
        return None
    said = f"the body of request {Code(code).name} has {len(body)} bytes"
    if len(body) > limit:
        return f"{said}: at most {limit} are possible"
    if code not in _NOT_JSON and not is_strict(body):
        return f"{said} and is not standard JSON: at most {DIALECT_LIMIT} are possible then"
    return None


def checked(code: int, body: bytes) -> bytes:
    """Return the body if it is short enough to be decoded.

    :raises BrokerError: INVALID_PARAMETER, it is too long.
    """
    fault = body_fault(code, body)
    if fault is not None:
        raise BrokerError.of(ResponseCode.INVALID_PARAMETER, fault)
    return body
