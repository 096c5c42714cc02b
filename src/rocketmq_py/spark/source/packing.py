"""Decide which ranges of queues share a Spark task: starting a task takes tens of milliseconds. No IO.

Costs are numbers of rows of 1 KiB: a larger row counts as several, and each range costs some rows in addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import LocatedRange

LEAST = 5_000
"""Cost at which a task reads for about as long as it takes to start."""
MOST = 200_000
"""Cost from which on the time to start a task is negligible."""
TASKS = 8
"""Number of tasks if that puts the cost of one between :data:`LEAST` and :data:`MOST`, 0.2 s of a core."""
PER_RANGE = 50
"""Fixed cost of a range, for a pull request and a decoder."""
ROW_BYTES = 1024
SCANNED_BYTES = 64 * 1024 * 1024
"""Bytes of a store's log that one task scans, if it has to."""
MOST_PROBES = 256


def pack(
    ranges: Iterable[QueueRange],
    row_bytes: Mapping[str, float],
    at_least: int | None = None,
    at_most: int | None = None,
) -> list[list[QueueRange]]:
    """Group ranges into tasks; return the ranges of each task, ordered by broker, topic, queue id and offset.

    A range that is large enough gets a task of its own.

    :param row_bytes: average bytes of a message by topic; topics that are missing count as 1 KiB or less.
    :param at_least: lower limit for the number of tasks, as far as there are enough ranges.
    :param at_most: upper limit for the messages of a task with several ranges.
    """
    ordered = sorted(ranges, key=_place)
    costs = [_cost(one, row_bytes) for one in ordered]
    enough = enough_for_a_task(sum(costs), at_least)
    spare = len(ordered) - (at_least or 0)
    tasks: list[list[QueueRange]] = []
    open_task: list[QueueRange] = []
    cost = rows = 0
    for one, more in zip(ordered, costs, strict=True):
        fits = cost + more <= enough and (at_most is None or rows + one.size <= at_most)
        if open_task and fits and spare > 0:
            open_task.append(one)
            cost, rows, spare = cost + more, rows + one.size, spare - 1
            continue
        task = [one]
        tasks.append(task)
        if more < enough:  # a range with a task of its own does not end the task that is being filled
            open_task, cost, rows = task, more, one.size
    return tasks


def parts_of_topics(
    ranges: Iterable[QueueRange], row_bytes: Mapping[str, float], at_least: int | None, at_most: int | None
) -> list[tuple[list[QueueRange], int]]:
    """Return the ranges of each topic and broker that several tasks read, and the number of these tasks.

    Ranges of a queue that are next to each other are one. Topics of one queue, or for one task, are left out. The
    parameters are those of :func:`pack`.
    """
    ordered = sorted(ranges, key=_place)
    enough = max(enough_for_a_task(sum(_cost(one, row_bytes) for one in ordered), at_least), 1)
    found = []
    for _, members in groupby(ordered, key=lambda one: _place(one)[:2]):
        pieces = list(members)
        cost, rows = sum(_cost(one, row_bytes) for one in pieces), sum(one.size for one in pieces)
        number = min(len(pieces), -(-cost // enough))
        if at_most is not None:
            number = max(number, -(-rows // at_most) + 1)  # cuts are not exact
        whole = _whole(pieces)
        if number > 1 and len(whole) > 1:
            found.append((whole, number))
    return found


def _whole(ranges: Iterable[QueueRange]) -> list[QueueRange]:
    found: list[QueueRange] = []
    for one in ranges:
        if found and found[-1].queue == one.queue and found[-1].stop == one.start:
            found[-1] = found[-1]._replace(stop=one.stop)
        else:
            found.append(one)
    return found


def scanned(ranges: Iterable[LocatedRange]) -> list[list[LocatedRange]]:
    """Group ranges that are found by scanning a store's log into tasks: each part of the log is scanned by one task.

    :param ranges: sorted by store and part of the log.
    """
    tasks: list[list[LocatedRange]] = []
    span: tuple[int, int] | None = None
    for one in ranges:
        assert one.span is not None
        is_other = not tasks or tasks[-1][0].range.queue.broker_name != one.range.queue.broker_name
        if is_other or (one.span != span and one.span[1] - (tasks[-1][0].span or one.span)[0] > SCANNED_BYTES):
            tasks.append([])
        tasks[-1].append(one)
        span = one.span
    return tasks


def enough_for_a_task(total: int, at_least: int | None) -> int:
    """Return the maximum cost of a task that reads several ranges. Costs are numbers of rows of 1 KiB.

    :param total: cost of all ranges.
    :param at_least: lower limit for the number of tasks; None for no limit.
    """
    enough = min(max(total // TASKS, LEAST), MOST)
    return enough if at_least is None else min(enough, total // at_least)


def probes(ranges: Sequence[QueueRange], known: Mapping[str, float]) -> list[QueueRange]:
    """Return the ranges to pull a message from, one for each topic whose average message size must be learned.

    That is the topic's largest range among those small enough to share a task. Topics in ``known`` and topics with
    few messages have none. Empty if there is only one range.

    :param known: average bytes of a message by topic.
    """
    largest: dict[str, QueueRange] = {}
    rows: dict[str, int] = {}
    for one in ranges:
        topic, size = one.queue.topic, one.size
        if topic in known or size >= MOST:
            continue
        rows[topic] = rows.get(topic, 0) + size
        if topic not in largest or size > largest[topic].size:
            largest[topic] = one
    wanted = sorted((topic for topic, number in rows.items() if number >= LEAST // 10), key=lambda t: (-rows[t], t))
    if len(ranges) < 2:
        return []
    return [largest[topic] for topic in wanted[:MOST_PROBES]]


def next_messages(start: Offsets, end: Offsets) -> list[QueueRange]:
    """Return for each topic the first message behind ``start`` of the queue with the most messages up to ``end``."""
    most: dict[str, tuple[int, QueueRange]] = {}
    for queue, stop in end.items():
        first = start.get(queue, 0)
        if stop - first > most.get(queue.topic, (0,))[0]:
            most[queue.topic] = stop - first, QueueRange(queue, first, first + 1)
    return [one for _, one in most.values()]


def estimated(topics: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Return the bytes of a message for each topic; for topics not in ``known`` the average of ``known``, or 1 KiB."""
    average = sum(known.values()) / len(known) if known else ROW_BYTES
    return {topic: known.get(topic, average) for topic in topics}


def _place(one: QueueRange) -> tuple[str, str, int, int]:
    return one.queue.broker_name, one.queue.topic, one.queue.queue_id, one.start


def _cost(one: QueueRange, row_bytes: Mapping[str, float]) -> int:
    return PER_RANGE + int(one.size * max(row_bytes.get(one.queue.topic, 0) / ROW_BYTES, 1))
