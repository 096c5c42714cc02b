"""Detection of listener calls that take too long.

The beginning of a call is not recorded, because that would cost time for every message. Instead the calls in progress
are inspected from time to time, so measured times are as exact as inspections are frequent. Times are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue

CallKey = tuple[ProcessQueue, MessageExt]
"""A listener call: the queue, and its first message, which is the same object as long as the call lasts."""


class StuckCall(NamedTuple):
    """A call that takes too long, and for how many seconds it has been seen in progress."""

    key: CallKey
    seconds: float


class StuckCallChanges(NamedTuple):
    """Changes since the last inspection: newly stuck calls, and stuck ones that have ended."""

    stuck: list[StuckCall]
    ended: list[StuckCall]


class StuckCallDetector:
    """Tracks the calls in progress since when they were first seen.

    :param timeout: seconds after which a call counts as stuck.
    """

    __slots__ = ("_reported", "_since", "_timeout")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: dict[CallKey, float] = {}
        self._reported: set[CallKey] = set()

    def inspect(self, in_progress: Iterable[CallKey], now: float) -> StuckCallChanges:
        """Record the calls in progress; each stuck call is reported once, and its end once."""
        before, self._since = self._since, {}
        for key in in_progress:
            self._since[key] = before.get(key, now)
        stuck = [
            StuckCall(key, now - since)
            for key, since in self._since.items()
            if now - since >= self._timeout and key not in self._reported
        ]
        ended = [StuckCall(key, now - before[key]) for key in self._reported if key not in self._since]
        self._reported = {key for key in self._reported if key in self._since}.union(one.key for one in stuck)
        return StuckCallChanges(stuck, ended)

    def since(self, queue: ProcessQueue, message: MessageExt) -> float | None:
        """Return when the call that begins with a message was first seen; None if it is not in progress."""
        return self._since.get((queue, message))

    def stuck(self, now: float) -> list[StuckCall]:
        """Return all stuck calls, the longest first."""
        return sorted((StuckCall(key, now - self._since[key]) for key in self._reported), key=lambda one: -one.seconds)


def call_position(key: CallKey) -> tuple[MessageQueue, int]:
    """Return the queue and first offset of a call's messages."""
    process, message = key
    return message.queue if process.has_invisible_time else process.queue, message.queue_offset
