"""Limits for the number of a topic's queues, wherever its configuration or route comes from.

Java's only limit is 2,147,483,647. With that many, every request that iterates over a topic's queues blocks a broker,
and every client that reads the route runs out of memory.
"""

from __future__ import annotations

from rocketmq_py.errors import shortened

MAX_QUEUES = 8_192
"""Queues of a topic on one broker. Each queue with messages is a directory with files; a broker needs less than 100 ms
for a response about all of them. A topic gets more queues from more brokers.
"""
MAX_ROUTE_QUEUES = 131_072
"""Queues of a topic on all brokers: 16 brokers with the maximum each."""
_MAX_PERM = 7
_QUEUE_ID_DIGITS = 10


def topic_queues_fault(topic: str, read: int, write: int) -> str | None:
    """Return why the queue numbers of a topic are invalid, or None."""
    for what, number in (("readQueueNums", read), ("writeQueueNums", write)):
        if not 0 <= number <= MAX_QUEUES:
            return f"{what} of topic {shortened(topic)} is {number}: 0 to {MAX_QUEUES} is expected"
    return None


def perm_fault(topic: str, perm: int) -> str | None:
    """Return why the permission of a topic is invalid (PermName.isValid), or None."""
    if 0 <= perm <= _MAX_PERM:
        return None
    return f"perm of topic {shortened(topic)} is {perm}: 0 to {_MAX_PERM} is expected"


def retry_queues_fault(group: str, number: int) -> str | None:
    """Return why the number of retry queues of a group is invalid, or None."""
    if 0 <= number <= MAX_QUEUES:
        return None
    return f"retryQueueNums of group {shortened(group)} is {number}: 0 to {MAX_QUEUES} is expected"


def parse_queue_id(text: str | None) -> int | None:
    """The queue id that a property contains; None if it is not a number from 0 to ``MAX_QUEUES`` - 1."""
    if text is None or not text.isdecimal() or len(text) > _QUEUE_ID_DIGITS:
        return None
    queue_id = int(text)
    return queue_id if queue_id < MAX_QUEUES else None


def clamp_queue_number(number: int) -> int:
    """Return the nearest valid number of queues."""
    return max(0, min(number, MAX_QUEUES))
