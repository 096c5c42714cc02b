"""Decisions about offsets: where a query starts and ends, what one micro-batch reads, what counts as lost.

Pure functions of offsets; knows no network and no Spark. What is lost is returned as sentences; callers fail or warn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rocketmq_py.errors import ConfigError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.offsets import Boundary, Bounds, Offsets


class DataLossError(RocketMQError):
    """Messages a query should read are no longer there, and ``failOnDataLoss`` is true."""

    def __init__(self, losses: Iterable[str]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            "; ".join(self.losses)
            + ". To go on with what is still there, set failOnDataLoss=false; to keep messages longer, raise the"
            " broker's fileReservedTime"
        )

    def __reduce__(self) -> tuple[type[DataLossError], tuple[tuple[str, ...]]]:
        return type(self), (self.losses,)


class QueueRange(NamedTuple):
    """Messages of one queue from ``start`` up to, not including, ``stop``."""

    queue: MessageQueue
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many offsets that are."""
        return max(self.stop - self.start, 0)


class Plan(NamedTuple):
    """What to read, and what could not be planned because it is gone."""

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


def _at(offset: int, bounds: Bounds) -> int:
    if offset == Boundary.EARLIEST.number:
        return bounds.earliest
    return bounds.latest if offset == Boundary.LATEST.number else offset


def _list(queues: list[MessageQueue]) -> str:
    shown = ", ".join(str(queue) for queue in queues[:5])
    return shown if len(queues) <= 5 else f"{shown} and {len(queues) - 5} more"


def batch_plan(start: Offsets, stop: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> Plan:
    """What a batch read covers: every queue between two offsets, as far as its messages are (still) there."""
    ranges, losses = [], []
    for queue in sorted(start):
        earliest, latest = bounds[queue]
        wanted = QueueRange(queue, start[queue], stop[queue])
        if wanted.size and wanted.stop > latest:
            losses.append(f"{queue} ends at offset {latest}, but {wanted.stop} was asked for")
            wanted = wanted._replace(stop=latest)
        ranges.append(_retained(wanted, earliest, losses))
    return Plan([r for r in ranges if r.size], losses)


def _retained(wanted: QueueRange, earliest: int, losses: list[str]) -> QueueRange:
    """``wanted`` without what retention has removed."""
    if not wanted.size or wanted.start >= earliest:
        return wanted
    gone = min(earliest, wanted.stop)
    losses.append(f"offsets {wanted.start} to {gone - 1} of {wanted.queue} have been removed by retention")
    return wanted._replace(start=gone)


def stream_plan(start: Offsets, stop: Offsets, earliest: Mapping[MessageQueue, int]) -> Plan:
    """What a micro-batch covers.

    A queue that is not in ``start`` appeared while the query ran and is read from its beginning; one that is not in
    ``stop`` has vanished. ``earliest`` may lack queues whose broker cannot be asked now: reading will tell.
    """
    losses = [f"{queue}, read up to offset {start[queue]}, is gone" for queue in sorted(start.keys() - stop.keys())]
    ranges = []
    for queue in sorted(stop):
        first = earliest.get(queue, 0)
        begin = start.get(queue)
        if begin is None:
            ranges.append(_newcomer(queue, first, stop[queue], losses))
        elif stop[queue] < begin:
            losses.append(f"{queue} ended at offset {begin} and now ends at {stop[queue]}: it was created anew")
            ranges.append(QueueRange(queue, first, stop[queue]))
        else:
            ranges.append(_retained(QueueRange(queue, begin, stop[queue]), first, losses))
    return Plan([r for r in ranges if r.size], losses)


def _newcomer(queue: MessageQueue, earliest: int, stop: int, losses: list[str]) -> QueueRange:
    if earliest > 0:
        losses.append(f"{queue} is new to the query and starts at offset {earliest} instead of 0")
    return QueueRange(queue, earliest, stop)


def carry(start: Offsets, latest: Offsets) -> Offsets:
    """Ends of a micro-batch: the latest ones, and for queues that cannot be asked now where the query stands."""
    return {**start, **latest}


def admit(start: Offsets, latest: Offsets, limit: int) -> Offsets:
    """Ends of a micro-batch of at most ``limit`` messages.

    Every queue that has messages gets one first, so that none is starved by larger ones; the rest is shared by lag.
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
