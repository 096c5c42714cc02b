"""Limits for the number of queues of a topic, checked in configurations and routes from any source.

Java's only limit is 2,147,483,647. With that many, every request that iterates over a topic's queues blocks a broker,
and every client that reads the route runs out of memory.
"""

from __future__ import annotations

from rocketmq_py.errors import shortened

MAX_QUEUES = 8_192
"""Maximum number of queues of a topic on one broker. Each queue with messages is a directory with files; a broker needs
less than 100 ms for a response about all of them. A topic that needs more queues is created on more brokers.
"""
MAX_ROUTE_QUEUES = 131_072
"""Maximum number of queues of a topic on all brokers: the maximum of 16 brokers."""
_MAX_PERM = 7
_QUEUE_ID_DIGITS = 10


def topic_queues_fault(topic: str, read: int, write: int) -> str | None:
    """Return why the numbers of read and write queues of a topic are invalid; None if they are valid."""
    for what, number in (("readQueueNums", read), ("writeQueueNums", write)):
        if not 0 <= number <= MAX_QUEUES:
            return f"{what} of topic {shortened(topic)} is {number}: 0 to {MAX_QUEUES} is expected"
    return None


def perm_fault(topic: str, perm: int) -> str | None:
    """Return why the permission bits of a topic are invalid (PermName.isValid); None if they are valid."""
    if 0 <= perm <= _MAX_PERM:
        return None
    return f"perm of topic {shortened(topic)} is {perm}: 0 to {_MAX_PERM} is expected"


def retry_queues_fault(group: str, number: int) -> str | None:
    """Return why the number of retry queues of a group is invalid; None if it is valid."""
    if 0 <= number <= MAX_QUEUES:
        return None
    return f"retryQueueNums of group {shortened(group)} is {number}: 0 to {MAX_QUEUES} is expected"


def parse_queue_id(text: str | None) -> int | None:
    """Parse the queue id in a message property; return None if it is not a number from 0 to ``MAX_QUEUES`` - 1."""
    if text is None or not text.isdecimal() or len(text) > _QUEUE_ID_DIGITS:
        return None
    queue_id = int(text)
    return queue_id if queue_id < MAX_QUEUES else None


def clamp_queue_number(number: int) -> int:
    """Return ``number`` limited to 0 to ``MAX_QUEUES``."""
    return max(0, min(number, MAX_QUEUES))
