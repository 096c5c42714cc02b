"""The process queue: messages of one queue that are pulled and not yet consumed.

The offset to commit is the smallest one in it. Used by the consumer's event loop alone, so it needs no lock; times are
passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rocketmq_py.model import MessageExt, MessageQueue

PULL_MAX_IDLE = 120.0
"""Seconds without a pull after which a queue counts as stuck and is rebuilt (Java: pull.pullMaxIdleTime)."""


class ProcessQueue:
    """One assigned queue.

    ``dropped``: the queue is no longer assigned, so results of running listeners do not count. ``size`` counts body
    bytes only. ``accumulated`` is the distance of the last pulled message from the end of the queue. Times are seconds
    of the owner's monotonic clock.
    """

    has_invisible_time: ClassVar[bool] = False
    """True for popped messages: each one belongs to this client for its invisible time, whoever the queue is assigned
    to.
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
        """The smallest offset in the queue, -1 if empty."""
        return next(iter(self._messages), -1)

    @property
    def span(self) -> int:
        """Largest offset ever held minus smallest offset held; it grows while one message is stuck and others pass it.

        Messages that were consumed behind a stuck one still count, because they come again after a rebalance.
        """
        return self.max_offset - self.min_offset if self._messages else 0

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    def holds(self, message: MessageExt) -> bool:
        """True if a message is here and has no result yet."""
        return message.queue_offset in self._messages

    def oldest(self) -> MessageExt | None:
        """Return the message with the smallest offset."""
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
        """Sort after a broker sent an offset again or went back, which is rare."""
        self._messages = dict(sorted(self._messages.items()))
        self.size = sum(len(message.body) for message in self._messages.values())

    def ack(self, messages: Iterable[MessageExt]) -> int | None:
        """Remove consumed messages.

        :returns: the offset to commit; None if the queue was empty.
        """
        held = self._messages
        if not held:
            return None
        for message in messages:
            gone = held.pop(message.queue_offset, None)
            if gone is not None:
                self.size -= len(gone.body)
        return next(iter(held), self.max_offset + 1)

    def is_usable(self, now: float) -> bool:  # noqa: ARG002 - it depends on the time where messages have an order
        """True if messages may be pulled and consumed now. Only orderly consumption needs a lock."""
        return True

    def is_fresh(self, message: MessageExt, now: float) -> bool:  # noqa: ARG002 - as above
        """True if a message may still be consumed; a pulled one always may."""
        return True

    def release(self, message: MessageExt, now: float) -> object:  # noqa: ARG002 - as above
        """Remove a message that is not consumed here; a pulled one stays."""
        return None

    def is_pull_expired(self, now: float) -> bool:
        """True if the last pull is so long ago that the pull loop must have been lost."""
        return now - self.pulled_at > PULL_MAX_IDLE

    def __repr__(self) -> str:
        state = "dropped" if self.dropped else f"{self.count} messages from {self.min_offset}"
        return f"ProcessQueue({self.queue}, {state})"
