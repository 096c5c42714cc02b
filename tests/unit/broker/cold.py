"""Brokers after a restart of their machine: nothing of what they stored is in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from rocketmq_py.broker.pull.cold_pulls import THREADS
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import WITHOUT_TIMERS, Client, InProcess
from tests.unit.broker.network import until
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers

ROOT = Path("/store")
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
    config["store"] = WITHOUT_TIMERS | config.get("store", {})
    if fs is None:
        filled, now = _filled(fill, json.dumps(config))
        fs = filled.copy(ROOT, root)
    else:
        now = _fill(root, fill, fs, config)
    running = InProcess(root, fs=fs, now=now + later_ms, workers=HandWorkers(*by_hand), **config)
    fs.chill()
    try:
        yield running, fs
    finally:
        running.services.close()


def _fill(root: Path, fill: Callable[[InProcess], object], fs: ColdFileSystem, config: dict[str, Any]) -> int:
    """What a broker stores; returns the time when it closed."""
    before = InProcess(root, fs=fs, **config)
    fill(before)
    before.services.close()
    return before.now


@lru_cache(maxsize=8)
def _filled(fill: Callable[[InProcess], object], config: str) -> tuple[ColdFileSystem, int]:
    """The files below ROOT, for all tests that fill a broker alike, and the time when it closed."""
    fs = ColdFileSystem()
    return fs, _fill(ROOT, fill, fs, json.loads(config))


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
