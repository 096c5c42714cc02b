"""Decisions about offsets: the start and end of a query, the ranges of a micro-batch, and what counts as data loss.

No IO. Losses are returned as sentences; callers raise or log them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from rocketmq_py.arrow.options.offsets import Boundary, Bounds, Offsets
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue


class SourcePlan(NamedTuple):
    """The ranges to read, and one sentence for each loss: messages of the read that no longer exist."""

    ranges: list[QueueRange]
    losses: list[str]


def resolve(position: Boundary | Offsets, bounds: Mapping[MessageQueue, Bounds], option: str) -> Offsets:
    """Return the offset of every queue of ``bounds`` at ``position``, with earliest and latest replaced by numbers.

    :param option: the option that gave the position, for errors.
    :raises ConfigError: the position names a queue that is not in ``bounds``, or does not name all of them.
    """
    if isinstance(position, Boundary):
        at = 0 if position is Boundary.EARLIEST else 1
        return {queue: known[at] for queue, known in bounds.items()}
    strangers, missing = sorted(position.keys() - bounds.keys()), sorted(bounds.keys() - position.keys())
    if strangers:
        raise ConfigError(f"option {option} names {_list(strangers)}, which the subscribed topics do not have")
    if missing:
        raise ConfigError(
            f"option {option} must name every queue, missing: {_list(missing)}. Use -2 for earliest, -1 for latest"
        )
    return {queue: _at(offset, bounds[queue]) for queue, offset in position.items()}


def resolve_committed(group: str, committed: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> Offsets:
    """Return a group's committed offset of each queue of ``bounds``; the earliest offset of queues without one.

    :raises ConfigError: the group has committed no offset of any queue.
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
    """Check that each queue has a message stored at or after its time; return ``found``.

    :param times: the time for each queue, in ms since 1970.
    :param found: the brokers' offsets for ``times``: the latest offset for a queue without such a message.
    :param or_latest: accept queues without such a message.
    :raises ConfigError: a queue has no such message, and ``or_latest`` is false.
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
    """Return the ranges of a batch read, shortened to offsets that exist in the queues; the difference is a loss."""
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
    """Return a sentence for each queue whose latest offset is below the start of the batch read."""
    return [
        f"{queue} ends at offset {bounds[queue].latest}, but reading was to begin at {offset}"
        for queue, offset in sorted(start.items())
        if offset > bounds[queue].latest
    ]


def _retained(wanted: QueueRange, earliest: int, losses: list[str]) -> QueueRange:
    """Return ``wanted`` without offsets below ``earliest``, which retention has removed; add them to ``losses``."""
    if not wanted.size or wanted.start >= earliest:
        return wanted
    gone = min(earliest, wanted.stop)
    losses.append(f"offsets {wanted.start} to {gone - 1} of {wanted.queue} have been removed by retention")
    return wanted._replace(start=gone)


def stream_plan(start: Offsets, stop: Offsets, earliest: Mapping[MessageQueue, int]) -> SourcePlan:
    """Return the ranges of a micro-batch from ``start`` to ``stop``.

    A queue that is not in ``start`` is new and read from its earliest offset. A queue that is not in ``stop`` was
    deleted, which is a loss.

    :param earliest: earliest offsets of the queues; those of a broker that does not respond may be missing.
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
    """Return the ranges of a query's first micro-batch if the checkpoint does not contain its starting offsets.

    When Spark repeats this micro-batch, it asks for the starting offsets again. If these are "latest", one may be
    beyond ``stop`` now: then nothing can be read of its queue, which is a loss.
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
    """Return ``latest``, with the offsets of ``start`` for missing queues, whose broker does not respond."""
    return {**start, **latest}


def admit(start: Offsets, latest: Offsets, limit: int) -> Offsets:
    """Return the end offsets of a micro-batch of at most ``limit`` messages between ``start`` and ``latest``.

    Every queue with lag gets one message (those with the largest lag, if ``limit`` is below their number), so that none
    starves; the rest is shared in proportion to lag.
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
    for queue in behind:  # rounding down left some messages over: they go to the queues with the largest lag
        extra = min(limit - sum(share.values()), lag[queue] - share.get(queue, 0))
        share[queue] = share.get(queue, 0) + extra
    return {queue: start.get(queue, 0) + share.get(queue, 0) if lag[queue] else latest[queue] for queue in latest}


def admit_bytes(start: Offsets, latest: Offsets, limit: int, sizes: Mapping[str, float]) -> Offsets:
    """Return the end offsets of a micro-batch of about ``limit`` bytes, and of one message at least.

    :param sizes: average bytes of a message, by topic.
    """
    lag = {queue: max(latest[queue] - start.get(queue, 0), 0) for queue in latest}
    size = sum(count * sizes[queue.topic] for queue, count in lag.items())
    return dict(latest) if size <= limit else admit(start, latest, max(int(sum(lag.values()) * limit / size), 1))


def split(ranges: Iterable[QueueRange], at_least: int | None, at_most: int | None) -> list[QueueRange]:
    """Split ranges into smaller ones, in the same order.

    :param at_least: lower limit for the number of ranges, unless there are fewer messages; None for none.
    :param at_most: upper limit for the messages of a range; None for none.
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
    if count == 1:
        return [one] if one.size else []
    edges = [one.start + one.size * i // count for i in range(count + 1)]
    return [one._replace(start=start, stop=stop) for start, stop in pairwise(edges) if start < stop]


def backlog(start: Offsets, latest: Offsets) -> int:
    """Return the number of messages from ``start`` to ``latest``; a queue that ``start`` lacks counts from offset 0."""
    return sum(max(end - start.get(queue, 0), 0) for queue, end in latest.items())
