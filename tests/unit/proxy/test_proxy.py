"""Start and end of a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, encode_transaction_id
from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import (
    Broker,
    FilterExpression,
    Publishing,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
)
from rocketmq_py.protocol.grpc.enums import ClientType
from rocketmq_py.protocol.grpc.service import (
    EndTransactionRequest,
    QueryAssignmentRequest,
    QueryRouteRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.proxy import CallNeeds, proxy as module
from rocketmq_py.server.monitoring.settings import Place
from rocketmq_py.wire.protobuf import ProtoMessage
from tests.unit.grpc.calls import new_message, receive_request
from tests.unit.proxy.cluster import A, B, FakeCluster, ProxyCalls, settled
from tests.unit.proxy.test_access import listed, signed


async def test_a_proxy_listens_until_it_stops(cluster: FakeCluster) -> None:
    proxy = ProxyCalls(cluster, port=0).proxy
    await proxy.start()
    assert proxy.address == f"127.0.0.1:{proxy.port}"
    assert proxy.facts.master("a") == A
    _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.close()
    for _ in range(2):
        await proxy.stop()
    assert proxy.connections == ()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    assert cluster.ends == 2


@pytest.mark.parametrize(("host", "local"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.0.0.3", "10.0.0.3")])
def test_programs_on_this_machine_reach_a_proxy_that_listens_everywhere(
    cluster: FakeCluster, host: str, local: str
) -> None:
    assert ProxyCalls(cluster, host=host, port=8082).proxy.address == f"{local}:8082"


async def test_a_proxy_starts_without_a_name_server(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.away.add("ns")
    proxy = ProxyCalls(cluster, port=0).proxy
    await proxy.start()
    await proxy.stop()
    assert "calls are refused until a name server answers: no name server answers" in caplog.text


async def test_users_are_asked_for_before_the_first_call(cluster: FakeCluster) -> None:
    proxy = ProxyCalls(cluster, port=0, access=CallNeeds.PERMISSION).proxy
    await proxy.start()
    await proxy.stop()
    assert RequestCode.AUTH_LIST_USER in {code for _, code, _, _ in cluster.asked}


PRODUCER = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name="tx")]))


async def test_what_a_proxy_does_from_time_to_time(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: dict[tuple[float, float], Callable[[], Awaitable[None]]] = {}

    async def every(first: float, interval: float, job: Callable[[], Awaitable[None]]) -> None:
        jobs[first, interval] = job

    monkeypatch.setattr(module, "every", every)
    listed(cluster, "ann", topic="tx")
    calls = signed(ProxyCalls(cluster, port=0, access=CallNeeds.PERMISSION), "ann")
    ticks: list[int] = []
    monkeypatch.setattr(calls.service, "tick", lambda: ticks.append(1))
    await calls.proxy.start()
    await settled(lambda: len(jobs) == 4)
    await jobs[5.0, 5.0]()
    assert ticks == [1]
    cluster.asked.clear()
    await jobs[10.0, 10.0]()
    assert [code for _, code, _, _ in cluster.asked] == [RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL]
    cluster.masters[A] = 1
    calls.facts._masters.clear()
    await jobs[30.0, 30.0]()
    assert (calls.facts.master("a"), calls.facts.master("b")) == (None, B)
    await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="tx")), StatusResponse)
    await calls.open(calls.settings(PRODUCER), TelemetryCommand)
    await settled(lambda: bool(cluster.beats()))
    cluster.asked.clear()
    await jobs[20.0, 20.0]()
    assert cluster.beats() == [B]
    await calls.proxy.stop()


PENDING = {
    "a question about a topic": (RequestCode.GET_TOPIC_CONFIG, "QueryRoute"),
    "a question about a group": (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, "QueryAssignment"),
    "a heartbeat": (RequestCode.HEART_BEAT, "Telemetry"),
    "a request": (RequestCode.SEND_MESSAGE_V2, "SendMessage"),
    "a check of a record": (RequestCode.VIEW_MESSAGE_BY_ID, "EndTransaction"),
}


@pytest.mark.parametrize(("code", "method"), PENDING.values(), ids=PENDING)
async def test_nothing_goes_on_when_a_proxy_has_stopped(cluster: FakeCluster, code: RequestCode, method: str) -> None:
    listed(cluster, "ann", topic="tx")
    calls = signed(ProxyCalls(cluster, port=0, access=CallNeeds.PERMISSION, timeout=0.01), "ann")
    await calls.proxy.start()
    assert await calls.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="tx")), StatusResponse)
    waiting = asyncio.Event()

    async def never(address: str) -> None:
        del address
        waiting.set()
        await asyncio.Event().wait()

    cluster.answers[code] = never
    requests: dict[str, ProtoMessage] = {
        "QueryRoute": QueryRouteRequest(topic=Resource(name="t")),
        "QueryAssignment": QueryAssignmentRequest(topic=Resource(name="tx"), group=Resource(name="g")),
        "SendMessage": SendMessageRequest(messages=[new_message("tx", message_type=4)]),
        "EndTransaction": EndTransactionRequest(
            topic=Resource(name="tx"), transaction_id=encode_transaction_id(HalfPlace("a", 0, 0, "0A")), resolution=1
        ),
    }
    if method == "Telemetry":
        calls.settings(PRODUCER)
    else:
        calls.start(method, requests[method])
    await settled(waiting.is_set)
    await calls.proxy.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def page(port: int | None, path: str) -> tuple[int, str]:
    """Status and text of a page of the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ")[1]), answer


