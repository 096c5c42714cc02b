"""Periodic work on the event loop does not wait for the disk: a thread loads what a piece of work needs first.

While its bytes are being loaded, a piece of work has nothing to do in its turns, and other work runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from typing import TypeVar

from rocketmq_py.store.fs.residency import NotInMemory, Part, Residency

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ReadAhead:
    """Loads parts of files for pieces of work, one load after the other.

    :param load: loads parts of files into memory; it blocks and is called in a thread.
    :param new_residency: returns the object that collects what a read needs; None if the platform cannot tell what is
        in memory. Reads then wait for the disk.
    :param executor: runs the loads.
    """

    def __init__(
        self,
        load: Callable[[Sequence[Part]], None],
        new_residency: Callable[[], Residency | None],
        executor: Executor,
    ) -> None:
        self._load = load
        self._new_residency = new_residency
        self._executor = executor
        self._residencies: dict[Hashable, Residency] = {}
        """By piece of work: what was loaded for its current read."""
        self._loads: dict[Hashable, Future[None]] = {}
        self._is_failing = False

    def read(self, work: Hashable, read: Callable[[Residency | None], T]) -> T | None:
        """Return what ``read`` returns; None while what it needs is being loaded. Call it again later.

        A load that fails is started again by the next call.

        :param work: identifies the piece of work; at most one load for it is in progress.
        :param read: checks what it needs with the residency it is given, and then reads. Without one it only reads.
        """
        if not self._has_loaded(work):
            return None
        residency = self._residencies.pop(work, None) or self._new_residency()
        try:
            return read(residency)
        except NotInMemory as missing:
            assert residency is not None
            self._residencies[work] = residency
            self._loads[work] = self._executor.submit(self._load, missing.parts)
            return None

    def is_ready(self, work: Hashable, check: Callable[[Residency], None]) -> bool:
        """Return True if a piece of work can read without waiting for the disk, False while its bytes are being loaded.

        As :meth:`read`, for a caller that reads afterwards, in the same turn of the event loop.
        """

        def read(residency: Residency | None) -> bool:
            if residency is not None:
                check(residency)
            return True

        return self.read(work, read) is not None

    def forget(self, work: Hashable) -> None:
        """Drop what is known about a piece of work that is given up."""
        self._residencies.pop(work, None)
        load = self._loads.pop(work, None)
        if load is not None:
            load.cancel()

    def _has_loaded(self, work: Hashable) -> bool:
        """Return False if a load for a piece of work is in progress."""
        load = self._loads.get(work)
        if load is None:
            return True
        if not load.done():
            return False
        del self._loads[work]
        failure = load.exception()
        if failure is None:
            self._is_failing = False
            return True
        del self._residencies[work]  # its parts count as loaded, but are not
        if not self._is_failing:  # log once, not many times a second
            _log.error("the disk cannot be read for %s, trying again: %s", work, failure)
        self._is_failing = True
        return True

    def close(self) -> None:
        """Stop the thread after its current load; loads that wait for it are dropped."""
        for load in self._loads.values():
            load.cancel()
        self._executor.shutdown(wait=True)
