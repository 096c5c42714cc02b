"""QueryRoute and QueryAssignment."""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import topic_types
from rocketmq_py.grpc.cluster import Access, Groups, Locator, Place, Places
from rocketmq_py.grpc.replies import group_name, topic_name
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Assignment, MessageQueue
from rocketmq_py.protocol.grpc.enums import Code, Permission
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    StatusResponse,
)
from rocketmq_py.protocol.sys_flag import PERM_READ, PERM_WRITE
from rocketmq_py.server.grpc.call import Call

_ANY_QUEUE = -1


class Routes:
    """Tells clients the queues of topics."""

    def __init__(self, access: Access, groups: Groups, locator: Locator) -> None:
        self._access = access
        self._groups = groups
        self._locator = locator

    def query_route(self, call: Call, request: QueryRouteRequest) -> None:
        """Answer with the queues of a topic."""
        name = topic_name(request.topic)
        self._access.check(call, RequestCode.GET_ROUTEINFO_BY_TOPIC, (Action.PUB, Action.SUB), topic=name)

        def answer(found: Places) -> None:
            types = [int(one) for one in topic_types(found.message_type)]
            queues = [
                MessageQueue(
                    topic=request.topic, id=number, permission=permission, broker=place.broker,
                    accept_message_types=types,
                )
                for place in found.places
                for number, permission in enumerate(_permissions(place))
            ]  # fmt: skip
            call.answer(QueryRouteResponse(status=OK, message_queues=queues).encode())

        self._locator.find(call, name, request.endpoints, answer, is_assignment=False)

    def query_assignment(self, call: Call, request: QueryAssignmentRequest) -> None:
        """Answer with the queues that a push consumer receives from.

        These are all queues of a broker together, or each queue if the messages of the group are consumed in order.
        """
        name, group = topic_name(request.topic), group_name(request.group)
        self._access.check(call, RequestCode.QUERY_ASSIGNMENT, (Action.SUB,), topic=name, group=group)
        config = self._groups.get(group)
        is_orderly = config is not None and config.consume_message_orderly

        def answer(found: Places) -> None:
            readable = [place for place in found.places if place.perm & PERM_READ and place.reads > 0]
            if not readable:
                text = f"no readable queue: topic {name} may not be read"
                call.answer(StatusResponse(status=CallRefused(Code.FORBIDDEN, text).status()).encode())
                return
            assignments = [
                Assignment(message_queue=MessageQueue(
                    topic=request.topic, id=number, permission=Permission.READ, broker=place.broker
                ))
                for place in readable
                for number in (range(place.reads) if is_orderly else (_ANY_QUEUE,))
            ]  # fmt: skip
            call.answer(QueryAssignmentResponse(status=OK, assignments=assignments).encode())

        self._locator.find(call, name, request.endpoints, answer, is_assignment=True)


def _permissions(place: Place) -> Iterator[Permission]:
    """Yield the permission of each queue: those for reading only, those for writing only, and those for both."""
    reads = place.reads if place.perm & PERM_READ else 0
    writes = place.writes if place.perm & PERM_WRITE else 0
    both = min(reads, writes)
    yield from [Permission.READ] * (reads - both)
    yield from [Permission.WRITE] * (writes - both)
    yield from [Permission.READ_WRITE] * both
    if not reads and not writes:
        yield Permission.NONE
