"""Records whose consume queue entries have another queue id or queue offset than the records themselves.

No checksum covers the head of a record. If a whole record is not where its head says, but an entry of its topic points
to it, and that entry stands between its neighbours, then the head is damaged.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.consume_queue import ConsumeQueue, Entry, first_from, is_blank

_AT_ONCE = 1024


class Place(NamedTuple):
    """A queue id and an offset of that queue."""

    queue_id: int
    offset: int


def place_of(queues: Sequence[ConsumeQueue], found: Found, residency: Residency) -> Generator[None, None, Place | None]:
    """Return the place whose entry points to a record, in short steps; None if there is none between its neighbours.

    :param queues: those of the record's topic.
    :raises NotInMemory: entries that it needs are not in memory.
    """
    plain = [queue for queue in queues if not queue.is_batched]
    for queue in plain:
        _need(queue, queue.min_offset, 1, residency)
    residency.check()
    for queue in plain:
        offset = _offset_in(queue, found, residency)
        if offset is not None:
            return Place(queue.queue_id, offset)
        yield
    return None


def _offset_in(queue: ConsumeQueue, found: Found, residency: Residency) -> int | None:
    physical, low, high = found.physical_offset, queue.min_offset, queue.max_offset

    def entry(offset: int) -> Entry | None:
        _need(queue, offset, 1, residency)
        residency.check()
        return queue.entry(offset)

    def skip_blanks(offset: int, end: int) -> int:
        while offset < end:
            stop = min(offset + _AT_ONCE, end)
            _need(queue, offset, stop - offset, residency)
            residency.check()
            reached = queue.skip_blanks(offset, stop)
            if reached < stop:
                return reached
            offset = stop
        return end

    first = entry(low)
    if first is None or (first[0] > physical and not is_blank(first)):
        return None  # the topic was created again behind this record
    at = first_from(entry, skip_blanks, low, high, physical)
    here, before, after = entry(at), entry(at - 1), entry(at + 1)
    if here is None or here[:2] != (physical, found.size):
        return None
    follows = before is None or is_blank(before) or before[0] + before[1] <= physical
    precedes = after is None or is_blank(after) or physical + found.size <= after[0]
    return at if follows and precedes else None


def _need(queue: ConsumeQueue, offset: int, count: int, residency: Residency) -> None:
    if queue.min_offset <= offset < queue.max_offset:
        queue.needs(offset, count, residency)
