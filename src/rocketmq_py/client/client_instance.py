"""What the producers and consumers of one client id share: connections, routes, heartbeats, periodic jobs.

Knows who is a member and when to speak for all of them. Refuses to know what members send and consume.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypedDict, runtime_checkable

from rocketmq_py.client.routes import NameServers, Routes, name_servers
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, RocketMQError
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.group import GroupHeader, UnregisterClient
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.tasks import Background
from rocketmq_py.tls import Tls
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials

_log = logging.getLogger(__name__)


class GroupMembership(Protocol):
    """A producer or consumer of an instance."""

    @property
    def group(self) -> str:
        """Its producer or consumer group."""
        ...

    def heartbeat(self) -> ProducerData | ConsumerData:
        """What the brokers are to know of it."""
        ...

    def topics(self) -> set[str]:
        """Topics whose routes it needs kept fresh."""
        ...

    async def on_ids_changed(self) -> None:
        """A broker says that the members of its group have changed."""
        ...


@runtime_checkable
class KeepsOffsets(Protocol):
    """A member whose offsets are to be persisted from time to time."""

    async def persist_offsets(self) -> None: ...


class ClientSettings(TypedDict, total=False):
    """What is to be said of a client beside its name servers, for keyword arguments; see :class:`ClientInstance`."""

    instance_name: str | None
    unit_name: str | None
    address_map: Mapping[str, str] | None
    tls: Tls
    credentials: Credentials | None
    timeout: float


class ClientInstance:
    """One client id and everything its members share. Belongs to one event loop.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param instance_name: the part of the client id after ``ip@``; by default unique.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for an answer of a name server, and of a broker to a heartbeat.
    :param connect_timeout: seconds to wait for a connection.
    :param route_interval: seconds between refreshes of the routes.
    :param heartbeat_interval: seconds between heartbeats.
    :param offset_interval: seconds between writes of consumer offsets.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        instance_name: str | None = None,
        unit_name: str | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        timeout: float = 3.0,
        connect_timeout: float = 3.0,
        route_interval: float = 30.0,
        heartbeat_interval: float = 30.0,
        offset_interval: float = 5.0,
    ) -> None:
        self.client_id = make_client_id(instance_name, unit_name)
        self.timeout = timeout
        self.connections = ConnectionPool(
            connect_timeout=connect_timeout, address_map=address_map, tls=tls, credentials=credentials, hint=self._hint
        )
        self.name_servers = NameServers(name_servers(namesrv), self.connections, timeout)
        self.routes = Routes(self.name_servers)
        self._intervals = (route_interval, heartbeat_interval, offset_interval)
        self._producers: dict[str, GroupMembership] = {}
        self._consumers: dict[str, GroupMembership] = {}
        self.outages: dict[str, float] = {}
        """When members last logged that a broker cannot be reached: monotonic seconds by broker name."""
        self._versions: dict[str, int] = {}
        self._untold: set[str] = set()
        """Brokers of which it was said that they do not hear us."""
        self._jobs = Background()
        self.connections.on_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._ids_changed)
        self.connections.on_open = self._greet

    # -- members

    def register(self, member: GroupMembership) -> None:
        """Make ``member`` part of this client.

        :raises ConfigError: the client already has a member of that kind and group.
        """
        kind, members = self._kind(member)
        if member.group in members:
            raise ConfigError(
                f"client {self.client_id} already has a {kind} of group {member.group!r}; use another group, or "
                "another instance name"
            )
        members[member.group] = member

    async def unregister(self, member: GroupMembership) -> None:
        """End the membership and tell the brokers, as far as they can be reached."""
        kind, members = self._kind(member)
        if members.get(member.group) is not member:
            return
        del members[member.group]
        header = UnregisterClient(client_id=self.client_id)
        setattr(header, f"{kind}_group", member.group)
        await self._tell_brokers(RequestCode.UNREGISTER_CLIENT, header, b"", self._all_brokers())

    @property
    def members(self) -> list[GroupMembership]:
        """All members, producers first."""
        return [*self._producers.values(), *self._consumers.values()]

    def consumer(self, group: str) -> GroupMembership | None:
        """The consumer of a group, if this client has one."""
        return self._consumers.get(group)

    def producer(self, group: str) -> GroupMembership | None:
        """The producer of a group, if this client has one."""
        return self._producers.get(group)

    def _kind(self, member: GroupMembership) -> tuple[str, dict[str, GroupMembership]]:
        if isinstance(member.heartbeat(), ProducerData):
            return "producer", self._producers
        return "consumer", self._consumers

    # -- life

    async def start(self) -> None:
        """Begin the periodic jobs. May be called more than once."""
        self.connections.check_usable()
        if self._jobs.runs:
            return
        routes, heartbeat, offsets = self._intervals
        self._jobs.start(
            every(routes, routes, self.refresh_routes),
            every(min(1.0, heartbeat), heartbeat, self.heartbeat_all),
            every(2 * offsets, offsets, self._persist_offsets),
        )

    async def stop(self) -> None:
        """End the periodic jobs and all connections. Members close themselves first. May be called more than once."""
        await self._jobs.stop()
        await self.connections.close()

    # -- jobs

    async def refresh_routes(self) -> None:
        """Ask the name server for the routes of all topics of all members."""
        await self.routes.refresh_all(set().union(*(member.topics() for member in self.members)))

    async def heartbeat_all(self) -> None:
        """Tell every known broker who our members are; a client without consumers tells masters only.

        Brokers that cannot be reached are logged, not raised.
        """
        if not self.members:
            return
        brokers = self._all_brokers() if self._consumers else self._masters()
        await self._tell_brokers(RequestCode.HEART_BEAT, None, self._heartbeat(), brokers)

    def _heartbeat(self) -> bytes:
        beats = [member.heartbeat() for member in self.members]
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[beat for beat in beats if isinstance(beat, ProducerData)],
            consumer_data_set=[beat for beat in beats if isinstance(beat, ConsumerData)],
        ).encode()

    def _greet(self, connection: Connection) -> None:
        """A broker that had to be connected to again may have been started anew and would refuse a stranger's pulls."""
        if connection.address in self._versions and self.members:
            deadline = time.monotonic() + self.timeout
            connection.request(RequestCode.HEART_BEAT, None, self._heartbeat(), lambda _: None, deadline)

    async def _persist_offsets(self) -> None:
        for member in self.members:
            if isinstance(member, KeepsOffsets):
                await member.persist_offsets()

    async def _ids_changed(self, address: str, request: Command) -> None:
        group = GroupHeader.from_ext(request.ext).consumer_group
        _log.debug("broker %s says the members of group %s have changed", address, group)
        member = self._consumers.get(group)
        if member is not None:
            await member.on_ids_changed()

    # -- brokers

    def broker_version(self, address: str) -> int | None:
        """The ordinal of the version a broker said it is of; None as long as it has not answered a heartbeat."""
        return self._versions.get(address) or None

    def _masters(self) -> list[str]:
        return [a for ids in self.routes.broker_addresses().values() for i, a in ids.items() if i == MASTER_ID]

    def _all_brokers(self) -> list[str]:
        return [address for ids in self.routes.broker_addresses().values() for address in ids.values()]

    async def _tell_brokers(
        self, code: RequestCode, header: UnregisterClient | None, body: bytes, addresses: Sequence[str]
    ) -> None:
        results = await asyncio.gather(
            *(self.connections.invoke(address, code, header, body, self.timeout) for address in addresses),
            return_exceptions=True,
        )
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, NetworkError | BrokerError):
                level = logging.DEBUG if address in self._untold else logging.WARNING
                self._untold.add(address)
                _log.log(level, "%s to broker %s failed: %s", code.name, address, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._versions[address] = result.version
                if address in self._untold:
                    self._untold.discard(address)
                    _log.warning("broker %s answers again", address)

    def _hint(self, address: str) -> str:
        """What to try when ``address`` cannot be reached."""
        if address in self.name_servers.addresses:
            return "Does a name server run there? Check the namesrv option (or NAMESRV_ADDR)"
        broker = self.routes.broker_name(address)
        if broker is None:
            return ""
        return (
            f"This is the address broker {broker} advertises. If it is right for the broker but not reachable from "
            "here (a container, another network), set brokerIP1 in its broker.conf to an address that is, or pass "
            f"address_map={{{address!r}: 'host:port'}} here"
        )


async def every(first: float, interval: float, job: Callable[[], Awaitable[None]]) -> None:
    """Run ``job`` after ``first`` seconds and then every ``interval``; what it raises is logged."""
    await asyncio.sleep(first)
    while True:
        try:
            await job()
        except RocketMQError as e:
            _log.warning("%s failed: %s", getattr(job, "__name__", job), e)
        except Exception:  # noqa: BLE001 - one failure must not end the job
            _log.exception("%s failed", getattr(job, "__name__", job))
        await asyncio.sleep(interval)


def make_client_id(instance_name: str | None = None, unit_name: str | None = None) -> str:
    """``ip@instance[@unit]``; without an instance name ``pid#nanoseconds``, which is unique, stands for it."""
    name = instance_name or f"{os.getpid()}#{time.time_ns()}"
    return "@".join(part for part in (local_ip(), name, unit_name) if part)


def local_ip() -> str:
    """The address of this host as others may see it, loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing: it asks which interface would be used
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
