"""What a change of the group means for one member: queues to let go, queues to take, where to start them.

Decisions only; the consumer carries them out. Rules: RebalanceImpl and RebalancePushImpl of Apache RocketMQ.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeFromWhere, MessageQueue

WAIT_BALANCED = 20.0
"""Seconds between rounds while every queue is where it belongs."""
WAIT_UNBALANCED = 1.0
"""Seconds until the next round after one that did not come out even; also the least time between two rounds."""


class RebalancePlan(NamedTuple):
    """``lost`` queues are let go first, then ``gained`` ones taken; a stuck queue stands in both."""

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
    """The way from the queues held of one topic to those allocated.

    :param rebuild: whether a queue that was not pulled for long is let go and taken anew.
    """
    lost = [
        queue for queue, process in owned.items() if queue not in wanted or (rebuild and process.is_pull_expired(now))
    ]
    gained = [queue for queue in wanted if queue not in owned or queue in lost]
    return RebalancePlan(lost, gained)


class Assignment(NamedTuple):
    """What a broker has assigned of one topic: queues to pull, and queues (or all of a broker's, id -1) to pop."""

    pull: list[MessageQueue]
    pop: list[MessageQueue]

    @property
    def queues(self) -> list[MessageQueue]:
        return [*self.pull, *self.pop]


class OffsetQuery(enum.Enum):
    """A question to the broker whose answer is the offset to start at."""

    MAX_OFFSET = "max offset"
    BY_TIMESTAMP = "offset by timestamp"


def initial_offset(mode: ConsumeFromWhere, stored: int | None, *, is_retry: bool) -> int | OffsetQuery:
    """Where a queue that was just taken starts.

    :param stored: the group's committed offset, None when the broker has none.
    :param is_retry: whether it is a queue of the group's retry topic, which has rules of its own.
    """
    if stored is not None:
        return stored
    if mode is ConsumeFromWhere.FIRST_OFFSET:
        return 0  # corrected by the broker (OFFSET_ILLEGAL) where older messages are gone
    if mode is ConsumeFromWhere.LAST_OFFSET:
        return 0 if is_retry else OffsetQuery.MAX_OFFSET
    return OffsetQuery.MAX_OFFSET if is_retry else OffsetQuery.BY_TIMESTAMP


def rebalance_delay(since_last: float, *, balanced: bool, triggered: bool, interval: float = WAIT_BALANCED) -> float:
    """Seconds to wait before the next round, given the time since the last one began.

    :param interval: seconds between rounds while every queue is where it belongs.
    """
    wait = interval if balanced and not triggered else min(WAIT_UNBALANCED, interval)
    return max(0.0, wait - since_last)
