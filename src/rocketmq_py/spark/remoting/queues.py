"""Queues and the addresses of their brokers, from the routes of a name server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rocketmq_py.core.logical_queues import leaders_of
from rocketmq_py.core.route import check_queues
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import QueueData, TopicRouteData
from rocketmq_py.protocol.sys_flag import PERM_READ, PERM_WRITE


class Addresses(NamedTuple):
    """The addresses of one broker name: the master, and slaves with their broker ids.

    :ivar broker: the name; a logical queue does not have its broker's.
    """

    master: str | None = None
    slaves: tuple[tuple[int, str], ...] = ()
    broker: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every address, the master's first."""
        slaves = tuple(address for _, address in self.slaves)
        return slaves if self.master is None else (self.master, *slaves)

    def of(self, broker_id: int) -> str | None:
        """The address of the broker with this id, 0 for the master."""
        return self.master if broker_id == 0 else dict(self.slaves).get(broker_id)


class QueueRoutes(NamedTuple):
    """Queues of some topics, and the addresses of each; those of a logical queue are corrected when it has moved."""

    addresses: dict[MessageQueue, Addresses]

    def by_broker(self) -> list[QueueRoutes]:
        """The same queues, one entry for each broker."""
        return [QueueRoutes(dict.fromkeys(members, at)) for at, members in self.by_address().items()]

    def by_address(self) -> dict[Addresses, list[MessageQueue]]:
        """The queues of each broker, in order."""
        grouped: dict[Addresses, list[MessageQueue]] = {}
        for queue in sorted(self.addresses):
            grouped.setdefault(self.addresses[queue], []).append(queue)
        return grouped

    def only(self, wanted: Iterable[MessageQueue]) -> QueueRoutes:
        """Only the wanted queues."""
        return QueueRoutes({queue: self.addresses[queue] for queue in wanted if queue in self.addresses})


def readable_number(data: QueueData) -> int:
    """How many queues of a broker can be read."""
    return data.read_queue_nums if data.perm & PERM_READ else 0


def writable_number(data: QueueData) -> int:
    """How many queues of a broker can be written."""
    return data.write_queue_nums if data.perm & PERM_WRITE else 0


def brokers_of(route: TopicRouteData) -> dict[str, Addresses]:
    """The brokers of a topic, by name."""
    return {
        broker.broker_name: Addresses(
            broker.broker_addrs.get(0),
            tuple((i, broker.broker_addrs[i]) for i in sorted(broker.broker_addrs) if i),
            broker.broker_name,
        )
        for broker in route.broker_datas
        if broker.broker_addrs
    }


def of_route(topic: str, route: TopicRouteData, number: Callable[[QueueData], int]) -> Mapping[MessageQueue, Addresses]:
    """The queues of a topic.

    :param number: how many queues a broker has.
    :raises BadHeader: the route has more queues than a topic may have.
    """
    check_queues(topic, route)
    brokers = brokers_of(route)
    if route.topic_queue_mapping_by_broker:
        leaders = leaders_of(topic, route)
        return {queue: brokers[broker] for queue, broker in leaders.items() if broker in brokers}
    return {
        MessageQueue(topic, data.broker_name, queue_id): brokers[data.broker_name]
        for data in route.queue_datas
        if data.broker_name in brokers
        for queue_id in range(number(data))
    }
