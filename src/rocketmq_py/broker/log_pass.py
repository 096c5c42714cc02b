"""What passes over the commit log have in common while the broker serves: rebuild of queues, check of the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Loadable
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)


class LogPass:
    """Loads parts of the log in a thread, and works on them in slices on the event loop.

    :param thread: name of the thread.
    :param failing: what is logged if the disk fails, such as "the store cannot be checked".
    """

    def __init__(self, store: MessageStore, slices: SlicedWork, thread: str, failing: str) -> None:
        self._store = store
        self._slices = slices
        self._thread = store.workers.executor(thread)
        self._failing = failing
        self._work = Background()
        self._is_failing = False

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin some work; if the disk fails it ends, and the next one may try again."""
        self._work.start(self._until_failure(work))

    async def _until_failure(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._is_failing = False
        except FileNotFoundError:
            pass  # the file has expired meanwhile: the next part begins behind it
        except OSError as e:
            if not self._is_failing:  # log once, not every second
                _log.error("%s, trying again: %s", self._failing, e)
            self._is_failing = True

    async def _load(self, parts: Sequence[Loadable]) -> None:
        if parts:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.load, parts)

    async def stop(self) -> None:
        """End the work that runs, if any."""
        await self._work.stop()

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=True)
