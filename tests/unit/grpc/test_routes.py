"""QueryRoute and QueryAssignment: which queues clients are told, with which permissions, and where they are."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.grpc.other_masters import NOWHERE, Elsewhere, OtherMaster, Then
from rocketmq_py.protocol.bodies.route import QueueData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.grpc.definition import Address, Broker, Endpoints, MessageQueue, Resource
from rocketmq_py.protocol.grpc.enums import AddressScheme, Code, Permission
from rocketmq_py.protocol.grpc.service import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from tests.unit.broker.harness import InProcess
from tests.unit.grpc.calls import Calls

READ, WRITE, BOTH, NONE = 2, 3, 4, 1


def endpoints(*hosts: str) -> Endpoints:
    return Endpoints(scheme=1, addresses=[Address(host=host, port=8081) for host in hosts])


def route(calls: Calls, topic: str, at: Endpoints | None = None) -> list[MessageQueue]:
    request = QueryRouteRequest(topic=Resource(name=topic), endpoints=at)
    answer = calls.call("QueryRoute", request, QueryRouteResponse)
    assert answer.status is not None
    assert answer.status.code == Code.OK
    return answer.message_queues


def broker_of(queue: MessageQueue) -> Broker:
    assert queue.broker is not None
    assert queue.broker.endpoints is not None
    return queue.broker


def assigned(calls: Calls, topic: str, group: str) -> tuple[int, list[MessageQueue]]:
    request = QueryAssignmentRequest(
        topic=Resource(name=topic), group=Resource(name=group), endpoints=endpoints("10.0.0.9")
    )
    answer = calls.call("QueryAssignment", request, QueryAssignmentResponse)
    assert answer.status is not None
    return answer.status.code, [one.message_queue for one in answer.assignments if one.message_queue is not None]


@pytest.mark.parametrize(
    ("perm", "reads", "writes", "expected"),
    [
        (6, 2, 2, [BOTH, BOTH]),
        (6, 3, 1, [READ, READ, BOTH]),
        (6, 1, 3, [WRITE, WRITE, BOTH]),
        (4, 2, 2, [READ, READ]),
        (2, 2, 2, [WRITE, WRITE]),
        (6, 0, 1, [WRITE]),
        (6, 1, 0, [READ]),
        (0, 2, 2, [NONE]),
        (6, 0, 0, [NONE]),
    ],
)
def test_queues_have_the_permissions_of_their_topic(
    running: InProcess, calls: Calls, perm: int, reads: int, writes: int, expected: list[int]
) -> None:
    running.services.topics.put(
        [TopicConfig(topic_name="p", perm=perm, read_queue_nums=reads, write_queue_nums=writes)]
    )
    queues = route(calls, "p")
    assert [queue.permission for queue in queues] == expected
    assert [queue.id for queue in queues] == list(range(len(expected)))
    assert [queue.topic for queue in queues] == [Resource(name="p")] * len(expected)


@pytest.mark.parametrize(
    ("topic", "types"), [("t", [1]), ("fifo", [2]), ("delay", [3]), ("transaction", [4]), ("priority", [6])]
)
def test_queues_name_the_types_of_messages_that_they_accept(calls: Calls, topic: str, types: list[int]) -> None:
    assert {tuple(queue.accept_message_types) for queue in route(calls, topic)} == {tuple(types)}


def test_a_broker_is_where_the_client_has_reached_it_if_that_is_one_address(running: InProcess, calls: Calls) -> None:
    at = broker_of(route(calls, "t", endpoints("10.0.0.9"))[0])
    assert (at.name, at.id, at.endpoints) == (running.config.broker_name, 0, endpoints("10.0.0.9"))
    for asked in (None, endpoints(), endpoints("10.0.0.9", "10.0.0.8")):
        own = broker_of(route(calls, "t", asked)[0]).endpoints
        assert own is not None
        assert [address.host for address in own.addresses] == [running.config.broker_ip1]


@pytest.mark.parametrize(
    ("address", "host", "scheme"),
    [("10.0.0.1:10911", "10.0.0.1", AddressScheme.IPV4), ("[::1]:10911", "::1", AddressScheme.IPV6),
     ("broker.example:10911", "broker.example", AddressScheme.DOMAIN_NAME)],
)  # fmt: skip
def test_endpoints_say_which_kind_their_host_is(running: InProcess, address: str, host: str, scheme: int) -> None:
    running.services.address = address
    told = broker_of(route(Calls(running), "t")[0]).endpoints
    assert told == Endpoints(scheme=scheme, addresses=[Address(host=host, port=10911)])


def test_a_topic_that_sends_do_not_create_is_unknown(calls: Calls) -> None:
    calls.running.config.auto_create_topic_enable = False
    assert calls.code("QueryRoute", QueryRouteRequest(topic=Resource(name="other"))) == Code.TOPIC_NOT_FOUND
    assert assigned(calls, "other", "g")[0] == Code.TOPIC_NOT_FOUND


def test_a_group_is_assigned_all_queues_together_or_each_if_it_consumes_in_order(calls: Calls) -> None:
    for group, ids in (("g", [-1]), ("orderly", [0, 1])):
        code, queues = assigned(calls, "t", group)
        assert (code, [queue.id for queue in queues]) == (Code.OK, ids)
        assert {queue.permission for queue in queues} == {Permission.READ}
        assert all(broker_of(queue).endpoints == endpoints("10.0.0.9") for queue in queues)


@pytest.mark.parametrize(("perm", "reads"), [(2, 2), (6, 0)])
def test_a_topic_without_a_readable_queue_assigns_none(running: InProcess, calls: Calls, perm: int, reads: int) -> None:
    running.services.topics.put([TopicConfig(topic_name="p", perm=perm, read_queue_nums=reads, write_queue_nums=2)])
    assert assigned(calls, "p", "g") == (Code.FORBIDDEN, [])


# -- with other masters


def elsewhere(running: InProcess, found: Elsewhere) -> Calls:
    running.services.other_masters.look_up = lambda _, then: then(found)  # type: ignore[method-assign]
    return Calls(running)


def other(name: str, perm: int = 6, reads: int = 1, writes: int = 1) -> OtherMaster:
    queues = QueueData(broker_name=name, read_queue_nums=reads, write_queue_nums=writes, perm=perm)
    return OtherMaster(name, f"{name}.example", 10921, queues)


def told(queues: list[MessageQueue]) -> list[tuple[str, int, int]]:
    return [(broker_of(queue).name, queue.id, queue.permission) for queue in queues]


def test_a_route_has_the_queues_of_all_brokers_by_name(running: InProcess) -> None:
    calls = elsewhere(running, Elsewhere((other("z", 6, 2, 1), other("a", 4, 1, 3))))
    own = running.config.broker_name
    queues = route(calls, "t", endpoints("10.0.0.9"))
    assert told(queues) == [("a", 0, READ), (own, 0, BOTH), (own, 1, BOTH), ("z", 0, READ), ("z", 1, BOTH)]
    at = {broker_of(queue).name: broker_of(queue) for queue in queues}
    assert {broker.id for broker in at.values()} == {0}
    assert at[own].endpoints == endpoints("10.0.0.9")
    address = Address(host="z.example", port=10921)
    assert at["z"].endpoints == Endpoints(scheme=AddressScheme.DOMAIN_NAME, addresses=[address])


def test_a_topic_of_other_brokers_only_is_not_created_here(running: InProcess) -> None:
    calls = elsewhere(running, Elsewhere((other("z"),), "FIFO"))
    assert running.config.auto_create_topic_enable
    [queue] = route(calls, "other")
    assert (broker_of(queue).name, queue.accept_message_types) == ("z", [2])
    assert assigned(calls, "other", "g") == (Code.OK, [MessageQueue(
        topic=Resource(name="other"), id=-1, permission=READ, broker=broker_of(queue)
    )])  # fmt: skip


def test_the_type_of_a_topic_of_this_broker_is_its_own(running: InProcess) -> None:
    calls = elsewhere(running, Elsewhere((other("z"),), "FIFO"))
    assert {tuple(queue.accept_message_types) for queue in route(calls, "delay")} == {(3,)}


def test_a_group_is_assigned_the_queues_of_all_brokers_that_may_be_read(running: InProcess) -> None:
    calls = elsewhere(running, Elsewhere((other("z", 6, 2, 1), other("y", 2), other("x", 4, 1, 0), other("w", 6, 0))))
    own = running.config.broker_name
    assert told(assigned(calls, "t", "g")[1]) == [(own, -1, READ), ("x", -1, READ), ("z", -1, READ)]
    each = [(own, 0, READ), (own, 1, READ), ("x", 0, READ), ("z", 0, READ), ("z", 1, READ)]
    assert told(assigned(calls, "t", "orderly")[1]) == each


@pytest.mark.parametrize(
    ("scheme", "host", "authority", "is_here"),
    [(1, "10.0.0.9", "10.0.0.9:8081", True), (1, "10.0.0.9", "10.0.0.9:8082", False), (1, "10.0.0.9", "", False),
     (3, "b.example", "b.example:8081", True), (3, "b.example", "c.example:8081", False),
     (2, "::1", "[::1]:8081", True), (2, "::1", "::1:8081", False)],
)  # fmt: skip
def test_the_endpoint_of_a_client_is_the_broker_that_it_has_reached(
    running: InProcess, scheme: int, host: str, authority: str, is_here: bool
) -> None:
    """A client asks any broker of a route for assignments, and names its own endpoint."""
    calls = elsewhere(running, Elsewhere((other("z"),)))
    calls.metadata = {":authority": authority}
    asked = Endpoints(scheme=scheme, addresses=[Address(host=host, port=8081)])
    request = QueryAssignmentRequest(topic=Resource(name="t"), group=Resource(name="g"), endpoints=asked)
    own = calls.call("QueryAssignment", request, QueryAssignmentResponse).assignments[0].message_queue
    assert own is not None
    at = broker_of(own)
    assert at.name == running.config.broker_name
    registered = calls.running.services.address
    assert at.endpoints is not None
    [address] = at.endpoints.addresses
    assert (address.host, address.port) == ((host, 8081) if is_here else (registered.rpartition(":")[0], 10911))
    assert broker_of(route(calls, "t", asked)[0]).endpoints == asked, "routes are asked for at the endpoint"
    alone = elsewhere(running, NOWHERE)
    own = alone.call("QueryAssignment", request, QueryAssignmentResponse).assignments[0].message_queue
    assert own is not None
    assert broker_of(own).endpoints == asked


@pytest.mark.parametrize("addresses", [None, endpoints(), endpoints("10.0.0.9", "10.0.0.8")])
def test_without_one_endpoint_the_registered_address_is_told(running: InProcess, addresses: Endpoints | None) -> None:
    calls = elsewhere(running, Elsewhere((other("z"),)))
    calls.metadata = {":authority": "10.0.0.9:8081"}
    request = QueryAssignmentRequest(topic=Resource(name="t"), group=Resource(name="g"), endpoints=addresses)
    own = calls.call("QueryAssignment", request, QueryAssignmentResponse).assignments[0].message_queue
    assert own is not None
    told = broker_of(own).endpoints
    assert told is not None
    assert [address.host for address in told.addresses] == [running.config.broker_ip1]


def test_an_answer_that_comes_after_the_client_has_gone_does_no_harm(running: InProcess) -> None:
    waiting: list[Then] = []
    running.services.other_masters.look_up = lambda _, then: waiting.append(then)  # type: ignore[method-assign]
    calls = Calls(running)
    request = QueryRouteRequest(topic=Resource(name="t"))
    gone, stays = calls.start("QueryRoute", request), calls.start("QueryRoute", request)
    gone.call.cancelled()
    for then in waiting:
        then(NOWHERE)
    assert gone.carrier.messages == []
    assert [queue.id for queue in stays.received(QueryRouteResponse)[0].message_queues] == [0, 1]
    calls.running.config.auto_create_topic_enable = False
    late = calls.start("QueryRoute", QueryRouteRequest(topic=Resource(name="other")))
    waiting[-1](NOWHERE)
    [refused] = late.received(QueryRouteResponse)
    assert refused.status is not None
    assert refused.status.code == Code.TOPIC_NOT_FOUND
