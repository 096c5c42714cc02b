"""What Spark needs to know of a cluster: the queues of topics, where they are served, and what they hold.

Blocking; asks name servers and brokers. Refuses to decide what follows from the answers (``plan``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, RocketMQError, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies import QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.header import Header
from rocketmq_py.protocol.headers import GetMaxOffset, GetRouteInfo, OffsetResponse, QueueHeader
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.protocol.sysflag import PERM_READ, PERM_WRITE
from rocketmq_py.spark.connection import Connections
from rocketmq_py.spark.offsets import Bounds, Offsets
from rocketmq_py.spark.retry import Retry
from rocketmq_py.spark.security import OPEN, Security

_log = logging.getLogger(__name__)

AUTO_CREATE_QUEUES = 4
"""Queues a topic gets that its first message creates, as Java's producer asks for."""


class Addresses(NamedTuple):
    """Where the queues of one broker name are served."""

    master: str | None = None
    slaves: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every address, the master's first."""
        return self.slaves if self.master is None else (self.master, *self.slaves)


class Queues(NamedTuple):
    """The queues of some topics and where each is served."""

    addresses: dict[MessageQueue, Addresses]

    def by_broker(self) -> list[Queues]:
        """The same queues, one entry for each broker."""
        grouped = _by_address(self.addresses)
        return [Queues(dict.fromkeys(members, addresses)) for addresses, members in grouped.items()]

    def with_master(self) -> Queues:
        """The same queues without those whose broker has no master now."""
        return Queues({queue: addresses for queue, addresses in self.addresses.items() if addresses.master})


class Cluster:
    """A view of a cluster through its name servers. For one thread; close it when done.

    :param namesrv: name servers, ``host:port`` each; the first that answers is asked.
    :param timeout: seconds to wait for an answer.
    :param retries: attempts after the first one.
    :param security: how name servers and brokers are spoken to.
    """

    def __init__(self, namesrv: tuple[str, ...], timeout: float, retries: int, security: Security = OPEN) -> None:
        self._namesrv = namesrv
        self._retries = retries
        self._connections = Connections(timeout, security)

    def readable(self, topics: Iterable[str]) -> Queues:
        """The queues of ``topics`` that can be read.

        :raises NoRouteError: a topic does not exist, or has no queue that may be read.
        :raises NetworkError: no name server answers.
        """
        return self._queues(topics, _readable)

    def writable(self, topic: str) -> Queues:
        """The queues of ``topic`` that can be written; errors as :meth:`readable`.

        Of a topic that does not exist these are the queues the first message will create, where brokers allow that.
        """
        try:
            return self._queues([topic], _writable)
        except _NoTopic:
            template = self._template()
            if template is None:
                raise
            return Queues(_of_route(topic, template, lambda data: min(_writable(data), AUTO_CREATE_QUEUES)))

    def _template(self) -> TopicRouteData | None:
        """What a topic created by its first message is modelled on; None where brokers do not create topics so."""
        try:
            return self._route(AUTO_CREATE_TOPIC)
        except _NoTopic:
            return None

    def bounds(self, queues: Queues) -> dict[MessageQueue, Bounds]:
        """What each queue holds now."""
        earliest, latest = self.earliest(queues), self.latest(queues)
        return {queue: Bounds(earliest[queue], latest[queue]) for queue in queues.addresses}

    def earliest(self, queues: Queues) -> Offsets:
        """The offset of the oldest message of each queue."""
        return self._offsets(queues, RequestCode.GET_MIN_OFFSET, _min_offset)

    def latest(self, queues: Queues) -> Offsets:
        """The offset the next message of each queue will get."""
        return self._offsets(queues, RequestCode.GET_MAX_OFFSET, _max_offset)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _queues(self, topics: Iterable[str], number: Callable[[QueueData], int]) -> Queues:
        addresses: dict[MessageQueue, Addresses] = {}
        for topic in topics:
            found = _of_route(topic, self._route(topic), number)
            if not found:
                raise NoRouteError(f"topic {topic!r} has no queue to serve this: check its permission and its brokers")
            addresses.update(found)
        return Queues(addresses)

    def _route(self, topic: str) -> TopicRouteData:
        return Retry(self._retries, f"looking up topic {topic}").call(lambda: self._ask_for_route(topic))

    def _ask_for_route(self, topic: str) -> TopicRouteData:
        """The route of a topic from the first name server that answers."""
        failures: list[RocketMQError] = []
        for address in self._namesrv:
            try:
                header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
                answer = self._connections.to(address).call(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
                return TopicRouteData.decode(answer.body)
            except TopicNotExist as e:
                raise _NoTopic(f"topic {topic!r} does not exist, says name server {address}. Create it first, or check"
                               " option subscribe or topic") from e  # fmt: skip
            except (NetworkError, BrokerError) as e:
                self._connections.drop(address)
                failures.append(e)
        raise NetworkError("no name server answers; check option namesrv: " + "; ".join(map(str, failures)))

    def _offsets(self, queues: Queues, code: RequestCode, header: Callable[[MessageQueue], Header]) -> Offsets:
        """One offset per queue; the brokers are asked one after the other, all queues of one at once."""
        offsets: Offsets = {}
        for addresses, members in _by_address(queues.addresses).items():
            requests = [(code, header(queue).to_ext(), b"") for queue in members]
            retry = Retry(self._retries, f"looking up offsets at {addresses.all[0]}")
            answers = retry.call(lambda a=addresses.all[0], r=requests: self._ask(a, r))  # type: ignore[misc]
            offsets.update(zip(members, answers, strict=True))
        return offsets

    def _ask(self, address: str, requests: list[tuple[RequestCode, dict[str, str], bytes]]) -> list[int]:
        try:
            connection = self._connections.to(address)
            opaques = connection.send(requests)
            answers = {answer.opaque: answer for answer in (connection.receive() for _ in opaques)}
        except NetworkError:
            self._connections.drop(address)
            raise
        for answer in answers.values():
            if answer.code != 0:
                raise BrokerError.of(answer.code, answer.remark, address)
        return [OffsetResponse.from_ext(answers[opaque].ext).offset for opaque in opaques]


def _readable(data: QueueData) -> int:
    return data.read_queue_nums if data.perm & PERM_READ else 0


def _writable(data: QueueData) -> int:
    return data.write_queue_nums if data.perm & PERM_WRITE else 0


class _NoTopic(NoRouteError):
    retryable = False


def _min_offset(queue: MessageQueue) -> Header:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)


def _max_offset(queue: MessageQueue) -> Header:
    return GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)


def _by_address(addresses: Mapping[MessageQueue, Addresses]) -> dict[Addresses, list[MessageQueue]]:
    grouped: dict[Addresses, list[MessageQueue]] = {}
    for queue in sorted(addresses):
        grouped.setdefault(addresses[queue], []).append(queue)
    return grouped


def _of_route(topic: str, route: TopicRouteData, number: Callable[[QueueData], int]) -> dict[MessageQueue, Addresses]:
    brokers = {
        broker.broker_name: Addresses(
            broker.broker_addrs.get(0), tuple(broker.broker_addrs[i] for i in sorted(broker.broker_addrs) if i)
        )
        for broker in route.broker_datas
        if broker.broker_addrs
    }
    return {
        MessageQueue(topic, data.broker_name, queue_id): brokers[data.broker_name]
        for data in route.queue_datas
        if data.broker_name in brokers
        for queue_id in range(number(data))
    }
