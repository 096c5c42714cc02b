"""GO_AWAY: which clients and requests get it, and until when."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server.requests import go_away as go_away_module
from rocketmq_py.server.requests.go_away import V5_3_1, GoAway
from rocketmq_py.wire.command import ONEWAY_FLAG, Command
from tests.unit.server.requests.test_dispatcher import QUEUE, Harness

GONE = 1500
CODES = (Code.GET_MAX_OFFSET, Code.QUERY_MESSAGE)


def leaving() -> tuple[Harness, GoAway]:
    harness, go_away = Harness(), GoAway(CODES)  # type: ignore[no-untyped-call]
    harness.dispatcher.send_away(go_away)
    return harness, go_away


@pytest.mark.parametrize(("version", "code"), [(0, 0), (401, 0), (V5_3_1, 0), (V5_3_1 + 1, GONE), (513, GONE)])
def test_only_clients_later_than_5_3_1_get_go_away(version: int, code: int) -> None:
    harness, go_away = leaving()
    assert harness.ask(30, QUEUE, version=version).code == code
    assert go_away.asked == 1
    assert bool(harness.handlers.calls) == (code == 0)


def test_other_requests_are_served() -> None:
    harness, go_away = leaving()
    harness.serve()
    harness.ask(999)
    assert go_away.asked == 0


def test_a_one_way_request_is_served() -> None:
    harness, _ = leaving()
    assert harness.serve(Command(30, ext=QUEUE, flag=ONEWAY_FLAG)) == []
    assert harness.handlers.calls


def test_an_overloaded_server_keeps_answering_go_away() -> None:
    harness, _ = leaving()
    harness.dispatcher.refuse({"admin": "busy"})
    harness.dispatcher.refuse({})
    assert harness.ask(30, QUEUE).code == GONE


def test_the_first_version_that_understands_go_away_is_that_of_java() -> None:
    assert V5_3_1 == 475


@pytest.mark.parametrize(("asked_until", "seconds", "ended"), [(0.0, 60.0, 1.0), (0.35, 60.0, 1.4), (9.0, 3.0, 3.0)])
async def test_go_away_ends_a_second_after_the_last_request(
    asked_until: float, seconds: float, ended: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loop:
        def __init__(self) -> None:
            self.ms = 0

        def get_running_loop(self) -> Loop:
            return self

        def time(self) -> float:
            return self.ms / 1000

        async def sleep(self, seconds: float) -> None:
            self.ms += round(1000 * seconds)
            if self.time() < asked_until:
                go_away.asked += 1

    loop, go_away = Loop(), GoAway(CODES)
    monkeypatch.setattr(go_away_module, "asyncio", loop)
    await go_away.wait(seconds)
    assert loop.time() == pytest.approx(ended, abs=0.101)


def test_go_away_ends_when_no_requests_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_away_module, "_QUIET_SECONDS", 0.2)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        go_away = GoAway(CODES)
        until = loop.time() + 0.2

        async def ask() -> None:
            while loop.time() < until:
                go_away.asked += 1
                await asyncio.sleep(0.01)

        asking = asyncio.create_task(ask())
        await go_away.wait(60)
        assert loop.time() >= until + 0.2
        await asking

    asyncio.run(main())


async def test_go_away_ends_at_its_timeout() -> None:
    go_away = GoAway(CODES)

    async def ask() -> None:
        while True:
            go_away.asked += 1
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask())
    await go_away.wait(0.3)
    asking.cancel()


async def test_asynchronous_handlers_answer_go_away() -> None:
    harness, go_away = leaving()
    harness.handlers.gate.set()
    query = {"topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "0"}
    for version in (V5_3_1, V5_3_1 + 1):
        assert harness.serve(Command(12, ext=query, version=version, opaque=version)) == []
    await harness.dispatcher.drain(5)
    assert {answer.opaque: answer.code for answer in harness.later} == {V5_3_1: 0, V5_3_1 + 1: GONE}
    assert go_away.asked == 2
