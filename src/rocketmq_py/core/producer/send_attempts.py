"""The attempts to send one message: the next queue, whether to retry, and the remaining time.

Java's rules: DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy, TopicPublishInfo. Times are passed in.
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
"""Response codes after which another broker is tried (DefaultMQProducer.retryResponseCodes)."""


def is_retried(error: RocketMQError) -> bool:
    """True if a send that failed with this error is retried."""
    if isinstance(error, BrokerError):
        return error.code in RETRY_CODES or isinstance(error, FlushTimeout)
    return isinstance(error, NetworkError | NoRouteError)


class RoundRobin:
    """Returns the queues of a topic in turn. Thread-safe.

    :param start: the first index; random in Java, so that producers do not all start with the same queue.
    """

    __slots__ = ("_turn",)

    def __init__(self, start: int = 0) -> None:
        self._turn = itertools.count(start)

    def pick(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """Return the next of ``queues``, not on broker ``avoid`` if there is another; ``queues`` is not empty."""
        if avoid is not None:
            for _ in queues:
                queue = queues[next(self._turn) % len(queues)]
                if queue.broker_name != avoid:
                    return queue
        return queues[next(self._turn) % len(queues)]


QueueChooser = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses one of a topic's writable queues."""


def select_by_hash(queues: Sequence[MessageQueue], key: str | int) -> MessageQueue:
    """Return the queue of a sharding key, as Java's SelectMessageQueueByHash does for that String or Integer."""
    return queues[abs(key if isinstance(key, int) else string_hash(key)) % len(queues)]


class SendAttempts(msgspec.Struct, gc=False, eq=False):
    """The attempts to send one message."""

    outgoing: OutgoingMessage
    deadline: float
    """When to give up, on the caller's clock."""
    retries: int = 0
    """Remaining retries; none if the queue is fixed."""
    queue: MessageQueue | None = None
    """The queue of the current attempt, or the fixed queue."""
    choose: QueueChooser | None = None
    """Chooses the fixed queue once the route is known."""
    tried: tuple[str, ...] = ()
    """The brokers of failed attempts."""
    got_go_away: bool = False
    """True after a broker that shuts down refused the message."""
    attempt_seconds: float = math.inf
    """Timeout of an attempt that is not the last one."""
    until: float = math.inf
    """End of the current attempt; the deadline if that is earlier."""
    retry_not_stored_safely: bool = False
    """Retry on another broker if a broker stored the message without flush or replication."""
    stored: SendResult | None = None
    """Result of such an attempt, which is final if no later one does better."""

    def next_queue(self, queues: Sequence[MessageQueue], turn: RoundRobin) -> MessageQueue:
        """Return the queue of the next attempt, on another broker than the last one if possible."""
        if self.queue is None:
            if self.choose is not None:
                self.queue = self.choose(queues)
            else:
                self.queue = turn.pick(queues, self.tried[-1] if self.tried else None)
        return self.queue

    def begin(self, now: float) -> None:
        """Begin an attempt; it leaves time for another one if a retry remains."""
        self.until = min(self.deadline, now + self.attempt_seconds) if self.retries else self.deadline

    def not_stored_safely(self, result: SendResult, address: str) -> FlushTimeout | None:
        """Return an error if the message is stored without flush or replication and must be retried then."""
        if result.status is SendStatus.SEND_OK:
            return None
        self.stored = result
        return FlushTimeout(int(result.status.value), f"stored, but {result.status.name}", address)

    def remaining(self, now: float) -> float:
        """Return the remaining seconds.

        :raises RequestTimeout: there are none.
        """
        left = self.deadline - now
        if left <= 0:
            raise RequestTimeout(f"no time is left to send message {self.outgoing.msg_id} to {self.outgoing.topic!r}")
        return left

    def failed(self, error: RocketMQError, now: float) -> None:
        """Record a failed attempt. Returns if another one may follow, else raises ``error``."""
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
