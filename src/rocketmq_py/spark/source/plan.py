"""Decisions about offsets: the start and end of a query, the ranges of a micro-batch, and what counts as lost.

Pure. Losses are returned as sentences; callers raise or log them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.options.offsets import Boundary, Bounds, Offsets
from rocketmq_py.spark.ranges import QueueRange


class SourcePlan(NamedTuple):
    """The ranges to read, and sentences about messages that are gone."""

    ranges: list[QueueRange]
    losses: list[str]


def resolve(position: Boundary | Offsets, bounds: Mapping[MessageQueue, Bounds], option: str) -> Offsets:
    """The offset of every queue at ``position``, as option ``option`` gave it.

    :raises ConfigError: offsets were given for a queue that does not exist, or for some queues only.
    """
    if isinstance(position, Boundary):
        return {queue: _at(position.number, known) for queue, known in bounds.items()}
    strangers, missing = sorted(position.keys() - bounds.keys()), sorted(bounds.keys() - position.keys())
    if strangers:
        raise ConfigError(f"option {option} names {_list(strangers)}, which the subscribed topics do not have")
    if missing:
        raise ConfigError(
            f"option {option} must name every queue, missing: {_list(missing)}. Use -2 for earliest, -1 for latest"
        )
    return {queue: _at(offset, bounds[queue]) for queue, offset in position.items()}


def resolve_committed(group: str, committed: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> Offsets:
    """The committed offsets of a group; the earliest offset of queues without one.

    :raises ConfigError: the group has no offset at all.
    """
    if bounds and not committed:
        raise ConfigError(
            f"group {group} has committed no offset of {_list(sorted(bounds))}: check option groupId, or begin with"
            " startingOffsets=earliest or latest"
        )
    return {queue: committed.get(queue, known.earliest) for queue, known in bounds.items()}


def resolve_times(
    times: Mapping[MessageQueue, int], found: Offsets, bounds: Mapping[MessageQueue, Bounds], *, or_latest: bool
) -> Offsets:
    """Check the offsets ``found`` for ``times``; the end of a queue means that it has no message that young.

    :raises ConfigError: a queue has no message that young, and ``or_latest`` is false.
    """
    without = sorted(queue for queue, offset in found.items() if offset >= bounds[queue].latest)
    if without and not or_latest:
        raise ConfigError(
            f"{_list(without)}: no message was stored at {times[without[0]]} ms since 1970 or later. To begin at the"
            " end there, set startingOffsetsByTimestampStrategy=latest"
        )
    return found


def _at(offset: int, bounds: Bounds) -> int:
    if offset == Boundary.EARLIEST.number:
        return bounds.earliest
    return bounds.latest if offset == Boundary.LATEST.number else offset


def _list(queues: list[MessageQueue]) -> str:
    shown = ", ".join(str(queue) for queue in queues[:5])
    return shown if len(queues) <= 5 else f"{shown} and {len(queues) - 5} more"


def batch_plan(start: Offsets, stop: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> SourcePlan:
    """The ranges of a batch read, without messages that are gone or do not exist yet."""
    ranges, losses = [], []
    for queue in sorted(start):
        earliest, latest = bounds[queue]
        wanted = QueueRange(queue, start[queue], stop[queue])
        if wanted.size and wanted.stop > latest:
            losses.append(f"{queue} ends at offset {latest}, but {wanted.stop} was asked for")
            wanted = wanted._replace(stop=latest)
        ranges.append(_retained(wanted, earliest, losses))
    return SourcePlan([r for r in ranges if r.size], losses)


def beyond_the_end(start: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> list[str]:
    """Sentences about queues that end before the offset where a batch read should begin."""
    return [
        f"{queue} ends at offset {bounds[queue].latest}, but reading was to begin at {offset}"
        for queue, offset in sorted(start.items())
        if offset > bounds[queue].latest
    ]


def _retained(wanted: QueueRange, earliest: int, losses: list[str]) -> QueueRange:
    """``wanted`` without offsets that retention has removed."""
    if not wanted.size or wanted.start >= earliest:
        return wanted
    gone = min(earliest, wanted.stop)
    losses.append(f"offsets {wanted.start} to {gone - 1} of {wanted.queue} have been removed by retention")
    return wanted._replace(start=gone)


def stream_plan(start: Offsets, stop: Offsets, earliest: Mapping[MessageQueue, int]) -> SourcePlan:
    """The ranges of a micro-batch.

    A queue that is not in ``start`` is new and read from its earliest offset; one that is not in ``stop`` is gone.

    :param earliest: may lack queues whose broker does not answer; the read itself then finds out.
    """
    losses = [f"{queue}, read up to offset {start[queue]}, is gone" for queue in sorted(start.keys() - stop.keys())]
    ranges = []
    for queue in sorted(stop):
        first = earliest.get(queue, 0)
        begin = start.get(queue)
        if begin is None:
            ranges.append(_newcomer(queue, first, stop[queue], losses))
        elif stop[queue] < begin:
            losses.append(f"{queue} ended at offset {begin} and now ends at {stop[queue]}: it was created again")
            ranges.append(QueueRange(queue, first, stop[queue]))
        else:
            ranges.append(_retained(QueueRange(queue, begin, stop[queue]), first, losses))
    return SourcePlan([r for r in ranges if r.size], losses)


def repeated_first_plan(start: Offsets, stop: Offsets, earliest: Mapping[MessageQueue, int]) -> SourcePlan:
    """The ranges of the first micro-batch of a query whose checkpoint does not say where it began.

    Spark asks for the initial offsets again when it repeats the micro-batch; "latest" may have moved beyond ``stop``.
    """
    moved = sorted(queue for queue in start.keys() & stop.keys() if start[queue] > stop[queue])
    losses = [
        f"the first micro-batch is repeated, and where it began in {queue} before offset {stop[queue]} is no longer"
        f" known: the initial offset is now {start[queue]}"
        for queue in moved
    ]
    plan = stream_plan(start | {queue: stop[queue] for queue in moved}, stop, earliest)
    return SourcePlan(plan.ranges, losses + plan.losses)


def _newcomer(queue: MessageQueue, earliest: int, stop: int, losses: list[str]) -> QueueRange:
    if earliest > 0:
        losses.append(f"{queue} is new to the query and starts at offset {earliest} instead of 0")
    return QueueRange(queue, earliest, stop)


def carry(start: Offsets, latest: Offsets) -> Offsets:
    """The end of a micro-batch: ``latest``, and ``start`` for queues whose broker does not answer."""
    return {**start, **latest}


def admit(start: Offsets, latest: Offsets, limit: int) -> Offsets:
    """The end of a micro-batch of at most ``limit`` messages.

    Every queue with messages gets one, so that none is starved; the rest is shared in proportion to lag.
    """
    lag = {queue: max(latest[queue] - start.get(queue, 0), 0) for queue in sorted(latest)}
    total = sum(lag.values())
    if total <= limit:
        return dict(latest)
    behind = sorted((queue for queue in lag if lag[queue]), key=lambda queue: lag[queue], reverse=True)
    share = dict.fromkeys(behind[:limit], 1)
    rest, spread = limit - len(share), total - len(share)
    for queue in share:
        share[queue] += (lag[queue] - 1) * rest // spread if spread else 0
    for queue in behind:  # what rounding down left over, to the largest first
        extra = min(limit - sum(share.values()), lag[queue] - share.get(queue, 0))
        share[queue] = share.get(queue, 0) + extra
    return {queue: start.get(queue, 0) + share.get(queue, 0) if lag[queue] else latest[queue] for queue in latest}


def split(ranges: Iterable[QueueRange], at_least: int | None, at_most: int | None) -> list[QueueRange]:
    """Split ranges, keeping their order.

    :param at_least: number of ranges, as long as each has a message.
    :param at_most: messages per range.
    """
    whole = list(ranges)
    parts = [1 if at_most is None else max(-(-one.size // at_most), 1) for one in whole]
    if at_least is not None:
        longest = [(-one.size / count, i) for i, (one, count) in enumerate(zip(whole, parts, strict=True))]
        heapq.heapify(longest)
        for _ in range(min(at_least, sum(one.size for one in whole)) - sum(parts)):
            _, i = longest[0]
            parts[i] += 1
            heapq.heapreplace(longest, (-whole[i].size / parts[i], i))
    return [piece for one, count in zip(whole, parts, strict=True) for piece in _cut(one, count)]


def _cut(one: QueueRange, count: int) -> list[QueueRange]:
    """Cut ``one`` into ``count`` ranges whose sizes differ by one message at most."""
    edges = [one.start + one.size * i // count for i in range(count + 1)]
    return [one._replace(start=start, stop=stop) for start, stop in pairwise(edges) if start < stop]


def backlog(start: Offsets, latest: Offsets) -> int:
    """The number of messages from ``start`` to ``latest``."""
    return sum(max(end - start.get(queue, 0), 0) for queue, end in latest.items())
