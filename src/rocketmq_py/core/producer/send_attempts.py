"""The attempts to send one message: the queue of the next attempt, whether and when to retry, and its time limit.

Rules of Java (DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy, TopicPublishInfo), with a back-off. Attempts that
reached no broker do not count as retries if ``waits`` is set: they are repeated until the deadline. Times and random
numbers are arguments; times are seconds of the caller's clock.
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
"""Response codes after which a send is retried by default (DefaultMQProducer.retryResponseCodes)."""

BACKOFF = Backoff(first_seconds=0.05, max_seconds=1.0)
"""Pauses between attempts when all brokers have been tried."""


class NoMasterError(NoRouteError):
    """The topic exists, but none of its brokers has a master at the moment: a failover is in progress."""


class NoTimeLeft(RequestTimeout):
    """The deadline of a send has passed before its next attempt could begin."""


def is_retried(error: RocketMQError, codes: frozenset[int] = RETRY_CODES) -> bool:
    """Return True if a send that failed with ``error`` may be retried.

    :param codes: response codes after which to retry.
    """
    if isinstance(error, BrokerError):
        return error.code in codes or isinstance(error, FlushTimeout)
    return isinstance(error, NetworkError | NoMasterError)


def reached_no_broker(error: RocketMQError) -> bool:
    """Return True if ``error`` means that the request was not written to any broker, so that it cannot be stored."""
    return isinstance(error, ConnectError | NoMasterError) or type(error) is NetworkError


BrokerOf = Callable[[MessageQueue], str]
"""A function that returns the name of the broker that serves a queue."""


def named_broker(queue: MessageQueue) -> str:
    """Return the broker name of a queue, which is the broker that serves it unless the topic is static."""
    return queue.broker_name


class RoundRobin:
    """Picks the queues of a topic in turn. Thread-safe.

    :param start: index of the first queue. Pass a random number, so that producers do not all start with one queue.
    """

    __slots__ = ("_turn",)

    def __init__(self, start: int = 0) -> None:
        self._turn = itertools.count(start)

    def pick(
        self, queues: Sequence[MessageQueue], avoid: str | None = None, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """Return the next queue.

        :param queues: the queues to pick from; at least one.
        :param avoid: name of a broker to use only if all queues are on it.
        :param broker_of: returns the name of the broker that serves a queue.
        """
        if avoid is not None:
            for _ in queues:
                queue = queues[next(self._turn) % len(queues)]
                if broker_of(queue) != avoid:
                    return queue
        return queues[next(self._turn) % len(queues)]


QueueChooser = Callable[[Sequence[MessageQueue]], MessageQueue]
"""A function that picks one of the writable queues of a topic."""


def select_by_hash(queues: Sequence[MessageQueue], key: str | int) -> MessageQueue:
    """Return the queue of a sharding key, as Java's SelectMessageQueueByHash does for a String or Integer."""
    return queues[abs(key if isinstance(key, int) else string_hash(key)) % len(queues)]


