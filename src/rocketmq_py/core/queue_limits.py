"""How many queues a topic may have, wherever its configuration or its route comes from.

Knows numbers alone. Java has no limit but 2,147,483,647: with that, every request that walks over the queues of a topic
stops a broker, and every client that reads the route runs out of memory.
"""

from __future__ import annotations

from rocketmq_py.errors import shortened

MAX_QUEUES = 8_192
"""Queues of a topic on one broker. Each that holds messages is a directory with files; an answer about all of
them takes a broker less than 100 ms, and more brokers give a topic more queues."""
MAX_ROUTE_QUEUES = 131_072
"""Queues of a topic on all brokers: sixteen brokers with as many as each may have."""
_MAX_PERM = 7
_QUEUE_ID_DIGITS = 10


def topic_queues_fault(topic: str, read: int, write: int) -> str | None:
    """What is wrong with the numbers of queues a topic is to have, or None."""
    for what, number in (("readQueueNums", read), ("writeQueueNums", write)):
        if not 0 <= number <= MAX_QUEUES:
            return f"{what} of topic {shortened(topic)} is {number}: 0 to {MAX_QUEUES} is expected"
    return None


def perm_fault(topic: str, perm: int) -> str | None:
    """What is wrong with the permission a topic is to have (PermName.isValid), or None."""
    if 0 <= perm <= _MAX_PERM:
        return None
    return f"perm of topic {shortened(topic)} is {perm}: 0 to {_MAX_PERM} is expected"


def retry_queues_fault(group: str, number: int) -> str | None:
    """What is wrong with the number of queues the retry topic of a group is to have, or None."""
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
    """The nearest number of queues a topic may have."""
    return max(0, min(number, MAX_QUEUES))
