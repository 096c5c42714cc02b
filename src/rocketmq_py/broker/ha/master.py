"""The master's side of replication: sends the commit log to slaves and tracks how far each has it
(DefaultHAConnection).

The bytes sent are views of the log in memory; messages are not decoded.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from functools import cached_property
from typing import cast

from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.core.broker.ha_access import is_allowed_slave, parse_allowed_slaves
from rocketmq_py.core.broker.replication import TransferRate, acknowledged_offset, first_offset
from rocketmq_py.core.log_limiter import LogLimiter
from rocketmq_py.errors import ConfigError, CorruptFrame
from rocketmq_py.protocol.ha import ReportReader, pack_header
from rocketmq_py.server.peer import format_address
from rocketmq_py.server.tls import TlsContexts, TlsMode, TlsSettings, tls_contexts
from rocketmq_py.server.tls_acceptor import TlsAcceptor
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import NotInMemory, Residency

_log = logging.getLogger(__name__)

_BURST = 1024 * 1024
"""Maximum number of bytes sent to one slave before other slaves and requests get their turn."""
_HIGH_WATER = 1024 * 1024
_MOST_LINKS = 128
"""Maximum number of connected slaves."""
_LOOK_SECONDS = 0.1
"""Interval of checks whether flow control permits to send more bytes, in seconds."""
_GATHER_SECONDS = 0.002
"""Delay before new messages are sent together to slaves, unless sends wait for slaves (SYNC_MASTER), in seconds."""


class SlaveLink(asyncio.Protocol):
    """The connection of a master to one slave."""

    _transport: asyncio.Transport
    host: str
    address: str
    """That of the slave, with its port."""

    def __init__(self, master: HaMaster) -> None:
        self._master = master
        self._config = master.config
        self._store = master.store
        self._reports = ReportReader()
        now = master.clock()
        self._read_ms = self._written_ms = now
        self.sent = TransferRate(now)
        self.acknowledged = -1
        """The end offset of the slave's log in its last report; -1 before its first report."""
        self.next = -1
        """The offset of the next byte to send; -1 before the first report."""
        self._is_paused = False
        self._is_refused = False
        self._load: asyncio.Future[None] | None = None
        """A load of the next bytes from disk; None if there is none."""
        self._residency: Residency | None = None
        """Has what was loaded for the next bytes."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = transport.get_extra_info("peername")[0]
        self.address = format_address(*transport.get_extra_info("peername")[:2])
        refusal = self._master.refusal(self.host)
        if refusal is not None:
            self._is_refused = True
            self._master.refused(self.address, refusal)
            self._transport.abort()
            return
        self._master.joined(self)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._read_ms = self._master.clock()
        try:
            reported = self._reports.feed(data)
        except CorruptFrame as e:
            self.give_up(str(e))
            return
        if reported is None:
            return
        if self.next < 0 and not self._begin(reported):
            return
        if reported > self.next:
            self.give_up(f"it reports a log up to {reported}, and was sent no more than {self.next}")
            return
        self.acknowledged = reported
        self._master.progressed()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_refused:
            self._master.left(self, exc)

    # -- sending

    def _begin(self, reported: int) -> bool:
        end = self._store.max_physical_offset
        if reported > end:
            self._master.log_problem(self.host,
                f"the slave {self.address} has the log up to {reported}, this master only up to {end}: it has "
                "messages this master has lost, and gets nothing until its store is emptied",
            )  # fmt: skip
            self._transport.close()
            return False
        self.next = first_offset(reported, end, self._store.config.mapped_file_size_commit_log)
        _log.info("sending the log to the slave %s from %d on, it has it up to %d", self.address, self.next, reported)
        if self.next >= self._store.min_physical_offset:
            self._master.log_recovered(self.host, f"the slave {self.address} is served again")
        self.pump()
        return True

    def pump(self) -> None:
        """Send bytes of the log that the slave lacks, up to a limit; more follow in the next turn of the event loop.

        Bytes that are not in memory are sent when a thread has loaded them.
        """
        if self._load is not None or self.next < 0 or self._is_paused or self._transport.is_closing():
            return
        config, now = self._config, self._master.clock()
        room = self.sent.room(config.max_ha_transfer_byte_in_second, now) if config.ha_flow_control_enable else _BURST
        room = total = min(room, _BURST)
        if room and not self._is_in_memory():
            return
        buffers: list[bytes | memoryview] = []
        while room and (view := self._store.log_view(self.next, min(config.ha_transfer_batch_size, room))) is not None:
            buffers += (pack_header(self.next, len(view)), view)
            self.next += len(view)
            room -= len(view)
        if not buffers:
            return
        self._written_ms = now
        self.sent.add(total - room, now)
        self._transport.writelines(buffers)
        if not room and not config.ha_flow_control_enable:
            asyncio.get_running_loop().call_soon(self.pump)

    def _is_in_memory(self) -> bool:
        """Return True if the next bytes can be sent without waiting for the disk; else load them."""
        residency, self._residency = self._residency or self._store.new_residency(), None
        try:
            self._store.checks.log(self.next, _BURST, residency)
        except NotInMemory as missing:
            self._residency = residency
            loop = asyncio.get_running_loop()
            self._load = loop.run_in_executor(self._master.reader, self._store.load, missing.parts)
            self._load.add_done_callback(self._loaded)
            return False
        return True

    def _loaded(self, done: asyncio.Future[None]) -> None:
        self._load = None
        failure = None if done.cancelled() else done.exception()
        problem = f"{self.host}: disk"
        if failure is None:
            self._master.log_recovered(problem, f"the log can be read again for the slave {self.address}")
            self.pump()
        else:  # the next tick tries again
            self._residency = None
            what = f"the log cannot be read from {self.next} on for the slave {self.address}, trying again: {failure}"
            self._master.log_problem(problem, what)

    def tick(self, now: int) -> None:
        """Send bytes that flow control has delayed, send heartbeats, and close the connection if the slave is silent.

        Called several times a second.

        :param now: milliseconds since the epoch.
        """
        config = self._config
        if now - self._read_ms > config.ha_housekeeping_interval:
            self.give_up(f"nothing was received for {now - self._read_ms} ms (haHousekeepingInterval)")
            return
        self.pump()
        if 0 <= self.next < self._store.min_physical_offset:
            self._master.log_problem(self.host,
                f"the slave {self.address} needs the log from {self.next} on, but it begins at "
                f"{self._store.min_physical_offset}, older files have expired: it gets nothing until it is emptied",
            )  # fmt: skip
        if self.next >= 0 and not self._is_paused and now - self._written_ms > config.ha_send_heartbeat_interval:
            self._written_ms = now
            self._transport.write(pack_header(self.next, 0))

    def give_up(self, why: str) -> None:
        """Log the reason and close the connection at once."""
        _log.warning("closing the connection of the slave %s: %s", self.address, why)
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()


class HaMaster:
    """Listens for slaves and sends the log to those that are connected.

    :param clock: returns the time in milliseconds since the epoch.
    :param tls: the broker's TLS settings. With a certificate, slaves may connect with TLS; in enforcing mode they must.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, clock: Callable[[], int], tls: TlsSettings | None = None
    ) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self._tls = tls
        self._refusals = LogLimiter(limit=1)
        self._progress_listeners: list[Callable[[], None]] = []
        self.links: list[SlaveLink] = []
        self._problems: set[str] = set()
        self._server: asyncio.Server | TlsAcceptor | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()

    @cached_property
    def reader(self) -> Executor:
        """The thread that loads old parts of the log for slaves, one after the other."""
        return self.store.workers.executor("rocketmq-ha-read")

    async def listen(self, host: str, port: int) -> int:
        """Listen for slaves, and return the port.

        :param port: 0 picks a free port.
        :raises ConfigError: the port is not free, or a certificate cannot be used.
        """
        try:
            is_enforcing = self._tls is not None and self._tls.server_mode is TlsMode.ENFORCING
            # Slaves use TLS where it is configured, so a certificate that is generated by default is of no use to them.
            if self._tls is not None and (is_enforcing or not self._tls.generates_certificate):
                contexts = tls_contexts(self._tls)
                if contexts is not None:
                    return self._listen_tls(contexts, host, port, enforcing=is_enforcing)
            self._server = await asyncio.get_running_loop().create_server(lambda: SlaveLink(self), host, port)
        except OSError as e:
            raise ConfigError(f"cannot listen for slaves at {host}:{port} (haListenPort): {e.strerror or e}") from e
        return int(self._server.sockets[0].getsockname()[1])

    def _listen_tls(self, contexts: TlsContexts, host: str, port: int, *, enforcing: bool) -> int:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, port), family=family)
        self._server = TlsAcceptor(
            sock, contexts, lambda _: SlaveLink(self), enforcing=enforcing,
            silence=self.config.ha_housekeeping_interval / 1000,
        )  # fmt: skip
        return int(sock.getsockname()[1])

    def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._gathering is not None:
            self._gathering.cancel()
        for link in tuple(self.links):
            link.abort()
        if "reader" in self.__dict__:
            self.reader.shutdown(wait=False)
            del self.reader

    # -- the log

    def written(self) -> None:
        """Send new bytes of the log to all slaves: at once at a SYNC_MASTER, otherwise after two milliseconds."""
        if not self.links:
            return
        if self.config.broker_role == SYNC_MASTER:
            self._pump()
        elif self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._pump)

    def _pump(self) -> None:
        self._gathering = None
        for link in self.links:
            link.pump()

    def tick(self) -> None:
        """Call :meth:`SlaveLink.tick` of all connections; called several times a second."""
        now = self.clock()
        for link in tuple(self.links):
            link.tick(now)

    def acknowledged_offset(self, slaves: int) -> int:
        """Return the log offset that at least ``slaves`` slaves have acknowledged; -1 if there are fewer slaves."""
        return acknowledged_offset([link.acknowledged for link in self.links], slaves)

    async def hand_over(self, seconds: float) -> list[SlaveLink]:
        """Wait until the slaves that are in sync have the complete log.

        :param seconds: the timeout.
        :returns: the in-sync slaves that do not have the complete log after the timeout.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (behind := self._behind()) and (left := end - loop.time()) > 0:
            self.tick()
            self._moved.clear()
            try:
                async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                    await self._moved.wait()
            except TimeoutError:
                continue
        return behind

    def _behind(self) -> list[SlaveLink]:
        end = self.store.max_physical_offset
        return [link for link in self.links if link.acknowledged < end and self.is_in_sync(link, end)]

    def is_in_sync(self, link: SlaveLink, log_end: int) -> bool:
        """True if a slave lags behind ``log_end`` by less than ``haMaxGapNotInSync`` bytes."""
        return log_end - link.acknowledged < self.config.ha_max_gap_not_in_sync

    def add_progress_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a slave has acknowledged more of the log."""
        self._progress_listeners.append(listener)

    # -- events of connections

    def progressed(self) -> None:
        """Notify listeners that a slave has acknowledged more of the log."""
        self._moved.set()
        for listener in self._progress_listeners:
            listener()

    def refusal(self, host: str) -> str | None:
        """Return the reason why a slave with this IP address may not connect; None if it may."""
        if not is_allowed_slave(host, parse_allowed_slaves(self.config.ha_allowed_slaves)):
            return "its address is not in haAllowedSlaves"
        if len(self.links) >= _MOST_LINKS:
            return f"{_MOST_LINKS} slaves are connected already"
        return None

    def refused(self, address: str, why: str) -> None:
        """Log a refused connection, at most once a minute for each reason."""
        decision = self._refusals.judge(why, self.clock() / 1000)
        if decision.emit:
            _log.warning("refused a connection to the HA port from %s: %s (%d more since the last such line)",
                         address, why, decision.suppressed)  # fmt: skip

    def joined(self, link: SlaveLink) -> None:
        _log.info("a slave has connected from %s", link.address)
        self.links.append(link)

    def left(self, link: SlaveLink, why: Exception | None) -> None:
        self.links.remove(link)
        self._moved.set()
        _log.info("the slave %s has disconnected: %s", link.address, why or "connection closed")

    def log_problem(self, host: str, what: str) -> None:
        """Log a problem with the slave at a host, once until :meth:`log_recovered`.

        :param host: may be followed by the kind of problem.
        """
        if host not in self._problems:
            self._problems.add(host)
            _log.error(what)

    def log_recovered(self, host: str, what: str) -> None:
        """Log that a problem with the slave at a host is over, if there was one."""
        if host in self._problems:
            self._problems.discard(host)
            _log.warning(what)
