"""The queue of a message. Every proxy and broker must choose that of a message group alike: order depends on it."""

from __future__ import annotations

import itertools

from rocketmq_py.wire.java_hash import string_hash

_MASK = (1 << 64) - 1
_MULTIPLIER = 2862933555777941757
_STEPS = float(1 << 31)


def consistent_hash(value: int, buckets: int) -> int:
    """Return the bucket of a 64-bit number by jump consistent hashing, with the generator that Guava uses."""
    state = value & _MASK
    candidate = 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / _STEPS))
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def queue_of_group(message_group: str, queues: int) -> int:
    """Return the queue of a message group among that many queues for sends."""
    return consistent_hash(string_hash(message_group), queues)


class QueueTurns:
    """Chooses queues for messages: that of the message group, else one after the other."""

    def __init__(self) -> None:
        self._turn = itertools.count()

    def next(self, queues: int, message_group: str | None) -> int:
        """Return the queue of a message among that many queues for sends."""
        if message_group:
            return queue_of_group(message_group, queues)
        return next(self._turn) % queues
