"""Passes batches of messages from the event loop of a lite pull consumer to threads that poll.

A call into the event loop costs more than the messages of a pull, so the loop provides several batches at a time. No
lock is needed: a batch is in one of two deques at a time, and every step is one atomic operation of a deque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from rocketmq_py.core.consumer.lite_pull import MessageCache, PulledBatch
from rocketmq_py.model import MessageQueue

_MOST = 16
"""Maximum number of batches that are ready for threads at a time."""
_FRESH_SECONDS = 0.1
"""Seconds after which threads must call into the event loop again: that call makes the automatic commits."""


class Handoff:
    """Passes batches of messages from the event loop to polling threads, and returns used batches to the event loop.

    It has two deques: batches ready for threads, and batches whose messages polls have returned.
    """

    __slots__ = ("_fresh_until", "_ready", "_taken")

    def __init__(self) -> None:
        self._ready: deque[PulledBatch] = deque()
        self._taken: deque[PulledBatch] = deque()
        self._fresh_until = 0.0

    # -- by any thread

    def take(self) -> PulledBatch | None:
        """Return the next batch, which the thread must pass to :meth:`taken` after use.

        None if no batch is ready, or they are older than ``_FRESH_SECONDS``: the thread must call the event loop, which
        fills the deque again.
        """
        while self._fresh_until > monotonic():
            try:
                batch = self._ready.popleft()
            except IndexError:
                return None
            if not batch.process.dropped:
                return batch
        return None

    def taken(self, batch: PulledBatch) -> None:
        """Record that the application has got the messages of a batch before index ``batch.at``."""
        self._taken.append(batch)
        if batch.at < len(batch.messages):
            self._fresh_until = 0.0  # the event loop must put the rest back before later batches

    # -- by the loop

    def reclaim(self, cache: MessageCache, consumed: Callable[[MessageQueue], None]) -> None:
        """Mark messages that the application has got as consumed, and put all others back into the cache, in order.

        :param consumed: called with the queue of each batch that a thread has used.
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
        """Make batches of the cache ready for threads."""
        while len(self._ready) < _MOST and (batch := cache.borrow_batch()) is not None:
            self._ready.append(batch)
        self._fresh_until = monotonic() + _FRESH_SECONDS
