"""QueryRoute and QueryAssignment."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.replies import group_name, topic_name
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topic_attributes import MESSAGE_TYPE
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_readable, is_writable
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import topic_types
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
)
from rocketmq_py.server.grpc.call import Call

_ANY_QUEUE = -1


class Routes:
    """Tells clients the queues of topics at this broker.

    :param new_topic: returns what a topic that does not exist will be when a message is sent to it; None if it stays
        unknown.
    :param address: returns host and port of this broker for clients.
    """

    def __init__(
        self, access: CallAccess, topics: TopicConfigs, groups: SubscriptionGroups, broker_name: str,
        new_topic: Callable[[str], TopicConfig | None], address: Callable[[], tuple[str, int]],
    ) -> None:  # fmt: skip
        self._access = access
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name
        self._new_topic = new_topic
        self._address = address

    def query_route(self, call: Call, request: QueryRouteRequest) -> None:
        """Answer with the queues of a topic."""
        name = topic_name(request.topic)
        self._access.check(call, RequestCode.GET_ROUTEINFO_BY_TOPIC, (Action.PUB, Action.SUB), topic=name)
        topic = self._topic(name)
        broker = self._broker(request.endpoints)
        types = [int(kind) for kind in topic_types(topic.attributes.get(MESSAGE_TYPE))]
        queues = [
            MessageQueue(
                topic=request.topic, id=number, permission=permission, broker=broker, accept_message_types=types
            )
            for number, permission in enumerate(_permissions(topic))
        ]
        call.answer(QueryRouteResponse(status=OK, message_queues=queues).encode())

    def query_assignment(self, call: Call, request: QueryAssignmentRequest) -> None:
        """Answer with the queues that a push consumer receives from: all together, or each if the group is in order."""
        name, group = topic_name(request.topic), group_name(request.group)
        self._access.check(call, RequestCode.QUERY_ASSIGNMENT, (Action.SUB,), topic=name, group=group)
        topic = self._topic(name)
        if not is_readable(topic.perm) or topic.read_queue_nums <= 0:
            raise CallRefused(Code.FORBIDDEN, f"no readable queue: topic {name} may not be read")
        config = self._groups.get(group)
        is_orderly = config is not None and config.consume_message_orderly
        numbers = range(topic.read_queue_nums) if is_orderly else (_ANY_QUEUE,)
        broker = self._broker(request.endpoints)
        assignments = [
            Assignment(message_queue=MessageQueue(
                topic=request.topic, id=number, permission=Permission.READ, broker=broker
            ))
            for number in numbers
        ]  # fmt: skip
        call.answer(QueryAssignmentResponse(status=OK, assignments=assignments).encode())

    def _topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name) or self._new_topic(name)
        if topic is None:
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        return topic

    def _broker(self, endpoints: Endpoints | None) -> Broker:
        """Return this broker with the address that the client has used, if it names one only: it reaches that one.

        A client that names several does not say which one this broker is, so it gets the registered address.
        """
        if endpoints is None or len(endpoints.addresses) != 1:
            host, port = self._address()
            endpoints = Endpoints(scheme=_scheme(host), addresses=[Address(host=host, port=port)])
        return Broker(name=self._broker_name, id=0, endpoints=endpoints)


def _permissions(topic: TopicConfig) -> Iterator[Permission]:
    """Yield the permission of each queue: those for reading only, those for writing only, and those for both."""
    reads, writes = topic.read_queue_nums, topic.write_queue_nums
    if not is_readable(topic.perm):
        reads = 0
    if not is_writable(topic.perm):
        writes = 0
    both = min(reads, writes)
    yield from [Permission.READ] * (reads - both)
    yield from [Permission.WRITE] * (writes - both)
    yield from [Permission.READ_WRITE] * both
    if not reads and not writes:
        yield Permission.NONE


def _scheme(host: str) -> AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPV4 if version == 4 else AddressScheme.IPV6
