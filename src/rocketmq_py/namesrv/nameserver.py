"""The running name server: it connects registry, handlers and listener, and removes dead brokers periodically."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from rocketmq_py.core.networks import parse_networks
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.handlers import BrokerHandlers, ConfigHandlers, RouteHandlers, TopicHandlers
from rocketmq_py.namesrv.kv_config import KvConfig
from rocketmq_py.namesrv.monitor import NamesrvMonitor
from rocketmq_py.namesrv.notifier import Notifier
from rocketmq_py.namesrv.registry import MinIdChanged, Registry
from rocketmq_py.namesrv.settings import NamesrvSettings
from rocketmq_py.server import Peer, Reply, Route, Router, Server
from rocketmq_py.server.peer import format_address
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def wall_clock() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Access(Protocol):
    """Decides which requests are admitted; see :class:`~rocketmq_py.server.access.auth_dispatcher.AuthDispatcher`."""

    @property
    def enabled(self) -> bool: ...
    def admit(self, peer: Peer, request: Command) -> Reply | None: ...


class NameServer:
    """A name server on one port.

    :param tls: TLS settings; None serves plain connections only.
    :param access: authentication and permissions; None admits all requests.
    :param clock: returns the time in milliseconds since the epoch.
    :raises ConfigError: the file of the key-value table cannot be understood, or a certificate cannot be used.
    """

    def __init__(
        self,
        config: NamesrvConfig | None = None,
        tls: TlsSettings | None = None,
        access: Access | None = None,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._clock = clock
        self.config = config or NamesrvConfig()
        self.registry = Registry(on_min_id_change=self._min_id_changed)
        self._notifier = Notifier(tls.client_context() if tls is not None else None)
        self._settings = NamesrvSettings(self.config, self._configure)
        self._configure(self.config)
        kv = KvConfig(Path(self.config.kv_config_path).expanduser() if self.config.kv_config_path else None)
        self._router = Router(
            RouteHandlers(self.registry, kv, self._settings, clock),
            BrokerHandlers(self.registry, kv, self._settings, clock),
            TopicHandlers(self.registry, self._settings),
            ConfigHandlers(kv, self._settings),
        )
        self._server = Server(
            self._router,
            host=self.config.bind_address,
            port=self.config.listen_port,
            on_disconnect=self._disconnected,
            idle_timeout=self.config.server_channel_max_idle_time_seconds,
            tls=tls,
            authorize=access.admit if access is not None and access.enabled else None,
            proxies=parse_networks(self.config.proxy_protocol_sources, "proxyProtocolSources"),
        )
        self._scan: asyncio.TimerHandle | None = None
        self._monitor = NamesrvMonitor(self.config, self.registry, self._server, clock)

    @property
    def monitoring_ports(self) -> dict[str, int]:
        """The ports of ``metrics`` and ``health``, if they are served."""
        return self._monitor.ports

    @property
    def port(self) -> int:
        """The port it listens on; before :meth:`start`, the configured one, which may be 0."""
        return self._server.port

    @property
    def address(self) -> str:
        """``host:port`` for clients on this machine; the loopback address if the server listens on all addresses."""
        host = self.config.bind_address
        return format_address(_LOOPBACK.get(host, host), self.port)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Every request code with its handler; the documentation's table of requests is made from it."""
        return self._router.routes

    @property
    def connections(self) -> tuple[Peer, ...]:
        """The open connections of clients and brokers."""
        return self._server.connections

    async def start(self) -> None:
        """Listen for requests, and start to remove brokers whose heartbeats stay out.

        :raises ConfigError: the port is not free.
        """
        self._monitor = NamesrvMonitor(self.config, self.registry, self._server, self._clock)
        await self._monitor.start()
        try:
            await self._server.start()
        except BaseException:
            await self._monitor.stop()
            raise
        ignored = self.config.ignored
        if ignored:
            given = ", ".join(f"{key}={ignored[key]}" for key in sorted(ignored))
            _log.warning("settings of Apache RocketMQ that have no effect here: %s", given)
        self._scan_brokers()
        self._monitor.started()

    def unwatched(self) -> AbstractContextManager[None]:
        """Neither count nor log long turns of the event loop in the block, in which a broker starts in this process."""
        return self._server.unwatched()

    async def stop(self) -> None:
        """Stop listening and close all connections. Does nothing if stopped already."""
        self._monitor.draining()
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        await self._server.stop()
        await self._notifier.close()
        await self._monitor.stop()

    def _disconnected(self, peer: Peer) -> None:
        if self._scan is not None:  # it is None while this name server stops: brokers stay registered then
            self.registry.disconnected({peer})

    def _min_id_changed(self, change: MinIdChanged) -> None:
        if self.config.notify_min_broker_id_changed:
            self._notifier.notify(change)

    def _configure(self, config: NamesrvConfig) -> None:
        self.config = config
        self.registry.support_acting_master = config.support_acting_master
        self.registry.delete_missing_topics = config.delete_topic_with_broker_registration

    def _scan_brokers(self) -> None:
        for owner in self.registry.expire(self._clock()):
            if isinstance(owner, Peer):
                owner.close()
        interval = self.config.scan_not_active_broker_interval / 1000
        self._scan = asyncio.get_running_loop().call_later(interval, self._scan_brokers)
