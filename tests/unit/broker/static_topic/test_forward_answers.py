"""Requests that are forwarded to the broker of a physical queue: how they are answered, and how many run at once."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.static_topic.forward import Forwarder, TranslatedHold, TranslatingResponder
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.errors import BrokerError, ConnectionLost, NoRouteError
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.offset import GetMaxOffset
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.unit.broker.rpc import Others, reply, route

MAX_OFFSET = 30
BROKERS = {"a": {0: "a:1", 1: "a:2"}, "b": {1: "b:2"}}


class Bench:
    """``answers`` are those of brokers by their names; ``heard`` is what the client was answered."""

    def __init__(self, **answers: RemoteReply | Exception) -> None:
        self.now = 1_000
        self.answers = answers
        self.others = Others(self._answer)
        self.forwarder = Forwarder(BrokerConfig(namesrv_addr="ns:1"), self.others, lambda: self.now)
        self.heard: list[Command] = []
        self._frames = FrameDecoder()
        self.peer = Peer(("127.0.0.1", 1), ("127.0.0.1", 2), self._hear)

    def _hear(self, data: bytes) -> None:
        self.heard += map(decode_command, self._frames.feed(data))

    def _answer(self, address: str, command: Command) -> RemoteReply | Exception:
        return route(BROKERS) if address == "ns:1" else self.answers.get(address.partition(":")[0], reply(offset="7"))

    async def ask(self, broker: str) -> RemoteReply:
        return await self.forwarder.ask(broker, "t", Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=3))

    def run(self, answer: object, opaque: int = 5) -> None:
        self.forwarder.run(Hold("forwarded", 0, answer), Responder(self.peer, opaque))


@pytest.mark.parametrize(("broker", "address"), [("a", "a:1"), ("b", "b:2")])
async def test_the_master_is_asked_or_a_slave_without_one(broker: str, address: str) -> None:
    bench = Bench()
    assert (await bench.ask(broker)).ext == {"offset": "7"}
    asked = bench.others.asked[-1]
    assert (asked.address, asked.command.code, asked.timeout) == (address, MAX_OFFSET, 3.0)
    assert asked.command.ext["queueId"] == "3"


async def test_an_answer_of_any_code_is_returned() -> None:
    bench = Bench(a=reply(22, remark="not found"))
    found = await bench.ask("a")
    assert (found.code, found.remark) == (22, "not found")


async def test_a_broker_that_fails_or_is_unknown_is_looked_for_again() -> None:
    bench = Bench(a=ConnectionLost("a has gone"))
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="has gone"):
            await bench.ask("a")
    assert len(bench.others.codes("ns:1")) == 2
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no name server knows a broker c with topic t"):
            await bench.ask("c")
    assert len(bench.others.codes("ns:1")) == 4
    bench.answers.clear()
    for _ in range(2):
        await bench.ask("a")
    assert len(bench.others.codes("ns:1")) == 5, "a route is kept"


async def test_a_route_may_be_wanted_anew() -> None:
    bench = Bench()
    for age, queries in ((5_000, 1), (5_000, 1), (0, 2)):
        assert (await bench.forwarder.route("t", max_age_ms=age)).brokers == BROKERS
        assert len(bench.others.codes("ns:1")) == queries


async def test_the_answer_goes_to_the_client_that_asked() -> None:
    bench = Bench()

    async def answer() -> Reply:
        return Reply(7, "done")

    bench.run(answer)
    assert bench.heard == []
    await asyncio.sleep(0.01)
    [heard] = bench.heard
    assert (heard.code, heard.remark, heard.opaque) == (7, "done", 5)


@pytest.mark.parametrize(
    ("fault", "code", "remark"),
    [
        (ConnectionLost("it has gone"), 1, "it has gone"),
        (NoRouteError("nobody"), 1, "nobody"),
        (BrokerError.of(22, "not there"), 22, "not there"),
        (ValueError("a bug"), 1, None),
    ],
)
async def test_a_failure_is_an_answer(fault: Exception, code: int, remark: str | None) -> None:
    bench = Bench()

    async def answer() -> Reply:
        raise fault

    bench.run(answer)
    await asyncio.sleep(0.01)
    [heard] = bench.heard
    assert heard.code == code
    assert remark is None or remark in (heard.remark or "")


async def test_at_most_a_thousand_run_at_once() -> None:
    bench = Bench()
    ends = asyncio.Event()
    fails = iter([True] + [False] * 2_000)

    async def answer() -> Reply:
        await ends.wait()
        if next(fails):
            raise ConnectionLost("it has gone")
        return Reply()

    for number in range(1_001):
        bench.run(answer, number)
    [refused] = bench.heard
    assert (refused.code, refused.opaque) == (2, 1_000), "SYSTEM_BUSY"
    ends.set()
    await asyncio.sleep(0.01)
    assert sorted(heard.opaque for heard in bench.heard) == list(range(1_001))
    assert sum(heard.code == 0 for heard in bench.heard) == 999
    bench.heard.clear()
    for number in range(1_000):
        bench.run(answer, number)
    await asyncio.sleep(0.01)
    assert {heard.code for heard in bench.heard} == {0}, "also failed ones have ended"


async def test_a_stop_ends_what_runs_and_closes_the_connections() -> None:
    bench = Bench()
    ended: list[bool] = []

    async def answer() -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return Reply()

    bench.run(answer)
    await asyncio.sleep(0.01)
    await bench.forwarder.stop()
    assert (ended, bench.heard, bench.others.is_closed) == ([True], [], True)


def test_an_answer_may_be_translated_when_it_is_sent() -> None:
    bench = Bench()
    responder = TranslatingResponder(Responder(bench.peer, 5), lambda one: Reply(one.code + 1, "translated"))
    responder.reply(Reply(7, "original"))
    [heard] = bench.heard
    assert (heard.code, heard.remark, heard.opaque) == (8, "translated", 5)
    same = Reply(7)
    assert TranslatedHold("key", 0, None).translate(same) is same
