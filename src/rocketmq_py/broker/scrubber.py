"""Check of the whole store at a bounded rate while the broker serves (``scrubBytesPerSecond``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Part
from rocketmq_py.store.read.scrub import Counts, Scrub
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

_PASS_MS = 24 * 3600 * 1000
"""Minimum time from the begin of a pass over the log to the begin of the next one."""


class Scrubber:
    """Reads the log part by part in a thread, and checks the parts in slices on the event loop.

    :param clock: returns the time in milliseconds.
    """

    def __init__(self, store: MessageStore, slices: SlicedWork, clock: Callable[[], int]) -> None:
        self._store = store
        self._slices = slices
        self._clock = clock
        self._scrub: Scrub | None = None
        """Made by the first check: the store is not open before."""
        self._thread = store.workers.executor("rocketmq-scrub")
        self._work = Background()
        self._ticked_at = clock()
        self._pass_began = 0
        self._is_in_pass = False
        self._allowed = 0.0
        """Bytes that may be read now; negative after a part that was longer."""
        self._is_failing = False

    @property
    def counts(self) -> Counts:
        """What was checked and found since the broker was started."""
        return self._scrub.counts if self._scrub is not None else Counts()

    def tick(self) -> None:
        """Start the check of the next parts if the rate allows it. Called periodically."""
        now = self._clock()
        rate = self._store.config.scrub_bytes_per_second
        self._allowed = min(self._allowed + rate * (now - self._ticked_at) / 1000, rate)
        self._ticked_at = now
        if rate > 0 and self._allowed > 0 and not self._work.runs:
            if not self._is_in_pass and now - self._pass_began < _PASS_MS:
                return
            if not self._is_in_pass:
                self._is_in_pass, self._pass_began = True, now
            self._work.start(self._run())

    async def _run(self) -> None:
        """Check parts until the bytes that may be read are used up, or the pass has ended."""
        scrub = self._scrub = self._scrub or self._store.new_scrub()
        try:
            while self._allowed > 0 and self._store.config.scrub_bytes_per_second > 0:
                part = scrub.begin()
                if part is None:
                    self._is_in_pass = False
                    _log.info("the whole store is checked: %s", self.counts)
                    return
                self._allowed -= scrub.part_bytes
                await self._load([part])
                await self._slices.run(scrub.records())
                await self._load(scrub.entries())
                await self._slices.run(scrub.queues())
            self._is_failing = False
        except FileNotFoundError:
            pass  # the file has expired meanwhile: the next part begins behind it
        except OSError as e:
            if not self._is_failing:  # log once, not every second
                _log.error("the store cannot be checked, trying again: %s", e)
            self._is_failing = True

    async def _load(self, parts: Sequence[Part]) -> None:
        if parts:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.load, parts)

    async def stop(self) -> None:
        """End the check that runs, if any."""
        await self._work.stop()

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=True)
