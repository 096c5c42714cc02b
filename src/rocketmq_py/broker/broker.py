"""The broker as a whole: its listener, its periodic jobs, and the order of start and stop.

How a request is served is in the layers below: server, handler, service, store.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from functools import partial

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.config.lane_limits import lane_limits
from rocketmq_py.broker.handlers.access import AccessHandlers
from rocketmq_py.broker.metadata.access_store import open_access
from rocketmq_py.broker.metrics.figures_log import FiguresLog
from rocketmq_py.broker.metrics.monitor import Monitor
from rocketmq_py.broker.record_permissions import authorization
from rocketmq_py.broker.services import Services
from rocketmq_py.broker.ticker import Job, Ticker
from rocketmq_py.core.networks import parse_networks
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server import Server
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.store import FileSystem, StoreConfig, Workers

_log = logging.getLogger(__name__)

_TICK_MS = 100
_TIMERS_MS = 20
_SWEEP_MS = 5_000
_EXPIRY_MS = 10_000
_FILTERS_MS = 10_000
_FIRST_CLEAN_MS = 60_000
_LIMITS_MS = 1_000
_CATCH_UP_MS = 1_000
_MAPPINGS_MS = 300_000
_SCRUB_MS = 1_000
_RECEIPTS_MS = 5_000
_LAST_SECONDS = 3.0
"""How long an orderly stop waits for slaves to copy the rest of the log. A Java broker sleeps for the same time."""
_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
          RequestCode.SEND_HALF_MESSAGES)  # fmt: skip


def wall_clock() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Broker:
    """A broker in this process.

    :meth:`start` serves requests and registers at the name servers; :meth:`stop` writes everything to disk. A stopped
    broker can be started again, on the same port.

    :param config: see :class:`BrokerConfig`; port 0 picks a free port.
    :param store_config: see :class:`~rocketmq_py.store.StoreConfig`.
    :param clock: returns the time in milliseconds since the epoch.
    :param tls: TLS settings; None serves plain connections only.
    :param access: authentication and permissions; None opens the access file of the store with both switched off.
    :param fs: the file system; the operating system's by default.
    :param workers: executors for blocking work on files; threads by default.
    :param needs_fast_port: do not start if the port two below the broker's is not free; None: only if ``listen_port``
        is not 0.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig | None = None,
        clock: Callable[[], int] = wall_clock,
        tls: TlsSettings | None = None,
        access: AuthDispatcher | None = None,
        fs: FileSystem | None = None,
        workers: Workers | None = None,
        needs_fast_port: bool | None = None,
    ) -> None:
        self.config = config
        self._needs_fast_port = bool(config.listen_port) if needs_fast_port is None else needs_fast_port
        self._fs = fs
        self._workers = workers
        self.store_config = store_config or StoreConfig()
        self.port = config.listen_port
        self.grpc_port: int | None = None
        """The port of ``grpc_server_port`` while the broker runs; None without one."""
        self._clock = clock
        self._tls = tls
        self._access = self._used_access = access
        self._services: Services | None = None
        self._server: Server | None = None
        self._ticker: Ticker | None = None
        self._monitor = Monitor(config, clock, fs)

    @property
    def monitoring_ports(self) -> dict[str, int]:
        """The ports on which health and metrics are served, by ``metrics`` and ``health``; without those not served."""
        return self._monitor.ports

    @property
    def services(self) -> Services:
        """The services of the running broker.

        :raises ClosedError: the broker is not running.
        """
        if self._services is None:
            raise ClosedError(f"broker {self.config.broker_name} is not running: start it first")
        return self._services

    @property
    def address(self) -> str:
        """``ip:port`` that the broker registers for clients."""
        ip = self.config.broker_ip1
        return f"[{ip}]:{self.port}" if ":" in ip else f"{ip}:{self.port}"

    async def start(self) -> None:
        """Open the store, listen, and register at the name servers.

        :raises ConfigError: the port is not free, or a certificate cannot be used.
        :raises StoreLocked: another process uses the store.
        :raises StoreCorrupt: the store contradicts itself or the configuration.
        """
        self._monitor = Monitor(self.config, self._clock, self._fs)
        await self._monitor.start()
        try:
            await self._start()
        except BaseException:
            await self._monitor.stop()
            raise
        self._monitor.started()

    async def _start(self) -> None:
        config = self.config
        self.port = self.port or _free_port(config.bind_address)
        call_soon = asyncio.get_running_loop().call_soon
        client_tls = self._tls.client_context() if self._tls is not None else None
        access = self._access or open_access(AccessSettings(), config.store_root, config.broker_cluster_name)
        await access.saved()  # the first users
        services = Services(
            config,
            self.store_config,
            self.port,
            self._clock,
            call_soon,
            partial(RpcClient, client_tls, access.inner),
            self._fs,
            self._tls,
            store_ip=await _resolved(config.broker_ip1),
            workers=self._workers,
        )
        services.open()
        slow_turns = services.slow_turns
        server = Server(
            services.router(AccessHandlers(access.table)), host=config.bind_address, port=self.port,
            after_read=services.commit_read,
            on_hold=services.keep_hold, on_disconnect=services.disconnected,
            idle_timeout=config.server_channel_max_idle_time_seconds, full_lanes=services.full_lanes,
            tls=self._tls, authorize=authorization(access, services.record_permissions), slow_turns=slow_turns,
            authorize_run=access.admit_run if access.enabled else None,
            grpc=partial(services.messaging_service, access),
            proxies=parse_networks(config.proxy_protocol_sources, "proxyProtocolSources"),
        )  # fmt: skip
        self._limit(server)
        self._monitor.watch(services, server)
        try:
            await services.take_back()
            await server.start()
            await self._listen_fast(server)
            if config.grpc_server_port >= 0:
                self.grpc_port = await server.listen(config.grpc_server_port)
            await services.replication.start()
        except BaseException:
            await services.replication.stop()
            await server.stop()
            services.close()
            raise
        self._services, self._server, self._used_access = services, server, access
        self._ticker = Ticker([*self._jobs(services), *self._server_jobs(services, server)], slow_turns)
        self._ticker.start()
        try:
            await services.registration.start()
        except BaseException:  # cancelled while a name server did not answer
            await self.stop()
            raise
        if services.role.is_slave:
            services.slave_sync.start()
        services.membership.start()
        if config.ignored:
            _log.warning("settings of Apache RocketMQ that have no effect here: %s", config.ignored_text())
        _log.info("broker %s (%s) serves at %s", config.broker_name, config.broker_cluster_name, self.address)

    def _limit(self, server: Server) -> None:
        """Apply the current settings for limits of requests to the server."""
        server.limit(lane_limits(self.config), self.config.os_page_cache_busy_time_out_mills)

    async def _listen_fast(self, server: Server) -> None:
        """Also listen on ``port - 2``, for slaves and the VIP channels of clients.

        :raises ConfigError: that port is not free; only logged if the broker does not need it.
        """
        try:
            await server.listen(self.port - 2)
        except ConfigError as e:
            if self._needs_fast_port:
                raise ConfigError(f"the fast port, two below the broker's port: {e}") from e
            _log.info("no fast port: %s", e)

    def _server_jobs(self, services: Services, server: Server) -> list[Job]:
        return [
            Job(_LIMITS_MS, lambda: self._limit(server)), Job(_RECEIPTS_MS, services.tick_calls),
            *self._figures(services, server),
        ]  # fmt: skip

    def _jobs(self, services: Services) -> list[Job]:
        config = self.config
        return [
            Job(_TICK_MS, services.tick_store),
            Job(_TICK_MS, services.tick_delays),
            Job(_TICK_MS, services.tick_clients),
            Job(_TICK_MS, services.replication.tick),
            Job(_TIMERS_MS, services.tick_timers),
            Job(_SWEEP_MS, services.sweep),
            Job(_EXPIRY_MS, services.clients.expire),
            Job(config.flush_consumer_offset_interval, services.offsets.persist),
            Job(config.flush_consumer_offset_interval, services.persist_pops),
            Job(config.flush_delay_offset_interval, services.delay.persist),
            Job(_FILTERS_MS, services.persist_filters),
            Job(_CATCH_UP_MS, services.catch_up),
            Job(self.store_config.clean_resource_interval, services.clean_store, _FIRST_CLEAN_MS),
            Job(_MAPPINGS_MS, services.clean_mappings),
            Job(_SCRUB_MS, services.scrubber.tick),
            Job(_SCRUB_MS, services.rebuilder.tick),
        ]

    def _figures(self, services: Services, server: Server) -> list[Job]:
        """Return the job that logs figures, if it is asked for."""
        seconds = self.config.figures_log_seconds
        if not seconds:
            return []
        return [Job(seconds * 1000, FiguresLog(services, lambda: len(server.connections), self._clock).tick)]

    async def stop(self) -> None:
        """Unregister, answer every request on hold, and write everything to disk. Does nothing if stopped already.

        Slaves get up to three seconds to copy the rest of the log. With ``enable_shutdown_gracefully`` the broker first
        withdraws its write permission at the name servers, sends producers to other brokers, and gives slaves what
        remains of ``shutdown_wait_time_seconds``. Consumers are served meanwhile.
        """
        services, self._services = self._services, None
        if services is None or self._server is None or self._ticker is None:
            return
        self._monitor.draining()
        try:
            if self.config.enable_shutdown_gracefully:
                await self._go_away(self._server, services)
            await self._ticker.stop()
            await services.slave_sync.stop()
            await services.membership.stop()
            await services.pop.remote_fetcher.stop()
            await services.mapping_clean_up.stop()
            await services.other_masters.stop()
            await services.forwarder.stop()
            await services.acting.stop()
            await services.scrubber.stop()
            await services.rebuilder.stop()
            await services.registration.stop()
            services.pull_request_hold.release()
            services.pop.release()
            await self._server.stop()
            await self._save_access()
            await services.replication.hand_over(_LAST_SECONDS)
            await services.replication.stop()
        finally:
            await self._monitor.stop()
            services.close()
        _log.info("broker %s has stopped", self.config.broker_name)

    async def _save_access(self) -> None:
        """Wait until changes of users and permissions are on disk whose requests were cancelled."""
        try:
            if self._used_access is not None:
                await self._used_access.saved()
        except OSError as e:
            _log.error("users and permissions are not completely on disk: %s", e)

    async def _go_away(self, server: Server, services: Services) -> None:
        """Send producers to other brokers, then let slaves copy the rest, within ``shutdown_wait_time_seconds``."""
        _log.info("broker %s sends its producers to other brokers", self.config.broker_name)
        loop, seconds = asyncio.get_running_loop(), self.config.shutdown_wait_time_seconds
        end = loop.time() + seconds
        await services.registration.refuse_writes()
        await server.send_away(seconds, _SENDS)
        await services.replication.hand_over(end - loop.time())


async def _resolved(host: str) -> str:
    """Resolve a host to an IP address, IPv4 if it has one: stored messages contain addresses, not names.

    :raises ConfigError: the name cannot be resolved.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as e:
        raise ConfigError(f"brokerIP1 is {host!r}, which cannot be resolved: {e.strerror or e}") from e
    addresses = sorted(found, key=lambda info: info[0] != socket.AF_INET)
    return str(addresses[0][4][0])


def _free_port(host: str) -> int:
    """Find a free port. Stored messages contain the port, so the store needs it before the broker listens."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
