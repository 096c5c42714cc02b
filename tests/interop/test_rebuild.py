"""Java's consumers at a broker that rebuilds a lost consume queue: each message comes once, in order but for POP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.broker import Broker
from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.store.log import log_parts
from tests.interop.javapeer import JavaPeer, JavaProcess, Row
from tests.interop.side import group
from tests.server.test_rebuild import COUNT, broker_without_a_queue

WAIT_SECONDS = 240.0
Place = tuple[int, int]


class Gate:
    """Keeps a rebuild from reading the log until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opened, load = asyncio.Event(), Rebuilder._load

        async def wait_and_load(rebuilder: Rebuilder, part: object) -> None:
            await self._opened.wait()
            await load(rebuilder, part)  # type: ignore[arg-type]

        monkeypatch.setattr(log_parts, "PART_BYTES", 5_000)
        monkeypatch.setattr(Rebuilder, "_load", wait_and_load)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.parametrize("mode", ["orderly", "lite", "pop"])
async def test_a_java_consumer_waits_for_a_queue_that_is_rebuilt(
    java: JavaPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    gate = Gate(monkeypatch)
    named = {"mode": mode, "from": "first", "n": 2 * COUNT}
    async with broker_without_a_queue(tmp_path) as (broker, namesrv):
        with await asyncio.to_thread(lambda: java.consumer(namesrv, "t", group(), **named)) as consumer:
            first, second = await consume(broker, consumer, gate)
    if mode == "pop":  # by several threads
        first, second = sorted(first), sorted(second)
    assert first == [(1, offset) for offset in range(COUNT)]
    assert second == [(0, offset) for offset in range(COUNT)]


async def consume(broker: Broker, consumer: JavaProcess, gate: Gate) -> tuple[list[Place], list[Place]]:
    """The messages that come while queue 0 cannot be read, and those that come later."""
    first = await places(consumer, COUNT)
    assert broker.services.rebuilder.queues_left == 1
    gate.open()
    second = await places(consumer, COUNT)
    assert broker.services.rebuilder.queues_left == 0
    return first, second


async def places(consumer: JavaProcess, number: int) -> list[Place]:
    """Queue id and offset of the next messages that a consumer gets."""
    found = await asyncio.to_thread(consumer.until, counted(number), WAIT_SECONDS)
    return [(row["queueId"], row["queueOffset"]) for row in found if is_message(row)]


def is_message(row: Row) -> bool:
    return bool(row["type"] == "msg")


def counted(number: int) -> Callable[[Row], bool]:
    left = number

    def reached(row: Row) -> bool:
        nonlocal left
        left -= is_message(row)
        return left == 0

    return reached
