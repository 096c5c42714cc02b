"""Start and end of a proxy."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import (
    Broker,
    FilterExpression,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
)
from rocketmq_py.protocol.grpc.enums import ClientType
from rocketmq_py.protocol.grpc.service import (
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    TelemetryCommand,
)
from rocketmq_py.proxy import CallNeeds
from rocketmq_py.server.monitoring.settings import Place
from tests.unit.grpc.calls import new_message, receive_request
from tests.unit.proxy.cluster import A, FakeCluster, ProxyCalls, settled
from tests.virtual_time import Clock


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


async def test_while_it_runs_a_proxy_asks_for_users_every_10_seconds(
    cluster: FakeCluster, virtual_clock: Clock
) -> None:
    def times() -> int:
        return [code for _, code, _, _ in cluster.asked].count(RequestCode.AUTH_LIST_USER)

    proxy = ProxyCalls(cluster, port=0, access=CallNeeds.PERMISSION).proxy
    await proxy.start()
    for number in (2, 3):
        await turns()
        virtual_clock.skip(10.0)
        await settled(lambda wanted=number: times() == wanted)  # type: ignore[misc]
    await proxy.stop()
    cluster.asked.clear()
    virtual_clock.skip(100.0)
    await turns()
    assert cluster.asked == [], "nothing after its end"


async def turns() -> None:
    """Let the tasks that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


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