class SendAttempts(msgspec.Struct, gc=False, eq=False):
    """A send in progress: the encoded message (or batch), the limits of the send, and the state of its attempts.

    Times are in monotonic seconds.
    """

    outgoing: OutgoingMessage
    deadline: float
    """Time at which the send fails with a timeout."""
    retries: int = 0
    """Number of retries left. With ``waits``, attempts that reach no broker do not count. It is 0 for a send to a
    certain queue.
    """
    queue: MessageQueue | None = None
    """The queue of the current attempt. A queue given at creation is used for all attempts."""
    choose: QueueChooser | None = None
    """Picks the queue, once the topic's queues are known; None picks them in turn."""
    tried: tuple[str, ...] = ()
    """Names of the brokers of failed attempts, in order."""
    failures: int = 0
    """Number of failed attempts."""
    got_go_away: bool = False
    """True if a broker that is shutting down has refused the message (GO_AWAY)."""
    attempt_seconds: float = math.inf
    """Maximum duration in seconds of an attempt, except the last one."""
    until: float = math.inf
    """Time at which the current attempt fails with a timeout; never after the deadline."""
    retry_not_stored_safely: bool = False
    """True to send the message to another broker if one has stored it, but not flushed or replicated it in time."""
    stored: SendResult | None = None
    """The result of an attempt that was stored, but not flushed or replicated in time. It is the result of the send if
    no other attempt succeeds.
    """
    retry_codes: frozenset[int] = RETRY_CODES
    """Response codes after which to retry."""
    waits: bool = False
    """True to repeat attempts that reached no broker until the deadline."""
    size: int = 0
    """The bytes that count for the limits of sends in progress."""

    def next_queue(
        self, queues: Sequence[MessageQueue], turn: RoundRobin, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """Return the queue of the next attempt, if possible on another broker than the last failed attempt.

        :param queues: the writable queues of the topic. :param turn: picks among them.
        """
        if self.queue is None:
            if self.choose is not None:
                self.queue = self.choose(queues)
            else:
                self.queue = turn.pick(queues, self.tried[-1] if self.tried else None, broker_of)
        return self.queue

    def begin(self, now: float) -> None:
        """Start an attempt: set ``until``, the time at which it fails with a timeout.

        It is the deadline of the send, or earlier if there are retries left and the attempts' duration is limited.

        :param now: current time in monotonic seconds.
        """
        self.until = min(self.deadline, now + self.attempt_seconds) if self.retries else self.deadline

    def not_stored_safely(self, result: SendResult, address: str) -> FlushTimeout | None:
        """Return an error if the broker stored the message but did not flush or replicate it in time; None if it did.

        With an error, set ``stored`` to ``result``.

        :param result: the broker's response to the attempt. :param address: the broker's, for the error.
        """
        if result.status is SendStatus.SEND_OK:
            return None
        self.stored = result
        return FlushTimeout(int(result.status.value), f"stored, but {result.status.name}", address)

    def remaining(self, now: float) -> float:
        """Return the seconds from ``now`` (monotonic seconds) until the deadline of the send.

        :raises RequestTimeout: the deadline has passed.
        """
        left = self.deadline - now
        if left <= 0:
            raise NoTimeLeft(f"no time is left to send message {self.outgoing.msg_id} to {self.outgoing.topic!r}")
        return left

    def wait_longer(self, seconds: float) -> None:
        """Extend the deadlines of the send and of the current attempt by a wait that does not count as sending time."""
        self.deadline += seconds
        self.until += seconds

    def failed(self, error: RocketMQError, now: float, jitter: float = 1.0, *, elsewhere: bool = False) -> float:
        """Record that an attempt failed with ``error``; return the seconds to wait before the next attempt.

        :param now: current time in monotonic seconds.
        :param jitter: a random number from 0 to 1; 0 halves the wait, 1 leaves it in full.
        :param elsewhere: True if the topic has a broker that was not tried yet; then the wait is 0.
        :raises RocketMQError: ``error``, if the send must not be retried.
        """
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY and not self.got_go_away:
            self.got_go_away = True  # the broker stored nothing; retry once over a new connection
            self.begin(now)
            return 0.0
        self.failures += 1
        pause = 0.0 if elsewhere else BACKOFF.seconds(self.failures, jitter)
        if isinstance(error, NotLeader) and now + pause < self.deadline:
            self.begin(now + pause)  # the broker stored nothing; retry with the same queue at its new broker
            return pause
        if is_retried(error, self.retry_codes) and self._may_follow(error) and now + pause < self.deadline:
            self.queue = None
            self.begin(now + pause)
            return pause
        raise self.final(error)

    def final(self, error: RocketMQError) -> RocketMQError:
        """Return ``error`` with a note about the number of attempts and their brokers, to raise it from the send."""
        if self.failures > 1:
            brokers = ", ".join(dict.fromkeys(self.tried))
            error.add_note(f"tried {self.failures} times" + (f", at brokers {brokers}" if brokers else ""))
        return error

    def _may_follow(self, error: RocketMQError) -> bool:
        if self.waits and reached_no_broker(error):
            return True
        self.retries -= 1
        return self.retries >= 0
