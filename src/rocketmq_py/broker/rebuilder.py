"""The rebuild of damaged consume queues while the broker serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Part
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)


class Rebuilder:
    """Reads the log part by part in a thread, and gives the queues their entries in slices on the event loop.

    :param on_finished: called when queues can be read again.
    :param slices: a job is advanced for a few milliseconds per turn, so that requests are served in between.
    """

    def __init__(self, store: MessageStore, slices: SlicedWork, on_finished: Callable[[], None]) -> None:
        self._store = store
        self._slices = slices
        self._on_finished = on_finished
        self._thread = store.workers.executor("rocketmq-rebuild")
        self._work = Background()
        self._is_failing = False

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
        if self._store.rebuild.queues_left and not self._work.runs:
            self._work.start(self._run())

    async def _run(self) -> None:
        rebuild = self._store.rebuild
        try:
            while rebuild.queues_left:
                part = rebuild.begin()
                if part is not None:
                    await self._load(part)
                    await self._slices.run(rebuild.records())
                left = rebuild.queues_left
                if not rebuild.end_part():
                    return  # the store says why
                if rebuild.queues_left < left:
                    self._on_finished()
                await asyncio.sleep(0)
            self._is_failing = False
        except FileNotFoundError:
            pass  # the file has expired meanwhile: the next part begins behind it
        except OSError as e:
            if not self._is_failing:  # log once, not every second
                _log.error("the rebuild of consume queues cannot go on, trying again: %s", e)
            self._is_failing = True

    async def _load(self, part: Part) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.load, [part])

    async def stop(self) -> None:
        """End the rebuild that runs, if any; the next start begins it again."""
        await self._work.stop()
        self._slices.finish()  # the step that was under way writes nothing after the store is closed

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=True)
