"""Requests that other brokers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.static_topic import forward
from rocketmq_py.broker.static_topic.forward import Forwarder, TranslatingResponder
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.errors import BrokerError, ConnectError, NoRouteError
from rocketmq_py.protocol.bodies.route import BrokerData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.unit.broker.harness import START_MS

ROUTE = TopicRouteData(
    broker_datas=[
        BrokerData(broker_name="broker-b", broker_addrs={1: "b:2", 0: "b:1"}),
        BrokerData(broker_name="broker-c", broker_addrs={2: "c:2"}),
    ]
).encode()


class Others(RpcClient):
    """A name server with one route, and brokers that answer with a code."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 0
        self.failure: Exception | None = None
        self.asked: list[tuple[str, int, dict[str, str], float]] = []
        self.routes = 0
        self.closed = 0

    async def invoke(self, address: str, command: Command, timeout: float) -> RemoteReply:
        if address == "n:1":
            self.routes += 1
            return RemoteReply(0, command.opaque, body=ROUTE)
        self.asked.append((address, int(command.code), dict(command.ext), timeout))
        if self.failure is not None:
            raise self.failure
        return RemoteReply(self.code, command.opaque, remark="why")

    def close(self) -> None:
        self.closed += 1


class Answers(Responder):
    """Notes what a client hears."""

    def __init__(self) -> None:
        super().__init__(Peer(), 7)
        self.heard: list[Reply] = []

    def reply(self, reply: Reply) -> None:
        self.heard.append(reply)


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def forwarder(others: Others) -> Forwarder:
    return Forwarder(BrokerConfig(namesrv_addr="n:1"), others, lambda: START_MS)


def asked(forwarder: Forwarder, broker: str = "broker-b") -> RemoteReply:
    return asyncio.run(forwarder.ask(broker, "t", RequestCode.GET_MAX_OFFSET, TopicName(topic="t")))


@pytest.mark.parametrize(("broker", "address"), [("broker-b", "b:1"), ("broker-c", "c:2")])
def test_the_master_is_asked_or_a_slave_without_one(
    forwarder: Forwarder, others: Others, broker: str, address: str
) -> None:
    others.code = 17
    assert asked(forwarder, broker).code == 17
    assert others.asked == [(address, 30, {"topic": "t"}, 3.0)]
    asked(forwarder, broker)
    assert others.routes == 1


def test_an_unknown_broker_has_its_route_asked_for_again(forwarder: Forwarder, others: Others) -> None:
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no name server knows a broker broker-x with topic t"):
            asked(forwarder, "broker-x")
    assert (others.routes, others.asked) == (2, [])


def test_a_broker_that_does_not_answer_has_its_route_asked_for_again(forwarder: Forwarder, others: Others) -> None:
    others.failure = ConnectError("refused")
    for _ in range(2):
        with pytest.raises(ConnectError):
            asked(forwarder)
    assert others.routes == 2


def answered(forwarder: Forwarder, answer: Callable[[], Awaitable[Reply]]) -> Reply:
    responder = Answers()

    async def run() -> None:
        forwarder.run(Hold(forward.FORWARDED, 0, payload=answer), responder)
        await asyncio.sleep(0.01)
        assert forwarder._running == 0

    asyncio.run(run())
    [reply] = responder.heard
    return reply


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (ConnectError("refused"), 1, "refused"),
        (NoRouteError("no route"), 1, "no route"),
        (BrokerError.of(22, "nothing"), 22, "nothing"),
        (ZeroDivisionError("odd"), 1, "odd"),
    ],
)
def test_every_forwarded_request_is_answered(forwarder: Forwarder, error: Exception, code: int, remark: str) -> None:
    async def fail() -> Reply:
        raise error

    reply = answered(forwarder, fail)
    assert reply.code == code
    assert remark in (reply.remark or "")


def test_an_answer_is_passed_on(forwarder: Forwarder) -> None:
    async def answer() -> Reply:
        return Reply(remark="done")

    assert answered(forwarder, answer).remark == "done"


def test_only_so_many_requests_run_at_once(
    forwarder: Forwarder, others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "_MOST_RUNNING", 2)
    goes_on = asyncio.Event()

    async def answer() -> Reply:
        await goes_on.wait()
        return Reply()

    async def run() -> None:
        responders = [Answers() for _ in range(4)]
        for responder in responders[:3]:
            forwarder.run(Hold(forward.FORWARDED, 0, payload=answer), responder)
        await asyncio.sleep(0.01)
        assert [[reply.code for reply in responder.heard] for responder in responders[:3]] == [[], [], [2]]
        goes_on.set()
        await asyncio.sleep(0.01)
        forwarder.run(Hold(forward.FORWARDED, 0, payload=answer), responders[3])
        await asyncio.sleep(0.01)
        assert [[reply.code for reply in responder.heard] for responder in responders] == [[0], [0], [2], [0]]

    asyncio.run(run())


def test_the_end_cancels_what_runs(forwarder: Forwarder, others: Others) -> None:
    responder = Answers()

    async def answer() -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> None:
        forwarder.run(Hold(forward.FORWARDED, 0, payload=answer), responder)
        await asyncio.sleep(0.01)
        await forwarder.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert (responder.heard, others.closed, forwarder._running) == ([], 1, 0)


def test_an_answer_is_translated_when_it_is_sent() -> None:
    heard: list[Any] = []
    peer = Peer(("127.0.0.1", 1), ("127.0.0.1", 2), heard.append)
    TranslatingResponder(Responder(peer, 7), lambda reply: Reply(reply.code + 1, "translated")).reply(Reply(10))
    [answer] = map(decode_command, FrameDecoder().feed(b"".join(map(bytes, heard))))
    assert (answer.code, answer.remark, answer.opaque) == (11, "translated", 7)
