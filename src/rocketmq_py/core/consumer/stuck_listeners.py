"""Since when listeners are at work on which messages, and which of them count as stuck.

Nobody writes down when a call of a listener begins, which would cost every message something: whoever asks looks at
what is under way from time to time, so that times are as exact as the looks are frequent. Reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue

CallKey = tuple[ProcessQueue, MessageExt]
"""A call of a listener: the queue, and its first message, which is the same object as long as the call lasts."""


class StuckCall(NamedTuple):
    """A call that takes long, and for how many seconds it has been seen under way."""

    key: CallKey
    seconds: float


class StuckCallChanges(NamedTuple):
    """What is new: calls that are stuck now, and stuck ones that have ended."""

    stuck: list[StuckCall]
    ended: list[StuckCall]


class StuckCallDetector:
    """The calls under way at the last look and since when.

    :param patience: seconds after which a call counts as stuck.
    """

    __slots__ = ("_patience", "_since", "_told")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[CallKey, float] = {}
        self._told: set[CallKey] = set()

    def look(self, under_way: Iterable[CallKey], now: float) -> StuckCallChanges:
        """Takes in what is under way; each call is told of as stuck once, and once that it has ended."""
        before, self._since = self._since, {}
        for key in under_way:
            self._since[key] = before.get(key, now)
        stuck = [
            StuckCall(key, now - since)
            for key, since in self._since.items()
            if now - since >= self._patience and key not in self._told
        ]
        ended = [StuckCall(key, now - before[key]) for key in self._told if key not in self._since]
        self._told = {key for key in self._told if key in self._since}.union(one.key for one in stuck)
        return StuckCallChanges(stuck, ended)

    def since(self, queue: ProcessQueue, message: MessageExt) -> float | None:
        """When the call that begins with a message was first seen; None when it is not under way."""
        return self._since.get((queue, message))

    def stuck(self, now: float) -> list[StuckCall]:
        """All that are stuck, the longest first."""
        return sorted((StuckCall(key, now - self._since[key]) for key in self._told), key=lambda one: -one.seconds)


def call_position(key: CallKey) -> tuple[MessageQueue, int]:
    """Where the messages of a call come from: their queue and the first offset."""
    process, message = key
    return message.queue if process.has_invisible_time else process.queue, message.queue_offset
