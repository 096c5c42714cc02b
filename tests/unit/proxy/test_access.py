"""Calls are checked by the users and permissions that the cluster has."""

from __future__ import annotations

import hmac
import json

import pytest

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, encode_transaction_id
from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Resource
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.service import (
    EndTransactionRequest,
    QueryRouteRequest,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
)
from rocketmq_py.protocol.headers.pull import ViewMessage
from rocketmq_py.proxy import CallNeeds
from rocketmq_py.wire.command import Command
from tests.unit.grpc.calls import new_message
from tests.unit.proxy.cluster import B, FakeCluster, ProxyCalls

USERS, ACLS = RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL
DATE = "20260101T000000Z"


def listed(cluster: FakeCluster, *names: str, topic: str = "t", actions: tuple[str, ...] = ("Pub", "Sub")) -> None:
    users = [{"username": name, "password": "secret", "userType": "Normal", "userStatus": "enable"} for name in names]
    entry = {"resource": f"Topic:{topic}", "actions": list(actions), "decision": "Allow"}
    acls = [{"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]} for name in names]
    cluster.answers[USERS] = Command(0, body=json.dumps(users).encode())
    cluster.answers[ACLS] = Command(0, body=json.dumps(acls).encode())


def signed(calls: ProxyCalls, name: str, secret: str = "secret") -> ProxyCalls:
    signature = hmac.digest(secret.encode(), DATE.encode(), "sha1").hex()
    calls.metadata = {
        "x-mq-date-time": DATE,
        "authorization": f"MQv2-HMAC-SHA1 Credential={name}, SignedHeaders=x-mq-date-time, Signature={signature}",
    }
    return calls


async def code(calls: ProxyCalls, topic: str = "t") -> int:
    answer = await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name=topic)), StatusResponse)
    assert answer.status is not None
    return answer.status.code


async def started(cluster: FakeCluster, needs: CallNeeds = CallNeeds.PERMISSION) -> ProxyCalls:
    calls = ProxyCalls(cluster, access=needs)
    await refresh(calls)
    return calls


async def refresh(calls: ProxyCalls) -> None:
    assert calls.proxy._access is not None
    await calls.proxy._access.refresh()


async def test_an_open_proxy_admits_everybody(cluster: FakeCluster) -> None:
    assert await code(ProxyCalls(cluster)) == Code.OK


@pytest.mark.parametrize(
    ("name", "secret", "topic", "expected"),
    [
        ("ann", "secret", "t", Code.OK),
        ("ann", "wrong", "t", Code.UNAUTHORIZED),
        ("bob", "secret", "t", Code.UNAUTHORIZED),
        ("ann", "secret", "fifo", Code.UNAUTHORIZED),
    ],
)
async def test_users_of_the_cluster_have_their_permissions(
    cluster: FakeCluster, name: str, secret: str, topic: str, expected: Code
) -> None:
    listed(cluster, "ann")
    calls = signed(await started(cluster), name, secret)
    assert await code(calls, topic) == expected


async def test_calls_must_be_signed(cluster: FakeCluster) -> None:
    listed(cluster, "ann")
    assert await code(await started(cluster)) == Code.UNAUTHORIZED


async def test_a_signature_is_enough_if_permissions_are_not_looked_at(cluster: FakeCluster) -> None:
    listed(cluster, "ann")
    calls = signed(await started(cluster, CallNeeds.SIGNATURE), "ann")
    assert await code(calls, "fifo") == Code.OK
    assert await code(signed(calls, "ann", "wrong"), "fifo") == Code.UNAUTHORIZED


async def test_changed_users_are_in_force_after_the_next_question(cluster: FakeCluster) -> None:
    listed(cluster, "ann")
    calls = signed(await started(cluster), "ann")
    assert await code(calls) == Code.OK
    listed(cluster, "bob")
    await refresh(calls)
    assert await code(calls) == Code.UNAUTHORIZED


async def test_until_users_are_known_calls_are_refused(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.answers[USERS] = NetworkError("gone")
    calls = signed(await started(cluster), "ann")
    await refresh(calls)
    assert await code(calls) == Code.UNAUTHORIZED
    said = [record.getMessage() for record in caplog.records]
    assert said == ["users and permissions of the cluster cannot be read, calls are refused: gone"]
    listed(cluster, "ann")
    await refresh(calls)
    assert await code(calls) == Code.OK


@pytest.mark.parametrize("fault", [NetworkError("gone"), Command(0, body=b"{")])
async def test_known_users_stay_if_nobody_answers(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, fault: Command | Exception
) -> None:
    listed(cluster, "ann")
    calls = signed(await started(cluster), "ann")
    cluster.answers[ACLS] = fault
    await refresh(calls)
    assert await code(calls) == Code.OK
    assert "the known ones stay in force" in caplog.text


async def ended(calls: ProxyCalls, topic: str, transaction_id: str) -> StatusResponse:
    request = EndTransactionRequest(topic=Resource(name=topic), transaction_id=transaction_id, resolution=1)
    return await calls.ask("EndTransaction", request, StatusResponse)


@pytest.mark.parametrize(
    ("allowed", "action", "expected"),
    [("tx", "Pub", Code.OK), ("tx", "Sub", Code.UNAUTHORIZED), ("t", "Pub", Code.UNAUTHORIZED)],
)
async def test_a_transaction_is_ended_by_those_who_may_send_to_its_topic(
    cluster: FakeCluster, allowed: str, action: str, expected: Code
) -> None:
    """Whatever topic the call names."""
    message = SendMessageRequest(messages=[new_message("tx", message_type=4)])
    sent = await ProxyCalls(cluster).ask("SendMessage", message, SendMessageResponse)
    listed(cluster, "ann", topic=allowed, actions=(action,))
    calls = signed(await started(cluster), "ann")
    answer = await ended(calls, allowed, sent.entries[0].transaction_id)
    assert answer.status is not None
    assert answer.status.code == expected
    assert len(cluster.sent(RequestCode.END_TRANSACTION)) == (expected == Code.OK)


async def test_a_broker_without_a_master_cannot_be_asked(cluster: FakeCluster) -> None:
    calls = ProxyCalls(cluster)
    cluster.masters[B] = 1
    await calls.facts.look_around()
    with pytest.raises(NetworkError, match="no route names a broker 'b' with a master"):
        await calls.facts.ask_master("b", RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=0))


@pytest.mark.parametrize(
    ("answer", "expected", "said"),
    [
        (None, Code.MESSAGE_NOT_FOUND, "broker a has no message at this place"),
        (Command(0, body=b"damaged"), Code.MESSAGE_NOT_FOUND, "broker a has no message at this place"),
        (NetworkError("gone"), Code.INTERNAL_SERVER_ERROR, "broker a does not answer: gone"),
    ],
)
async def test_a_message_that_cannot_be_seen_is_not_used(
    cluster: FakeCluster, answer: Command | Exception | None, expected: Code, said: str
) -> None:
    listed(cluster, "ann", topic="tx")
    calls = signed(await started(cluster), "ann")
    assert await code(calls, "tx") == Code.OK
    if answer is not None:
        cluster.answers[RequestCode.VIEW_MESSAGE_BY_ID] = answer
    refused = await ended(calls, "tx", encode_transaction_id(HalfPlace("a", 10**6, 0, "0A")))
    assert refused.status is not None
    assert (refused.status.code, refused.status.message) == (expected, said)
    assert cluster.sent(RequestCode.END_TRANSACTION) == []
