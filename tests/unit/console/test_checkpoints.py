"""Checkpoints are read in a thread, by one reader at a time."""

from __future__ import annotations

import asyncio
import threading

from rocketmq_py.console.checkpoints import Checkpoints
from rocketmq_py.console.views.spark import QueryState


async def test_pages_share_a_reading_also_after_one_was_given_up() -> None:
    readers: list[threading.Thread] = []
    go_on = threading.Event()

    def read() -> list[QueryState]:
        readers.append(threading.current_thread())
        go_on.wait()
        return [QueryState(str(len(readers)))]

    checkpoints = Checkpoints(read)
    given_up, first, second = (asyncio.ensure_future(checkpoints.states()) for _ in range(3))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    go_on.set()
    assert [one[0].checkpoint for one in (await first, await second, await checkpoints.states())] == ["1", "1", "2"]
    assert threading.main_thread() not in readers
