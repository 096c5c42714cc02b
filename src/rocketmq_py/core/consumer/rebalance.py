"""Rebalance on one client: which queues to drop and to add, and their initial offsets.

Rules: RebalanceImpl and RebalancePushImpl of Apache RocketMQ.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeFromWhere, MessageQueue

WAIT_BALANCED = 20.0
"""Seconds between rebalances while no queue changes hands."""
WAIT_UNBALANCED = 1.0
"""Minimum seconds between two rebalances: the wait after one that was triggered or could not finish."""


class RebalancePlan(NamedTuple):
    """The changes of a rebalance: queues to drop first, and queues to add then.

    A queue that has not been pulled for two minutes is in both lists, to restart its pull loop.
    """

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
    """Compare the queues of a topic that this client has with those allocated to it; return the changes.

    :param owned: the present queues.
    :param wanted: the allocated queues.
    :param now: current time in monotonic seconds.
    :param rebuild: True to drop, and add again, queues that have not been pulled for two minutes.
    """
    lost = [
        queue for queue, process in owned.items() if queue not in wanted or (rebuild and process.is_pull_expired(now))
    ]
    gained = [queue for queue in wanted if queue not in owned or queue in lost]
    return RebalancePlan(lost, gained)


class Assignment(NamedTuple):
    """The queues of a topic that a broker assigned to this client: those to pull, and those to pop.

    The queue id -1 in ``pop`` stands for all queues of a broker.
    """

    pull: list[MessageQueue]
    pop: list[MessageQueue]

    @property
    def queues(self) -> list[MessageQueue]:
        return [*self.pull, *self.pop]


class OffsetQuery(enum.Enum):
    """The kinds of queries to a broker for an initial offset."""

    MAX_OFFSET = "max offset"
    BY_TIMESTAMP = "offset by timestamp"


def initial_offset(mode: ConsumeFromWhere, stored: int | None, *, is_retry: bool) -> int | OffsetQuery:
    """Return the offset at which to start a newly assigned queue, or the query with which to get it from the broker.

    :param stored: the group's committed offset; None if the broker has none.
    :param is_retry: True for a queue of the group's retry topic, which has other rules.
    """
    if stored is not None:
        return stored
    if mode is ConsumeFromWhere.FIRST_OFFSET:
        return 0  # if the oldest messages are deleted, the broker corrects it (OFFSET_ILLEGAL)
    if mode is ConsumeFromWhere.LAST_OFFSET:
        return 0 if is_retry else OffsetQuery.MAX_OFFSET
    return OffsetQuery.MAX_OFFSET if is_retry else OffsetQuery.BY_TIMESTAMP


def rebalance_delay(since_last: float, *, balanced: bool, triggered: bool, interval: float = WAIT_BALANCED) -> float:
    """Return the seconds until the next rebalance.

    :param since_last: seconds since the last rebalance began.
    :param balanced: True if the last rebalance finished with all allocated queues.
    :param triggered: True if an event, such as a change of the group's members, requests a rebalance.
    :param interval: seconds between rebalances if nothing changes.
    """
    wait = interval if balanced and not triggered else min(WAIT_UNBALANCED, interval)
    return max(0.0, wait - since_last)
