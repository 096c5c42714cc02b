"""What the senders of one task share: settings, connections, queues of topics, limit of requests. Blocking."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.arrow.options.compression import BodyCompression
from rocketmq_py.arrow.options.security import OPEN, Security
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.connection import BlockingConnections
from rocketmq_py.arrow.remoting.queues import Addresses, QueueRoutes
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.java_hash import string_hash


class NoSuchQueue(BrokerError):
    """The broker does not have the chosen queue: the topic was changed or created after its route was looked up."""

    retryable = True
    refresh_route = True


def refusal(answer: Reply, address: str) -> BrokerError:
    """Return the error for a send that the broker refused.

    For a send, INVALID_PARAMETER means that the queue id, which came from a route, is invalid: the row is not bad.
    """
    build = NoSuchQueue if answer.code == ResponseCode.INVALID_PARAMETER else BrokerError.of
    return build(answer.code, answer.remark, address)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """Settings of a sender; see :class:`WriteOptions` for their meanings.

    :ivar timeout: seconds to wait for a response.
    :ivar compression: how to compress bodies; None not to.
    """

    namesrv: tuple[str, ...]
    producer_group: str
    timeout: float
    retries: int
    in_flight: int
    max_batch_bytes: int
    security: Security = OPEN
    compression: BodyCompression | None = None


_NOWHERE = Addresses()


class TopicQueues:
    """The writable queues of a topic, chosen in turn or by sharding key and queue id."""

    def __init__(self, queues: QueueRoutes) -> None:
        self._addresses = queues.addresses
        self._queues = sorted(self._addresses)
        self._next = 0

    def address(self, queue: MessageQueue) -> str:
        """Return the address of the master broker of ``queue``.

        :raises NoRouteError: no master is registered now.
        """
        master = self._addresses.get(queue, _NOWHERE).master
        if master is None:
            broker = self.broker(queue)
            raise NoRouteError(f"no broker takes messages for {queue}: no master of {broker} is registered")
        return master

    def broker(self, queue: MessageQueue) -> str:
        """Return the name of the broker that serves ``queue``, also if ``queue`` is a logical queue."""
        return self._addresses.get(queue, _NOWHERE).broker or queue.broker_name

    def bound(self, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """Return the queue of a message with a queue id or a sharding key; None if it has neither.

        :raises ConfigError: the topic has no queue with this id.
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
        """Return the next queue in turn; if there are several brokers, on another broker than that of ``avoid``."""
        for _ in self._queues:
            self._next = (self._next + 1) % len(self._queues)
            queue = self._queues[self._next]
            if avoid is None or self.broker(queue) != self.broker(avoid):
                return queue
        self._next = (self._next + 1) % len(self._queues)  # there is no other broker
        return self._queues[self._next]


class InflightLimit:
    """The number of requests that may be in flight: halved if a broker is busy, raised a little by every success.

    :param most: the initial value, which is also the upper limit.
    """

    def __init__(self, most: int) -> None:
        self._maximum = most
        self._current = float(most)

    def __int__(self) -> int:
        return int(self._current)

    def taken(self) -> None:
        """Raise the limit after a request that succeeded."""
        self._current = min(self._maximum, self._current + 1 / self._current)

    def busy(self) -> None:
        """Halve the limit after a broker refused a request because it is busy."""
        self._current = max(1.0, self._current / 2)


class Targets:
    """Caches connections by broker address, and writable queues by topic, for one task. Both are made on first use."""

    def __init__(self, settings: SendSettings) -> None:
        self.connections = BlockingConnections(settings.timeout, settings.security)
        self._cluster = Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)
        self._topics: dict[str, TopicQueues] = {}
        self.used: set[str] = set()
        """All topics that were looked up."""

    def queues(self, topic: str) -> TopicQueues:
        """Return the writable queues of a topic.

        :raises NoRouteError: the topic does not exist, or has no writable queue.
        :raises NetworkError: no name server responds.
        """
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._topics[topic] = TopicQueues(self._cluster.writable(topic))
            self.used.add(topic)
        return queues

    def bound(self, topic: str, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """Return the queue that a message must go to; None if it has neither sharding key nor queue id.

        :raises ConfigError: the topic has no queue with this id.
        :raises RocketMQError: the topic cannot be looked up.
        """
        return self.queues(topic).bound(sharding_key, queue_id)

    def forget(self, topic: str) -> None:
        """Drop the cached queues of a topic, so that the next use looks them up again."""
        self._topics.pop(topic, None)

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()
        self._cluster.close()
