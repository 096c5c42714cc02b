"""A broker process ends in the middle of a rebuild of consume queues: nothing is lost, no offset is given twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py import Admin
from tests.interop.ours import OurServer, OurServers
from tests.killing import Queue, read_everything, rebuild_progress, send
from tests.server.held_broker import PART_BYTES, PARTS

SECONDS = 120.0
TOPIC, COUNT, MORE = "rebuilt", 500, 40
QUEUES: list[Queue] = [(TOPIC, 0), (TOPIC, 1)]
SETTINGS = {"rebuildBytesBeforeStart": 0, "mappedFileSizeConsumeQueue": 4_000}

Messages = dict[Queue, dict[int, int]]


@contextmanager
def held(work: Path) -> Iterator[OurServers]:
    servers = OurServers(work, (sys.executable, "-m", "tests.server.held_broker"))
    try:
        yield servers
    finally:
        servers.close()


async def lose_a_queue(servers: OurServers, store: Path) -> Messages:
    """Fill a store, and remove a file of one of its queues; return what was sent."""
    server = servers.serve(store, **SETTINGS)
    with Admin(server.namesrv) as admin:
        admin.create_topic(TOPIC, queues=len(QUEUES))
    sent = await send(server.broker, range(2 * COUNT), QUEUES)
    server.stop()
    lost = sorted((store / "consumequeue" / TOPIC / "0").iterdir())[1]
    lost.unlink()
    return sent


async def begin_a_rebuild(servers: OurServers, store: Path, sent: Messages, first: int = 2 * COUNT) -> OurServer:
    """Start a broker whose rebuild stands still in the middle of the log, and send more to both queues."""
    server = servers.serve(store, **SETTINGS)
    more = await send(server.broker, range(first, first + MORE), QUEUES)
    for queue, messages in more.items():
        assert not sent[queue].keys() & messages.keys(), "an offset was given twice"
        sent[queue].update(messages)
    async with asyncio.timeout(SECONDS):
        while (await rebuild_progress(server.broker))[0] < (PARTS - 1) * PART_BYTES:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)
    assert (await rebuild_progress(server.broker))[1] > PART_BYTES
    return server


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_the_next_start_begins_the_rebuild_again(tmp_path: Path, end: str) -> None:
    store = tmp_path / "store"
    with held(tmp_path) as servers:
        sent = await lose_a_queue(servers, store)
        getattr(await begin_a_rebuild(servers, store, sent), end)()
        getattr(await begin_a_rebuild(servers, store, sent, 2 * COUNT + MORE), end)()
    servers = OurServers(tmp_path)
    last = servers.serve(store, **SETTINGS)
    try:
        async with asyncio.timeout(SECONDS):
            while (await rebuild_progress(last.broker))[1]:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        assert await read_everything(last.broker, QUEUES) == sent
        last.stop()
    finally:
        servers.close()
