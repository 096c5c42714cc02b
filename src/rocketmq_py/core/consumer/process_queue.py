"""The process queue: the messages of one queue that are pulled and not yet consumed.

The offset to commit is the smallest offset in it. Only the consumer's event loop uses it, so it needs no lock. Times
are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rocketmq_py.model import MessageExt, MessageQueue

PULL_MAX_IDLE = 120.0
"""Seconds without a pull after which a queue is dropped and added again (Java: pull.pullMaxIdleTime)."""


class ProcessQueue:
    """The messages of one assigned queue that are pulled and not yet consumed, by offset.

    ``dropped`` is True if the queue is no longer assigned; results of listeners still running are then ignored.
    ``size`` is the total size of the bodies in bytes. ``accumulated`` is the number of messages between the last pulled
    one and the end of the queue at the broker. Times are seconds of the consumer's monotonic clock.
    """

    has_invisible_time: ClassVar[bool] = False
    """True for popped messages: only this client may consume them during their invisible time, even if the queue is
    assigned to another client meanwhile.
    """

    __slots__ = ("_messages", "accumulated", "consumed_at", "dropped", "max_offset", "pulled_at", "queue", "size")

    def __init__(self, queue: MessageQueue, now: float) -> None:
        self.queue = queue
        self.dropped = False
        self.size = 0
        self.max_offset = -1
        self.accumulated = 0
        self.pulled_at = now
        self.consumed_at = now
        self._messages: dict[int, MessageExt] = {}  # in order of offset

    @property
    def count(self) -> int:
        return len(self._messages)

    @property
    def min_offset(self) -> int:
        """The smallest cached offset; -1 if no message is cached."""
        return next(iter(self._messages), -1)

    @property
    def span(self) -> int:
        """Distance from the smallest cached offset to the largest offset ever pulled; 0 if no message is cached.

        Consumed messages after an unconsumed one count, because they would be consumed again after a rebalance.
        """
        return self.max_offset - self.min_offset if self._messages else 0

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    def holds(self, message: MessageExt) -> bool:
        """Return True if a message is cached here, that is, not yet consumed."""
        return message.queue_offset in self._messages

    def oldest(self) -> MessageExt | None:
        """Return the cached message with the smallest offset; None if no message is cached."""
        return next(iter(self._messages.values()), None)

    def put(self, messages: Sequence[MessageExt], queue_end: int = 0) -> None:
        """Add pulled messages.

        :param messages: in order of offset.
        :param queue_end: max offset of the queue in the pull response.
        """
        if not messages:
            return
        held = self._messages
        grown = len(held) + len(messages)
        in_order = messages[0].queue_offset > self.max_offset
        held.update({message.queue_offset: message for message in messages})
        self.size += sum([len(message.body) for message in messages])
        if len(held) != grown or not in_order:
            self._reorder()
        self.max_offset = max(self.max_offset, messages[-1].queue_offset)
        self.accumulated = max(queue_end - messages[-1].queue_offset, 0)

    def _reorder(self) -> None:
        """Sort the messages after a pull returned offsets again, or smaller ones, which is rare."""
        self._messages = dict(sorted(self._messages.items()))
        self.size = sum(len(message.body) for message in self._messages.values())

    def ack(self, messages: Iterable[MessageExt]) -> int | None:
        """Remove consumed messages.

        :returns: the offset to commit; None if no message was cached before.
        """
        held = self._messages
        if not held:
            return None
        for message in messages:
            gone = held.pop(message.queue_offset, None)
            if gone is not None:
                self.size -= len(gone.body)
        return next(iter(held), self.max_offset + 1)

    def is_usable(self, now: float) -> bool:  # noqa: ARG002 - subclasses for orderly consumption use the time
        """Return True if messages may be pulled and consumed now; False for an orderly queue without a valid lock.

        :param now: current time in monotonic seconds.
        """
        return True

    def is_fresh(self, message: MessageExt, now: float) -> bool:  # noqa: ARG002 - as above
        """Return True if a message may still be consumed; False for a popped one whose invisible time is over.

        :param now: current time in monotonic seconds.
        """
        return True

    def release(self, message: MessageExt, now: float) -> object:  # noqa: ARG002 - as above
        """Remove a popped message that will not be consumed.

        :returns: the popped message with its receipt, see :meth:`PopQueue.release`; always None for pulled messages.
        """
        return None

    def is_pull_expired(self, now: float) -> bool:
        """Return True if the last pull is more than 120 s ago (``PULL_MAX_IDLE``): the pull loop must have died."""
        return now - self.pulled_at > PULL_MAX_IDLE

    def __repr__(self) -> str:
        state = "dropped" if self.dropped else f"{self.count} messages from {self.min_offset}"
        return f"ProcessQueue({self.queue}, {state})"
