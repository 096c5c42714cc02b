"""Resolve the starting and ending positions of a read to offsets; module ``plan`` has the rules."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rocketmq_py.arrow.options.offsets import Bounds, FromGroup, Offsets, Position, Times
from rocketmq_py.arrow.remoting.queues import QueueRoutes
from rocketmq_py.arrow.source.origin import Origin
from rocketmq_py.arrow.source.plan import resolve, resolve_committed, resolve_times
from rocketmq_py.model import MessageQueue


def locate(
    position: Position, option: str, origin: Origin, queues: QueueRoutes, bounds: Mapping[MessageQueue, Bounds]
) -> Offsets:
    """Return the offset of every queue at ``position``; asks ``origin`` for committed offsets and times.

    :param option: the option that gave the position, for errors.
    :param bounds: earliest and latest offset of each of ``queues``.
    :raises ConfigError: the position does not fit these queues.
    :raises RocketMQError: a broker does not respond.
    """
    if isinstance(position, FromGroup):
        return resolve_committed(position.group, origin.committed(position.group, queues), bounds)
    if isinstance(position, Times):
        now = int(time.time() * 1000)
        wanted = dict.fromkeys(bounds, absolute(position.everywhere, now))
        if position.by_queue is not None:
            by_queue = {queue: absolute(moment, now) for queue, moment in position.by_queue.items()}
            wanted = resolve(by_queue, bounds, f"{option}ByTimestamp")
        return resolve_times(wanted, origin.since(queues, wanted), bounds, or_latest=position.or_latest)
    return resolve(position, bounds, option)


def absolute(moment: int, now: int) -> int:
    """Return a time of :class:`Times` in ms since 1970, not before 1970: a negative one is relative to ``now``."""
    return moment if moment >= 0 else max(now + moment, 0)
