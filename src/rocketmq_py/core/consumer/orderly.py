"""Orderly consumption of a queue: its lock, the calls of the listener, and the effect of results.

The rules are those of ConsumeMessageOrderlyService and ProcessQueue. Only the consumer's event loop uses a queue. An
:class:`OrderlyRun` has the messages that one worker thread passes to the listener; worker and event loop share it.
Times are arguments, in seconds of the consumer's monotonic clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

LOCK_LIVE = 30.0
"""Seconds for which a client relies on a lock after requesting it: half its lifetime at the broker, so that the client
stops before the broker gives the lock to another client.
"""
LOCK_REFRESH = 20.0
"""Seconds between renewals of all locks (rocketmq.client.rebalance.lockInterval)."""
RELOCK_DELAY = 3.0
"""Seconds until the next attempt after a lock could not be renewed."""
MAX_CONTINUOUS = 60.0
"""Maximum seconds for which one queue may use a worker without a break (rocketmq.client.maxTimeConsumeContinuously)."""
MAX_RECONSUME = 2**31 - 1
"""Number of redeliveries if the consumer sets no limit (``max_reconsume_times=-1``)."""
PAUSES = (0.01, 30.0)
"""Minimum and maximum of the pause of a suspended queue, in seconds; other values are clamped to this range."""


class OrderedQueue(ProcessQueue):
    """The process queue of a queue whose messages are consumed in order.

    A consumed message is removed and its offset is to be committed. If the listener has switched ``auto_commit`` off,
    consumed messages are kept until the listener commits or rolls back.

    :param needs_lock: True if the broker must have locked the queue for this client; False in broadcasting mode.
    """

    __slots__ = ("_kept", "_locked_at", "needs_lock")

    def __init__(self, queue: MessageQueue, now: float, *, needs_lock: bool = True) -> None:
        super().__init__(queue, now)
        self.needs_lock = needs_lock
        self._locked_at: float | None = None
        self._kept: dict[int, MessageExt] = {}  # in order of offset; all offsets are smaller than those in _messages

    # -- the lock

    @property
    def locked_at(self) -> float | None:
        """Time of the last lock request that the broker granted, in monotonic seconds; None if the lock is not held."""
        return self._locked_at

    def lock(self, at: float) -> None:
        """Record that the broker granted, or renewed, the lock that was requested at ``at`` (monotonic seconds)."""
        self._locked_at = at

    def unlock(self) -> None:
        """Record that the lock is lost or released."""
        self._locked_at = None

    def is_stale(self, now: float) -> bool:
        """Return True if the lock is due for renewal, or is not held. ``now`` is in monotonic seconds."""
        return self._locked_at is None or now - self._locked_at >= LOCK_REFRESH

    def is_usable(self, now: float) -> bool:
        """Return True if messages may be consumed now: the lock is held and cannot have expired, or none is needed.

        :param now: current time in monotonic seconds.
        """
        return not self.needs_lock or (self._locked_at is not None and now - self._locked_at <= LOCK_LIVE)

    def may_commit(self, now: float) -> bool:
        """Return True if the offsets of consumed messages may be committed.

        With a lock: while it is held, even if the queue is no longer assigned. Without locks: while it is assigned.

        :param now: current time in monotonic seconds.
        """
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
        """The consumed messages that wait for a commit or rollback, in order of offset."""
        return list(self._kept.values())

    def waiting(self) -> list[MessageExt]:
        """Return the messages that are not consumed yet, in order of offset."""
        return list(self._messages.values())

    def commit(self, messages: Iterable[MessageExt]) -> int:
        """Remove the given messages, and all that :meth:`keep` has marked: they are consumed.

        :returns: the offset to commit, that of the first message not consumed.
        """
        self.discard(messages)
        self.size -= sum([len(message.body) for message in self._kept.values()])
        self._kept.clear()
        return next(iter(self._messages), self.max_offset + 1)

    def keep(self, messages: Iterable[MessageExt]) -> None:
        """Mark messages as consumed but not committed, for a listener without ``auto_commit``.

        They stay in memory until the next :meth:`commit` or :meth:`rollback`.
        """
        for message in messages:
            if self._messages.pop(message.queue_offset, None) is not None:
                self._kept[message.queue_offset] = message

    def rollback(self) -> None:
        """Mark all messages that are consumed but not committed (:meth:`keep`) as not consumed: they come again."""
        self._messages = {**self._kept, **self._messages}
        self._kept.clear()

    def discard(self, messages: Iterable[MessageExt]) -> None:
        """Remove the given messages that are not consumed yet; the caller decides what offset to commit."""
        waiting, freed = self._messages, 0
        for message in messages:
            if waiting.pop(message.queue_offset, None) is not None:
                freed += len(message.body)
        self.size -= freed

    def _reorder(self) -> None:
        super()._reorder()
        self.size += sum([len(message.body) for message in self._kept.values()])


class OrderlyVerdict(enum.Enum):
    """What to do with a batch after the listener: commit, keep for a later commit, roll back or retry after a pause."""

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
    """Return what to do with a batch, given the listener's result and its ``auto_commit``."""
    if auto_commit:
        return OrderlyVerdict.SUSPEND if result is OrderlyResult.SUSPEND else OrderlyVerdict.COMMIT
    return _WITHOUT_AUTO_COMMIT[result]


