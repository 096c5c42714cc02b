"""Brokers after a restart of their machine: nothing of what they stored is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketmq_py.broker.pull.cold_pulls import THREADS
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import WITHOUT_TIMERS, Client, InProcess
from tests.unit.broker.network import until
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers

READERS = [f"read-{number}" for number in range(THREADS)]
"""Threads that load messages for requests."""


@contextmanager
def cold_broker(
    root: Path,
    fill: Callable[[InProcess], object],
    by_hand: Sequence[str] = (),
    later_ms: int = 0,
    fs: ColdFileSystem | None = None,
    **config: Any,
) -> Iterator[tuple[InProcess, ColdFileSystem]]:
    """A broker that has stored what ``fill`` sends, and was then restarted, ``later_ms`` later.

    :param by_hand: names of its threads whose work the test does.
    """
    fs = fs or ColdFileSystem()
    config["store"] = WITHOUT_TIMERS | config.get("store", {})
    before = InProcess(root, fs=fs, **config)
    fill(before)
    before.services.close()
    running = InProcess(root, fs=fs, now=before.now + later_ms, workers=HandWorkers(*by_hand), **config)
    fs.chill()
    try:
        yield running, fs
    finally:
        running.services.close()


def thread(running: InProcess, name: str) -> ByHand:
    """A thread of a broker that works by hand."""
    workers = running.services.store.workers
    assert isinstance(workers, HandWorkers)
    return workers.threads[f"rocketmq-{name}"]


async def finish(running: InProcess, names: Sequence[str] = READERS) -> None:
    """Do the work of threads until they have none."""
    while work := [thread(running, name) for name in names if thread(running, name).work]:
        work[0].finish()
        for _ in range(5):
            await asyncio.sleep(0)


async def answer(client: Client, code: int, header: Header | None = None, body: bytes = b"") -> Command:
    """The answer to a request, however often it has to wait for the disk."""
    found = client.call(code, header, body)

    def is_answered() -> bool:
        client.broker.run_callbacks()
        return found is not None or bool(client.heard)

    await until(is_answered)
    return found or client.heard.pop()
