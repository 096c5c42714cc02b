"""Allocation of a topic's queues to the members of a consumer group.

Every member computes the same result from the same sorted lists. The strategies agree with Apache RocketMQ's
AllocateMessageQueueStrategy implementations, so Java and Python members can share a group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from itertools import groupby
from typing import Protocol, TypeVar

from rocketmq_py.model import MessageQueue

Queues = Sequence[MessageQueue]
T = TypeVar("T")


class Allocation(Protocol):
    """An allocation strategy."""

    @property
    def name(self) -> str:
        """The name of the strategy in Java."""
        ...

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        """Return the queues of one client.

        :param me: id of the client; it gets no queues if it is not in ``clients``.
        :param queues: all queues of the topic, sorted.
        :param clients: ids of all members of the group, sorted.
        """
        ...


@dataclass(frozen=True, slots=True)
class Average:
    """Each client gets one contiguous range of queues, all of equal size (AVG, the default strategy).

    If the queues do not divide evenly, the first clients get one more.
    """

    name: str = field(default="AVG", init=False)

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        index = clients.index(me)
        share, rest = divmod(len(queues), len(clients))
        start = index * share + min(index, rest)
        return list(queues[start : start + share + (index < rest)])


@dataclass(frozen=True, slots=True)
class Circle:
    """The queues are dealt to the clients one by one, in turn (AVG_BY_CIRCLE)."""

    name: str = field(default="AVG_BY_CIRCLE", init=False)

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        return list(queues[clients.index(me) :: len(clients)])


@dataclass(frozen=True, slots=True)
class Fixed:
    """The client gets a fixed set of queues, independent of the other members (CONFIG)."""

    queues: tuple[MessageQueue, ...]
    name: str = field(default="CONFIG", init=False)

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:  # noqa: ARG002
        return list(self.queues)


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Only queues on brokers in certain machine rooms are allocated, as contiguous ranges of equal size (MACHINE_ROOM).

    If they do not divide evenly, the remaining queues go to the first clients, one each.

    :param rooms: names of the rooms; brokers are named ``room@name``.
    """

    rooms: frozenset[str]
    name: str = field(default="MACHINE_ROOM", init=False)

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        near = [queue for queue in queues if self._holds(queue.broker_name)]
        index = clients.index(me)
        share, rest = divmod(len(near), len(clients))
        mine = near[index * share : (index + 1) * share]
        return [*mine, near[index + share * len(clients)]] if index < rest else mine

    def _holds(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        return len(parts) == 2 and parts[0] in self.rooms


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Consistent hashing: few queues change their client when a client joins or leaves (CONSISTENT_HASH).

    Each queue goes to the next client on a hash ring.

    :param virtual_nodes: number of positions of each client on the ring (Java: 10).
    """

    virtual_nodes: int = 10
    name: str = field(default="CONSISTENT_HASH", init=False)

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        ring = {_ring_hash(f"{client}-{i}"): client for client in clients for i in range(self.virtual_nodes)}
        places = sorted(ring)
        return [queue for queue in queues if ring[_owner(places, queue)] == me]


def _owner(places: Sequence[int], queue: MessageQueue) -> int:
    name = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    return places[bisect_left(places, _ring_hash(name)) % len(places)]


def _ring_hash(key: str) -> int:
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class Nearby:
    """Queues of a machine room go to clients of that room; queues of a room without clients are shared by all clients.

    :param inner: the strategy that divides the queues of a room.
    :param broker_room: returns the room of a queue.
    :param client_room: returns the room of a client, by client id.
    """

    inner: Allocation
    broker_room: Callable[[MessageQueue], str]
    client_room: Callable[[str], str]

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(self, me: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        rooms = _grouped(queues, self.broker_room)
        neighbours = _grouped(clients, self.client_room)
        home = self.client_room(me)
        mine: list[MessageQueue] = []
        if home in rooms:
            mine += self.inner.allocate(me, rooms.pop(home), neighbours[home])
        for room, orphans in rooms.items():
            if room not in neighbours:
                mine += self.inner.allocate(me, orphans, clients)
        return mine


def _grouped(items: Sequence[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    return {room: list(members) for room, members in groupby(sorted(items, key=key), key)}


def check_allocation(mine: Collection[MessageQueue], queues: Collection[MessageQueue]) -> list[MessageQueue]:
    """Return the allocated queues that are not among ``queues``, such as a wrong one in the list of :class:`Fixed`."""
    known = set(queues)
    return [queue for queue in mine if queue not in known]
