"""The checkpoints of streaming queries that the operator named, read in a thread, by one reader at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rocketmq_py.console.views.spark import QueryState


class Checkpoints:
    """Reads checkpoints when a page asks; pages that ask at the same time share one reading.

    :param read: reads all of them; it may block.
    """

    def __init__(self, read: Callable[[], list[QueryState]]) -> None:
        self._read = read
        self._reading: asyncio.Future[list[QueryState]] | None = None

    async def states(self) -> list[QueryState]:
        """Return what the checkpoints say now."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read))
        # A page that is given up must not start another thread beside one that hangs in a file system.
        return await asyncio.shield(self._reading)