def read_orderly_result(returned: object) -> OrderlyResult | None:
    """Convert the return value of a listener to an :class:`OrderlyResult`; return None for an illegal value.

    None and True mean success. A :class:`ConsumeResult` is converted, too.
    """
    if returned is None or returned is True or returned is ConsumeResult.SUCCESS:
        return OrderlyResult.SUCCESS
    if returned is ConsumeResult.RECONSUME_LATER:
        return OrderlyResult.SUSPEND
    return returned if isinstance(returned, OrderlyResult) else None


def suspend_seconds(asked: float | None, default: float) -> float:
    """Return the pause of a suspended queue in seconds, clamped to :data:`PAUSES`.

    :param asked: the pause that the listener set; None uses ``default``.
    """
    shortest, longest = PAUSES
    return min(max(default if asked is None else asked, shortest), longest)


class RunEnd(enum.Enum):
    """Why an :class:`OrderlyRun` ended; the values describe the reasons."""

    EMPTY = "all messages consumed"
    ROLLBACK = "rolled back"
    SUSPEND = "suspended"
    TIME = "others wait"
    UNLOCKED = "lock lost or expired"
    STOPPED = "queue dropped, or consumer closing"


class OrderlyRun:
    """Messages of one queue and topic that a worker passes to the listener, batch by batch.

    One worker calls :meth:`next` and :meth:`report` alternately. The event loop calls :meth:`settle` and
    :meth:`under_way` at any time, from another thread; no lock is needed, because each attribute has one writer.

    :param messages: the messages, in order of offset.
    :param size: maximum number of messages of a batch.
    :ivar began: when the worker asked for the first batch, in monotonic seconds; None while the run waits for a worker.
    :ivar end: why the run ended; None while it continues.
    :ivar failed: the batch that was suspended or rolled back.
    """

    __slots__ = ("_committed", "_consumed", "_seen_commit", "_seen_consumed", "_size", "auto_commit", "began", "calls",
                 "end", "failed", "messages", "queue", "requested_pause", "stopped")  # fmt: skip

    def __init__(self, queue: OrderedQueue, messages: Sequence[MessageExt], size: int) -> None:
        self.queue = queue
        self.messages = messages
        self.calls = 0
        self.stopped = False
        self.began: float | None = None
        self.end: RunEnd | None = None
        self.failed: Sequence[MessageExt] = ()
        self.requested_pause: float | None = None
        self.auto_commit = True
        self._size = size
        self._consumed = self._committed = 0
        self._seen_consumed = self._seen_commit = 0

    # -- called by the worker

    def next(self, now: float) -> Sequence[MessageExt] | None:
        """Return the next batch for the listener; None if no further batch may start, for the reason in ``end``.

        :param now: current time in monotonic seconds.
        """
        if self.began is None:
            self.began = now
        if self.end is None:
            self.end = self._end(now - self.began, now)
        if self.end is not None:
            return None
        self.calls += 1
        consumed = self._consumed
        return self.messages[consumed : consumed + self._size]

    def _end(self, seconds: float, now: float) -> RunEnd | None:
        """Return why no further batch may start after ``seconds`` of this run; None if one may."""
        if self._consumed >= len(self.messages):
            return RunEnd.EMPTY
        if self.stopped or self.queue.dropped:
            return RunEnd.STOPPED
        if not self.queue.is_usable(now):
            return RunEnd.UNLOCKED
        return RunEnd.TIME if seconds > MAX_CONTINUOUS else None

    def report(
        self,
        batch: Sequence[MessageExt],
        result: OrderlyResult,
        *,
        auto_commit: bool = True,
        pause: float | None = None,
    ) -> None:
        """Record the listener's result for a batch.

        :param pause: seconds until the batch is retried if it failed; None for the default.
        """
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

    # -- called by the event loop

    def under_way(self) -> Sequence[MessageExt]:
        """Return the batch that the listener is processing; empty before the first batch and after the last."""
        if not self.calls or self.end is not None:
            return ()
        return self.messages[self._consumed : self._consumed + self._size]

    def settle(self) -> tuple[int, int | None]:
        """Apply the results reported since the last call to the queue.

        :returns: number of messages consumed since the last call, and the offset to commit, None if there is no new
            one.
        """
        committed = self._committed  # read first, so that it is never greater than consumed
        consumed = self._consumed
        seen, offset = self._seen_consumed, None
        if committed > self._seen_commit:
            offset = self.queue.commit(self.messages[seen:committed])
            self._seen_commit = committed
        self.queue.keep(self.messages[max(seen, committed) : consumed])
        self._seen_consumed = consumed
        return consumed - seen, offset
