"""Batches between the event loop of a lite pull consumer and a thread that polls it.

Every visit to the loop costs a thread that polls more than the messages of a pull, so the loop puts several batches out
at a time. Knows which of them a thread has taken. Needs no lock: a batch is in one place at a time, and each step is
one operation of a deque. Refuses to know offsets: what was taken is for the consumer's cache to settle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from rocketmq_py.core.consumer.lite_pull import MessageCache, PulledBatch
from rocketmq_py.model import MessageQueue

_MOST = 16
"""Batches put out at a time."""
_FRESH_SECONDS = 0.1
"""How long they may be taken without asking the loop, which alone knows that there is something to commit."""


class Handoff:
    """What is put out for threads that poll."""

    __slots__ = ("_fresh_until", "_ready", "_taken")

    def __init__(self) -> None:
        self._ready: deque[PulledBatch] = deque()
        self._taken: deque[PulledBatch] = deque()
        self._fresh_until = 0.0

    # -- by any thread

    def take(self) -> PulledBatch | None:
        """The next batch, to be given to :meth:`taken`; None when the loop has to be asked."""
        while self._fresh_until > monotonic():
            try:
                batch = self._ready.popleft()
            except IndexError:
                return None
            if not batch.process.dropped:
                return batch
        return None

    def taken(self, batch: PulledBatch) -> None:
        """The messages of a batch before its ``at`` have been handed out."""
        self._taken.append(batch)
        if batch.at < len(batch.messages):
            self._fresh_until = 0.0  # what is left of it comes first, and only the loop can put it there

    # -- by the loop

    def reclaim(self, cache: MessageCache, consumed: Callable[[MessageQueue], None]) -> None:
        """Settle what was taken, and put the rest back into the cache, in its order.

        :param consumed: told the queue of each batch that was taken.
        """
        while self._ready:
            try:
                cache.settle(self._ready.pop())
            except IndexError:  # a thread was quicker
                break
        while self._taken:
            batch = self._taken.popleft()
            cache.settle(batch)
            consumed(batch.process.queue)

    def fill(self, cache: MessageCache) -> None:
        """Put batches out."""
        while len(self._ready) < _MOST and (batch := cache.borrow_batch()) is not None:
            self._ready.append(batch)
        self._fresh_until = monotonic() + _FRESH_SECONDS
