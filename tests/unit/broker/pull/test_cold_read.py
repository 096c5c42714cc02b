"""Requests that read old messages, other than pulls: a thread loads what they need, then they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py.broker.pull.cold_pulls import THREADS
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.offset import SearchOffset
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import START_MS, WITHOUT_TIMERS, Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.store.coldfs import ColdFileSystem, HandWorkers

COUNT = 300
ROOT = Path("/store")


@pytest.fixture(scope="module")
def filled() -> ColdFileSystem:
    """The files of a broker with messages of one queue, one each millisecond, between larger ones of another."""
    fs = ColdFileSystem()
    with broker(ROOT, fs=fs, store=WITHOUT_TIMERS) as running:
        client = running.connect()
        for number in range(COUNT):
            running.now = START_MS + number
            assert client.ask(Code.SEND_MESSAGE_V2, send("t"), b"%d" % number).code == 0
            assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0
    return fs


@pytest.fixture
def fs(filled: ColdFileSystem, tmp_path: Path) -> ColdFileSystem:
    return filled.copy(ROOT, tmp_path / "store")


def header(time: int, boundary: str) -> SearchOffset:
    return SearchOffset(topic="t", queue_id=0, timestamp=time, boundary_type=boundary)


@contextmanager
def restarted(root: Path, fs: ColdFileSystem) -> Iterator[tuple[InProcess, Client, HandWorkers]]:
    """A broker after a restart of its machine, a client of it, and the threads that load messages."""
    workers = HandWorkers(*(f"read-{number}" for number in range(THREADS)))
    with broker(root / "store", fs=fs, now=START_MS + 10_000, store=WITHOUT_TIMERS, workers=workers) as running:
        fs.chill()
        yield running, running.connect(), workers


async def search(running: InProcess, client: Client, workers: HandWorkers, time: int, boundary: str) -> Command:
    """The answer to a search, however often it has to wait; messages arrive at the queue meanwhile."""
    assert client.call(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(time, boundary)) is None
    while not client.heard:
        (thread,) = [thread for thread in workers.threads.values() if thread.work]
        running.connect().ask(Code.SEND_MESSAGE_V2, send("t"), b"new")
        thread.finish()
        await turns(5)
    return client.heard.pop()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("at", [-5, 0, 1, 123, COUNT - 1])
@pytest.mark.parametrize("boundary", ["lower", "upper"])
def test_a_search_by_time_reads_nothing_cold_on_the_loop(
    tmp_path: Path, fs: ColdFileSystem, at: int, boundary: str
) -> None:
    with restarted(tmp_path, fs) as (running, client, workers):
        answer = asyncio.run(search(running, client, workers, START_MS + at, boundary))
        assert (answer.code, answer.ext["offset"]) == (0, str(max(at, 0)))
        assert fs.cold_reads == []


def test_a_search_in_memory_is_answered_at_once(tmp_path: Path, fs: ColdFileSystem) -> None:
    with restarted(tmp_path, fs) as (_, client, _):
        fs.resident = None
        answer = client.ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(START_MS + 123, "lower"))
        assert answer.ext["offset"] == "123"


def test_a_platform_that_cannot_tell_is_answered_at_once(tmp_path: Path, fs: ColdFileSystem) -> None:
    with restarted(tmp_path, fs) as (_, client, _):
        fs.tells_residency = False
        answer = client.ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(START_MS + 123, "lower"))
        assert answer.ext["offset"] == "123"
        assert fs.cold_reads


def test_a_disk_that_fails_is_an_error_answer(tmp_path: Path, fs: ColdFileSystem) -> None:
    with restarted(tmp_path, fs) as (running, client, workers):
        fs.failing = {"load"}
        answer = asyncio.run(search(running, client, workers, START_MS + 123, "lower"))
        assert answer.code != 0
        assert fs.cold_reads == []
        fs.failing = set()
