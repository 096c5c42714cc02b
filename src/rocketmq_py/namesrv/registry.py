"""Brokers, clusters and topics of a name server, with the rules of RocketMQ's RouteInfoManager.

The current time is an argument of its methods. ``owner`` stands for a broker's connection; any hashable value will do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from rocketmq_py.core.queue_limits import topic_queues_fault
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import (
    BrokerData,
    BrokerMemberGroupData,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.namesrv import RegisterBroker

log = logging.getLogger(__name__)

MASTER_ID = 0
BROKER_EXPIRY_MS = 120_000
"""A broker without a heartbeat for this long is removed, unless its registration has a timeout of its own."""

MAX_BROKERS = 10_000
"""Maximum number of registered brokers, far above any real cluster. It limits the size of the cluster info."""
MAX_BROKERS_OF_CONNECTION = 128
"""Maximum number of brokers that register over one connection. Only brokers of a container share a connection."""

PERM_WRITE = 2
PERM_READ_WRITE = 6
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
SYNC_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class BrokerKey(NamedTuple):
    """The identity of one broker process: its cluster and its address for clients."""

    cluster: str
    address: str


@dataclass(slots=True)
class LiveBroker:
    """State of a registered broker; it expires ``expiry_ms`` after ``seen_ms``, its last registration or heartbeat."""

    seen_ms: int
    expiry_ms: int
    data_version: DataVersion
    owner: Hashable
    ha_address: str


class Leaving(NamedTuple):
    """A broker to remove: it unregistered, or its connection was lost."""

    cluster: str
    address: str
    broker_name: str
    broker_id: int


class Member(NamedTuple):
    """A registered broker; ``seen_ms`` is the time of its last registration or heartbeat."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    seen_ms: int


class MinIdChanged(NamedTuple):
    """The broker with the smallest id of a broker name has changed.

    ``notify`` has the addresses of the brokers to notify; ``offline_address`` is the removed broker, if one was
    removed; ``ha_address`` is the replication address of the broker with the smallest id, if it has just registered.
    """

    broker_name: str
    min_id: int
    min_address: str
    notify: tuple[str, ...]
    offline_address: str | None = None
    ha_address: str | None = None


class Registered(NamedTuple):
    """Reply to a registration: address and replication address of the master of this broker name.

    Both are None if the broker is the master itself, or the master is not registered.
    """

    master_address: str | None = None
    ha_address: str | None = None


