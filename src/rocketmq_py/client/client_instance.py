"""The client instance: connections, routes, heartbeats and periodic jobs that producers and consumers share."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypedDict, cast, runtime_checkable

from rocketmq_py.client.name_servers import FETCH_INTERVAL_SECONDS, NameServers, name_servers
from rocketmq_py.client.routes import Routes
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
    """A producer or consumer of a client instance."""

    @property
    def group(self) -> str:
        """The producer or consumer group."""
        ...

    def heartbeat(self) -> ProducerData | ConsumerData:
        """The entry of this producer or consumer in heartbeats."""
        ...

    def topics(self) -> set[str]:
        """The topics whose routes are refreshed periodically."""
        ...

    async def on_ids_changed(self) -> None:
        """Called when a broker reports that the members of the group have changed."""
        ...


@runtime_checkable
class KeepsOffsets(Protocol):
    """A consumer whose offsets are stored periodically."""

    async def persist_offsets(self) -> None: ...


@functools.cache
def _keeps_offsets(kind: type) -> bool:
    """Return whether members of a class are :class:`KeepsOffsets`; cached, since that looks at every attribute."""
    return issubclass(kind, KeepsOffsets)


class ClientSettings(TypedDict, total=False):
    """Keyword options of :class:`ClientInstance`, except ``namesrv``."""

    instance_name: str | None
    unit_name: str | None
    client_ip: str | None
    address_map: Mapping[str, str] | None
    tls: Tls
    credentials: Credentials | None
    timeout: float
    connect_timeout: float
    route_interval: float
    heartbeat_interval: float
    offset_interval: float


class ClientInstance:
    """One client id with the connections, routes and heartbeats of its producers and consumers (its members).

    Use it in one event loop only.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, a URL that the addresses are fetched from, or None for the
        environment's NAMESRV_ADDR; see :func:`~rocketmq_py.client.name_servers.name_servers`.
    :param instance_name: the part of the client id after ``ip@``; unique by default.
    :param unit_name: appended to the client id, and to a URL that addresses are fetched from.
    :param client_ip: the address in the client id; by default an address of this machine.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param connect_timeout: seconds to wait for a connection.
    :param route_interval: seconds between refreshes of the routes.
    :param heartbeat_interval: seconds between heartbeats.
    :param offset_interval: seconds between stores of consumer offsets.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        instance_name: str | None = None,
        unit_name: str | None = None,
        client_ip: str | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        timeout: float = 3.0,
        connect_timeout: float = 3.0,
        route_interval: float = 30.0,
        heartbeat_interval: float = 30.0,
        offset_interval: float = 5.0,
    ) -> None:
        self.client_id = make_client_id(instance_name, unit_name, client_ip)
        self.timeout = timeout
        self.connections = ConnectionPool(
            connect_timeout=connect_timeout,
            address_map=address_map,
            tls=tls,
            credentials=credentials,
            hint=self._hint,
            on_open=self._heartbeat_first,
        )
        self.name_servers = NameServers(name_servers(namesrv), self.connections, timeout, unit_name)
        self.routes = Routes(self.name_servers)
        self._intervals = (route_interval, heartbeat_interval, offset_interval)
        self._producers: dict[str, GroupMembership] = {}
        self._consumers: dict[str, GroupMembership] = {}
        self.outages: dict[str, float] = {}
        """When a consumer last logged that a broker is unreachable: monotonic seconds by broker name."""
        self._versions: dict[str, int] = {}
        self._unreachable: set[str] = set()
        """Addresses of brokers whose last heartbeat failed; this was logged once."""
        self._jobs = Background()
        self.connections.on_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._ids_changed)

    # -- members

    def register(self, member: GroupMembership) -> None:
        """Add a producer or consumer.

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
        """Remove a producer or consumer and unregister it from all brokers; failures are logged."""
        kind, members = self._kind(member)
        if members.get(member.group) is not member:
            return
        del members[member.group]
        header = UnregisterClient(client_id=self.client_id)
        setattr(header, f"{kind}_group", member.group)
        await self._send_to_brokers(RequestCode.UNREGISTER_CLIENT, header, b"", self._all_brokers())

    @property
    def members(self) -> list[GroupMembership]:
        """All producers, then all consumers."""
        return [*self._producers.values(), *self._consumers.values()]

    def consumer(self, group: str) -> GroupMembership | None:
        """The consumer of a group; None if this client has none."""
        return self._consumers.get(group)

    def producer(self, group: str) -> GroupMembership | None:
        """The producer of a group; None if this client has none."""
        return self._producers.get(group)

    def _kind(self, member: GroupMembership) -> tuple[str, dict[str, GroupMembership]]:
        if isinstance(member.heartbeat(), ProducerData):
            return "producer", self._producers
        return "consumer", self._consumers

    # -- start and stop

    async def start(self) -> None:
        """Start the periodic route refreshes, heartbeats and stores of offsets. May be called more than once."""
        self.connections.check_usable()
        if self._jobs.runs:
            return
        routes, heartbeat, offsets = self._intervals
        self._jobs.start(
            every(routes, routes, self.refresh_routes),
            every(min(1.0, heartbeat), heartbeat, self.heartbeat_all),
            every(2 * offsets, offsets, self._persist_offsets),
        )
        if self.name_servers.url is not None:
            self._jobs.start(every(FETCH_INTERVAL_SECONDS, FETCH_INTERVAL_SECONDS, self.name_servers.refresh))

    async def stop(self) -> None:
        """Stop the periodic jobs and close all connections. Close producers and consumers first. May be repeated."""
        await self._jobs.stop()
        await self.connections.close()

    # -- jobs

    async def refresh_routes(self) -> None:
        """Refresh the routes of all topics of all members from a name server; failures are logged."""
        await self.routes.refresh_all(set().union(*(member.topics() for member in self.members)))

    async def heartbeat_all(self) -> None:
        """Send a heartbeat to every broker of the cached routes, only to masters if there are no consumers.

        Waits for the answers; failures are logged.
        """
        if not self.members:
            return
        brokers = self._all_brokers() if self._consumers else self._masters()
        await self._send_to_brokers(RequestCode.HEART_BEAT, None, self._heartbeat(), brokers)

    def _heartbeat(self) -> bytes:
        beats = [member.heartbeat() for member in self.members]
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[beat for beat in beats if isinstance(beat, ProducerData)],
            consumer_data_set=[beat for beat in beats if isinstance(beat, ConsumerData)],
        ).encode()

    def _heartbeat_first(self, connection: Connection) -> None:
        """Send a heartbeat over a new connection, before any other request, to a broker that has answered one before.

        The broker may have restarted; then it does not know its clients any more.
        """
        if connection.address in self._versions and self.members:
            deadline = time.monotonic() + self.timeout
            connection.request(RequestCode.HEART_BEAT, None, self._heartbeat(), lambda _: None, deadline)

    async def _persist_offsets(self) -> None:
        for member in self.members:
            if _keeps_offsets(type(member)):
                await cast("KeepsOffsets", member).persist_offsets()

    async def _ids_changed(self, address: str, request: Command) -> None:
        group = GroupHeader.from_ext(request.ext).consumer_group
        _log.debug("broker %s reports that the members of group %s have changed", address, group)
        member = self._consumers.get(group)
        if member is not None:
            await member.on_ids_changed()

    # -- brokers

    def broker_version(self, address: str) -> int | None:
        """The ordinal of a broker's version, from its last answer to a heartbeat; None if there was none."""
        return self._versions.get(address) or None

    def _masters(self) -> list[str]:
        return [a for ids in self.routes.broker_addresses().values() for i, a in ids.items() if i == MASTER_ID]

    def _all_brokers(self) -> list[str]:
        return [address for ids in self.routes.broker_addresses().values() for address in ids.values()]

    async def _send_to_brokers(
        self, code: RequestCode, header: UnregisterClient | None, body: bytes, addresses: Sequence[str]
    ) -> None:
        results = await asyncio.gather(
            *(self.connections.invoke(address, code, header, body, self.timeout) for address in addresses),
            return_exceptions=True,
        )
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, NetworkError | BrokerError):
                level = logging.DEBUG if address in self._unreachable else logging.WARNING
                self._unreachable.add(address)
                _log.log(level, "%s to broker %s failed: %s", code.name, address, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._versions[address] = result.version
                if address in self._unreachable:
                    self._unreachable.discard(address)
                    _log.warning("broker %s answers again", address)

    def _hint(self, address: str) -> str:
        """Advice for the error that ``address`` cannot be reached; empty if there is none."""
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
    """Run ``job`` after ``first`` seconds and then with pauses of ``interval`` seconds; its exceptions are logged."""
    await asyncio.sleep(first)
    while True:
        try:
            await job()
        except RocketMQError as e:
            _log.warning("%s failed: %s", getattr(job, "__name__", job), e)
        except Exception:  # noqa: BLE001 - a failure must not end the job
            _log.exception("%s failed", getattr(job, "__name__", job))
        await asyncio.sleep(interval)


def make_client_id(instance_name: str | None = None, unit_name: str | None = None, client_ip: str | None = None) -> str:
    """Make a client id, ``ip@instance[@unit]``; the default instance name is the unique ``pid#nanoseconds``."""
    name = instance_name or f"{os.getpid()}#{time.time_ns()}"
    return "@".join(part for part in (client_ip or local_ip(), name, unit_name) if part)


def local_ip() -> str:
    """The IPv4 address of this machine's default network interface; 127.0.0.1 if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing, but selects the interface
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
