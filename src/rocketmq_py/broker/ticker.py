"""Periodic jobs, run in the event loop by one task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketmq_py.errors import RocketMQError
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

_TURN_SECONDS = 0.01
"""When the jobs of a turn of the event loop have taken this long, the others that are due run in the next turn."""


class Job(NamedTuple):
    """A function to run every ``interval_ms``, first after ``first_ms`` if given. It must not block.

    If it returns True it has more to do and runs again in the next turn of the loop.
    """

    interval_ms: int
    run: Callable[[], object]
    first_ms: int | None = None


class Ticker:
    """Runs jobs. A failing job is logged once until it succeeds again, and keeps its interval.

    :param slow_turns: gets the duration of each run.
    """

    def __init__(self, jobs: Sequence[Job], slow_turns: SlowTurns | None = None) -> None:
        self._jobs = jobs
        self._activities = [f"the periodic job {getattr(job.run, '__qualname__', job.run)}" for job in jobs]
        self._slow_turns = slow_turns or SlowTurns()
        self._work = Background()
        self._failing: set[int] = set()
        self._now = 0.0
        """When the last job ended, or the turn began: each job begins when the one before has ended."""

    def start(self) -> None:
        """Start running the jobs; each one runs first after its ``first_ms``, or without one after its interval."""
        self._work.start(self._run())

    async def stop(self) -> None:
        """Stop running jobs. Does nothing if stopped already."""
        await self._work.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [now + (job.interval_ms if job.first_ms is None else job.first_ms) / 1000 for job in self._jobs]
        while True:
            await asyncio.sleep(max(0.0, min(due) - loop.time()))
            now = loop.time()
            self._now = time.monotonic()
            begin = self._now
            for index, job in enumerate(self._jobs):
                if due[index] <= now:
                    due[index] = now + job.interval_ms / 1000
                    if self._run_guarded(index, job):
                        due[index] = now
                    if self._now - begin >= _TURN_SECONDS:
                        await asyncio.sleep(0)
                        begin = self._now = time.monotonic()

    def _run_guarded(self, index: int, job: Job) -> bool:
        """Run a job and log if it fails; return True if it has more to do."""
        has_more = False
        try:
            has_more = job.run() is True
        except Exception as e:  # noqa: BLE001 - the other jobs, and the next run of this one, must go on
            if index not in self._failing:
                self._failing.add(index)
                fault = None if isinstance(e, OSError | RocketMQError) else e  # a failing disk needs no traceback
                _log.error("%s failed and is tried again: %s", self._activities[index], e, exc_info=fault)
        else:
            if index in self._failing:
                self._failing.discard(index)
                _log.warning("%s works again", self._activities[index])
        begin, self._now = self._now, time.monotonic()
        self._slow_turns.note(self._activities[index], self._now - begin)
        return has_more