class Registry:
    """The registered brokers, clusters, topics and filter servers of a name server.

    :param support_acting_master: show the slave with the smallest id as the master if the master is missing.
    :param delete_missing_topics: a registration also removes topics of its broker that it does not contain.
    :param on_min_id_change: called when another broker has the smallest id of its name.
    """

    def __init__(
        self,
        *,
        support_acting_master: bool = False,
        delete_missing_topics: bool = False,
        on_min_id_change: Callable[[MinIdChanged], None] = lambda _: None,
    ) -> None:
        self._on_min_id_change = on_min_id_change
        self.support_acting_master = support_acting_master
        self.delete_missing_topics = delete_missing_topics
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._owned: dict[Hashable, set[BrokerKey]] = {}
        """By connection: the brokers whose latest registration came over it."""
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._filters: dict[BrokerKey, list[str]] = {}
        self._mappings: dict[str, dict[str, Any]] = {}
        self.lost_brokers = 0
        """How many brokers were removed without having unregistered."""

    # -- registration of brokers

    def register(
        self, header: RegisterBroker, body: RegisterBrokerBody, owner: Hashable, now_ms: int
    ) -> Generator[None, None, Registered | None]:
        """Register a broker and its topics, in steps; the result is the value that the generator returns.

        It is None if the registration is refused: a broker that is not registered sent a single topic (it must send
        all topics first), or the broker was removed between two steps.

        :raises BrokerError: SYSTEM_ERROR, too many brokers are registered, in total or over this connection.
        """
        key = BrokerKey(header.cluster_name, header.broker_addr)
        self._check_limits(key, owner)
        table = body.topic_config_serialize_wrapper
        self._clusters.setdefault(key.cluster, set()).add(header.broker_name)
        broker = self._brokers.setdefault(
            header.broker_name, BrokerData(cluster=key.cluster, broker_name=header.broker_name, broker_addrs={})
        )
        broker.enable_acting_master = bool(header.enable_acting_master)
        broker.zone_name = header.zone_name
        is_smaller = header.broker_id < min(broker.broker_addrs, default=0)
        _remove_other_ids(broker, header.broker_id, key.address)
        if self._is_outdated(broker, header.broker_id, key, table.data_version):
            self._drop(key)
            return Registered()
        is_first = header.broker_id not in broker.broker_addrs
        if is_first and len(table.topic_config_table) == 1:
            log.info("broker %s at %s must register all its topics first", header.broker_name, key.address)
            if not broker.broker_addrs:
                self._remove_name(key.cluster, header.broker_name)
            return None
        broker.broker_addrs[header.broker_id] = key.address
        if _may_define_topics(header, broker):
            yield from self._add_topics(header, body, key, is_first=is_first)
            if self._brokers.get(header.broker_name) is not broker or not broker.broker_addrs:
                return None
        self._mark_alive(key, header, table.data_version, owner, now_ms)
        self._store_filters(key, body.filter_server_list)
        if is_smaller:
            self._on_min_id_change(_newcomer(broker, header))
        return self._master_of(broker, header)

    def _check_limits(self, key: BrokerKey, owner: Hashable) -> None:
        if key in self._live:
            return
        if len(self._owned.get(owner, ())) >= MAX_BROKERS_OF_CONNECTION:
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR, f"more than {MAX_BROKERS_OF_CONNECTION} brokers over one connection"
            )
        if len(self._live) >= MAX_BROKERS:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, f"more than {MAX_BROKERS} brokers are registered")

    def _is_outdated(self, broker: BrokerData, broker_id: int, key: BrokerKey, version: DataVersion) -> bool:
        """True if another live broker is registered with the same id and a newer ``state_version``."""
        held_by = broker.broker_addrs.get(broker_id)
        holder = self._live.get(BrokerKey(key.cluster, held_by)) if held_by and held_by != key.address else None
        return holder is not None and holder.data_version.state_version > version.state_version

    def _add_topics(
        self, header: RegisterBroker, body: RegisterBrokerBody, key: BrokerKey, *, is_first: bool
    ) -> Iterator[None]:
        table = body.topic_config_serialize_wrapper
        changed = is_first or self.has_changed(key, table.data_version)
        mappings = table.topic_queue_mapping_info_map or {}
        if self.delete_missing_topics and not mappings:
            self._remove_queues(
                header.broker_name, self._topics_of({header.broker_name}) - table.topic_config_table.keys()
            )
        wipe_write = header.broker_id != MASTER_ID and bool(header.enable_acting_master)
        first_fault, faults = "", 0
        broker = self._brokers[header.broker_name]
        for topic in table.topic_config_table.values():
            if self._brokers.get(header.broker_name) is not broker:
                return  # the broker was removed since the last step
            fault = topic_queues_fault(topic.topic_name, topic.read_queue_nums, topic.write_queue_nums)
            if fault is not None:
                first_fault, faults = first_fault or fault, faults + 1
                self._remove_queues(header.broker_name, [topic.topic_name])
            elif changed or header.broker_name not in self._topics.get(topic.topic_name, {}):
                queues = _queue_data(header.broker_name, topic, wipe_write=wipe_write)
                self._topics.setdefault(topic.topic_name, {})[header.broker_name] = queues
            yield
        if changed:
            for name, mapping in mappings.items():
                self._mappings.setdefault(name, {})[mapping.get("bname", header.broker_name)] = mapping
                yield
        if faults and changed:
            log.warning("broker %s has %d invalid topics (ignored): %s", header.broker_name, faults, first_fault)

    def _mark_alive(
        self, key: BrokerKey, header: RegisterBroker, version: DataVersion, owner: Hashable, now_ms: int
    ) -> None:
        if key not in self._live:
            log.info("broker %s (id %d) at %s registered", header.broker_name, header.broker_id, key.address)
        self._drop(key)
        self._owned.setdefault(owner, set()).add(key)
        expiry = header.heartbeat_timeout_millis or BROKER_EXPIRY_MS
        self._live[key] = LiveBroker(now_ms, expiry, version, owner, header.ha_server_addr)

    def _store_filters(self, key: BrokerKey, filters: list[str]) -> None:
        if filters:
            self._filters[key] = filters
        else:
            self._filters.pop(key, None)

    def _master_of(self, broker: BrokerData, header: RegisterBroker) -> Registered:
        master = broker.broker_addrs.get(MASTER_ID)
        live = self._live.get(BrokerKey(header.cluster_name, master)) if master else None
        if header.broker_id == MASTER_ID or live is None:
            return Registered()
        return Registered(master, live.ha_address)

    def heartbeat(self, cluster: str, address: str, now_ms: int) -> None:
        """Record a heartbeat of a broker; ignored if the broker is not registered."""
        live = self._live.get(BrokerKey(cluster, address))
        if live is not None:
            live.seen_ms = now_ms

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        """Return the version of a broker's topics; None if the broker is not registered."""
        live = self._live.get(key)
        return None if live is None else live.data_version

    def has_changed(self, key: BrokerKey, version: DataVersion) -> bool:
        """True if ``version`` differs from the broker's last registered one, or the broker is not registered."""
        return self.data_version(key) != version

    # -- removal of brokers

    def unregister(self, leaving: Iterable[Leaving], lost: str | None = None) -> None:
        """Remove brokers; also broker names without any broker left, with their queues.

        :param lost: for the log, why the brokers are removed; None if they unregistered themselves.
        """
        gone, left = set[str](), set[str]()
        changed: list[MinIdChanged] = []
        for one in leaving:
            if lost:
                log.warning("broker %s (id %d) at %s is lost: %s", one.broker_name, one.broker_id, one.address, lost)
            else:
                log.info("broker %s (id %d) at %s unregistered", one.broker_name, one.broker_id, one.address)
            key = BrokerKey(one.cluster, one.address)
            self._drop(key)
            self._filters.pop(key, None)
            broker = self._brokers.get(one.broker_name)
            if broker is None:
                continue
            was_smallest = one.broker_id == min(broker.broker_addrs)
            broker.broker_addrs = {number: held for number, held in broker.broker_addrs.items() if held != one.address}
            if not broker.broker_addrs:
                self._remove_name(one.cluster, one.broker_name)
                gone.add(one.broker_name)
                continue
            left.add(one.broker_name)
            if was_smallest:
                changed.append(_successor(broker, one.address))
        self._remove_queues_of(gone)
        self._make_read_only(left - gone)
        for change in changed:
            if change.broker_name not in gone and self._brokers[change.broker_name].enable_acting_master:
                self._on_min_id_change(change)

    def _make_read_only(self, broker_names: Iterable[str]) -> None:
        """Remove the write permission of the queues of each broker name whose slave acts as its missing master."""
        for name in broker_names:
            broker = self._brokers[name]
            if broker.enable_acting_master and MASTER_ID not in broker.broker_addrs:
                self._set_permissions(name, lambda perm: perm & ~PERM_WRITE)

    def _remove_name(self, cluster: str, broker_name: str) -> None:
        del self._brokers[broker_name]
        names = self._clusters.get(cluster, set())
        names.discard(broker_name)
        if not names:
            self._clusters.pop(cluster, None)

    def _remove_queues_of(self, broker_names: set[str]) -> None:
        if broker_names:
            for topic, by_broker in list(self._topics.items()):
                for name in broker_names & by_broker.keys():
                    del by_broker[name]
                if not by_broker:
                    del self._topics[topic]

    def disconnected(self, owners: Collection[Hashable]) -> None:
        """Remove the brokers whose latest registration came over one of the connections ``owners``."""
        lost = [key for owner in owners for key in self._owned.get(owner, ())]
        self._remove(lost, "its connection was lost: check whether it is running")

    def expire(self, now_ms: int) -> list[Hashable]:
        """Remove brokers whose last heartbeat is too old; return their connections, which the caller should close."""
        late = {key: live for key, live in self._live.items() if live.seen_ms + live.expiry_ms < now_ms}
        self._remove(late, "no heartbeat in time: check whether it hangs")
        return [live.owner for live in late.values()]

    def _remove(self, keys: Iterable[BrokerKey], why: str) -> None:
        lost = set(keys)
        if not lost:
            return
        leaving = [
            Leaving(broker.cluster, address, name, number)
            for name, broker in self._brokers.items()
            for number, address in broker.broker_addrs.items()
            if (broker.cluster, address) in lost
        ]
        for key in lost:
            self._drop(key)
        self.lost_brokers += len(lost)
        self.unregister(leaving, why)

    def _drop(self, key: BrokerKey) -> None:
        """Remove the state of a live broker; its addresses and topics stay."""
        live = self._live.pop(key, None)
        if live is not None:
            owned = self._owned[live.owner]
            owned.discard(key)
            if not owned:
                del self._owned[live.owner]

    # -- topics

    def add_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add or replace queues of a topic; change nothing if the broker of one of them is not registered."""
        by_broker = {queue.broker_name: queue for queue in queues}
        unknown = by_broker.keys() - self._brokers.keys()
        if unknown:
            log.warning("topic %s is not registered: no broker %s", topic, ", ".join(sorted(unknown)))
        elif by_broker:
            self._topics.setdefault(topic, {}).update(by_broker)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, or only its queues in one cluster."""
        if not cluster:
            self._topics.pop(topic, None)
            self._mappings.pop(topic, None)
            return
        for broker_name in self._clusters.get(cluster, ()):
            self._remove_queues(broker_name, {topic})

    def wipe_write_permission(self, broker_name: str) -> int:
        """Remove the write permission of all queues of a broker; return the number of its topics."""
        return self._set_permissions(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Make all queues of a broker readable and writable; return the number of its topics."""
        return self._set_permissions(broker_name, lambda _: PERM_READ_WRITE)

    def _set_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        queues = [by_broker[broker_name] for by_broker in self._topics.values() if broker_name in by_broker]
        for queue in queues:
            queue.perm = change(queue.perm)
        return len(queues)

    def _topics_of(self, broker_names: set[str]) -> set[str]:
        return {topic for topic, by_broker in self._topics.items() if broker_names & by_broker.keys()}

    def _remove_queues(self, broker_name: str, topics: Iterable[str]) -> None:
        for topic in topics:
            by_broker = self._topics.get(topic, {})
            by_broker.pop(broker_name, None)
            if not by_broker:
                self._topics.pop(topic, None)

    # -- queries of clients and administrators

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic; None if no registered broker has queues of it."""
        by_broker = self._topics.get(topic, {})
        brokers = [self._brokers[name] for name in by_broker if name in self._brokers]
        if not brokers:
            return None
        if self.support_acting_master and not topic.startswith(SYNC_MEMBER_TOPIC_PREFIX):
            brokers = [_with_acting_master(broker, by_broker[broker.broker_name]) for broker in brokers]
        return TopicRouteData(
            queue_datas=list(by_broker.values()),
            broker_datas=brokers,
            filter_server_table=self._filters_of(brokers),
            topic_queue_mapping_by_broker=self._mappings.get(topic),
        )

    def _filters_of(self, brokers: list[BrokerData]) -> dict[str, list[str]]:
        if not self._filters:
            return {}
        keys = [BrokerKey(broker.cluster, address) for broker in brokers for address in broker.broker_addrs.values()]
        return {key.address: self._filters[key] for key in keys if key in self._filters}

    def cluster_info(self) -> ClusterInfo:
        """Return the addresses of all brokers by name, and the broker names of each cluster."""
        return ClusterInfo(
            broker_addr_table=self._brokers,
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._clusters.items()},
        )

    def members(self, cluster: str, broker_name: str) -> BrokerMemberGroupData:
        """Return the addresses of the brokers of one name by broker id; none if the name is unknown."""
        broker = self._brokers.get(broker_name)
        addresses = broker.broker_addrs if broker is not None else {}
        return BrokerMemberGroupData(cluster=cluster, broker_name=broker_name, broker_addrs=addresses)

    def live_brokers(self) -> list[Member]:
        """Return all registered brokers."""
        return [
            Member(broker.cluster, name, number, address, live.seen_ms)
            for name, broker in self._brokers.items()
            for number, address in broker.broker_addrs.items()
            if (live := self._live.get(BrokerKey(broker.cluster, address))) is not None
        ]

    @property
    def topic_count(self) -> int:
        """The number of topics with a route."""
        return len(self._topics)

    def all_topics(self) -> TopicList:
        return TopicList(topic_list=list(self._topics))

    def topics_of_cluster(self, cluster: str) -> TopicList:
        return TopicList(topic_list=sorted(self._topics_of(self._clusters.get(cluster, set()))))

    def system_topics(self) -> TopicList:
        """Return the system topics, which are named like clusters and brokers, and the address of one broker."""
        names = [name for cluster, brokers in self._clusters.items() for name in (cluster, *sorted(brokers))]
        addresses = (address for broker in self._brokers.values() for address in broker.broker_addrs.values())
        return TopicList(topic_list=names, broker_addr=next(addresses, None))

    def topics_by_flag(self, wanted: Callable[[int], bool]) -> TopicList:
        """Return the topics for which ``wanted`` is true of the system flag that their first broker registered."""
        first = {topic: next(iter(by_broker.values())) for topic, by_broker in self._topics.items()}
        return TopicList(topic_list=[topic for topic, queue in first.items() if wanted(queue.topic_sys_flag)])


