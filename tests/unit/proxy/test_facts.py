"""How long facts about a cluster are used, when they are asked for, and what happens if nobody answers."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.errors import BrokerError
from rocketmq_py.grpc.cluster import Names
from rocketmq_py.grpc.service import names_of
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Resource
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    AckMessageRequest,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    ReceiveMessageRequest,
    SendMessageRequest,
    StatusResponse,
)
from rocketmq_py.proxy import facts as module
from tests.unit.grpc.calls import new_message, receive_request
from tests.unit.proxy.cluster import A, B, FakeCluster, ProxyCalls, settled

CONFIG, GROUP = RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG


async def route(calls: ProxyCalls, topic: str = "t") -> int:
    answer = await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name=topic)), QueryRouteResponse)
    assert answer.status is not None
    return answer.status.code


async def assignment(calls: ProxyCalls, group: str = "g") -> list[int]:
    request = QueryAssignmentRequest(topic=Resource(name="only-a"), group=Resource(name=group))
    answer = await calls.ask("QueryAssignment", request, QueryAssignmentResponse)
    return [one.message_queue.id for one in answer.assignments if one.message_queue is not None]


async def test_facts_are_asked_for_once_and_renewed_beside_calls(cluster: FakeCluster, calls: ProxyCalls) -> None:
    assert [await route(calls) for _ in range(3)] == [Code.OK] * 3
    assert cluster.routes_asked == ["t"]
    cluster.now += 19_999
    await route(calls)
    assert cluster.routes_asked == ["t"]
    cluster.now += 1
    running = calls.start("QueryRoute", QueryRouteRequest(topic=Resource(name="t")))
    assert running.carrier.end is not None, "it does not wait"
    await settled(lambda: cluster.routes_asked == ["t", "t"])
    await route(calls)
    assert cluster.routes_asked == ["t", "t"]


async def test_calls_go_on_with_old_facts_while_name_servers_are_away(
    cluster: FakeCluster, calls: ProxyCalls, caplog: pytest.LogCaptureFixture
) -> None:
    await route(calls)
    cluster.away.add("ns")
    cluster.now += 60_000
    assert await route(calls) == Code.OK
    await settled(lambda: bool(caplog.records))
    assert "is not renewed, calls go on with it: no name server answers" in caplog.text
    request = QueryRouteRequest(topic=Resource(name="fifo"))
    refused = await calls.ask("QueryRoute", request, StatusResponse)
    assert refused.status is not None
    assert refused.status.code == Code.INTERNAL_SERVER_ERROR
    assert refused.status.message == "the cluster cannot be asked: no name server answers"
    cluster.away.clear()
    assert await route(calls, "fifo") == Code.OK


async def test_a_topic_that_was_deleted_is_forgotten(cluster: FakeCluster, calls: ProxyCalls) -> None:
    await route(calls, "only-a")
    cluster.brokers[A].services.topics.delete("only-a")
    cluster.now += 20_000
    await route(calls, "only-a")
    await settled(lambda: len(cluster.routes_asked) == 2 and calls.facts.topic("only-a") is None)
    assert await route(calls, "only-a") == Code.TOPIC_NOT_FOUND


async def test_calls_for_the_same_facts_share_one_question(cluster: FakeCluster, calls: ProxyCalls) -> None:
    assert await asyncio.gather(*(route(calls) for _ in range(5))) == [Code.OK] * 5
    assert cluster.routes_asked == ["t"]
    assert len(cluster.sent(CONFIG)) == 1


async def test_another_master_is_asked_if_one_does_not_answer(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.away.add(A)
    assert await route(calls, "fifo") == Code.OK
    assert [broker for broker, _ in cluster.sent(CONFIG)] == ["a", "b"]
    assert await route(calls, "delay") == Code.OK
    assert [broker for broker, _ in cluster.sent(CONFIG)] == ["a", "b", "b"], "the first one is avoided now"
    cluster.away.add(B)
    assert await route(calls, "tx") == Code.INTERNAL_SERVER_ERROR


async def test_a_topic_whose_type_a_broker_does_not_tell_is_an_ordinary_one(
    cluster: FakeCluster, calls: ProxyCalls, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.answers[CONFIG] = BrokerError.of(16, "denied", A)
    answer = await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="fifo")), QueryRouteResponse)
    assert {tuple(one.accept_message_types) for one in answer.message_queues} == {(1,)}
    assert "the type of topic fifo is not known" in caplog.text


async def test_a_topic_without_masters_has_no_queues(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.masters[A] = 1
    answer = await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="only-a")), QueryRouteResponse)
    assert answer.status is not None
    assert (answer.status.code, answer.message_queues) == (Code.OK, [])
    assert cluster.sent(CONFIG) == []


async def test_the_settings_of_a_group_are_those_of_a_broker(cluster: FakeCluster, calls: ProxyCalls) -> None:
    orderly = SubscriptionGroupConfig(group_name="orderly", consume_message_orderly=True)
    cluster.brokers[A].services.groups.put([orderly])
    assert await assignment(calls, "orderly") == [0]
    assert await assignment(calls, "orderly") == [0]
    assert [header.group for _, header in cluster.sent(GROUP)] == ["orderly"]


async def test_a_group_that_no_broker_has_is_a_usual_one(cluster: FakeCluster, calls: ProxyCalls) -> None:
    """Its first pop makes it, if brokers make groups."""
    assert await assignment(calls, "new") == [-1]


async def test_a_group_before_any_master_is_known_is_a_usual_one(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.masters[A] = 1
    assert await assignment(calls, "new") == []
    assert cluster.sent(GROUP) == []


async def test_names_are_checked_before_anybody_is_asked(cluster: FakeCluster, calls: ProxyCalls) -> None:
    for name in ("", "a b", "x" * 300, "a\0b"):
        assert await route(calls, name) == Code.ILLEGAL_TOPIC
    request = AckMessageRequest(group=Resource(name="a b"), topic=Resource(name="t"))
    answer = await calls.ask("AckMessage", request, StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.ILLEGAL_CONSUMER_GROUP
    assert (cluster.routes_asked, cluster.sent(GROUP)) == (["t"], [])


async def test_what_is_remembered_and_who_waits_is_bounded(
    cluster: FakeCluster, calls: ProxyCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 2)
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    for topic in ("t", "fifo", "delay"):
        await route(calls, topic)
    assert [calls.facts.topic(topic) is not None for topic in ("t", "fifo", "delay")] == [False, True, True]
    running = [calls.start("QueryRoute", QueryRouteRequest(topic=Resource(name="t"))) for _ in range(2)]
    [refused] = running[1].received(StatusResponse)
    assert refused.status is not None
    assert refused.status.code == Code.TOO_MANY_REQUESTS
    await settled(lambda: running[0].carrier.end is not None)
    assert await route(calls, "t") == Code.OK


async def test_a_call_that_has_ended_is_not_handled(cluster: FakeCluster, calls: ProxyCalls) -> None:
    running = calls.start("SendMessage", SendMessageRequest(messages=[new_message("t")]))
    running.call.cancelled()
    await settled(lambda: calls.facts.topic("t") is not None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert cluster.sent(RequestCode.SEND_MESSAGE_V2) == []


async def test_a_fault_of_ours_is_logged_and_answered_without_details(
    calls: ProxyCalls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calls.facts, "topic", lambda _: 1 / 0)
    answer = await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="t")), StatusResponse)
    assert answer.status is not None
    assert answer.status.message == "the server failed; its log says why"
    assert "ZeroDivisionError" in caplog.text


async def test_masters_are_known_by_name_and_address(cluster: FakeCluster, calls: ProxyCalls) -> None:
    cluster.masters[B] = 1
    await calls.facts.look_around()
    assert (calls.facts.master("a"), calls.facts.master("b")) == (A, None)
    assert (calls.facts.broker_at(A), calls.facts.broker_at(B)) == ("a", "")
    assert calls.facts.any_broker("t") == ""


def test_the_names_of_a_request_are_those_of_its_messages_or_its_queue() -> None:
    messages = [new_message("t"), new_message("u"), new_message("t")]
    assert names_of(SendMessageRequest(messages=messages)) == Names(("t", "u"))
    assert names_of(receive_request("t", "g")) == Names(("t",), "g")
    assert names_of(ReceiveMessageRequest()) == Names(())
    assert names_of(QueryRouteRequest()) == Names(())
