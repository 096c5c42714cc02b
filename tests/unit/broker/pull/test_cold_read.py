"""Requests that read old messages, other than pulls: a thread loads what they need, then they are answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.offset import SearchOffset
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.store.coldfs import ColdFileSystem

COUNT = 300


@pytest.fixture
def fs(tmp_path: Path) -> ColdFileSystem:
    """The files of a broker with messages of one queue, one each millisecond, between larger ones of another."""
    fs = ColdFileSystem()
    with broker(tmp_path / "store", fs=fs) as running:
        client = running.connect()
        for number in range(COUNT):
            running.now = START_MS + number
            assert client.ask(Code.SEND_MESSAGE_V2, send("t"), b"%d" % number).code == 0
            assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0
    return fs


def header(time: int, boundary: str) -> SearchOffset:
    return SearchOffset(topic="t", queue_id=0, timestamp=time, boundary_type=boundary)


async def search(running: InProcess, client: Client, time: int, boundary: str = "lower") -> Command:
    """The answer to a search, however often it has to wait; messages arrive at the queue meanwhile."""
    answer = client.call(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(time, boundary))
    while answer is None and not client.heard:
        running.connect().ask(Code.SEND_MESSAGE_V2, send("t"), b"new")
        await asyncio.sleep(0)
    return answer or client.heard.pop()


@pytest.mark.parametrize("at", [-5, 0, 1, 123, COUNT - 1])
@pytest.mark.parametrize("boundary", ["lower", "upper"])
def test_a_search_by_time_reads_nothing_cold_on_the_loop(
    tmp_path: Path, fs: ColdFileSystem, at: int, boundary: str
) -> None:
    async def run() -> None:
        fs.chill()
        client = running.connect()
        answer = await search(running, client, START_MS + at, boundary)
        assert (answer.code, answer.ext["offset"]) == (0, str(max(at, 0)))
        assert fs.cold_reads == []

    with broker(tmp_path / "store", fs=fs, now=START_MS + 10_000) as running:
        asyncio.run(run())


def test_a_search_in_memory_is_answered_at_once(tmp_path: Path, fs: ColdFileSystem) -> None:
    with broker(tmp_path / "store", fs=fs, now=START_MS + 10_000) as running:
        answer = running.connect().ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(START_MS + 123, "lower"))
        assert answer.ext["offset"] == "123"


def test_a_platform_that_cannot_tell_is_answered_at_once(tmp_path: Path, fs: ColdFileSystem) -> None:
    with broker(tmp_path / "store", fs=fs, now=START_MS + 10_000) as running:
        fs.chill()
        fs.tells_residency = False
        answer = running.connect().ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, header(START_MS + 123, "lower"))
        assert answer.ext["offset"] == "123"
        assert fs.cold_reads


def test_a_disk_that_fails_is_an_error_answer(tmp_path: Path, fs: ColdFileSystem) -> None:
    async def run() -> None:
        fs.chill()
        fs.failing = {"load"}
        answer = await search(running, running.connect(), START_MS + 123)
        assert answer.code != 0
        assert fs.cold_reads == []
        fs.failing = set()

    with broker(tmp_path / "store", fs=fs, now=START_MS + 10_000) as running:
        asyncio.run(run())
