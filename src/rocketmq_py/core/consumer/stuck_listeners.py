"""Detection of listener calls that take too long.

The start of a call is not recorded, because that would cost time for every message. Instead, the calls in progress are
inspected periodically, so a measured duration is short by up to one period. Times are arguments, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue

CallKey = tuple[ProcessQueue, MessageExt]
"""Identifies a listener call: the queue and the first message, which is the same object during the whole call."""


class StuckCall(NamedTuple):
    """A listener call that takes too long, and the seconds since it was first seen in progress."""

    key: CallKey
    seconds: float


class StuckCallChanges(NamedTuple):
    """Changes since the last inspection: calls that became stuck, and stuck calls that have ended."""

    stuck: list[StuckCall]
    ended: list[StuckCall]


class StuckCallDetector:
    """Measures how long listener calls have been in progress.

    :param timeout: seconds after which a call counts as stuck.
    """

    __slots__ = ("_reported", "_since", "_timeout")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: dict[CallKey, float] = {}
        self._reported: set[CallKey] = set()

    def inspect(self, in_progress: Iterable[CallKey], now: float) -> StuckCallChanges:
        """Compare the listener calls in progress with those of the last inspection; return which became stuck or ended.

        :param in_progress: all calls in progress now. :param now: current time in seconds.
        """
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
        """Return the time of the first inspection that saw a call, in seconds; None if it is not in progress any more.

        :param message: first message of the call.
        """
        return self._since.get((queue, message))

    def stuck(self, now: float) -> list[StuckCall]:
        """Return the calls that have been in progress for longer than the timeout, longest first. ``now``: seconds."""
        return sorted((StuckCall(key, now - self._since[key]) for key in self._reported), key=lambda one: -one.seconds)


def call_position(key: CallKey) -> tuple[MessageQueue, int]:
    """Return the queue of a call's messages and the offset of the first one."""
    process, message = key
    return message.queue if process.has_invisible_time else process.queue, message.queue_offset
