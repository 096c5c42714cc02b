"""Rebalance of one member: which queues to drop and to add, and their initial offsets.

Rules: RebalanceImpl and RebalancePushImpl of Apache RocketMQ.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeFromWhere, MessageQueue

WAIT_BALANCED = 20.0
"""Seconds between rounds while the group is balanced."""
WAIT_UNBALANCED = 1.0
"""Seconds until the next round after one that left the group unbalanced; also the minimum between two rounds."""


class RebalancePlan(NamedTuple):
    """``lost`` queues are dropped first, then ``gained`` ones added; an expired queue is in both."""

    lost: list[MessageQueue]
    gained: list[MessageQueue]

    @property
    def changes(self) -> bool:
        return bool(self.lost or self.gained)


def plan_rebalance(
    owned: Mapping[MessageQueue, ProcessQueue],
    wanted: Collection[MessageQueue],
    now: float,
    *,
    rebuild: bool = True,
) -> RebalancePlan:
    """Compare a topic's current queues with the allocated ones.

    :param rebuild: drop and add again a queue that was not pulled for too long.
    """
    lost = [
        queue for queue, process in owned.items() if queue not in wanted or (rebuild and process.is_pull_expired(now))
    ]
    gained = [queue for queue in wanted if queue not in owned or queue in lost]
    return RebalancePlan(lost, gained)


class Assignment(NamedTuple):
    """A topic's queues that a broker assigned: to pull, and to pop (id -1: all of a broker's queues)."""

    pull: list[MessageQueue]
    pop: list[MessageQueue]

    @property
    def queues(self) -> list[MessageQueue]:
        return [*self.pull, *self.pop]


class OffsetQuery(enum.Enum):
    """A query to the broker for an initial offset."""

    MAX_OFFSET = "max offset"
    BY_TIMESTAMP = "offset by timestamp"


def initial_offset(mode: ConsumeFromWhere, stored: int | None, *, is_retry: bool) -> int | OffsetQuery:
    """Return the initial offset of a newly assigned queue, or the query for it.

    :param stored: the group's committed offset; None if the broker has none.
    :param is_retry: the queue belongs to the group's retry topic, which has rules of its own.
    """
    if stored is not None:
        return stored
    if mode is ConsumeFromWhere.FIRST_OFFSET:
        return 0  # corrected by the broker (OFFSET_ILLEGAL) where older messages are gone
    if mode is ConsumeFromWhere.LAST_OFFSET:
        return 0 if is_retry else OffsetQuery.MAX_OFFSET
    return OffsetQuery.MAX_OFFSET if is_retry else OffsetQuery.BY_TIMESTAMP


def rebalance_delay(since_last: float, *, balanced: bool, triggered: bool, interval: float = WAIT_BALANCED) -> float:
    """Return the seconds until the next round, given the seconds since the last one began.

    :param interval: seconds between rounds while every queue is where it belongs.
    """
    wait = interval if balanced and not triggered else min(WAIT_UNBALANCED, interval)
    return max(0.0, wait - since_last)
