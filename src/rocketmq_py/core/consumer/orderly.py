"""Orderly consumption of a queue: its lock, its runs through a listener, and the meaning of results.

The rules of ConsumeMessageOrderlyService and of the orderly half of ProcessQueue. A queue belongs to the consumer's
event loop; a run is the part of it that one worker takes through the listener, and the only object both access. Times
are passed in, as seconds of the owner's monotonic clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

LOCK_LIVE = 30.0
"""Seconds a client relies on a lock after requesting it: half of what the broker grants, so that the client stops
first.
"""
LOCK_REFRESH = 20.0
"""Seconds between renewals of all locks (rocketmq.client.rebalance.lockInterval)."""
RELOCK_DELAY = 3.0
"""Seconds until the next attempt after a lock could not be renewed."""
MAX_CONTINUOUS = 60.0
"""The longest time in seconds one queue may keep a worker while others wait
(rocketmq.client.maxTimeConsumeContinuously).
"""
MAX_RECONSUME = 2**31 - 1
"""Redeliveries if the consumer sets no limit (``max_reconsume_times=-1``)."""
PAUSES = (0.01, 30.0)
"""The shortest and the longest pause of a suspended queue in seconds; other values are clamped to this range."""


class OrderedQueue(ProcessQueue):
    """A queue whose messages are consumed one after the other.

    When a listener has consumed a message, its offset is committed. If the listener has switched ``auto_commit`` off,
    the message is kept until the listener commits.

    :param needs_lock: the broker must have locked the queue for this client; False in broadcasting mode.
    """

    __slots__ = ("_kept", "_locked_at", "needs_lock")

    def __init__(self, queue: MessageQueue, now: float, *, needs_lock: bool = True) -> None:
        super().__init__(queue, now)
        self.needs_lock = needs_lock
        self._locked_at: float | None = None
        self._kept: dict[int, MessageExt] = {}  # in order of offset, all smaller than those that wait

    # -- the lock

    @property
    def locked_at(self) -> float | None:
        """Time of the last successful lock request; None if the lock is not held."""
        return self._locked_at

    def lock(self, at: float) -> None:
        """Record that the broker granted or renewed the lock requested at ``at``."""
        self._locked_at = at

    def unlock(self) -> None:
        """Record that the lock is lost or released."""
        self._locked_at = None

    def is_stale(self, now: float) -> bool:
        """True if the lock is due for renewal, or is not held."""
        return self._locked_at is None or now - self._locked_at >= LOCK_REFRESH

    def is_usable(self, now: float) -> bool:
        """True if no other client can be consuming the queue."""
        return not self.needs_lock or (self._locked_at is not None and now - self._locked_at <= LOCK_LIVE)

    def may_commit(self, now: float) -> bool:
        """True if consumed messages still count: while a queue is handed over, as long as it is locked."""
        return self.is_usable(now) and (self.needs_lock or not self.dropped)

    # -- the messages

    @property
    def count(self) -> int:
        return len(self._messages) + len(self._kept)

    @property
    def min_offset(self) -> int:
        return next(iter(self._kept or self._messages), -1)

    @property
    def kept(self) -> Sequence[MessageExt]:
        """Messages that are consumed and not yet committed."""
        return list(self._kept.values())

    def waiting(self) -> list[MessageExt]:
        """Return the messages to consume, in order."""
        return list(self._messages.values())

    def commit(self, messages: Iterable[MessageExt]) -> int:
        """Remove consumed messages and all kept ones; return the offset to commit."""
        self.discard(messages)
        self.size -= sum([len(message.body) for message in self._kept.values()])
        self._kept.clear()
        return next(iter(self._messages), self.max_offset + 1)

    def keep(self, messages: Iterable[MessageExt]) -> None:
        """Keep consumed messages until the next commit or rollback."""
        for message in messages:
            if self._messages.pop(message.queue_offset, None) is not None:
                self._kept[message.queue_offset] = message

    def rollback(self) -> None:
        """Make all kept messages wait again."""
        self._messages = {**self._kept, **self._messages}
        self._kept.clear()

    def discard(self, messages: Iterable[MessageExt]) -> None:
        """Remove waiting messages without a commit."""
        waiting, freed = self._messages, 0
        for message in messages:
            if waiting.pop(message.queue_offset, None) is not None:
                freed += len(message.body)
        self.size -= freed

    def _reorder(self) -> None:
        super()._reorder()
        self.size += sum([len(message.body) for message in self._kept.values()])


class OrderlyVerdict(enum.Enum):
    """What to do with a batch."""

    COMMIT = "commit"
    KEEP = "keep"
    ROLLBACK = "rollback"
    SUSPEND = "suspend"


_WITHOUT_AUTO_COMMIT = {
    OrderlyResult.SUCCESS: OrderlyVerdict.KEEP,
    OrderlyResult.COMMIT: OrderlyVerdict.COMMIT,
    OrderlyResult.ROLLBACK: OrderlyVerdict.ROLLBACK,
    OrderlyResult.SUSPEND: OrderlyVerdict.SUSPEND,
}


def decide_batch(result: OrderlyResult, *, auto_commit: bool) -> OrderlyVerdict:
    """Return what to do with a batch after a listener's result."""
    if auto_commit:
        return OrderlyVerdict.SUSPEND if result is OrderlyResult.SUSPEND else OrderlyVerdict.COMMIT
    return _WITHOUT_AUTO_COMMIT[result]


