"""Attempts to reach the brokers of a topic while sends wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_py.client.send import recovery
from rocketmq_py.client.send.recovery import Recovery
from rocketmq_py.errors import NetworkError, NoRouteError, RocketMQError

Connects = Callable[[str], Any]


class Pauses:
    """Stands for the back-off: notes for which attempt it was asked."""

    def __init__(self) -> None:
        self.attempts: list[int] = []

    def seconds(self, attempt: int, chance: float) -> float:
        assert 0 <= chance < 1
        self.attempts.append(attempt)
        return 1.0


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    made = Pauses()
    monkeypatch.setattr(recovery, "BACKOFF", made)
    return made


class Bench:
    """A topic that is awaited for so many rounds, at brokers that ``connect`` reaches or not."""

    def __init__(self, connect: Connects, rounds: int = 9, addresses: tuple[str, ...] = ("a:1",)) -> None:
        self.rounds, self.addresses, self.known = rounds, addresses, list[tuple[RocketMQError | None, int]]()
        self.looked_up: list[tuple[str, float]] = []
        self.recovery = Recovery(self.look_up, connect, self.is_awaited)

    async def look_up(self, topic: str, seconds: float) -> tuple[str, ...]:
        self.looked_up.append((topic, seconds))
        return self.addresses

    def is_awaited(self, topic: str) -> bool:
        self.known.append(self.recovery.last_failure(topic))
        return len(self.known) <= self.rounds


async def test_attempts_go_on_with_longer_pauses_while_a_send_waits(pauses: Pauses) -> None:
    errors = [NetworkError("one"), NetworkError("two")]

    async def connect(_: str) -> None:
        raise errors[len(bench.known) - 1]

    bench = Bench(connect, rounds=2)
    assert bench.recovery.last_failure("t") == (None, 0)
    await bench.recovery.wait("t", 0.0)
    assert pauses.attempts == [1, 2, 3]
    assert bench.known == [(None, 0), (errors[0], 1), (errors[1], 2)]
    assert bench.looked_up == [("t", recovery._SECONDS)] * 2
    assert bench.recovery.last_failure("t") == (None, 0), "it is over"


async def test_one_broker_that_is_reached_is_enough(pauses: Pauses) -> None:
    ended: list[str] = []

    async def connect(address: str) -> None:
        if address == "dead:1":
            raise NetworkError("refused")
        try:
            await asyncio.sleep(1 if address == "slow:1" else 100)
        finally:
            ended.append(address)

    bench = Bench(connect, addresses=("dead:1", "slow:1", "silent:1"))
    begin = asyncio.get_running_loop().time()
    await bench.recovery.wait("t", 0.0)
    assert asyncio.get_running_loop().time() - begin < 10
    assert (pauses.attempts, ended) == ([1], ["slow:1", "silent:1"])


async def test_what_no_retry_can_mend_is_raised(pauses: Pauses) -> None:
    async def connect(_: str) -> None:
        raise NoRouteError("the topic does not exist")

    bench = Bench(connect)
    with pytest.raises(NoRouteError):
        await bench.recovery.wait("t", 0.0)
    assert pauses.attempts == [1]
    assert bench.recovery.last_failure("t") == (None, 0)


async def test_a_look_up_that_fails_is_repeated(pauses: Pauses) -> None:
    async def connect(_: str) -> None:
        pass

    bench = Bench(connect)
    answers: list[Exception | None] = [NetworkError("no name server"), None]
    look_up = bench.look_up

    async def later(topic: str, seconds: float) -> tuple[str, ...]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return await look_up(topic, seconds)

    bench.recovery._look_up = later
    await bench.recovery.wait("t", 0.0)
    assert (pauses.attempts, answers) == ([1, 2], [])
