"""Queues and the addresses of their brokers, from the routes of a name server. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.core.logical_queues import leaders_of
from rocketmq_py.core.route import check_queues
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import QueueData, TopicRouteData
from rocketmq_py.protocol.sys_flag import PERM_READ, PERM_WRITE


class Addresses(NamedTuple):
    """The addresses of the brokers of one name.

    :ivar master: address of the master; None if it is not registered.
    :ivar slaves: broker id and address of each slave.
    :ivar broker: the broker name, which for a logical queue differs from ``MessageQueue.broker_name``.
    """

    master: str | None = None
    slaves: tuple[tuple[int, str], ...] = ()
    broker: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """All addresses, the master's first."""
        slaves = tuple(address for _, address in self.slaves)
        return slaves if self.master is None else (self.master, *slaves)

    def of(self, broker_id: int) -> str | None:
        """Return the address of the broker with this id, 0 for the master; None if it is not registered."""
        return self.master if broker_id == 0 else dict(self.slaves).get(broker_id)


class LocatedRange(NamedTuple):
    """A range, and where its messages were when the read was planned.

    :ivar addresses: the addresses of its broker; none in a read of a store.
    :ivar span: begin and end of the part of a store's commit log that has them; None if a consume queue tells.
    """

    range: QueueRange
    addresses: Addresses
    span: tuple[int, int] | None = None


class QueueRoutes(NamedTuple):
    """The addresses of the broker of each queue; :class:`Cluster` changes them if a logical queue has moved."""

    addresses: dict[MessageQueue, Addresses]

    def by_broker(self) -> list[QueueRoutes]:
        """Split the queues by broker: one :class:`QueueRoutes` for each."""
        return [QueueRoutes(dict.fromkeys(members, at)) for at, members in self.by_address().items()]

    def by_address(self) -> dict[Addresses, list[MessageQueue]]:
        """Return the sorted queues of each broker, by the broker's addresses."""
        grouped: dict[Addresses, list[MessageQueue]] = {}
        for queue in sorted(self.addresses):
            grouped.setdefault(self.addresses[queue], []).append(queue)
        return grouped

    def only(self, wanted: Iterable[MessageQueue]) -> QueueRoutes:
        """Return the routes of the ``wanted`` queues; a queue without a route is left out."""
        return QueueRoutes({queue: self.addresses[queue] for queue in wanted if queue in self.addresses})


def readable_number(data: QueueData) -> int:
    """Return the number of readable queues of a topic on one broker."""
    return data.read_queue_nums if data.perm & PERM_READ else 0


def writable_number(data: QueueData) -> int:
    """Return the number of writable queues of a topic on one broker."""
    return data.write_queue_nums if data.perm & PERM_WRITE else 0


def brokers_of(route: TopicRouteData) -> dict[str, Addresses]:
    """Return the addresses of the brokers in a topic's route, by broker name."""
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
    """Return the queues in a topic's route, with the addresses of their brokers.

    :param number: returns how many queues to take on a broker: :func:`readable_number` or :func:`writable_number`.
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