def read_orderly_result(returned: object) -> OrderlyResult | None:
    """The meaning of a listener's return value; None for an illegal one.

    None and True are a success. The results of concurrent listeners are accepted, too.
    """
    if returned is None or returned is True or returned is ConsumeResult.SUCCESS:
        return OrderlyResult.SUCCESS
    if returned is ConsumeResult.RECONSUME_LATER:
        return OrderlyResult.SUSPEND
    return returned if isinstance(returned, OrderlyResult) else None


def suspend_seconds(asked: float | None, default: float) -> float:
    """Return the pause of a suspended queue: the listener's, else the default, clamped to the allowed range."""
    shortest, longest = PAUSES
    return min(max(default if asked is None else asked, shortest), longest)


class RunEnd(enum.Enum):
    """Why a run ended."""

    EMPTY = "all messages consumed"
    ROLLBACK = "rolled back"
    SUSPEND = "suspended"
    TIME = "others wait"
    UNLOCKED = "lock lost or expired"
    STOPPED = "queue dropped, or consumer closing"


class OrderlyRun:
    """Messages of one queue and one topic on their way through a listener, batch by batch.

    One worker calls :meth:`next` and :meth:`report` in turn; the queue's owner calls :meth:`settle` at any time, also
    from another thread: each number has one writer.

    :param size: the most messages of a batch.
    :param now: time of the start.
    """

    __slots__ = ("_began", "_committed", "_consumed", "_seen_commit", "_seen_consumed", "_size", "auto_commit",
                 "calls", "end", "failed", "messages", "queue", "requested_pause", "stopped")  # fmt: skip

    def __init__(self, queue: OrderedQueue, messages: Sequence[MessageExt], size: int, now: float) -> None:
        self.queue = queue
        self.messages = messages
        self.calls = 0
        self.stopped = False
        self.end: RunEnd | None = None
        self.failed: Sequence[MessageExt] = ()
        self.requested_pause: float | None = None
        self.auto_commit = True
        self._size = size
        self._began = now
        self._consumed = self._committed = 0
        self._seen_consumed = self._seen_commit = 0

    # -- the worker's

    def next(self, now: float) -> Sequence[MessageExt] | None:
        """Return the next batch; None at the end."""
        if self.end is None:
            self.end = self._end(now)
        if self.end is not None:
            return None
        self.calls += 1
        return self.messages[self._consumed : self._consumed + self._size]

    def _end(self, now: float) -> RunEnd | None:
        if self._consumed >= len(self.messages):
            return RunEnd.EMPTY
        if self.stopped or self.queue.dropped:
            return RunEnd.STOPPED
        if not self.queue.is_usable(now):
            return RunEnd.UNLOCKED
        return RunEnd.TIME if now - self._began > MAX_CONTINUOUS else None

    def report(
        self,
        batch: Sequence[MessageExt],
        result: OrderlyResult,
        *,
        auto_commit: bool = True,
        pause: float | None = None,
    ) -> None:
        """Record the result of a batch, and the pause to make if it failed."""
        verdict = decide_batch(result, auto_commit=auto_commit)
        if verdict is OrderlyVerdict.COMMIT:
            self._consumed += len(batch)
            self._committed = self._consumed
        elif verdict is OrderlyVerdict.KEEP:
            self._consumed += len(batch)
        else:
            self.requested_pause, self.auto_commit = pause, auto_commit
            self.failed = batch
            self.end = RunEnd.ROLLBACK if verdict is OrderlyVerdict.ROLLBACK else RunEnd.SUSPEND

    # -- the owner's

    def under_way(self) -> Sequence[MessageExt]:
        """Return the batch that the listener has now; empty before the first and after the last."""
        if not self.calls or self.end is not None:
            return ()
        return self.messages[self._consumed : self._consumed + self._size]

    def settle(self) -> tuple[int, int | None]:
        """Apply the results so far to the queue; return the number of newly consumed messages and the offset to commit,
        if any.
        """
        committed = self._committed  # before the other, which is then at least as great
        consumed = self._consumed
        seen, offset = self._seen_consumed, None
        if committed > self._seen_commit:
            offset = self.queue.commit(self.messages[seen:committed])
            self._seen_commit = committed
        self.queue.keep(self.messages[max(seen, committed) : consumed])
        self._seen_consumed = consumed
        return consumed - seen, offset
