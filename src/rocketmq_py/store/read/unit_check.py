"""Check of the units of a batch consume queue against the records of the log, and what wrong ones must be."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue, BatchUnit


def unit_of(found: Found, delays: list[int]) -> BatchUnit:
    """Return the unit that a record has in its batch consume queue.

    :param delays: milliseconds of the delay levels, level 1 first.
    """
    properties = dispatch_fields.parse(found.properties)
    code = dispatch_fields.stored_tags_code(found.topic, properties, found.store_timestamp, delays)
    count = dispatch_fields.inner_count(found.sys_flag, properties)
    return BatchUnit(found.physical_offset, found.size, code, found.store_timestamp, found.queue_offset, count)


def wrong_units(
    queue: BatchConsumeQueue, right: Sequence[BatchUnit], residency: Residency
) -> Generator[None, None, list[tuple[int, BatchUnit]]]:
    """Return numbers and contents of the units that must be rewritten, in short steps.

    The numbers are counted from the first unit that is right, as far as the records follow each other without a gap.

    :param right: the units of records of the queue, in their order in the log.
    :raises NotInMemory: units that it needs are not in memory.
    """
    for at, unit in enumerate(right):
        number = _number_of(queue, unit, residency)
        if number is not None:
            wrong = []
            for other in _around(right, at):
                where = number + other - at
                if _unit(queue, where, residency) not in (None, right[other]):
                    wrong.append((where, right[other]))
                yield
            return wrong
        yield
    return []


def _around(right: Sequence[BatchUnit], at: int) -> Iterator[int]:
    """Iterate over the positions of units from ``at`` on, and of those before it, until messages are missing."""
    for other in range(at + 1, len(right)):
        if right[other - 1].end != right[other].base:
            break
        yield other
    for other in range(at - 1, -1, -1):
        if right[other].end != right[other + 1].base:
            break
        yield other


def _number_of(queue: BatchConsumeQueue, unit: BatchUnit, residency: Residency) -> int | None:
    """Number of a unit that the queue has exactly so; None if it has not."""
    low, high = queue.units_range
    while low < high:
        middle = (low + high) // 2
        found = _unit(queue, middle, residency)
        if found == unit:
            return middle
        if found is not None and found.physical > unit.physical:
            high = middle
        else:
            low = middle + 1
    return None


def _unit(queue: BatchConsumeQueue, number: int, residency: Residency) -> BatchUnit | None:
    """Unit with a number; None if the queue has none."""
    low, high = queue.units_range
    if not low <= number < high:
        return None
    queue.entry_queue.needs(number, 1, residency)
    residency.check()
    return queue.unit_at(number)
