"""Which queues clients are told, and which ones messages get."""

from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.queues import queue_of_group
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Address, Endpoints, Message, Resource
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
)
from tests.unit.grpc.calls import new_message
from tests.unit.proxy.cluster import A, B, FakeCluster, ProxyCalls

REACHED = Endpoints(scheme=3, addresses=[Address(host="proxy", port=8081)])
SEND = RequestCode.SEND_MESSAGE_V2


async def route(calls: ProxyCalls, topic: str, at: Endpoints | None = REACHED) -> QueryRouteResponse:
    return await calls.ask(
        "QueryRoute", QueryRouteRequest(topic=Resource(name=topic), endpoints=at), QueryRouteResponse
    )


async def send(calls: ProxyCalls, message: Message) -> int:
    answer = await calls.ask("SendMessage", SendMessageRequest(messages=[message]), SendMessageResponse)
    assert answer.status is not None
    return answer.status.code


async def test_all_masters_are_at_the_address_that_the_client_has_used(calls: ProxyCalls) -> None:
    answer = await route(calls, "fifo")
    queues = [(one.broker.name, one.broker.id, one.id, one.permission) for one in answer.message_queues if one.broker]
    assert queues == [("a", 0, 0, 4), ("a", 0, 1, 4), ("b", 0, 0, 4), ("b", 0, 1, 4)]
    assert {one.broker.endpoints.encode() for one in answer.message_queues if one.broker and one.broker.endpoints} == {
        REACHED.encode()
    }
    assert [one.accept_message_types for one in answer.message_queues] == [[2]] * 4


@pytest.mark.parametrize(
    ("advertised", "expected"), [(None, ("127.0.0.1", 10911)), ("proxy.net:81", ("proxy.net", 81))]
)
async def test_a_client_that_does_not_say_what_it_has_used_is_told_an_address(
    cluster: FakeCluster, advertised: str | None, expected: tuple[str, int]
) -> None:
    answer = await route(ProxyCalls(cluster, advertised=advertised), "t", Endpoints())
    places = {
        (address.host, address.port)
        for one in answer.message_queues
        if one.broker is not None and one.broker.endpoints is not None
        for address in one.broker.endpoints.addresses
    }
    assert places == {expected}


async def test_brokers_without_a_master_are_left_out(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.masters[B] = 1
    answer = await route(calls, "t")
    assert {one.broker.name for one in answer.message_queues if one.broker} == {"a"}


@pytest.mark.parametrize(("topic", "code"), [("none", Code.TOPIC_NOT_FOUND), ("a b", Code.ILLEGAL_TOPIC)])
async def test_a_topic_that_does_not_exist_is_not_found(calls: ProxyCalls, topic: str, code: Code) -> None:
    answer = await route(calls, topic)
    assert answer.status is not None
    assert answer.status.code == code
    assert calls.cluster.routes_asked == ([] if code == Code.ILLEGAL_TOPIC else [topic])


@pytest.mark.parametrize(("is_orderly", "expected"), [(False, [-1, -1]), (True, [0, 1, 0, 1])])
async def test_push_consumers_get_all_queues_of_a_broker_or_each(
    cluster: FakeCluster, calls: ProxyCalls, is_orderly: bool, expected: list[int]
) -> None:
    for one in cluster.brokers.values():
        one.services.groups.put([SubscriptionGroupConfig(group_name="g", consume_message_orderly=is_orderly)])
    request = QueryAssignmentRequest(topic=Resource(name="t"), group=Resource(name="g"), endpoints=REACHED)
    answer = await calls.ask("QueryAssignment", request, QueryAssignmentResponse)
    assert [one.message_queue.id for one in answer.assignments if one.message_queue] == expected


async def test_messages_go_to_the_queues_of_all_masters_in_turn(cluster: FakeCluster, calls: ProxyCalls) -> None:
    assert [await send(calls, new_message("t")) for _ in range(8)] == [Code.OK] * 8
    sent = [(broker, header.queue_id) for broker, header in cluster.sent(SEND)]
    assert sorted(sent) == sorted([("a", 0), ("a", 1), ("b", 0), ("b", 1)] * 2)
    assert len(set(sent[:4])) == 4


async def test_a_message_group_has_the_queue_that_every_proxy_chooses(cluster: FakeCluster, calls: ProxyCalls) -> None:
    for group in ("x", "y", "z"):
        for _ in range(2):
            assert await send(calls, new_message("fifo", message_group=group)) == Code.OK
    queues = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    expected = [queues[queue_of_group(group, 4)] for group in "xxyyzz"]
    assert [(broker, header.queue_id) for broker, header in cluster.sent(SEND)] == expected


async def test_a_broker_that_does_not_answer_is_avoided_for_a_while(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await route(calls, "t")
    cluster.away.add(A)
    codes = [await send(calls, new_message("t")) for _ in range(4)]
    assert codes.count(Code.INTERNAL_SERVER_ERROR) == 1
    assert codes.count(Code.OK) == 3
    cluster.away.clear()
    cluster.now += 30_000
    before = len(cluster.asked)
    assert [await send(calls, new_message("t")) for _ in range(4)] == [Code.OK] * 4
    assert {address for address, code, _, _ in cluster.asked[before:] if code == SEND} == {A, B}


async def test_if_all_are_avoided_one_of_them_is_tried(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await route(calls, "only-a")
    cluster.away.add(A)
    assert await send(calls, new_message("only-a")) == Code.INTERNAL_SERVER_ERROR
    cluster.away.clear()
    assert await send(calls, new_message("only-a")) == Code.OK


async def test_a_topic_without_a_writable_queue_is_forbidden(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.masters[A] = 1
    request = SendMessageRequest(messages=[new_message("only-a")])
    answer = await calls.ask("SendMessage", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.FORBIDDEN


async def test_no_topic_is_made_by_a_send(calls: ProxyCalls) -> None:
    assert await send(calls, new_message("new")) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


async def test_brokers_to_avoid_are_looked_at_once_not_for_each_message(
    cluster: FakeCluster, calls: ProxyCalls
) -> None:
    """A topic may have thousands of queues."""
    await route(calls, "t")
    topic = calls.facts.topic("t")
    assert topic is not None
    assert topic.queues_without(frozenset()) is topic.queues
    without = topic.queues_without(frozenset({"a"}))
    assert {queue.broker_name for queue in without} == {"b"}
    assert topic.queues_without(frozenset({"a"})) is without
    assert {queue.broker_name for queue in topic.queues_without(frozenset({"b"}))} == {"a"}
    assert topic.queues_without(frozenset({"a", "b"})) is topic.queues
