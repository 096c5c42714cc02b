"""What everything that sends from one task shares: settings, connections, the queues of topics, how much is under way.

Blocking. Refuses to know what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.spark.options.security import OPEN, Security
from rocketmq_py.spark.remoting.cluster import Cluster
from rocketmq_py.spark.remoting.connection import BlockingConnections
from rocketmq_py.spark.remoting.queues import QueueRoutes
from rocketmq_py.wire.java_hash import string_hash


class NoSuchQueue(BrokerError):
    """The broker does not have the queue that was chosen: the topic has changed, or was not known when looked up."""

    retryable = True
    refresh_route = True


def refusal(answer: Reply, address: str) -> BrokerError:
    """The error of a send that was answered otherwise than as stored.

    Of a send, brokers call only the queue an invalid parameter, and an illegal message illegal: rows know no queues
    they have not been given by a route, so that one must never be taken for the other.
    """
    build = NoSuchQueue if answer.code == ResponseCode.INVALID_PARAMETER else BrokerError.of
    return build(answer.code, answer.remark, address)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """How to send. See ``WriteOptions`` for the meaning of each."""

    namesrv: tuple[str, ...]
    producer_group: str
    timeout: float
    retries: int
    in_flight: int
    max_batch_bytes: int
    security: Security = OPEN


class TopicQueues:
    """The queues a topic can be written to, and which is next."""

    def __init__(self, queues: QueueRoutes) -> None:
        self._masters = {queue: addresses.master for queue, addresses in queues.addresses.items()}
        self._queues = sorted(self._masters)
        self._next = 0

    def address(self, queue: MessageQueue) -> str:
        """Where the master of ``queue`` is.

        :raises NoRouteError: it is not registered now.
        """
        master = self._masters.get(queue)
        if master is None:
            raise NoRouteError(f"no broker takes messages for {queue}: no master of {queue.broker_name} is registered")
        return master

    def bound(self, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """The queue a message has to go to, None if any will do.

        :raises ConfigError: the topic does not have the queue.
        """
        if queue_id is not None:
            for queue in self._queues:  # with several brokers, always the first one that has such a queue
                if queue.queue_id == queue_id:
                    return queue
            raise ConfigError(f"topic {self._queues[0].topic} has no queue {queue_id}")
        if sharding_key is not None:
            return self._queues[abs(string_hash(sharding_key)) % len(self._queues)]
        return None

    def next(self, avoid: MessageQueue | None) -> MessageQueue:
        """The queues in turn, without those of the broker that failed last where there is another."""
        for _ in self._queues:
            self._next = (self._next + 1) % len(self._queues)
            queue = self._queues[self._next]
            if avoid is None or queue.broker_name != avoid.broker_name:
                return queue
        return self._queues[self._next]


class InflightLimit:
    """How much may be under way: half as much when a broker is busy, a little more for everything it takes.

    :param most: what is allowed when all is well.
    """

    def __init__(self, most: int) -> None:
        self._maximum = most
        self._current = float(most)

    def __int__(self) -> int:
        return int(self._current)

    def taken(self) -> None:
        """A broker took something."""
        self._current = min(self._maximum, self._current + 1 / self._current)

    def busy(self) -> None:
        """A broker refused something because it is busy."""
        self._current = max(1.0, self._current / 2)


class Targets:
    """Where a task sends to: connections by address, and the queues of topics, looked up when first needed."""

    def __init__(self, settings: SendSettings) -> None:
        self.connections = BlockingConnections(settings.timeout, settings.security)
        self._cluster = Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)
        self._topics: dict[str, TopicQueues] = {}
        self.used: set[str] = set()
        """Topics that were ever looked up."""

    def queues(self, topic: str) -> TopicQueues:
        """The queues of a topic.

        :raises NoRouteError: it does not exist, or has no queue that may be written.
        :raises NetworkError: no name server answers.
        """
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._topics[topic] = TopicQueues(self._cluster.writable(topic))
            self.used.add(topic)
        return queues

    def bound(self, topic: str, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """The queue a message has to go to, None if any will do; errors as :meth:`queues` and ``TopicQueues.bound``."""
        return self.queues(topic).bound(sharding_key, queue_id)

    def forget(self, topic: str) -> None:
        """Look the queues of a topic up again before the next use."""
        self._topics.pop(topic, None)

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()
        self._cluster.close()
