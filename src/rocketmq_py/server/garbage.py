"""Keep the collections of Python's cyclic garbage collector short in a server's process.

A full collection visits every container object: with 20,000 topics 230 ms, in which nothing is served. What has
survived a long collection is there to stay (topics, queues, groups, connections), so it is frozen: later collections do
not visit it. An object that is frozen is still freed when its last reference goes; only reference cycles among frozen
objects would stay, and a closed connection leaves none.

For the process of a server only: the collector belongs to the whole process.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 0.01
"""A full collection that takes longer is the last one to visit what survived it."""

_OLDEST = 2
"""The generation of a full collection."""


class LongCollections:
    """Freezes the survivors of long full collections, from :meth:`start` to :meth:`stop`.

    :param freeze: makes later collections skip all objects there are; :func:`gc.freeze`.
    :param now: a clock in seconds.
    """

    def __init__(self, freeze: Callable[[], None] = gc.freeze, now: Callable[[], float] = time.perf_counter) -> None:
        self._freeze = freeze
        self._now = now
        self._begin = 0.0
        self.count = 0
        """How many collections were long."""

    def start(self) -> None:
        """Freeze what exists now, and watch collections."""
        self._freeze()
        gc.callbacks.append(self.called)

    def stop(self) -> None:
        """Watch no longer. What is frozen stays frozen."""
        gc.callbacks.remove(self.called)

    def called(self, phase: str, info: dict[str, Any]) -> None:
        """Take note of a collection; the interpreter calls this before and after each.

        :param phase: ``start`` or ``stop``.
        :param info: has the ``generation`` that is collected.
        """
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._begin = self._now()
        elif self._now() - self._begin > LIMIT_SECONDS:
            self.count += 1
            self._freeze()
