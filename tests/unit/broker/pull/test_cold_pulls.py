"""Pulls of messages that are not in memory: loaded in threads, connection by connection, then answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.pull.cold_pulls import ColdPulls
from rocketmq_py.broker.pull.pull import COLD, ColdPull
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Hold, Peer, Reply, Responder
from rocketmq_py.store.fs.residency import Part, Residency
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import pull, send
from tests.unit.store.memoryfs import MemoryFileSystem


class ByHand(Executor):
    """A thread whose work ends when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        return future

    async def finish(self) -> None:
        future, work = self.work.pop(0)
        try:
            future.set_result(work())
        except OSError as e:
            future.set_exception(e)
        for _ in range(5):
            await asyncio.sleep(0)


class Pulls:
    """In place of the pull service: needs the disk so many times, then answers."""

    def __init__(self, turns: int = 1) -> None:
        self.turns = turns
        self.outcome: Reply | Hold = Reply(0, "found")

    def pull(self, peer: Peer, request: Any, *, residency: Residency) -> Reply | Hold:
        self.turns -= 1
        return self.outcome if self.turns <= 0 else cold(peer, request, residency)


def cold(peer: Peer, request: Any = None, residency: Residency | None = None) -> Hold:
    return Hold(COLD, 0, ColdPull(peer, request, residency or Residency(), [Part(Path("/f"), 0, 1)]))


class World:
    def __init__(self, threads: int = 1, limit: int = 100, turns: int = 1) -> None:
        self.loads: list[Sequence[Part]] = []
        self.failure: OSError | None = None
        self.held: list[Hold] = []
        self.answers: list[tuple[int, bytes]] = []
        self.threads = [ByHand() for _ in range(threads)]
        self.service: Any = Pulls(turns)
        self.cold = ColdPulls(
            self.service, self.load, lambda hold, _: self.held.append(hold), self.threads, lambda: limit
        )

    def load(self, parts: Sequence[Part]) -> None:
        self.loads.append(parts)
        if self.failure is not None:
            raise self.failure

    def peer(self, port: int) -> Peer:
        return Peer(("127.0.0.1", port), ("127.0.0.1", 1), lambda data: self.answers.append((port, bytes(data))))

    def keep(self, peer: Peer) -> None:
        self.cold.keep(cold(peer), Responder(peer, 1))

    async def finish(self) -> None:
        """End one load."""
        await next(thread for thread in self.threads if thread.work).finish()

    @property
    def ports(self) -> list[int]:
        return [port for port, _ in self.answers]


def test_connections_take_turns_however_many_pulls_one_has() -> None:
    async def run() -> None:
        world = World()
        greedy, modest = world.peer(1), world.peer(2)
        for _ in range(4):
            world.keep(greedy)
        world.keep(modest)
        for _ in range(5):
            await world.finish()
        assert world.ports == [1, 2, 1, 1, 1]

    asyncio.run(run())


def test_a_connection_has_one_load_under_way_and_threads_are_left_for_others() -> None:
    async def run() -> None:
        world = World(threads=2)
        greedy, modest = world.peer(1), world.peer(2)
        for _ in range(3):
            world.keep(greedy)
        assert sum(len(thread.work) for thread in world.threads) == 1
        world.keep(modest)
        assert sum(len(thread.work) for thread in world.threads) == 2

    asyncio.run(run())


def test_a_pull_that_needs_more_waits_again() -> None:
    async def run() -> None:
        world = World(turns=3)
        world.keep(world.peer(1))
        for _ in range(3):
            assert world.answers == []
            await world.finish()
        assert world.ports == [1]
        assert len(world.loads) == 3

    asyncio.run(run())


def test_a_pull_that_has_to_wait_for_a_message_after_all_is_held() -> None:
    async def run() -> None:
        world = World()
        world.service.outcome = Hold("queue", 0)
        world.keep(world.peer(1))
        await world.finish()
        assert [hold.key for hold in world.held] == ["queue"]

    asyncio.run(run())


def test_a_disk_that_fails_is_an_error_answer_and_others_go_on() -> None:
    async def run() -> None:
        world = World()
        world.failure = OSError("the disk fails")
        world.keep(world.peer(1))
        world.keep(world.peer(2))
        await world.finish()
        assert b"the disk fails" in world.answers[0][1] or b'"code":1' in world.answers[0][1]
        world.failure = None
        await world.finish()
        assert b"found" in world.answers[1][1]

    asyncio.run(run())


def test_pulls_of_a_closed_connection_are_dropped_and_too_many_are_refused() -> None:
    async def run() -> None:
        world = World(limit=2)
        gone, there = world.peer(1), world.peer(2)
        for _ in range(3):
            world.keep(gone)
        world.keep(there)
        assert world.ports == [2], "refused: one is being loaded, two wait"
        gone.lost()
        world.cold.disconnected(gone)
        assert len(world.cold) == 0
        world.keep(there)
        await world.finish()
        await world.finish()
        assert world.ports == [2, 2]

    asyncio.run(run())


def test_the_threads_end_with_the_broker() -> None:
    world = World()
    world.cold.close()
    asyncio.run(_after_close(world))


async def _after_close(world: World) -> None:
    assert len(world.cold) == 0


@pytest.mark.parametrize("suspends", [0, 2])
def test_a_broker_answers_pulls_of_old_messages_when_they_are_loaded(tmp_path: Path, suspends: int) -> None:
    fs = MemoryFileSystem()
    root = tmp_path / "store"
    with broker(root, fs=fs) as before:
        client = before.connect()
        for number in range(40):
            assert client.ask(Code.SEND_MESSAGE_V2, send(), b"%d" % number).code == 0

    async def run(running: InProcess) -> None:
        fs.resident = set()
        client, answered = running.connect(), asyncio.Event()

        def hear(data: bytes) -> None:
            client._hear(data)
            answered.set()

        client.peer = Peer(("127.0.0.1", 1), ("127.0.0.1", 10911), hear)
        assert client.call(Code.PULL_MESSAGE, pull(offset=0, sys_flag=4 | suspends)) is None
        await asyncio.wait_for(answered.wait(), 10)
        (answer,) = client.heard
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert [message.queue_offset for message in decode_records(answer.body)] == list(range(32))
        again = client.call(Code.PULL_MESSAGE, pull(offset=0, sys_flag=4))
        assert again is not None, "now it is in memory"
        assert again.body == answer.body

    with broker(root, fs=fs) as running:
        asyncio.run(run(running))
