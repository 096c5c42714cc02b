"""QueryRoute and QueryAssignment."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.other_masters import Elsewhere, OtherMasters
from rocketmq_py.broker.grpc.replies import group_name, topic_name
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_readable, is_writable
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import topic_types
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Address, Assignment, Broker, Endpoints, MessageQueue
from rocketmq_py.protocol.grpc.enums import AddressScheme, Code, Permission
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    StatusResponse,
)
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.protobuf import ProtoMessage

_ANY_QUEUE = -1


class _Place(NamedTuple):
    """A topic at one broker."""

    broker: Broker
    perm: int
    reads: int
    writes: int


class Routes:
    """Tells clients the queues of topics, at this broker and at other masters that serve gRPC.

    :param new_topic: returns what a topic that does not exist will be when a message is sent to it; None if it stays
        unknown.
    :param address: returns host and port of this broker for clients.
    """

    def __init__(
        self, access: CallAccess, topics: TopicConfigs, groups: SubscriptionGroups, broker_name: str,
        new_topic: Callable[[str], TopicConfig | None], address: Callable[[], tuple[str, int]], others: OtherMasters,
    ) -> None:  # fmt: skip
        self._access = access
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name
        self._new_topic = new_topic
        self._address = address
        self._others = others

    def query_route(self, call: Call, request: QueryRouteRequest) -> None:
        """Answer with the queues of a topic."""
        name = topic_name(request.topic)
        self._access.check(call, RequestCode.GET_ROUTEINFO_BY_TOPIC, (Action.PUB, Action.SUB), topic=name)

        def answer(elsewhere: Elsewhere) -> ProtoMessage:
            places, topic = self._places(name, elsewhere, self._own_endpoints(request.endpoints))
            kind = elsewhere.message_type if topic is None else topic.attributes.get(MESSAGE_TYPE)
            types = [int(one) for one in topic_types(kind)]
            queues = [
                MessageQueue(
                    topic=request.topic, id=number, permission=permission, broker=place.broker,
                    accept_message_types=types,
                )
                for place in places
                for number, permission in enumerate(_permissions(place))
            ]  # fmt: skip
            return QueryRouteResponse(status=OK, message_queues=queues)

        self._others.look_up(name, partial(_answer, call, answer))

    def query_assignment(self, call: Call, request: QueryAssignmentRequest) -> None:
        """Answer with the queues that a push consumer receives from.

        These are all queues of a broker together, or each queue if the messages of the group are consumed in order.

        Routes are asked for at the client's endpoint. Assignments are asked for at any broker of the route, but name
        the client's endpoint, too: with several masters it is this broker's address only if the call has come there.
        """
        name, group = topic_name(request.topic), group_name(request.group)
        self._access.check(call, RequestCode.QUERY_ASSIGNMENT, (Action.SUB,), topic=name, group=group)
        config = self._groups.get(group)
        is_orderly = config is not None and config.consume_message_orderly

        def answer(elsewhere: Elsewhere) -> ProtoMessage:
            is_here = not elsewhere.masters or _has_reached(call, request.endpoints)
            places, _ = self._places(name, elsewhere, self._own_endpoints(request.endpoints if is_here else None))
            readable = [place for place in places if is_readable(place.perm) and place.reads > 0]
            if not readable:
                raise CallRefused(Code.FORBIDDEN, f"no readable queue: topic {name} may not be read")
            assignments = [
                Assignment(message_queue=MessageQueue(
                    topic=request.topic, id=number, permission=Permission.READ, broker=place.broker
                ))
                for place in readable
                for number in (range(place.reads) if is_orderly else (_ANY_QUEUE,))
            ]  # fmt: skip
            return QueryAssignmentResponse(status=OK, assignments=assignments)

        self._others.look_up(name, partial(_answer, call, answer))

    def _places(
        self, name: str, elsewhere: Elsewhere, own_endpoints: Endpoints
    ) -> tuple[list[_Place], TopicConfig | None]:
        """Return the brokers of a topic by name, and the topic at this broker; None if it is at others only.

        :raises CallRefused: TOPIC_NOT_FOUND.
        """
        topic = self._topics.get(name)
        if topic is None and not elsewhere.masters:
            topic = self._new_topic(name)
            if topic is None:
                raise CallRefused(Code.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        places = [
            _Place(_broker(other.name, _endpoints(other.host, other.port)), queues.perm, queues.read_queue_nums,
                   queues.write_queue_nums)
            for other in elsewhere.masters
            for queues in (other.queues,)
        ]  # fmt: skip
        if topic is not None:
            own = _broker(self._broker_name, own_endpoints)
            places.append(_Place(own, topic.perm, topic.read_queue_nums, topic.write_queue_nums))
        return sorted(places, key=lambda place: place.broker.name), topic

    def _own_endpoints(self, endpoints: Endpoints | None) -> Endpoints:
        """Return the address that the client has used, if it names one only: there it reaches this broker.

        A client that names several does not say which one this broker is, so it gets the registered address.
        """
        if endpoints is None or len(endpoints.addresses) != 1:
            return _endpoints(*self._address())
        return endpoints


def _answer(call: Call, answer: Callable[[Elsewhere], ProtoMessage], elsewhere: Elsewhere) -> None:
    try:
        response = answer(elsewhere)
    except CallRefused as e:
        response = StatusResponse(status=e.status())
    call.answer(response.encode())


def _has_reached(call: Call, endpoints: Endpoints | None) -> bool:
    """Return True if a call was made to the only address that its request names."""
    if endpoints is None or len(endpoints.addresses) != 1:
        return False
    [address] = endpoints.addresses
    host = f"[{address.host}]" if endpoints.scheme == AddressScheme.IPV6 else address.host
    return call.header(b":authority") == f"{host}:{address.port}"


def _permissions(place: _Place) -> Iterator[Permission]:
    """Yield the permission of each queue: those for reading only, those for writing only, and those for both."""
    reads = place.reads if is_readable(place.perm) else 0
    writes = place.writes if is_writable(place.perm) else 0
    both = min(reads, writes)
    yield from [Permission.READ] * (reads - both)
    yield from [Permission.WRITE] * (writes - both)
    yield from [Permission.READ_WRITE] * both
    if not reads and not writes:
        yield Permission.NONE


def _broker(name: str, endpoints: Endpoints) -> Broker:
    return Broker(name=name, id=MASTER_ID, endpoints=endpoints)


def _endpoints(host: str, port: int) -> Endpoints:
    return Endpoints(scheme=_scheme(host), addresses=[Address(host=host, port=port)])


def _scheme(host: str) -> AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPV4 if version == 4 else AddressScheme.IPV6
