"""The attempts to send one message: which queue is next, whether and when another follows, how long it may take.

Rules of Java (DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy, TopicPublishInfo), with a back-off. Attempts that
reached no broker do not count as retries: they follow each other until the deadline. Time and randomness are passed in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import msgspec

from rocketmq_py.core.backoff import Backoff
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage
from rocketmq_py.errors import (
    BrokerError,
    ConnectError,
    FlushTimeout,
    NetworkError,
    NoRouteError,
    NotLeader,
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
"""Answers after which a send is retried by default (DefaultMQProducer.retryResponseCodes)."""

BACKOFF = Backoff(first_seconds=0.05, max_seconds=1.0)
"""Pauses between attempts when no other broker is left to try."""


class NoMasterError(NoRouteError):
    """The topic exists, but none of its brokers has a master at the moment: a failover is in progress."""


class NoTimeLeft(RequestTimeout):
    """The deadline of a send is over before its next attempt."""


def is_retried(error: RocketMQError, codes: frozenset[int] = RETRY_CODES) -> bool:
    """True if a send that failed with ``error`` may be retried.

    :param codes: answers after which it is.
    """
    if isinstance(error, BrokerError):
        return error.code in codes or isinstance(error, FlushTimeout)
    return isinstance(error, NetworkError | NoMasterError)


def reached_no_broker(error: RocketMQError) -> bool:
    """True if a send that failed with ``error`` was not even written to a broker, so that it cannot be stored."""
    return isinstance(error, ConnectError | NoMasterError) or type(error) is NetworkError


BrokerOf = Callable[[MessageQueue], str]
"""Returns the name of the broker that serves a queue."""


def named_broker(queue: MessageQueue) -> str:
    """The broker in the name of a queue, which serves it unless the topic is static."""
    return queue.broker_name


class RoundRobin:
    """Takes the queues of a topic in turn. Safe to use from several threads.

    :param start: where to begin; random in Java, so that producers do not all begin with the same queue.
    """

    __slots__ = ("_turn",)

    def __init__(self, start: int = 0) -> None:
        self._turn = itertools.count(start)

    def pick(
        self, queues: Sequence[MessageQueue], avoid: str | None = None, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """The next of ``queues``, not on broker ``avoid`` if there is another; ``queues`` is not empty.

        :param broker_of: returns the name of the broker that serves a queue.
        """
        if avoid is not None:
            for _ in queues:
                queue = queues[next(self._turn) % len(queues)]
                if broker_of(queue) != avoid:
                    return queue
        return queues[next(self._turn) % len(queues)]


QueueChooser = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Picks one of the writable queues of a topic."""


def select_by_hash(queues: Sequence[MessageQueue], key: str | int) -> MessageQueue:
    """The queue of a sharding key, the same that Java's SelectMessageQueueByHash picks for that String or Integer."""
    return queues[abs(key if isinstance(key, int) else string_hash(key)) % len(queues)]


class SendAttempts(msgspec.Struct, gc=False, eq=False):
    """One message and the attempts to send it."""

    outgoing: OutgoingMessage
    deadline: float
    """When the send fails at the latest, on the caller's clock."""
    retries: int = 0
    """Attempts that may follow, besides those that reach no broker; 0 where the queue matters: then none follow."""
    queue: MessageQueue | None = None
    """The queue of the current attempt; the only one if it is given."""
    choose: QueueChooser | None = None
    """Picks the only queue when the queues are known."""
    tried: tuple[str, ...] = ()
    """The brokers of attempts that failed."""
    failures: int = 0
    """Attempts that failed."""
    got_go_away: bool = False
    """True if a broker that shuts down has refused it (GO_AWAY)."""
    attempt_seconds: float = math.inf
    """Longest duration of an attempt that is not the last one."""
    until: float = math.inf
    """When the current attempt ends at the latest; never after the deadline."""
    retry_not_stored_safely: bool = False
    """Send it to another broker if one has stored it but not flushed or replicated it in time."""
    stored: SendResult | None = None
    """The result of such an attempt; the final result if no other attempt does better."""
    retry_codes: frozenset[int] = RETRY_CODES
    """Answers after which it is retried."""
    waits: bool = False
    """An attempt that reached no broker is repeated until the deadline."""

    def next_queue(
        self, queues: Sequence[MessageQueue], turn: RoundRobin, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """The queue of the next attempt; if there is a choice, not on the broker of the last failed attempt."""
        if self.queue is None:
            if self.choose is not None:
                self.queue = self.choose(queues)
            else:
                self.queue = turn.pick(queues, self.tried[-1] if self.tried else None, broker_of)
        return self.queue

    def begin(self, now: float) -> None:
        """Start an attempt; it leaves time for another one if one may follow."""
        self.until = min(self.deadline, now + self.attempt_seconds) if self.retries else self.deadline

    def not_stored_safely(self, result: SendResult, address: str) -> FlushTimeout | None:
        """The error for a message that is stored but not flushed or replicated in time; None if it is."""
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
            raise NoTimeLeft(f"no time is left to send message {self.outgoing.msg_id} to {self.outgoing.topic!r}")
        return left

    def wait_longer(self, seconds: float) -> None:
        """Move the deadlines: the send waited for room, which does not count."""
        self.deadline += seconds
        self.until += seconds

    def failed(self, error: RocketMQError, now: float, jitter: float = 1.0, *, elsewhere: bool = False) -> float:
        """End an attempt with ``error``; returns the seconds to wait before the next one.

        :param jitter: a random number from 0 up to 1.
        :param elsewhere: there is a broker that was not tried yet, so that there is no need to wait.
        :raises RocketMQError: ``error``, if no attempt may follow.
        """
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY and not self.got_go_away:
            self.got_go_away = True  # it stored nothing; over a new connection it, or its successor, may
            self.begin(now)
            return 0.0
        self.failures += 1
        pause = 0.0 if elsewhere else BACKOFF.seconds(self.failures, jitter)
        if isinstance(error, NotLeader) and now + pause < self.deadline:
            self.begin(now + pause)  # it stored nothing; the queue stays the same, its new broker takes the message
            return pause
        if is_retried(error, self.retry_codes) and self._may_follow(error) and now + pause < self.deadline:
            self.queue = None
            self.begin(now + pause)
            return pause
        raise self.final(error)

    def final(self, error: RocketMQError) -> RocketMQError:
        """The error that the send ends with, with a note of the attempts."""
        if self.failures > 1:
            brokers = ", ".join(dict.fromkeys(self.tried))
            error.add_note(f"tried {self.failures} times" + (f", at brokers {brokers}" if brokers else ""))
        return error

    def _may_follow(self, error: RocketMQError) -> bool:
        if self.waits and reached_no_broker(error):
            return True
        self.retries -= 1
        return self.retries >= 0
