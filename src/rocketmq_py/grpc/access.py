"""Signatures of calls, and what their users may do: the same users and permissions as for remoting."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketmq_py.core.access.permissions import (
    Action,
    RequiredPermission,
    group as group_resource,
    topic as topic_resource,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.grpc.call import Call

_AUTHORIZATION = re.compile(r"(?:^|[\s,])(Credential|Signature)=([^,\s]*)")


def needed(topics: Iterable[str], group: str, actions: tuple[Action, ...]) -> list[RequiredPermission]:
    """Return the permissions of a call that needs one of ``actions`` for each of the topics and for the group."""
    wanted = [RequiredPermission(topic_resource(name), actions) for name in topics if name]
    if group:
        wanted.append(RequiredPermission(group_resource(group), actions))
    return wanted


def check_signed(access: AuthDispatcher, call: Call, code: RequestCode, wanted: list[RequiredPermission]) -> None:
    """Check the signature of a call, and that its user has the permissions.

    :param code: the request of remoting that does the same.
    :raises CallRefused: UNAUTHORIZED.
    """
    found = dict(_AUTHORIZATION.findall(call.header(b"authorization")))
    name = found.get("Credential", "").partition("/")[0]
    date = call.metadata.get(b"x-mq-date-time", b"")
    why = access.denial_of_signed(call.peer, code, name, date, found.get("Signature", ""), wanted)
    if why is not None:
        raise CallRefused(Code.UNAUTHORIZED, why)
