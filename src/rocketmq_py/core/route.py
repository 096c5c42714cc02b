"""Topic routes: the readable and writable queues of a topic, and the addresses of its brokers."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rocketmq_py.core.logical_queues import broker_of, leaders_of
from rocketmq_py.core.queue_limits import MAX_QUEUES, MAX_ROUTE_QUEUES
from rocketmq_py.errors import BadHeader, shortened
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import QueueData, TopicRouteData
from rocketmq_py.protocol.sys_flag import PERM_READ, PERM_WRITE

MASTER_ID = 0
_MANY_DIGITS = 19


class TopicRoute:
    """The route of one topic, as a name server returned it.

    :param topic: name of the topic.
    :param data: the name server's response.
    :param provisional: True if the topic does not exist yet and ``data`` is derived from the auto-create topic. The
        first message sent creates the topic; until then, ``read_queues`` is empty.
    :ivar leaders: the logical queues of a static topic, with the brokers that lead them; empty for other topics.
    :ivar brokers: addresses by broker id, by broker name; the id of the master is 0.
    :ivar read_queues: queues to consume from, sorted.
    :ivar write_queues: queues to send to.
    :ivar write_brokers: names of the brokers of ``write_queues``.
    :raises BadHeader: the route has more queues than a topic may have.
    """

    __slots__ = ("brokers", "data", "leaders", "provisional", "read_queues", "topic", "write_brokers", "write_queues")

    def __init__(self, topic: str, data: TopicRouteData, *, provisional: bool = False) -> None:
        check_queues(topic, data)
        self.topic = topic
        self.data = data
        self.provisional = provisional
        self.brokers: dict[str, dict[int, str]] = {
            broker.broker_name: broker.broker_addrs for broker in data.broker_datas
        }
        self.leaders = leaders_of(topic, data)
        queue_datas = sorted(data.queue_datas, key=lambda queue: queue.broker_name)
        self.read_queues: list[MessageQueue] = (
            []
            if provisional
            else list(self.leaders)
            if data.topic_queue_mapping_by_broker
            else sorted(_read_queues(topic, queue_datas))
        )
        self.write_queues: list[MessageQueue] = (
            _ordered_queues(topic, data.order_topic_conf)
            if data.order_topic_conf
            else list(self.leaders)
            if data.topic_queue_mapping_by_broker
            else physical_write_queues(topic, queue_datas, self.brokers)
        )
        self.write_brokers = frozenset(map(self.broker_of, self.write_queues))

    def broker_of(self, queue: MessageQueue) -> str:
        """Return the name of the broker that serves a queue of this topic."""
        return broker_of(queue, self.leaders)

    @property
    def lacks_master(self) -> bool:
        """True if a broker with writable queues of the topic has no master at the moment."""
        return any(
            queue.perm & PERM_WRITE and MASTER_ID not in self.brokers.get(queue.broker_name, {})
            for queue in self.data.queue_datas
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicRoute) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.topic)

    def _key(self) -> tuple[object, ...]:
        return self.topic, self.brokers, self.read_queues, self.write_queues, self.leaders, self.provisional

    def __repr__(self) -> str:
        return (
            f"TopicRoute({self.topic!r}, brokers={sorted(self.brokers)}, read={len(self.read_queues)}, "
            f"write={len(self.write_queues)}{', provisional' if self.provisional else ''})"
        )


def _read_queues(topic: str, queue_datas: list[QueueData]) -> list[MessageQueue]:
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    ]


def physical_write_queues(
    topic: str, queue_datas: list[QueueData], brokers: Mapping[str, Mapping[int, str]]
) -> list[MessageQueue]:
    """Return the writable queues on brokers that have a master."""
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in queue_datas
        if data.perm & PERM_WRITE and MASTER_ID in brokers.get(data.broker_name, {})
        for queue_id in range(data.write_queue_nums)
    ]


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """Return the queues in the order configuration of a topic, for example ``broker-a:8;broker-b:8``."""
    return [MessageQueue(topic, broker, queue_id) for broker, number in _ordered(conf) for queue_id in range(number)]


def _ordered(conf: str) -> list[tuple[str, int]]:
    """Parse an order configuration to pairs of broker name and number of queues.

    A number of 19 digits or more becomes ``sys.maxsize``; entries without a number are skipped.
    """
    entries = (entry.rpartition(":") for entry in conf.split(";") if ":" in entry)
    found = [(broker, number) for broker, _, number in entries if number.isascii() and number.isdecimal()]
    return [(broker, int(number) if len(number) < _MANY_DIGITS else sys.maxsize) for broker, number in found]


def check_queues(topic: str, data: TopicRouteData) -> None:
    """Check the number of queues in a route, before lists of queues are built from it.

    :raises BadHeader: a broker, or the whole route, has too many queues.
    """
    numbers = [(queue.broker_name, max(queue.read_queue_nums, queue.write_queue_nums)) for queue in data.queue_datas]
    numbers += _ordered(data.order_topic_conf or "")
    for broker, number in numbers:
        if number > MAX_QUEUES:
            raise BadHeader(
                f"the route of topic {shortened(topic)!r} has {number} queues on broker {shortened(broker)!r}: at most "
                f"{MAX_QUEUES} are possible. Correct the topic there"
            )
    total = sum(max(number, 0) for _, number in numbers)
    if total > MAX_ROUTE_QUEUES:
        raise BadHeader(
            f"the route of topic {shortened(topic)!r} has {total} queues on {len(numbers)} brokers: at most "
            f"{MAX_ROUTE_QUEUES} are possible"
        )


def auto_create_route(data: TopicRouteData, queue_nums: int) -> TopicRouteData:
    """Return the route that a topic will have after brokers have created it by copying the auto-create topic.

    :param data: route of the auto-create topic.
    :param queue_nums: number of queues that the producer requests; the auto-create topic's own number is the limit.
    """
    queues = []
    for queue in data.queue_datas:
        number = min(queue_nums, queue.read_queue_nums)
        queues.append(
            QueueData(
                broker_name=queue.broker_name,
                read_queue_nums=number,
                write_queue_nums=number,
                perm=queue.perm,
                topic_sys_flag=queue.topic_sys_flag,
            )
        )
    return TopicRouteData(queue_datas=queues, broker_datas=data.broker_datas)


def pick_address(addresses: Mapping[int, str], broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
    """Return the address of a broker to read from; None if there is none (findBrokerAddressInSubscribe in Java).

    It is the address with ``broker_id``; if that is missing and not the master's, the one with the next id; if that is
    missing, too, any address, unless ``only_this``.

    :param addresses: addresses of one broker name by broker id.
    """
    found = addresses.get(broker_id)
    if found is None and broker_id != MASTER_ID:
        found = addresses.get(broker_id + 1)
    if found is None and not only_this:
        found = next(iter(addresses.values()), None)
    return found
