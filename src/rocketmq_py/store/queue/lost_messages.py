"""Which messages the lost parts of the commit log had, as far as the consume queues tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from rocketmq_py.store.log.lost_parts import LostPart
from rocketmq_py.store.queue.consume_queue import BLANK_SIZE, ConsumeQueue


def lost_messages(queues: Iterable[ConsumeQueue], lost: Iterable[LostPart]) -> list[str]:
    """Topic, queue and offsets of the messages in each lost part, such as ``orders-0 120 to 180``."""
    parts = list(lost)
    found = []
    for queue in queues:
        for part in parts:
            first, end = offsets_between(queue, part.begin, part.end)
            if first < end:
                found.append(f"{queue.topic}-{queue.queue_id} {first} to {end - 1}")
    return found


def offsets_between(queue: ConsumeQueue, begin: int, end: int) -> tuple[int, int]:
    """First and end offset of the messages of a queue that are at ``begin`` to ``end`` of the log, even in part."""
    offsets = range(queue.min_offset, queue.max_offset)
    first = bisect_left(offsets, begin + 1, key=lambda offset: _end_at(queue, offset))
    last = bisect_left(offsets, end, key=lambda offset: _begin_at(queue, offset))
    return offsets.start + first, offsets.start + last


def _begin_at(queue: ConsumeQueue, offset: int) -> int:
    entry = queue.entry(offset)
    return -1 if entry is None or entry[1] == BLANK_SIZE else entry[0]


def _end_at(queue: ConsumeQueue, offset: int) -> int:
    entry = queue.entry(offset)
    return -1 if entry is None or entry[1] == BLANK_SIZE else entry[0] + entry[1]
