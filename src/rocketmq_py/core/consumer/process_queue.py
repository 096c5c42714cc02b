"""The messages of one queue that were pulled and are not yet settled.

Knows which offset may be committed: the smallest one still held. Has one owner (the consumer's event loop), so it needs
no lock; reads no clock, since times are given to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rocketmq_py.model import MessageExt, MessageQueue

PULL_MAX_IDLE = 120.0
"""Seconds without a pull after which a queue counts as stuck and is rebuilt (Java: pull.pullMaxIdleTime)."""


class ProcessQueue:
    """One assigned queue.

    ``dropped`` means: no longer ours, results of running listeners do not count. ``size`` counts body bytes only.
    ``accumulated`` is how far the last pulled message was behind the end of the queue. Times are seconds of the
    owner's monotonic clock.
    """

    has_invisible_time: ClassVar[bool] = False
    """Whether messages are ours for a limited time each, and for all of it, whoever has the queue meanwhile."""

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
        """The smallest offset held, -1 when empty."""
        return next(iter(self._messages), -1)

    @property
    def span(self) -> int:
        """Largest minus smallest offset held; grows while one message is stuck and others pass it."""
        return next(reversed(self._messages)) - self.min_offset if self._messages else 0

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    def holds(self, message: MessageExt) -> bool:
        """Whether a message is here and has no result yet."""
        return message.queue_offset in self._messages

    def oldest(self) -> MessageExt | None:
        """The message with the smallest offset."""
        return next(iter(self._messages.values()), None)

    def put(self, messages: Sequence[MessageExt], queue_end: int = 0) -> None:
        """Takes pulled messages in.

        :param messages: in order of offset.
        :param queue_end: the queue's max offset as the pull response told it.
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
        """A broker sent an offset again or went back: rare, so the plain way."""
        self._messages = dict(sorted(self._messages.items()))
        self.size = sum(len(message.body) for message in self._messages.values())

    def ack(self, messages: Iterable[MessageExt]) -> int | None:
        """Lets go of settled messages.

        :returns: the offset that may be committed now; None when nothing was held at all.
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
        """Whether its messages may be pulled and consumed now; a queue whose messages have no order needs no lock."""
        return True

    def is_fresh(self, message: MessageExt, now: float) -> bool:  # noqa: ARG002 - as above
        """Whether a message may still be consumed; one that was pulled always may."""
        return True

    def release(self, message: MessageExt, now: float) -> object:  # noqa: ARG002 - as above
        """Lets a message go that is not consumed here; one that was pulled stays until it is settled."""
        return None

    def is_pull_expired(self, now: float) -> bool:
        """Whether the queue was not pulled for so long that its pull loop must have been lost."""
        return now - self.pulled_at > PULL_MAX_IDLE

    def __repr__(self) -> str:
        state = "dropped" if self.dropped else f"{self.count} messages from {self.min_offset}"
        return f"ProcessQueue({self.queue}, {state})"
