"""Replies to requests that fail or are refused.

Maps this package's errors to Java's response codes. An unexpected error is logged once, with its traceback, and the
remark of the reply has its class and message, as a Java server's has.
"""

from __future__ import annotations

import logging

from rocketmq_py.errors import (
    BadHeader,
    BrokerError,
    IndexRebuilding,
    MessageIllegal,
    QueueRebuilding,
    StoreNotWritable,
)
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.server.reply import Reply

log = logging.getLogger(__name__)

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECT = "[REJECTREQUEST]system busy, start flow control for a while"


def unsupported(code: int) -> Reply:
    """Return the reply to a request code without a handler, with Java's remark."""
    return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")


def overloaded() -> Reply:
    """Return the reply (SYSTEM_BUSY) to a request whose lane is full, with Java's remark."""
    return Reply(ResponseCode.SYSTEM_BUSY, OVERLOAD)


def rejected() -> Reply:
    """Return the reply (SYSTEM_BUSY) of a broker that does not serve such requests, so that clients try another."""
    return Reply(ResponseCode.SYSTEM_BUSY, REJECT)


def failure(error: Exception, what: str, address: str) -> Reply:
    """Return the reply to a request that failed with ``error``.

    :param what: the request, for the log.
    :param address: the client's address, for the log.
    """
    if isinstance(error, BrokerError):
        return Reply(error.code, error.remark)
    if isinstance(error, MessageIllegal):
        return Reply(ResponseCode.MESSAGE_ILLEGAL, str(error))
    if isinstance(error, StoreNotWritable):
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    if isinstance(error, QueueRebuilding | IndexRebuilding):
        return Reply(ResponseCode.SYSTEM_BUSY, str(error))
    if isinstance(error, BadHeader):
        return Reply(ResponseCode.SYSTEM_ERROR, str(error))
    log.error("%s of %s failed", what, address, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
