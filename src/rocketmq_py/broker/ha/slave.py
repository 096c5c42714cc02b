"""A slave's side of replication: fetches its master's log and says how far it has come.

Knows when to connect, to report and to give up (DefaultHAClient). Refuses to know who the master is, it is told, and
what is in the log: the store's replica takes the bytes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.address import parse_address
from rocketmq_py.core.broker.replication import TransferRate
from rocketmq_py.errors import CorruptFrame, ReplicaRefused, StoreError
from rocketmq_py.protocol.ha import PieceReader, pack_report
from rocketmq_py.store import MessageStore
from rocketmq_py.tasks import Background
from rocketmq_py.tls import connect_fault

_log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Between attempts to connect: a master that is restarted is found soon, one that is gone costs little."""


class MasterLink(asyncio.Protocol):
    """One connection to the master; ``fault`` says why this side has ended it."""

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
            replica.show()
        except (CorruptFrame, StoreError) as e:
            self.end(e)
            return
        slave.in_order()
        if replica.end > self._reported:
            self.report()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fault = self.fault or exc or "the master has closed the connection"
        if not self.done.done():
            self.done.set_result(None)

    def report(self) -> None:
        """Tell the master where this log ends."""
        self._reported = self._replica.end
        self._slave.written_ms = self._slave.clock()
        self._transport.write(pack_report(self._reported))

    def tick(self, now: int) -> None:
        """Due several times a second."""
        config, slave = self._slave.config, self._slave
        if now - slave.read_ms > config.ha_housekeeping_interval:
            self.end(f"it has said nothing for {now - slave.read_ms} ms (haHousekeepingInterval)")
        elif now - slave.written_ms > config.ha_send_heartbeat_interval:
            self.report()

    def end(self, why: Exception | str) -> None:
        """End the connection at once."""
        self.fault = self.fault or why
        self._transport.abort()


class HaSlave:
    """Follows a master, whoever it is at the time.

    :param store: that of a slave.
    :param clock: the time in milliseconds.
    """

    def __init__(self, config: BrokerConfig, store: MessageStore, clock: Callable[[], int]) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        now = clock()
        self.read_ms = self.written_ms = now
        self.received = TransferRate(now)
        self.address: str | None = None
        """Where the log is fetched, ``host:port``."""
        self._link: MasterLink | None = None
        self._changed = asyncio.Event()
        self._work = Background()
        self._told: str | None = None
        self._attempts = 0

    def follow(self, address: str | None) -> None:
        """Fetch the log there from now on; None for nowhere."""
        if address == self.address:
            return
        self.address = address
        self._attempts = 0
        if self._link is not None:
            self._link.end("another master is to be followed" if address else "there is no master to follow")
        self._changed.set()

    def start(self) -> None:
        """Begin, as soon as there is somebody to follow."""
        self._work.start(self._run())

    async def stop(self) -> None:
        """End. Harmless when ended already."""
        await self._work.stop()

    def tick(self) -> None:
        """Due several times a second."""
        if self._link is not None:
            self._link.tick(self.clock())

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the master."""
        return self._link is not None

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if self.address is None:
                await self._changed.wait()
                continue
            await self._attempt(self.address)
            await self._pause()

    async def _attempt(self, address: str) -> None:
        """Connect, and fetch until the connection ends."""
        self.read_ms = self.clock()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                host, port = parse_address(address)
                _, link = await asyncio.get_running_loop().create_connection(lambda: MasterLink(self), host, port)
        except OSError as e:  # a timeout is one, too
            self._tell(address, connect_fault(e))
            return
        self._link = link
        _log.info("the log is fetched from %s, this one ends at %d", address, self.store.replica.end)
        try:
            await link.done
        finally:
            self._link = None
            link.end("this broker ends")
        if self.address == address:
            self._tell(address, link.fault)

    def _tell(self, address: str, why: object) -> None:
        """Say once that the log cannot be fetched; a log that does not fit is worse than a master that is away."""
        level = logging.ERROR if isinstance(why, ReplicaRefused) else logging.WARNING
        said = f"the log of the master cannot be fetched from {address}: {why}"
        if self._told != said:
            self._told = said
            _log.log(level, "%s; it is tried again every few seconds", said)

    def in_order(self) -> None:
        """The master has sent something that fits."""
        self._attempts = 0
        if self._told is not None:
            self._told = None
            _log.warning("the log of the master is fetched from %s again", self.address)

    async def _pause(self) -> None:
        """Before the next attempt, unless another master is to be followed."""
        seconds = _RETRY_SECONDS[min(self._attempts, len(_RETRY_SECONDS) - 1)]
        self._attempts += 1
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
