"""Flow control: when a queue may be pulled, and how long to wait otherwise.

The checks of the push consumer's pull loop in their order (DefaultMQPushConsumerImpl.pullMessage). Limits are checked
before a pull and strictly, so one more batch can exceed them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple

from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import BrokerError, NotLeader
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

MEBIBYTE = 1024 * 1024
STATE_DELAY = 1.0
"""Seconds until the next attempt after a failed pull, or if the consumer's state forbids a pull."""
FLOW_DELAY = 0.05
BUSY_DELAY = 0.02
MOVED_DELAY = 0.1
"""Seconds until a queue that has moved to another broker is pulled there."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Limits of one queue's cached messages, beyond which pulling pauses.

    ``count`` messages, ``mebibytes`` of bodies, ``span`` from the smallest offset held to the largest one pulled (None:
    no limit, as for orderly consumption).
    """

    count: int = 1000
    mebibytes: int = 100
    span: int | None = 2000

    def shared(self, topic_count: int, topic_mebibytes: int, queues: int) -> FlowLimits:
        """Return the limits of a queue if its topic has limits of its own (-1: none) that ``queues`` queues share."""
        if not queues:
            return self
        return replace(
            self,
            count=max(1, topic_count // queues) if topic_count != -1 else self.count,
            mebibytes=max(1, topic_mebibytes // queues) if topic_mebibytes != -1 else self.mebibytes,
        )


class PullStep(enum.Enum):
    """The next step of a queue's pull loop."""

    PULL = "pull"
    WAIT = "wait"
    DROP = "forget"


class PullDecision(NamedTuple):
    """A step, the seconds to wait, and the reason."""

    step: PullStep
    delay: float = 0.0
    reason: str = ""


PULL = PullDecision(PullStep.PULL)
DROP = PullDecision(PullStep.DROP)
NOT_RUNNING = PullDecision(PullStep.WAIT, STATE_DELAY, "not running")
SUSPENDED = PullDecision(PullStep.WAIT, STATE_DELAY, "suspended")
COUNT_EXCEEDED = PullDecision(PullStep.WAIT, FLOW_DELAY, "count")
SIZE_EXCEEDED = PullDecision(PullStep.WAIT, FLOW_DELAY, "size")
SPAN_EXCEEDED = PullDecision(PullStep.WAIT, FLOW_DELAY, "span")
NOT_LOCKED = PullDecision(PullStep.WAIT, STATE_DELAY, "not locked")
NOT_SUBSCRIBED = PullDecision(PullStep.WAIT, STATE_DELAY, "no subscription")


def decide_pull(
    queue: ProcessQueue,
    limits: FlowLimits,
    *,
    running: bool,
    suspended: bool,
    subscribed: bool,
    usable: bool = True,
    coming: int = 0,
    coming_bytes: int = 0,
) -> PullDecision:
    """Decide about the next pull of ``queue``.

    :param usable: the queue is locked, if it must be.
    :param coming: the most messages that pulls in flight may still return.
    :param coming_bytes: the most bytes they may return.
    """
    if queue.dropped:
        return DROP
    if not running:
        return NOT_RUNNING
    if suspended:
        return SUSPENDED
    full = _full(queue, limits, coming, coming_bytes)
    if full is not None:
        return full
    if not usable:
        return NOT_LOCKED
    return PULL if subscribed else NOT_SUBSCRIBED


def _full(queue: ProcessQueue, limits: FlowLimits, coming: int, coming_bytes: int) -> PullDecision | None:
    if queue.count + coming > limits.count:
        return COUNT_EXCEEDED
    if (queue.size + coming_bytes) // MEBIBYTE > limits.mebibytes:
        return SIZE_EXCEEDED
    return SPAN_EXCEEDED if limits.span is not None and queue.span + coming > limits.span else None


def failure_delay(error: Exception, delay: float | None = None) -> float:
    """Return the seconds until a failed pull is retried: fewer if the broker answered FLOW_CONTROL, or the queue has
    moved to another broker.

    :param delay: seconds after other failures; :data:`STATE_DELAY` by default.
    """
    if isinstance(error, NotLeader):
        return MOVED_DELAY
    busy = isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL
    if busy:
        return BUSY_DELAY
    return STATE_DELAY if delay is None else delay


def pull_flags(commit_offset: int, *, from_master: bool, with_subscription: bool) -> int:
    """Return the sysFlag of a push consumer's pull. An offset to commit is sent only to a master, and only if there is
    one.
    """
    flags = PULL_SUSPEND
    if commit_offset > 0 and from_master:
        flags |= PULL_COMMIT_OFFSET
    return flags | PULL_SUBSCRIPTION if with_subscription else flags
