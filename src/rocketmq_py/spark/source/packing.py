"""Decides which ranges share a task, since a task costs tens of milliseconds however little it reads. Pure.

Costs are counted in rows: a row of more than 1 KiB counts as several, and beginning a range as some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rocketmq_py.spark.ranges import QueueRange

LEAST = 5_000
"""Cost of a task that reads about as long as it takes to start."""
MOST = 50_000
"""Cost from which on starting a task does not matter."""
TASKS = 32
"""Between the two, a read has so many tasks, so that most clusters are busy."""
PER_RANGE = 50
"""What it costs to begin a range: a request, and a decoder of its own."""
ROW_BYTES = 1024
MOST_PROBES = 256


def pack(
    ranges: Iterable[QueueRange],
    row_bytes: Mapping[str, float],
    at_least: int | None = None,
    at_most: int | None = None,
) -> list[list[QueueRange]]:
    """Combine ranges into tasks: those of one broker are neighbours, and those of a queue stay in order.

    A range that is worth a task has one of its own.

    :param row_bytes: bytes of a message of each topic; a topic may lack.
    :param at_least: number of tasks, as long as there are ranges.
    :param at_most: messages of one task that has several ranges.
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
        if more < enough:  # the last task stays open behind a range that is one by itself
            open_task, cost, rows = task, more, one.size
    return tasks


def enough_for_a_task(total: int, at_least: int | None) -> int:
    """The cost up to which ranges share a task.

    :param total: cost of all ranges.
    """
    enough = min(max(total // TASKS, LEAST), MOST)
    return enough if at_least is None else min(enough, total // at_least)


def probes(ranges: Sequence[QueueRange], known: Mapping[str, float]) -> list[QueueRange]:
    """The ranges of which a message should be looked at, to know how large those of its topic are.

    One for each topic that has ranges which may share a task, unless they have so few messages that it does not matter.
    """
    largest: dict[str, QueueRange] = {}
    rows: dict[str, int] = {}
    for one in ranges:
        topic = one.queue.topic
        if topic in known or one.size >= MOST:
            continue
        rows[topic] = rows.get(topic, 0) + one.size
        largest[topic] = max(largest.get(topic, one), one, key=lambda each: each.size)
    wanted = sorted((topic for topic, number in rows.items() if number >= LEAST // 10), key=lambda t: (-rows[t], t))
    if len(ranges) < 2:
        return []
    return [largest[topic] for topic in wanted[:MOST_PROBES]]


def estimated(topics: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Bytes of a message of each topic: of those that were not looked at, the average of the others."""
    average = sum(known.values()) / len(known) if known else ROW_BYTES
    return {topic: known.get(topic, average) for topic in topics}


def _place(one: QueueRange) -> tuple[str, str, int, int]:
    return one.queue.broker_name, one.queue.topic, one.queue.queue_id, one.start


def _cost(one: QueueRange, row_bytes: Mapping[str, float]) -> int:
    return PER_RANGE + int(one.size * max(row_bytes.get(one.queue.topic, 0) / ROW_BYTES, 1))
