"""Pops of messages that are not in memory: threads load them, then they are popped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.pop import PeekMessage
from rocketmq_py.server import Peer
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.cold import READERS, answer, cold_broker, finish
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.pop.pop_client import bodies, make_topic, popped, put
from tests.unit.broker.requests import pop, send
from tests.unit.store.coldfs import ColdFileSystem
from tests.unit.store.memoryfs import MemoryFileSystem

COUNT = 40
OLD = [b"%d %d" % (queue, number) for queue in range(2) for number in range(COUNT)]


def fill(running: InProcess) -> None:
    """Messages of two queues, between larger ones of another topic."""
    client = running.connect()
    make_topic(running, 2)
    for number in range(COUNT):
        for queue in range(2):
            put(client, b"%d %d" % (queue, number), queue_id=queue, properties={"TAGS": "A" if number % 2 else "B"})
        assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0


async def pop_all(running: InProcess, fs: ColdFileSystem, **more: object) -> list[bytes]:
    """Pop until there is nothing left."""
    client, found = running.connect(), list[bytes]()
    while True:
        got = await answer(client, Code.POP_MESSAGE, pop(**more))
        assert fs.cold_reads == []
        if got.code != 0:
            assert got.code == ResponseCode.POLLING_TIMEOUT
            return found
        found += bodies(popped(got))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, OLD),
        ({"exp": "A"}, [body for body in OLD if int(body.split()[1]) % 2]),
        ({"exp": "TAGS = 'B'", "exp_type": "SQL92"}, [body for body in OLD if not int(body.split()[1]) % 2]),
        ({"init_mode": 1}, OLD),
        ({"queue_id": 1}, [body for body in OLD if body.startswith(b"1")]),
    ],
)
def test_cold_messages_are_popped_once_and_nothing_cold_is_read_on_the_loop(
    tmp_path: Path, more: dict[str, object], expected: list[bytes]
) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        assert sorted(asyncio.run(pop_all(running, fs, **more))) == sorted(expected)


def test_a_pop_in_order_of_cold_messages_is_that_of_warm_ones(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        header = pop(order=True, queue_id=1, max_msg_nums=8)
        found = asyncio.run(answer(running.connect(), Code.POP_MESSAGE, header))
        assert bodies(popped(found)) == [b"1 %d" % number for number in range(8)]
        assert fs.cold_reads == []
        blocked = running.connect().ask(Code.POP_MESSAGE, header)
        assert blocked.code == ResponseCode.POLLING_TIMEOUT


def test_a_peek_at_cold_messages_reads_nothing_cold_on_the_loop(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        header = PeekMessage(topic="t", consumer_group="g", queue_id=0, max_msg_nums=5)
        found = asyncio.run(answer(running.connect(), Code.PEEK_MESSAGE, header))
        assert [message.body for message in decode_records(found.body)] == OLD[:5]
        assert fs.cold_reads == []


def by_chance(running: InProcess, chance: int) -> None:
    """Set the number by which pops choose their first queue: 20 is queue 1, 21 is queue 0."""
    running.services.pop.pop_service.random_below = lambda _: chance


def test_a_pop_that_has_messages_does_not_wait_for_a_cold_queue(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=READERS, init_pop_offset_by_check_msg_in_mem=False) as (running, fs):
        client = running.connect()
        by_chance(running, 21)
        put(client, b"new", queue_id=0)
        first = client.ask(Code.POP_MESSAGE, pop(init_mode=1, queue_id=0))  # from the newest message on
        assert bodies(popped(first)) == [b"new"]
        put(client, b"newer", queue_id=0)
        answered = client.ask(Code.POP_MESSAGE, pop())
        assert bodies(popped(answered)) == [b"newer"]
        assert answered.ext["restNum"] == str(COUNT)
        assert fs.cold_reads == []


def test_a_pop_that_runs_again_begins_at_the_queue_that_was_loaded(tmp_path: Path) -> None:
    async def run(running: InProcess, fs: ColdFileSystem) -> None:
        client, chances = running.connect(), iter([21, 20])
        running.services.pop.pop_service.random_below = lambda _: next(chances)
        assert client.call(Code.POP_MESSAGE, pop(max_msg_nums=3)) is None
        await finish(running)
        assert bodies(popped(client.heard.pop())) == [b"0 0", b"0 1", b"0 2"]
        assert fs.cold_reads == []

    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, fs):
        asyncio.run(run(running, fs))


def test_two_consumers_that_wait_for_the_same_messages_get_different_ones(tmp_path: Path) -> None:
    async def run(running: InProcess, fs: ColdFileSystem) -> None:
        one, two = running.connect(), running.connect()
        for client in (one, two):
            assert client.call(Code.POP_MESSAGE, pop(queue_id=0, max_msg_nums=32)) is None
        await finish(running)
        found = [*bodies(popped(one.heard.pop())), *bodies(popped(two.heard.pop()))]
        assert sorted(found) == sorted(OLD[:COUNT])
        assert fs.cold_reads == []

    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, fs):
        asyncio.run(run(running, fs))


@pytest.mark.parametrize(("waited_ms", "code"), [(9_000, 0), (11_000, ResponseCode.POLLING_TIMEOUT)])
def test_a_pop_that_waited_for_the_disk_is_answered_while_its_client_waits(
    tmp_path: Path, waited_ms: int, code: int
) -> None:
    async def run(running: InProcess) -> None:
        client = running.connect()
        assert client.call(Code.POP_MESSAGE, pop(born_time=running.now)) is None
        running.now += waited_ms
        await finish(running)
        assert client.heard.pop().code == code

    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, _):
        asyncio.run(run(running))


def test_a_consumer_that_has_gone_pops_nothing(tmp_path: Path) -> None:
    async def run(running: InProcess) -> None:
        client = running.connect()
        assert client.call(Code.POP_MESSAGE, pop()) is None
        client.leave()
        await finish(running)
        assert len(running.services.pop.revive_log.inflight) == 0

    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, _):
        asyncio.run(run(running))


def test_a_disk_that_fails_is_an_error_answer_and_no_message_is_lost(tmp_path: Path) -> None:
    async def run(running: InProcess, fs: ColdFileSystem) -> None:
        fs.failing = {"load"}
        failed = await answer(running.connect(), Code.POP_MESSAGE, pop())
        assert failed.code == ResponseCode.SYSTEM_ERROR
        assert len(running.services.pop.revive_log.inflight) == 0
        fs.failing = set()
        assert sorted(await pop_all(running, fs)) == sorted(OLD)

    with cold_broker(tmp_path, fill) as (running, fs):
        asyncio.run(run(running, fs))


def test_a_check_point_is_in_the_log_before_its_pop_is_answered(tmp_path: Path) -> None:
    async def run(running: InProcess, client: Client) -> None:
        assert client.call(Code.POP_MESSAGE, pop()) is None
        await finish(running)

    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, fs):
        client, kept = running.connect(), list[MemoryFileSystem]()
        client.peer = Peer(("127.0.0.1", 1), ("127.0.0.1", 10911), lambda _: kept.append(fs.after_kill()))
        asyncio.run(run(running, client))
    (killed,) = kept
    with broker(tmp_path, fs=killed) as restarted:
        assert len(restarted.services.pop.revive_log.inflight) == 1


def test_a_platform_that_cannot_tell_is_answered_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill) as (running, fs):
        fs.tells_residency = False
        assert len(popped(running.connect().ask(Code.POP_MESSAGE, pop()))) == 32
        assert fs.cold_reads


def test_messages_in_memory_need_no_thread(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=READERS) as (running, fs):
        fs.resident = None
        assert len(popped(running.connect().ask(Code.POP_MESSAGE, pop()))) == 32
