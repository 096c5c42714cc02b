"""The way of one message to some broker: which queue next, whether to try again, how long there is.

Knows Java's rules (DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy, TopicPublishInfo). Refuses to know how a
request travels; the time is an argument.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import msgspec

from rocketmq_py.core.producer.outgoing_message import OutgoingMessage
from rocketmq_py.errors import (
    BrokerError,
    FlushTimeout,
    NetworkError,
    NoRouteError,
    RequestTimeout,
    RocketMQError,
)  # fmt: skip
from rocketmq_py.model import MessageQueue, SendResult, SendStatus
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.java_hash import string_hash

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Answers after which another broker may take the message (DefaultMQProducer.retryResponseCodes)."""


def is_retried(error: RocketMQError) -> bool:
    """Whether a send that failed so is tried again."""
    if isinstance(error, BrokerError):
        return error.code in RETRY_CODES or isinstance(error, FlushTimeout)
    return isinstance(error, NetworkError | NoRouteError)


class RoundRobin:
    """Takes the queues of a topic in turn. Safe to use from several threads.

    :param start: where to begin; random in Java, so that producers do not all begin with the same queue.
    """

    __slots__ = ("_turn",)

    def __init__(self, start: int = 0) -> None:
        self._turn = itertools.count(start)

    def pick(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """The next of ``queues``, not on broker ``avoid`` if there is another; ``queues`` is not empty."""
        if avoid is not None:
            for _ in queues:
                queue = queues[next(self._turn) % len(queues)]
                if queue.broker_name != avoid:
                    return queue
        return queues[next(self._turn) % len(queues)]


QueueChooser = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Picks one of the writable queues of a topic."""


def select_by_hash(queues: Sequence[MessageQueue], key: str | int) -> MessageQueue:
    """The queue of a sharding key, the same that Java's SelectMessageQueueByHash picks for that String or Integer."""
    return queues[abs(key if isinstance(key, int) else string_hash(key)) % len(queues)]


class SendAttempts(msgspec.Struct, gc=False, eq=False):
    """One message's way to a broker, over as many attempts as it may take."""

    outgoing: OutgoingMessage
    deadline: float
    """When to give up, on the clock the caller uses throughout."""
    retries: int = 0
    """Attempts that may follow; none where the queue matters."""
    queue: MessageQueue | None = None
    """The queue of the current attempt; the only one, if it is given."""
    choose: QueueChooser | None = None
    """Picks that only queue once the queues are known."""
    tried: tuple[str, ...] = ()
    """The brokers of attempts that failed."""
    got_go_away: bool = False
    """Whether a broker that shuts down has refused it."""
    attempt_seconds: float = math.inf
    """How long an attempt may take that is not the last one."""
    until: float = math.inf
    """When the current attempt ends at the latest; the deadline if that is earlier."""
    retry_not_stored_safely: bool = False
    """Whether a broker that has stored it, but does not know it to be safe, is not the last to get it."""
    stored: SendResult | None = None
    """How such an attempt ended; what the whole ends with if no other does better."""

    def next_queue(self, queues: Sequence[MessageQueue], turn: RoundRobin) -> MessageQueue:
        """The queue of the next attempt, off the broker the last one failed at if there is a choice."""
        if self.queue is None:
            if self.choose is not None:
                self.queue = self.choose(queues)
            else:
                self.queue = turn.pick(queues, self.tried[-1] if self.tried else None)
        return self.queue

    def begin(self, now: float) -> None:
        """An attempt begins; it leaves time for another one if there may be one."""
        self.until = min(self.deadline, now + self.attempt_seconds) if self.retries else self.deadline

    def not_stored_safely(self, result: SendResult, address: str) -> FlushTimeout | None:
        """What is against a broker's answer, if a message that is merely stored ``retry_not_stored_safely`` on more."""
        if result.status is SendStatus.SEND_OK:
            return None
        self.stored = result
        return FlushTimeout(int(result.status.value), f"stored, but {result.status.name}", address)

    def remaining(self, now: float) -> float:
        """Seconds that are left.

        :raises RequestTimeout: there are none.
        """
        left = self.deadline - now
        if left <= 0:
            raise RequestTimeout(f"no time is left to send message {self.outgoing.msg_id} to {self.outgoing.topic!r}")
        return left

    def failed(self, error: RocketMQError, now: float) -> None:
        """An attempt ended with ``error``. Returns when another may follow, raises ``error`` otherwise."""
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY and not self.got_go_away:
            self.got_go_away = True  # it took nothing; over a new connection it, or who follows it, may
            self.begin(now)
            return
        if self.retries > 0 and is_retried(error) and now < self.deadline:
            self.retries -= 1
            self.queue = None
            self.begin(now)
            return
        if len(self.tried) > 1:
            error.add_note(f"tried {len(self.tried)} times, at brokers {', '.join(self.tried)}")
        raise error
