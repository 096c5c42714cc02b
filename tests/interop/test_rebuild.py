"""Java's consumers at a broker of ours that rebuilds a lost consume queue: each message comes, in order, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.broker import Broker
from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.store import rebuild
from tests.interop.javapeer import JavaPeer, JavaProcess, Row
from tests.interop.side import group
from tests.server.test_rebuild import COUNT, broker_without_a_queue

WAIT_SECONDS = 120.0


class Gate:
    """Keeps a rebuild from reading the log until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opened, load = asyncio.Event(), Rebuilder._load

        async def wait_and_load(rebuilder: Rebuilder, part: object) -> None:
            await self._opened.wait()
            await load(rebuilder, part)  # type: ignore[arg-type]

        monkeypatch.setattr(rebuild, "PART_BYTES", 5_000)
        monkeypatch.setattr(Rebuilder, "_load", wait_and_load)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.parametrize("mode", ["orderly", "lite"])
async def test_a_java_consumer_waits_for_a_queue_that_is_rebuilt(
    java: JavaPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    gate = Gate(monkeypatch)
    named = {"mode": mode, "from": "first", "n": 2 * COUNT}
    async with broker_without_a_queue(tmp_path) as (broker, namesrv):
        with await asyncio.to_thread(lambda: java.consumer(namesrv, "t", group(), **named)) as consumer:
            await consume(broker, consumer, gate)


async def consume(broker: Broker, consumer: JavaProcess, gate: Gate) -> None:
    first = await rows(consumer, COUNT)
    assert broker.services.rebuilder.queues_left == 1
    assert {row["queueId"] for row in first} == {1}
    gate.open()
    second = await rows(consumer, COUNT)
    assert broker.services.rebuilder.queues_left == 0
    assert [row["queueOffset"] for row in first] == list(range(COUNT))
    assert [(row["queueId"], row["queueOffset"]) for row in second] == [(0, offset) for offset in range(COUNT)]


async def rows(consumer: JavaProcess, number: int) -> list[Row]:
    """The next messages that a consumer gets."""
    return list(filter(is_message, await asyncio.to_thread(consumer.until, counted(number), WAIT_SECONDS)))


def is_message(row: Row) -> bool:
    return bool(row["type"] == "msg")


def counted(number: int) -> Callable[[Row], bool]:
    left = number

    def reached(row: Row) -> bool:
        nonlocal left
        left -= is_message(row)
        return left == 0

    return reached
