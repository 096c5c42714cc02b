"""Where an attempt sends a message, and what its answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.outgoing_message import SendHead
from rocketmq_py.core.producer.send_attempts import RoundRobin, SendAttempts
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import NetworkError, RequestTimeout, RocketMQError
from rocketmq_py.model import MessageQueue, SendResult


class Target(NamedTuple):
    """Where an attempt sends the message: the queue, and the ``host:port`` (``address``) of its broker.

    :ivar queue: the queue with the namespace; it may be a logical one.
    :ivar shown: the queue in results: without the namespace, and with the name of the broker that stores the message,
        also for a logical queue, as in Java.
    :ivar head: the part of the request header that is the same for all sends to the queue.
    """

    queue: MessageQueue
    shown: MessageQueue
    address: str
    head: SendHead

    @property
    def broker(self) -> str:
        """The name of the broker."""
        return self.shown.broker_name


class SendPath(NamedTuple):
    """Cached for one topic until its route or the known addresses change: by writable queue where to send to.

    :ivar addresses: the addresses of all brokers that the cached routes had.
    :ivar turn: picks the queues in turn.
    """

    route: TopicRoute
    addresses: Mapping[str, Mapping[int, str]]
    turn: RoundRobin
    targets: dict[MessageQueue, Target]


def outcome_of(delivery: SendAttempts, target: Target, answer: Reply | NetworkError) -> SendResult | RocketMQError:
    """Convert the answer to an attempt to its result or error; a failure adds the broker to ``delivery.tried``."""
    failure: RocketMQError
    if isinstance(answer, Reply):
        try:
            result = delivery.outgoing.result(target.shown, answer, target.address)
        except RocketMQError as e:
            failure = e
        else:
            doubt = delivery.not_stored_safely(result, target.address) if delivery.retry_not_stored_safely else None
            if doubt is None:
                return result
            failure = doubt
    else:
        failure = answer
    broker = target.broker
    delivery.tried += (broker,)
    if isinstance(failure, RequestTimeout):
        return RequestTimeout(
            f"broker {broker} at {target.address} did not answer the send to {target.queue} in time; the message may "
            "have been stored"
        )
    return failure
