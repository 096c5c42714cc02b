"""Replies of handlers as statuses of gRPC."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.core.grpc.tables import code_of
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import Resource, Status
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import StatusResponse
from rocketmq_py.protocol.names import topic_fault
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.reply import Reply

_log = logging.getLogger(__name__)

_SUCCESS = ResponseCode.SUCCESS


def status_of(reply: Reply) -> Status:
    """Return the status for the reply of a handler."""
    if reply.code == _SUCCESS:
        return OK
    return Status(code=code_of(reply.code), message=reply.remark or f"response code {reply.code}")


def common_status(statuses: list[Status]) -> Status:
    """Return the status of a response whose entries have these: theirs if all are alike."""
    codes = {status.code for status in statuses}
    if len(codes) == 1:
        return statuses[0]
    return Status(code=Code.MULTIPLE_RESULTS, message="the entries have different results")


def topic_name(resource: Resource | None) -> str:
    """Return the name of the topic of a request.

    :raises CallRefused: it is missing or illegal.
    """
    name = resource.name if resource is not None else ""
    fault = topic_fault(name)
    if fault is not None:
        raise CallRefused(Code.ILLEGAL_TOPIC, fault)
    return name


def group_name(resource: Resource | None) -> str:
    """Return the name of the consumer group of a request.

    :raises CallRefused: it is missing or illegal.
    """
    name = resource.name if resource is not None else ""
    fault = topic_fault(name)
    if fault is not None:
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, fault.replace("topic", "group"))
    return name


def refuse(call: Call, why: CallRefused) -> None:
    """Answer a call with the status of a refusal."""
    call.answer(StatusResponse(status=why.status()).encode())


def guarded(work: Callable[[], None], refuse: Callable[[CallRefused], None]) -> None:
    """Do a part of a call for which its client waits; what is refused, and any fault, goes to ``refuse``."""
    try:
        work()
    except CallRefused as e:
        refuse(e)
    except Exception:  # noqa: BLE001 - the client waits for an answer
        _log.exception("a call failed")
        refuse(CallRefused(Code.INTERNAL_SERVER_ERROR, "the server failed; its log says why"))
