"""Consuming a queue in order: its lock, what a listener has been given, what its verdicts mean.

The rules of ConsumeMessageOrderlyService and the orderly half of ProcessQueue. A queue belongs to the consumer's event
loop; a run is the part of it that one worker takes through the listener, and the only thing both touch. Refuses to
know clocks, threads and brokers: times are given, seconds of the owner's monotonic clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

LOCK_LIVE = 30.0
"""Seconds a client trusts a lock after it asked for it: half of what the broker grants, so that it stops first."""
LOCK_REFRESH = 20.0
"""Seconds between renewals of all locks (rocketmq.client.rebalance.lockInterval)."""
RELOCK_DELAY = 3.0
"""Seconds until a lock that could not be renewed is tried for again."""
MAX_CONTINUOUS = 60.0
"""Seconds one queue may keep a worker while others wait (rocketmq.client.maxTimeConsumeContinuously)."""
MAX_RECONSUME = 2**31 - 1
"""Deliveries after the first when the consumer does not say (``max_reconsume_times=-1``): as many as it takes."""
PAUSES = (0.01, 30.0)
"""The shortest and the longest pause of a suspended queue, in seconds; others are brought into this range."""


class OrderedQueue(ProcessQueue):
    """A queue whose messages are consumed one after the other.

    A message waits until a listener is done with it. It is then committed, or kept until the listener commits what it
    has done without ``auto_commit``.

    :param needs_lock: whether a broker must have locked the queue for us; not so when all members get all messages.
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
        """When the lock was last asked for successfully; None: it is not held."""
        return self._locked_at

    def lock(self, at: float) -> None:
        """The broker has granted or renewed the lock, asked for at ``at``."""
        self._locked_at = at

    def unlock(self) -> None:
        """The lock is not ours any more."""
        self._locked_at = None

    def is_stale(self, now: float) -> bool:
        """Whether the lock is due for renewal, or is to be got back."""
        return self._locked_at is None or now - self._locked_at >= LOCK_REFRESH

    def is_usable(self, now: float) -> bool:
        """Whether nobody else can be consuming the queue."""
        return not self.needs_lock or (self._locked_at is not None and now - self._locked_at <= LOCK_LIVE)

    def may_commit(self, now: float) -> bool:
        """Whether what was consumed still counts: a queue that is being handed over is ours as long as it is locked."""
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
        """What was consumed without being committed."""
        return list(self._kept.values())

    def waiting(self) -> list[MessageExt]:
        """What is to be consumed, in order."""
        return list(self._messages.values())

    def commit(self, messages: Iterable[MessageExt]) -> int:
        """Lets go of consumed messages and of all that was kept; returns the offset that may be committed."""
        self.discard(messages)
        self.size -= sum([len(message.body) for message in self._kept.values()])
        self._kept.clear()
        return next(iter(self._messages), self.max_offset + 1)

    def keep(self, messages: Iterable[MessageExt]) -> None:
        """Holds consumed messages until the next commit or rollback."""
        for message in messages:
            if self._messages.pop(message.queue_offset, None) is not None:
                self._kept[message.queue_offset] = message

    def rollback(self) -> None:
        """Has everything that was kept consumed again."""
        self._messages = {**self._kept, **self._messages}
        self._kept.clear()

    def discard(self, messages: Iterable[MessageExt]) -> None:
        """Lets go of messages that wait, without a commit."""
        waiting, freed = self._messages, 0
        for message in messages:
            if waiting.pop(message.queue_offset, None) is not None:
                freed += len(message.body)
        self.size -= freed

    def _reorder(self) -> None:
        super()._reorder()
        self.size += sum([len(message.body) for message in self._kept.values()])


class OrderlyVerdict(enum.Enum):
    """What becomes of a batch."""

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
    """What a listener's result means for its batch."""
    if auto_commit:
        return OrderlyVerdict.SUSPEND if result is OrderlyResult.SUSPEND else OrderlyVerdict.COMMIT
    return _WITHOUT_AUTO_COMMIT[result]


def read_orderly_result(returned: object) -> OrderlyResult | None:
    """What a listener's return value means; None when it means nothing.

    A listener that returns nothing has succeeded; the results of unordered listeners are understood, too.
    """
    if returned is None or returned is ConsumeResult.SUCCESS:
        return OrderlyResult.SUCCESS
    if returned is ConsumeResult.RECONSUME_LATER:
        return OrderlyResult.SUSPEND
    return returned if isinstance(returned, OrderlyResult) else None


def suspend_seconds(asked: float | None, default: float) -> float:
    """Seconds a suspended queue rests: what the listener asked for or else the default, brought into range."""
    shortest, longest = PAUSES
    return min(max(default if asked is None else asked, shortest), longest)


class RunEnd(enum.Enum):
    """Why a run is over."""

    EMPTY = "all messages consumed"
    ROLLBACK = "rolled back"
    SUSPEND = "suspended"
    TIME = "others wait"
    UNLOCKED = "lock lost or expired"
    STOPPED = "queue dropped, or consumer closing"


class OrderlyRun:
    """Messages of one queue and one topic on their way through a listener, batch after batch.

    One worker calls :meth:`next` and :meth:`report` in turn; the queue's owner calls :meth:`settle` at any time, from
    another thread if it likes: each number has one writer.

    :param size: the most messages of a batch.
    :param now: when it begins.
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
        """The batch to consume now; None at the end."""
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
        """What the listener said about a batch, and how long the queue shall rest if it failed."""
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
        """The batch a listener has now; empty before the first and after the last."""
        if not self.calls or self.end is not None:
            return ()
        return self.messages[self._consumed : self._consumed + self._size]

    def settle(self) -> tuple[int, int | None]:
        """Brings the queue up to date; returns how many more messages are consumed and the offset to commit, if any."""
        committed = self._committed  # before the other, which is then at least as great
        consumed = self._consumed
        seen, offset = self._seen_consumed, None
        if committed > self._seen_commit:
            offset = self.queue.commit(self.messages[seen:committed])
            self._seen_commit = committed
        self.queue.keep(self.messages[max(seen, committed) : consumed])
        self._seen_consumed = consumed
        return consumed - seen, offset
