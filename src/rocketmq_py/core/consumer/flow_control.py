"""Flow control of consumers: whether a queue may be pulled now, and how long to wait otherwise.

The checks, and their order, are those of DefaultMQPushConsumerImpl.pullMessage. A queue may be pulled until a limit is
exceeded, so the last batch can go beyond it.
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
"""Seconds until the next attempt if too many messages of the queue are cached."""
BUSY_DELAY = 0.02
"""Seconds until the next attempt after the broker answered FLOW_CONTROL."""
MOVED_DELAY = 0.1
"""Seconds until the next attempt after a queue has moved to another broker."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Limits of the messages cached for one queue, beyond which pulling pauses.

    ``count`` is the number of messages, ``mebibytes`` the size of their bodies, ``span`` the distance from the smallest
    cached offset to the largest pulled one (None: no limit, as for orderly consumption).
    """

    count: int = 1000
    mebibytes: int = 100
    span: int | None = 2000

    def shared(self, topic_count: int, topic_mebibytes: int, queues: int) -> FlowLimits:
        """Return the limits of one queue after the limits of its topic were divided among the topic's queues.

        :param topic_count: limit of the topic's cached messages; -1 keeps ``count``.
        :param topic_mebibytes: limit of their bodies in MiB; -1 keeps ``mebibytes``.
        :param queues: number of the topic's queues that this consumer owns.
        """
        if not queues:
            return self
        return replace(
            self,
            count=max(1, topic_count // queues) if topic_count != -1 else self.count,
            mebibytes=max(1, topic_mebibytes // queues) if topic_mebibytes != -1 else self.mebibytes,
        )


class PullStep(enum.Enum):
    """The next step of a queue's pull loop: pull, wait, or end because the queue is no longer assigned."""

    PULL = "pull"
    WAIT = "wait"
    DROP = "forget"


class PullDecision(NamedTuple):
    """Decision about a pull: the step, for WAIT the seconds to wait, and the reason."""

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
    """Decide whether to pull a queue now.

    :param running: True if the consumer is started and not closed.
    :param suspended: True if the application has suspended the consumer or paused the queue.
    :param subscribed: True if the consumer subscribes to the queue's topic.
    :param usable: False if the queue must be locked for orderly consumption and is not.
    :param coming: maximum number of messages that pulls in flight may still return.
    :param coming_bytes: maximum number of bytes that pulls in flight may still return.
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
    """Return the seconds until a failed pull is retried.

    :param delay: seconds for errors other than FLOW_CONTROL and a queue that has moved to another broker;
        :data:`STATE_DELAY` by default.
    """
    if isinstance(error, NotLeader):
        return MOVED_DELAY
    busy = isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL
    if busy:
        return BUSY_DELAY
    return STATE_DELAY if delay is None else delay


def pull_flags(commit_offset: int, *, from_master: bool, with_subscription: bool) -> int:
    """Return the sysFlag of a push consumer's pull.

    The bit to commit an offset with the pull is set only for a master, and if ``commit_offset`` is above 0.
    """
    flags = PULL_SUSPEND
    if commit_offset > 0 and from_master:
        flags |= PULL_COMMIT_OFFSET
    return flags | PULL_SUBSCRIPTION if with_subscription else flags
