"""Passes batches from the event loop of a lite pull consumer to threads that poll it.

A call into the event loop costs more than the messages of a pull, so the loop provides several batches at a time. No
lock is needed: a batch is in one place at a time, and each step is one operation of a deque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from rocketmq_py.core.consumer.lite_pull import MessageCache, PulledBatch
from rocketmq_py.model import MessageQueue

_MOST = 16
"""Batches provided at a time."""
_FRESH_SECONDS = 0.1
"""Seconds that they may be taken without a call into the event loop, which makes the automatic commits."""


class Handoff:
    """The batches that threads can take, and those they have taken."""

    __slots__ = ("_fresh_until", "_ready", "_taken")

    def __init__(self) -> None:
        self._ready: deque[PulledBatch] = deque()
        self._taken: deque[PulledBatch] = deque()
        self._fresh_until = 0.0

    # -- by any thread

    def take(self) -> PulledBatch | None:
        """The next batch, to be given to :meth:`taken`; None if a call into the event loop is needed."""
        while self._fresh_until > monotonic():
            try:
                batch = self._ready.popleft()
            except IndexError:
                return None
            if not batch.process.dropped:
                return batch
        return None

    def taken(self, batch: PulledBatch) -> None:
        """Note that the messages of a batch before its ``at`` have been handed out."""
        self._taken.append(batch)
        if batch.at < len(batch.messages):
            self._fresh_until = 0.0  # only the event loop can put the rest of the batch first

    # -- by the loop

    def reclaim(self, cache: MessageCache, consumed: Callable[[MessageQueue], None]) -> None:
        """Mark taken messages as consumed, and put the rest back into the cache, in order.

        :param consumed: called with the queue of each batch that was taken.
        """
        while self._ready:
            try:
                cache.settle(self._ready.pop())
            except IndexError:  # a thread has taken it meanwhile
                break
        while self._taken:
            batch = self._taken.popleft()
            cache.settle(batch)
            consumed(batch.process.queue)

    def fill(self, cache: MessageCache) -> None:
        """Provide batches of the cache."""
        while len(self._ready) < _MOST and (batch := cache.borrow_batch()) is not None:
            self._ready.append(batch)
        self._fresh_until = monotonic() + _FRESH_SECONDS