def _remove_other_ids(broker: BrokerData, broker_id: int, address: str) -> None:
    """Remove other ids of an address: a slave that became master has only the id of the master."""
    broker.broker_addrs = {
        number: held for number, held in broker.broker_addrs.items() if held != address or number == broker_id
    }


def _newcomer(broker: BrokerData, header: RegisterBroker) -> MinIdChanged:
    """Describe, for the listener, that the broker with the smallest id of its name has registered.

    The other brokers of the name are to be notified; if there is none, the broker itself.
    """
    others = tuple(address for number, address in broker.broker_addrs.items() if number != header.broker_id)
    return MinIdChanged(
        broker.broker_name, header.broker_id, header.broker_addr, others or (header.broker_addr,),
        ha_address=header.ha_server_addr,
    )  # fmt: skip


def _successor(broker: BrokerData, gone: str) -> MinIdChanged:
    """Return the event "the broker with the smallest id was removed": who has the smallest id now.

    The event lists all remaining brokers of that broker name, so that the listener can notify each of them.

    :param broker: the remaining brokers of the broker name.
    :param gone: the address of the removed broker.
    """
    smallest = min(broker.broker_addrs)
    return MinIdChanged(
        broker.broker_name, smallest, broker.broker_addrs[smallest], tuple(broker.broker_addrs.values()), gone
    )


def _may_define_topics(header: RegisterBroker, broker: BrokerData) -> bool:
    """True for a master, and for a slave that may act as master and has the smallest id."""
    could_act = header.enable_acting_master is not None and header.broker_id == min(broker.broker_addrs)
    return header.broker_id == MASTER_ID or could_act


def _queue_data(broker_name: str, topic: TopicConfig, *, wipe_write: bool) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm & ~PERM_WRITE if wipe_write else topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    """Return the broker with its smallest id as the master, if the master is missing and the queues are read-only."""
    addresses = dict(broker.broker_addrs)
    if not addresses or MASTER_ID in addresses or not broker.enable_acting_master or queue.perm & PERM_WRITE:
        return broker
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return msgspec.structs.replace(broker, broker_addrs=addresses)
