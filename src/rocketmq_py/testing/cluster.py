"""A name server and brokers inside the process of a test, on free ports and in a temporary directory.

Clients connect to them over TCP, as to any cluster.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from rocketmq_py.broker import Broker, configure
from rocketmq_py.broker.metadata.access_store import open_access
from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.remoting.portal import Portal
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.tls import TlsSettings

LOOPBACK = "127.0.0.1"

_SMALL = {
    "mapped_file_size_commit_log": 16 * 1024 * 1024,
    "mapped_file_size_consume_queue": 2_000_000,
    "max_hash_slot_num": 10_000,
    "max_index_num": 40_000,
}
"""Store settings for small files, which are created and filled quickly."""


class Cluster:
    """A running cluster: ``with Cluster() as cluster`` or ``async with Cluster() as cluster``.

    The servers run in a background thread, so that tests can use blocking and asyncio clients.

    :param brokers: number of masters, named broker-a, broker-b and so on.
    :param store_dir: directory of the stores; by default a temporary one, which is removed with the cluster.
    :param tls: TLS settings of the servers, as Apache RocketMQ's ``tls.*`` keys and their values.
    :param access: access control settings, as Apache RocketMQ's keys (authenticationEnabled ...) and their values.
    :param settings: fields of :class:`~rocketmq_py.broker.BrokerConfig` and :class:`~rocketmq_py.store.StoreConfig`,
        for every broker.
    """

    def __init__(
        self,
        brokers: int = 1,
        store_dir: str | Path | None = None,
        *,
        tls: Mapping[str, str] | None = None,
        access: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        if not 1 <= brokers <= 26:
            raise ConfigError(f"a cluster of {brokers} brokers was asked for: 1 to 26 are possible")
        self._names = [f"broker-{chr(ord('a') + number)}" for number in range(brokers)]
        self._settings = settings
        self._tls = TlsSettings.of(tls) if tls else None
        self._access_settings = AccessSettings.of(access or {})
        self._access: AuthDispatcher | None = None
        self._store_dir = None if store_dir is None else Path(store_dir)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._portal: Portal | None = None
        self._namesrv_config = NamesrvConfig(listen_port=0, bind_address=LOOPBACK)
        self._namesrv: NameServer | None = None
        self._ports: dict[str, int] = {}
        self._running: dict[str, Broker] = {}

    # -- start and stop

    def start(self) -> None:
        """Start all servers; if that fails, stop those that run and remove the temporary directory."""
        if self._portal is not None:
            return
        if self._store_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rocketmq-", ignore_cleanup_errors=True)
        self._portal = Portal()
        try:
            self._portal.run(self._start_all())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all servers and remove the temporary directory. Repeated calls have no effect."""
        portal, self._portal = self._portal, None
        if portal is not None:
            try:
                portal.run(self._stop_all())
            finally:
                portal.stop()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # -- addresses and topics

    @property
    def namesrv(self) -> str:
        """``host:port`` of the name server, for the clients' parameter ``namesrv``.

        :raises ClosedError: the cluster was not started.
        """
        if self._namesrv is None:
            raise ClosedError("the cluster does not run: use it in a with statement, or start it")
        return self._namesrv.address

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The running brokers, ordered by name. Their event loop runs in the cluster's thread."""
        return tuple(self._running[name] for name in self._names if name in self._running)

    @property
    def addresses(self) -> tuple[str, ...]:
        """``host:port`` of the running brokers, ordered by name."""
        return tuple(broker.address for broker in self.brokers)

    @property
    def directory(self) -> Path:
        """The directory of the stores, which has one subdirectory per broker.

        :raises ClosedError: the directory is temporary and the cluster does not run.
        """
        if self._store_dir is None and self._temporary is None:
            raise ClosedError("the cluster does not run, so its temporary directory is gone")
        return self._store_dir or Path(self._temporary.name)  # type: ignore[union-attr]

    def create_topic(self, name: str, queues: int = 4, *, order: bool = False) -> str:
        """Create a topic on every running broker and wait until the name server has its route; returns its name.

        :param queues: readable and writable queues per broker.
        :param order: mark it as a topic of ordered messages.
        :raises ConfigError: the name is illegal.
        """
        self._run(self._create_topic(name, queues, order))
        return name

    # -- fault injection

    def stop_broker(self, number: int = 0) -> None:
        """Shut down a broker and close its connections. No effect if it is stopped.

        :param number: 0 for broker-a, 1 for broker-b and so on.
        """
        broker = self._running.pop(self._names[number], None)
        if broker is not None:
            self._run(broker.stop())

    def start_broker(self, number: int = 0) -> None:
        """Restart a stopped broker with the same store and port. No effect if it runs.

        :param number: 0 for broker-a, 1 for broker-b and so on.
        """
        if self._names[number] not in self._running:
            self._run(self._start_broker(self._names[number]))

    def stop_namesrv(self) -> None:
        """Stop the name server; brokers and clients continue with cached routes."""
        if self._namesrv is not None:
            self._run(self._namesrv.stop())

    def start_namesrv(self) -> None:
        """Restart the name server without routes on the same port; brokers register again by themselves."""
        self._run(self._start_namesrv())

    # -- in the cluster's thread

    def _run(self, coroutine: Any) -> Any:
        if self._portal is None:
            coroutine.close()
            raise ClosedError("the cluster does not run: use it in a with statement, or start it")
        return self._portal.run(coroutine)

    async def _start_all(self) -> None:
        self._access = open_access(self._access_settings, self.directory, "DefaultCluster")
        await self._start_namesrv()
        await asyncio.gather(*map(self._start_broker, self._names))

    async def _stop_all(self) -> None:
        await asyncio.gather(*(broker.stop() for broker in self._running.values()))
        self._running.clear()
        if self._namesrv is not None:
            await self._namesrv.stop()

    async def _start_namesrv(self) -> None:
        if self._namesrv is not None:
            await self._namesrv.stop()
        namesrv = NameServer(self._namesrv_config, self._tls, self._access)
        await namesrv.start()
        self._namesrv = namesrv
        self._namesrv_config = msgspec.structs.replace(self._namesrv_config, listen_port=namesrv.port)

    async def _start_broker(self, name: str) -> None:
        fixed = {
            "broker_name": name, "listen_port": self._ports.get(name, 0), "namesrv_addr": self.namesrv,
            "bind_address": LOOPBACK, "broker_ip1": LOOPBACK, "store_path_root_dir": str(self.directory / name),
        }  # fmt: skip
        settings = configure({}, **{**_SMALL, **self._settings, **fixed})
        # The port was picked, so after a stop a connection of another process may have the one two below it.
        broker = Broker(*settings, tls=self._tls, access=self._access, needs_fast_port=False)
        await broker.start()
        self._running[name] = broker
        self._ports[name] = broker.port

    async def _create_topic(self, name: str, queues: int, order: bool) -> None:
        tls = self._tls.client_context() if self._tls is not None else None
        async with Admin(self.namesrv, tls=tls, credentials=self._access_settings.inner) as admin:
            await admin.create_topic(name, queues, order=order)