async def test_health_and_metrics_are_served(cluster: FakeCluster) -> None:
    calls = ProxyCalls(cluster, port=0, metrics=Place("127.0.0.1", 0))
    await calls.proxy.start()
    try:
        port = calls.proxy.metrics_port
        assert [(await page(port, path))[0] for path in ("/livez", "/startupz", "/readyz")] == [200, 200, 200]
        await calls.ask("SendMessage", SendMessageRequest(messages=[new_message("t")]), SendMessageResponse)
        _, text = await page(port, "/metrics")
        assert 'rocketmq_py_proxy_requests_total{request="SEND_MESSAGE_V2",code="SUCCESS"} 1.0' in text
        assert 'rocketmq_py_proxy_requests_running{kind="pop"} 0.0' in text
        assert 'service_name="rocketmq-proxy"' in text
        cluster.away.add("ns")
        with pytest.raises(NetworkError):
            await calls.facts.look_around()
        status, text = await page(port, "/readyz")
        assert status == 503
        assert "no name server answers" in text
        cluster.away.clear()
        await calls.facts.look_around()
        assert (await page(port, "/readyz"))[0] == 200
    finally:
        await calls.proxy.stop()


async def test_messages_on_which_push_consumers_work_return_soon_when_it_stops(cluster: FakeCluster) -> None:
    calls = ProxyCalls(cluster, port=0)
    await calls.proxy.start()
    for _ in range(4):
        await calls.ask("SendMessage", SendMessageRequest(messages=[new_message("t")]), SendMessageResponse)
    entry = SubscriptionEntry(topic=Resource(name="t"), expression=FilterExpression(type=1, expression="*"))
    subscription = Subscription(group=Resource(name="g"), subscriptions=[entry])
    stream = calls.settings(Settings(client_type=ClientType.PUSH_CONSUMER, subscription=subscription))
    await calls.open(stream, TelemetryCommand)
    request = receive_request("t", "g", auto_renew=True)
    assert request.message_queue is not None
    request.message_queue.broker = Broker(name="a")
    answers = await calls.ask_many("ReceiveMessage", request, ReceiveMessageResponse)
    assert calls.service.renewed == len([1 for answer in answers if answer.message is not None]) == 2
    await calls.proxy.stop()
    changes = cluster.sent(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    assert [(broker, header.invisible_time) for broker, header in changes] == [("a", 1_000)] * 2
    assert calls.service.renewed == 0


async def test_a_stop_waits_for_a_broker_that_does_not_answer_for_a_limited_time(cluster: FakeCluster) -> None:
    calls = ProxyCalls(cluster, port=0, timeout=0.01)
    await calls.proxy.start()
    gone = asyncio.Event()

    async def never(address: str) -> None:
        del address
        gone.set()
        await asyncio.Event().wait()

    cluster.answers[RequestCode.SEND_MESSAGE_V2] = never
    calls.start("SendMessage", SendMessageRequest(messages=[new_message("t")]))
    await gone.wait()
    await calls.proxy._requests.finish()
    assert calls.proxy._requests.running == {"pop": 0, "other": 1}
    await calls.proxy.stop()
    assert calls.proxy._requests.running == {"pop": 0, "other": 0}
