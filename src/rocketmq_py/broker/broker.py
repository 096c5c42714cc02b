"""The broker: its services put together, started in order and ended in order.

Knows who needs whom. Refuses to know how any of them works; a request's way is: server, handler, service, store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable

from rocketmq_py.broker.clients import Clients
from rocketmq_py.broker.config import BrokerConfig
from rocketmq_py.broker.delay import DelayService
from rocketmq_py.broker.groups import Groups
from rocketmq_py.broker.handlers.admin import AdminHandlers
from rocketmq_py.broker.handlers.clients import ClientHandlers
from rocketmq_py.broker.handlers.groups import GroupHandlers
from rocketmq_py.broker.handlers.offsets import OffsetHandlers
from rocketmq_py.broker.handlers.pull import PullHandlers
from rocketmq_py.broker.handlers.query import QueryHandlers
from rocketmq_py.broker.handlers.send import SendHandlers
from rocketmq_py.broker.handlers.topics import TopicHandlers
from rocketmq_py.broker.holding import PullHolds
from rocketmq_py.broker.offsets import Offsets
from rocketmq_py.broker.outward import Outward
from rocketmq_py.broker.pulling import Puller
from rocketmq_py.broker.registration import Registration
from rocketmq_py.broker.retrytopics import RetryTopics
from rocketmq_py.broker.runtimeinfo import RuntimeInfo
from rocketmq_py.broker.sendback import SendBack
from rocketmq_py.broker.sending import Sender
from rocketmq_py.broker.stamping import Stamper
from rocketmq_py.broker.stats import Stats
from rocketmq_py.broker.syncflush import FLUSH, keep_unflushed
from rocketmq_py.broker.ticker import Job, Ticker
from rocketmq_py.broker.topics import Topics
from rocketmq_py.core.delay import DelayLevels
from rocketmq_py.core.locks import LockTable
from rocketmq_py.protocol.bodies import TopicConfig
from rocketmq_py.server import Hold, Peer, Responder, Router, Server
from rocketmq_py.store import Arrival, MessageStore, StoreConfig
from rocketmq_py.store.config import delay_levels
from rocketmq_py.store.config_files import ConfigFile
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.record import pack_host

_log = logging.getLogger(__name__)

_TICK_MS = 100
_SWEEP_MS = 5_000
_EXPIRY_MS = 10_000


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Broker:
    """A broker in this process.

    :param config: see :class:`BrokerConfig`; port 0 picks a free port.
    :param store_config: see :class:`~rocketmq_py.store.StoreConfig`.
    :param clock: the time in milliseconds.

    After :meth:`start` it serves and is known to its name servers; :meth:`stop` ends it with everything on disk. A
    stopped broker is not started again: make a new one.
    """

    def __init__(
        self, config: BrokerConfig, store_config: StoreConfig | None = None, clock: Callable[[], int] = wall_clock
    ) -> None:
        self.config = config
        self.store_config = store_config or StoreConfig()
        self._clock = clock
        self._started = False
        self.port = config.listen_port

    @property
    def address(self) -> str:
        """``ip:port`` as clients are told."""
        ip = self.config.broker_ip1
        return f"[{ip}]:{self.port}" if ":" in ip else f"{ip}:{self.port}"

    # -- putting together

    def _make_tables(self) -> None:
        config, clock = self.config, self._clock
        directory = self.config.store_root / "config"
        self.topics = Topics(ConfigFile(directory / "topics.json"), config, clock)
        self.groups = Groups(ConfigFile(directory / "subscriptionGroup.json"), config, clock)
        step = config.consumer_offset_update_version_step
        self.offsets = Offsets(ConfigFile(directory / "consumerOffset.json"), step, clock)
        self.clients = Clients(config, self.topics, self.groups, clock)
        self.locks = LockTable()
        self.stats = Stats(clock())
        self.outward = Outward()
        self.registration = Registration(config, self.topics, self.outward, lambda: self.address)

    def _make_paths(self, store_host: bytes) -> None:
        """The store and what reads and writes it."""
        config, clock = self.config, self._clock
        self.store = MessageStore(config.store_root, self.store_config, store_host=store_host, clock=clock)
        levels = DelayLevels(delay_levels(self.store_config.message_delay_level))
        delay_file = ConfigFile(config.store_root / "config" / "delayOffset.json")
        self.delay = DelayService(self.store, levels, delay_file, config.delay_offset_update_version_step, clock)
        stamper = Stamper(config.region_id, config.trace_on, config.broker_cluster_name, self._unique_keys(store_host))
        retries = RetryTopics(self.topics, self.groups, self.locks, clock)
        host_hex = store_host.hex().upper()
        self.sender = Sender(config, self.store, self.topics, self.delay, stamper, retries, host_hex, clock)
        self.puller = Puller(
            config, self.store, self.topics, self.groups, self.offsets, self.clients, self.stats, clock
        )
        self.holds = PullHolds(self.puller, self.store, asyncio.get_running_loop().call_soon)

    def _unique_keys(self, store_host: bytes) -> Callable[[], str]:
        keys = UniqueKeys(store_host[:-4], os.getpid(), random.getrandbits(32))
        return lambda: keys.next(self._clock())

    def _router(self) -> Router:
        config, store, stats = self.config, self.store, self.stats
        runtime = RuntimeInfo(store, stats, self.delay, self._clock)
        send_back = SendBack(config, store, self.topics, self.groups, self.delay)
        return Router(
            SendHandlers(self.sender, send_back),
            PullHandlers(self.puller),
            OffsetHandlers(config, store, self.topics, self.groups, self.offsets),
            ClientHandlers(self.clients, self.locks, self._clock),
            TopicHandlers(config, self.topics, store, self.offsets, stats, self.registration),
            GroupHandlers(config, self.groups, self.topics, store, self.offsets, self.clients, stats),
            QueryHandlers(store),
            AdminHandlers(config, self.store_config, runtime, self.delay),
        )

    def _topics_changed(self, changed: list[TopicConfig]) -> None:
        self.sender.targets.known.clear()
        self.registration.changed(changed)

    def _arrived(self, arrivals: list[Arrival]) -> None:
        self.stats.arrived(arrivals)
        self.holds.arrived(arrivals)

    def _held(self, hold: Hold, responder: Responder) -> None:
        if hold.key == FLUSH:
            keep_unflushed(self.store, hold, responder, self._clock())
        else:
            self.holds.keep(hold, responder)

    def _disconnected(self, peer: Peer) -> None:
        self.holds.forget(peer)
        self.clients.disconnected(peer)

    # -- life

    async def start(self) -> None:
        """Open the store, listen, register at the name servers.

        :raises ConfigError: the port cannot be listened on. :raises StoreLocked: another process has the store.
        :raises StoreCorrupt: the store contradicts itself or the configuration.
        """
        config = self.config
        self.port = config.listen_port or _free_port(config.bind_address)
        self._make_tables()
        self._make_paths(pack_host(config.broker_ip1, self.port))
        self.store.open()
        try:
            self._load()
            self.server = self._make_server()
            await self.server.start()
        except BaseException:
            self.store.close()
            raise
        self._started = True
        self._ticker.start()
        await self.registration.start()
        _log.info("broker %s (%s) serves at %s", config.broker_name, config.broker_cluster_name, self.address)

    def _make_server(self) -> Server:
        config = self.config
        return Server(
            self._router(), host=config.bind_address, port=self.port, after_read=self.store.settle, on_hold=self._held,
            on_disconnect=self._disconnected, idle_timeout=config.server_channel_max_idle_time_seconds,
        )  # fmt: skip

    def _load(self) -> None:
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        self.delay.load()
        self.topics.on_change = self._topics_changed
        self.store.on_arrival = self._arrived
        self._ticker = Ticker(
            [
                Job(_TICK_MS, self._tick),
                Job(_SWEEP_MS, lambda: self.holds.sweep(self._clock())),
                Job(_EXPIRY_MS, self.clients.expire),
                Job(self.config.flush_consumer_offset_interval, self.offsets.persist),
                Job(self.config.flush_delay_offset_interval, self.delay.persist),
            ]
        )

    def _tick(self) -> None:
        now = self._clock()
        self.store.tick(now)
        self.delay.deliver(now)
        self.holds.expire(now)
        self.stats.tick(now)

    async def stop(self) -> None:
        """Unregister, answer everybody who waits, and put everything on disk. Harmless when stopped already."""
        if not self._started:
            return
        self._started = False
        await self._ticker.stop()
        await self.registration.stop()
        self.holds.release()
        await self.server.stop()
        try:
            self._persist()
        finally:
            self.store.close()
        _log.info("broker %s has stopped", self.config.broker_name)

    def _persist(self) -> None:
        self.topics.persist()
        self.groups.persist()
        self.offsets.persist()
        self.delay.persist()


def _free_port(host: str) -> int:
    """A port nobody listens on. The store must know the port before the broker may listen."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
