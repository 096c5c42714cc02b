"""Keep the collections of Python's cyclic garbage collector short in a server's process.

A full collection visits every container object: with 20,000 topics it takes 230 ms, in which no request is served.
Objects that survive a long collection mostly live long (topics, queues, groups, connections), so they are frozen: later
collections do not visit them. A frozen object is still freed with its last reference; only reference cycles among
frozen objects are never freed, and a closed connection leaves no cycles.

Only the process of a server should use this, because the collector belongs to the process.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LIMIT_SECONDS = 0.01
"""After a full collection that takes longer, the objects that survived it are frozen."""

_OLDEST = 2
"""The generation of a full collection."""


@contextmanager
def paused() -> Iterator[None]:
    """Collect no garbage during the block, such as the start of a server: all it makes stays, and is visited often."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LongCollections:
    """Freezes the survivors of long full collections, from :meth:`start` to :meth:`stop`.

    :param freeze: makes later collections skip all objects that exist now; by default :func:`gc.freeze`.
    :param now: returns the time in seconds; only differences matter.
    """

    def __init__(self, freeze: Callable[[], None] = gc.freeze, now: Callable[[], float] = time.perf_counter) -> None:
        self._freeze = freeze
        self._now = now
        self._begin = 0.0
        self.count = 0
        """Number of full collections that took longer than :data:`LIMIT_SECONDS`."""

    def start(self) -> None:
        """Freeze the objects that exist now, and measure further collections."""
        self._freeze()
        gc.callbacks.append(self.called)

    def stop(self) -> None:
        """Stop measuring collections. Frozen objects stay frozen."""
        gc.callbacks.remove(self.called)

    def called(self, phase: str, info: dict[str, Any]) -> None:
        """Measure a full collection, and freeze its survivors if it was long; called before and after each collection.

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
