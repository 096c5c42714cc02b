"""The running proxy: its listener, its connections to the cluster, its periodic jobs."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from rocketmq_py.accelerator import installed
from rocketmq_py.client.client_instance import ClientInstance, every
from rocketmq_py.errors import RocketMQError
from rocketmq_py.grpc.cluster import Parts
from rocketmq_py.grpc.service import Faster, MessagingService
from rocketmq_py.proxy.access import REFRESH_SECONDS, ClusterAccess, OpenAccess
from rocketmq_py.proxy.facts import Facts
from rocketmq_py.proxy.figures import CONNECTIONS, RENEWED, START_TIME
from rocketmq_py.proxy.producers import HEARTBEAT_SECONDS, Producers
from rocketmq_py.proxy.remote_requests import RemoteRequests
from rocketmq_py.proxy.tables import ClusterGroups, ClusterPlaces, ClusterTopics
from rocketmq_py.server import Peer, Router, Server
from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
from rocketmq_py.server.monitoring.exposition import target_info
from rocketmq_py.server.monitoring.settings import Place
from rocketmq_py.server.peer import format_address
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.tasks import Background
from rocketmq_py.tls import Tls
from rocketmq_py.wire.signing import Credentials

_log = logging.getLogger(__name__)

SERVICE = "rocketmq-proxy"
LOOK_SECONDS = 30.0
_TICK_SECONDS = 5.0
_MAX_BODY = 4 * 1024 * 1024
"""As Apache's proxy; a broker may take less."""
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class CallNeeds(Enum):
    """What a call needs to be admitted."""

    NOTHING = "open"
    SIGNATURE = "authenticate"
    PERMISSION = "authorize"


class ProxyConfig(NamedTuple):
    """The options of a proxy.

    :ivar namesrv: the name servers of the cluster.
    :ivar host: the address to listen on.
    :ivar port: the port to listen on; 0 picks a free one.
    :ivar advertised: ``host:port`` for clients that do not say how they reached the proxy; None: where they did.
    :ivar timeout: seconds to wait for the answer of a broker or name server.
    :ivar address_map: connect elsewhere than brokers advertise.
    :ivar tls: how the servers of the cluster are reached over TLS; None for plain connections.
    :ivar credentials: sign the requests of the proxy; None leaves them unsigned.
    :ivar access: what calls need.
    :ivar metrics: where health and metrics are served; None: nowhere.
    """

    namesrv: str
    host: str = "127.0.0.1"
    port: int = 8081
    advertised: str | None = None
    timeout: float = 3.0
    address_map: Mapping[str, str] = {}
    tls: Tls = None
    credentials: Credentials | None = None
    access: CallNeeds = CallNeeds.NOTHING
    metrics: Place | None = None


def wall_clock() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Proxy:
    """A proxy on one port.

    :param tls: TLS settings of the listener; None serves plain connections only.
    :param clock: returns the time in milliseconds since the epoch.
    :param instance: the connections to the cluster; made after ``config`` by default.
    :raises ConfigError: no name server is given, or a certificate cannot be used.
    """

    def __init__(
        self, config: ProxyConfig, tls: TlsSettings | None = None, clock: Callable[[], int] = wall_clock,
        instance: ClientInstance | None = None,
    ) -> None:  # fmt: skip
        self.config = config
        self._instance = instance or ClientInstance(
            config.namesrv, address_map=config.address_map, tls=config.tls, credentials=config.credentials,
            timeout=config.timeout,
        )  # fmt: skip
        connections = self._instance.connections
        self.facts = Facts(self._instance, config.timeout, clock)
        self._requests = RemoteRequests(connections, self.facts, config.timeout)
        self._producers = Producers(self._instance, self.facts, config.timeout)
        self._access = (
            None
            if config.access is CallNeeds.NOTHING
            else ClusterAccess(self.facts, has_permissions=config.access is CallNeeds.PERMISSION)
        )
        parts = Parts(
            self._requests, self._access or OpenAccess(), ClusterTopics(self.facts), ClusterGroups(self.facts),
            self._producers, ClusterPlaces(self.facts, lambda: config.advertised), "", lambda: _MAX_BODY, clock,
            prepare=self.facts.prepare,
        )  # fmt: skip
        accelerator = installed()
        self.service = MessagingService(parts, None if accelerator is None else Faster(accelerator))
        self._server = Server(Router(), host=config.host, port=config.port, tls=tls, grpc=lambda _: self.service)
        self._jobs = Background()
        self._started_ms = 0
        self._clock = clock
        self._monitor = MonitoringEndpoint(
            config.metrics, None, lambda: {"name servers": lambda: self.facts.fault}, self._collect,
            target_info(SERVICE, f"{socket.gethostname()}:{config.port}"),
        )  # fmt: skip

    @property
    def metrics_port(self) -> int | None:
        """The port of health and metrics, once it is started; None without one."""
        return self._monitor.ports.get("metrics")

    @property
    def port(self) -> int:
        """The port it listens on; before :meth:`start`, the configured one, which may be 0."""
        return self._server.port

    @property
    def address(self) -> str:
        """``host:port`` for clients on this machine; the loopback address if the proxy listens on all addresses."""
        return format_address(_LOOPBACK.get(self.config.host, self.config.host), self.port)

    @property
    def connections(self) -> tuple[Peer, ...]:
        """The open connections of clients."""
        return self._server.connections

    async def start(self) -> None:
        """Serve calls. If no name server answers, they are refused until one does.

        :raises ConfigError: the port is not free.
        """
        self._started_ms = self._clock()
        if self.config.metrics is not None:
            await self._monitor.start()
        await self._instance.start()
        try:
            await self.facts.look_around()
        except RocketMQError as e:
            _log.warning("calls are refused until a name server answers: %s", e)
        if self._access is not None:
            await self._access.refresh()
            self._jobs.start(every(REFRESH_SECONDS, REFRESH_SECONDS, self._access.refresh))
        await self._server.start()
        self._jobs.start(
            every(_TICK_SECONDS, _TICK_SECONDS, self._tick),
            every(LOOK_SECONDS, LOOK_SECONDS, self.facts.look_around),
            every(HEARTBEAT_SECONDS, HEARTBEAT_SECONDS, self._producers.tell_all),
        )

        if self.config.metrics is not None:
            self._monitor.started()

    async def _collect(self, wanted: frozenset[str]) -> list[bytes]:
        gauges = {
            CONNECTIONS: len(self.connections), RENEWED: self.service.renewed, START_TIME: self._started_ms / 1000
        }  # fmt: skip
        return [self._requests.figures.exposition(self._requests.running, gauges, wanted)]

    async def _tick(self) -> None:
        self.service.tick()

    async def stop(self) -> None:
        """End all calls, and close all connections. Repeated calls have no effect."""
        if self.config.metrics is not None:
            self._monitor.draining()
        await self._server.stop()
        await self._jobs.stop()
        if self._access is not None:
            await self._access.stop()
        await self._requests.stop()
        self.service.leave()
        await self._requests.finish()
        await self._producers.stop()
        await self.facts.stop()
        await self._instance.stop()
        if self.config.metrics is not None:
            await self._monitor.stop()
