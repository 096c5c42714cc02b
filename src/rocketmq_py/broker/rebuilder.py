"""The rebuild of damaged consume queues, and of a missing index, while the broker serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rocketmq_py.broker.log_pass import LogPass
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore


class Rebuilder(LogPass):
    """Reads the log part by part in a thread, and gives the queues their entries in slices on the event loop.

    :param on_finished: called when queues can be read again.
    :param slices: a job is advanced for a few milliseconds per turn, so that requests are served in between.
    """

    def __init__(self, store: MessageStore, slices: SlicedWork, on_finished: Callable[[], None]) -> None:
        super().__init__(store, slices, "rocketmq-rebuild", "the rebuild of consume queues and index cannot go on")
        self._on_finished = on_finished

    @property
    def queues_left(self) -> int:
        """Number of queues whose rebuild has not ended."""
        return self._store.rebuild.queues_left

    @property
    def bytes_left(self) -> int:
        """Number of bytes of the log that are still to be read."""
        return self._store.rebuild.bytes_left

    def tick(self) -> None:
        """Start or continue the rebuild if there is one. Called periodically."""
        if self._store.rebuild.is_needed and not self._work.runs:
            self._start(self._run())

    async def _run(self) -> None:
        rebuild = self._store.rebuild
        while rebuild.is_needed:
            part = rebuild.begin()
            if part is not None:
                await self._load([part])
                await self._slices.run(rebuild.records())
            left = rebuild.queues_left
            if not rebuild.end_part():
                return  # the store says why, or its index is being saved
            if rebuild.queues_left < left:
                self._on_finished()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """End the rebuild that runs, if any; the next start begins it again."""
        await super().stop()
        self._slices.finish()  # the step that was under way writes nothing after the store is closed
