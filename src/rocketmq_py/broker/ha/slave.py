"""The slave's side of replication: fetches the master's log and reports the end of its own log (DefaultHAClient).

The bytes are appended to the store's replica.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.address import parse_address
from rocketmq_py.core.broker.replication import TransferRate
from rocketmq_py.errors import CorruptFrame, ReplicaRefused, StoreError
from rocketmq_py.protocol.ha import PieceReader, pack_report
from rocketmq_py.server.tls import TlsMode, TlsSettings
from rocketmq_py.store import MessageStore
from rocketmq_py.tasks import Background
from rocketmq_py.tls import connect_fault

_log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Delays before successive connection attempts, in seconds; the last one repeats."""


class MasterLink(asyncio.Protocol):
    """The connection of a slave to its master.

    ``done`` is resolved when the connection is closed, and ``fault`` is the reason then, whichever side has closed it.
    """

    _transport: asyncio.Transport

    def __init__(self, slave: HaSlave) -> None:
        self._slave = slave
        self._replica = slave.store.replica
        self._pieces = PieceReader()
        self._reported = 0
        self.fault: Exception | str | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.report()

    def data_received(self, data: bytes) -> None:
        slave, replica = self._slave, self._replica
        slave.read_ms = slave.clock()
        slave.received.add(len(data), slave.read_ms)
        try:
            for offset, piece in self._pieces.feed(data):
                replica.append(offset, piece)
            replica.dispatch()
        except (CorruptFrame, StoreError) as e:
            self.end(e)
            return
        slave.received_valid()
        if replica.end > self._reported:
            self.report()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fault = self.fault or exc or "the master has closed the connection"
        if not self.done.done():
            self.done.set_result(None)

    def report(self) -> None:
        """Send the end offset of this slave's log to the master."""
        self._reported = self._replica.end
        self._slave.written_ms = self._slave.clock()
        self._transport.write(pack_report(self._reported))

    def tick(self, now: int) -> None:
        """Send heartbeats, and close a silent connection; called several times a second.

        :param now: milliseconds since the epoch.
        """
        config, slave = self._slave.config, self._slave
        if now - slave.read_ms > config.ha_housekeeping_interval:
            self.end(f"nothing was received for {now - slave.read_ms} ms (haHousekeepingInterval)")
        elif now - slave.written_ms > config.ha_send_heartbeat_interval:
            self.report()

    def end(self, why: Exception | str) -> None:
        """Close the connection at once."""
        self.fault = self.fault or why
        self._transport.abort()


class HaSlave:
    """Fetches the log of a master, which may change.

    :param store: the slave's store.
    :param clock: returns the time in milliseconds since the epoch.
    :param tls: the broker's TLS settings. If it uses TLS for outgoing connections (tls.enable), it does so here. A
        master without TLS on its HA port, such as Java's, is then reached without TLS, except in enforcing mode.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, clock: Callable[[], int], tls: TlsSettings | None = None
    ) -> None:
        self._context = tls.client_context() if tls is not None else None
        self._requires_tls = tls is not None and tls.server_mode is TlsMode.ENFORCING
        self._plain_address: str | None = None
        self.config = config
        self.store = store
        self.clock = clock
        now = clock()
        self.read_ms = self.written_ms = now
        self.received = TransferRate(now)
        self.address: str | None = None
        """The address of the master's HA port, ``host:port``; None if no master is known."""
        self._link: MasterLink | None = None
        self._changed = asyncio.Event()
        self._work = Background()
        self._logged: str | None = None
        self._attempts = 0

    def follow(self, address: str | None) -> None:
        """Fetch the log from this address, ``host:port``, from now on; None to stop fetching."""
        if address == self.address:
            return
        self.address = address
        self._attempts = 0
        if self._link is not None:
            self._link.end("the master has changed" if address else "no master is known")
        self._changed.set()

    def start(self) -> None:
        """Start to fetch the log; waits until :meth:`follow` has an address."""
        self._work.start(self._run())

    async def stop(self) -> None:
        """Stop fetching the log, and close the connection. Does nothing if stopped already."""
        await self._work.stop()

    def tick(self) -> None:
        """Send heartbeats, and close a silent connection; called several times a second."""
        if self._link is not None:
            self._link.tick(self.clock())

    @property
    def is_connected(self) -> bool:
        """True if there is a connection to the master."""
        return self._link is not None

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if self.address is None:
                await self._changed.wait()
                continue
            await self._connect(self.address)
            await self._pause()

    async def _connect(self, address: str) -> None:
        """Connect, and fetch the log until the connection is closed; log failures."""
        self.read_ms = self.clock()
        try:
            link = await self._open(address, None if address == self._plain_address else self._context)
        except OSError as e:  # TimeoutError and ssl's errors are some, too
            self._log_failure(address, connect_fault(e))
            return
        self._link = link
        _log.info("fetching the log from %s, this one ends at %d", address, self.store.replica.end)
        try:
            await link.done
        finally:
            self._link = None
            link.end("this broker stops")
        if self.address == address:
            self._log_failure(address, link.fault)

    async def _open(self, address: str, context: ssl.SSLContext | None) -> MasterLink:
        host, port = parse_address(address)
        connect = asyncio.get_running_loop().create_connection
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, link = await connect(lambda: MasterLink(self), host, port, ssl=context)
        except (TimeoutError, ssl.SSLError, ConnectionResetError) as e:
            if context is None or self._requires_tls or isinstance(e, ssl.SSLCertVerificationError):
                raise
            self._plain_address = address
            _log.warning("the HA port %s does not speak TLS, connecting without: %s", address, connect_fault(e))
            return await self._open(address, None)
        return link

    def _log_failure(self, address: str, why: object) -> None:
        """Log once that the master's log cannot be fetched; as an error if it contradicts this slave's log."""
        level = logging.ERROR if isinstance(why, ReplicaRefused) else logging.WARNING
        problem = f"the log of the master cannot be fetched from {address}: {why}"
        if self._logged != problem:
            self._logged = problem
            _log.log(level, "%s; trying again every few seconds", problem)

    def received_valid(self) -> None:
        """Reset the delay between connection attempts, because valid bytes of the log have arrived."""
        self._attempts = 0
        if self._logged is not None:
            self._logged = None
            _log.warning("fetching the log of the master from %s again", self.address)

    async def _pause(self) -> None:
        """Wait before the next connection attempt; return early if the master changes."""
        seconds = _RETRY_SECONDS[min(self._attempts, len(_RETRY_SECONDS) - 1)]
        self._attempts += 1
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
