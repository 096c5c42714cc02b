"""The listener: ports, their connections, the timeout of idle connections, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from rocketmq_py.core.networks import Network
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server.buffers import Buffers
from rocketmq_py.server.connection import ServerConnection
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.grpc.call import Methods
from rocketmq_py.server.grpc.connection import GrpcConnection
from rocketmq_py.server.loop_monitor import LoopMonitor
from rocketmq_py.server.peer import Address, Peer
from rocketmq_py.server.requests.dispatcher import Authorize, AuthorizeRun, Dispatcher, OnHold
from rocketmq_py.server.requests.go_away import GoAway
from rocketmq_py.server.requests.lanes import LaneLimit
from rocketmq_py.server.requests.router import Router
from rocketmq_py.server.sliced_work import ReadTurns
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.server.tls import TlsMode, TlsSettings, tls_contexts
from rocketmq_py.server.tls_acceptor import Opening, Proxies, TlsAcceptor
from rocketmq_py.wire.frame import MAX_FRAME

log = logging.getLogger(__name__)

_SWEEPS_PER_TIMEOUT = 8
_BACKLOG = 1024
_DRAIN_SECONDS = 1.0
_READ_SECONDS = 0.03
"""Of the reads in one turn of the event loop. With 10 ms, somebody beside 2,000 connections that join waits longer."""
_CROWD = 64
"""With more connections than this, the time that their reads take in one turn of the event loop is bounded."""

_PORT_FAULTS: dict[int | None, str] = {
    errno.EADDRINUSE: "another process listens there; stop it or choose another port (0 picks a free one)",
    errno.EACCES: "this user may not listen there; choose a port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose one of its own, 127.0.0.1 or 0.0.0.0",
}


class Server:
    """Serves requests on one or more ports.

    :param router: the handlers.
    :param host: address to listen on.
    :param port: port to listen on; 0 picks a free one.
    :param after_read: called once per socket read, after its handlers and before their answers are written.
    :param on_hold: called with each :class:`Hold` that a handler returns, and with the responder to answer it later.
    :param on_disconnect: called with the peer when its connection is closed.
    :param idle_timeout: seconds without received data after which a connection is closed.
    :param max_frame: limit of an incoming frame, in bytes.
    :param write_limit: a connection with more unsent bytes than this is closed.
    :param buffer_limit: maximum of bytes buffered for all connections together; above it the largest are closed.
    :param lanes: limits of concurrent requests and of waiting time, by lane name.
    :param full_lanes: returns the lanes that are full now, whose requests are refused; called 20 times a second.
    :param tls: TLS settings; None refuses TLS connections.
    :param authorize: returns the reply that refuses a request, or None to admit it; by default all are admitted.
    :param authorize_run: authorizes many sends at once, see :data:`AuthorizeRun`.
    :param slow_turns: counts long turns of the event loop; a new counter by default.
    :param grpc: the methods of gRPC, on the same ports; None closes connections that speak HTTP/2.
    :param proxies: networks of load balancers, whose PROXY headers name the client; none by default.
    :param writing_limit_ms: if ``after_read`` takes this many milliseconds, requests of lane ``send`` are refused.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        router: Router,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - a server serves; the caller narrows it down
        port: int = 0,
        after_read: Callable[[], None] | None = None,
        on_hold: OnHold | None = None,
        on_disconnect: Callable[[Peer], None] | None = None,
        idle_timeout: float = 120.0,
        max_frame: int = MAX_FRAME,
        write_limit: int = 64 * 1024 * 1024,
        buffer_limit: int = 512 * 1024 * 1024,
        lanes: Mapping[str, LaneLimit] | None = None,
        full_lanes: Callable[[], Collection[str]] = tuple,
        writing_limit_ms: int = 1_000,
        tls: TlsSettings | None = None,
        authorize: Authorize | None = None,
        authorize_run: AuthorizeRun | None = None,
        slow_turns: SlowTurns | None = None,
        grpc: Callable[[Dispatcher], Methods] | None = None,
        proxies: tuple[Network, ...] = (),
    ) -> None:
        self.dispatcher = Dispatcher(
            router,
            after_read=after_read,
            on_hold=on_hold,
            lanes=lanes,
            authorize=authorize,
            slow_turns=slow_turns,
            authorize_run=authorize_run,
        )
        self.slow_turns = self.dispatcher.slow_turns
        self._grpc = grpc(self.dispatcher) if grpc is not None else None
        self.turns = ReadTurns(_READ_SECONDS)
        self.buffers = Buffers(buffer_limit)
        self.fault_log = FaultLog()
        self._loop_monitor = LoopMonitor(self.dispatcher, full_lanes, writing_limit_ms)
        self.host = host
        self.port = port
        self.max_frame = max_frame
        self.write_limit = write_limit
        self._on_disconnect = on_disconnect
        self._enforcing = tls is not None and tls.server_mode is TlsMode.ENFORCING
        self._tls_contexts = tls_contexts(tls) if tls is not None else None
        self._is_plain_allowed = tls is None or tls.generates_certificate
        self._proxies = Proxies(proxies, self._refused) if proxies else None
        self._idle_timeout = idle_timeout
        self._sweep_interval = idle_timeout / _SWEEPS_PER_TIMEOUT
        self._sweep: asyncio.TimerHandle | None = None
        self._listeners: list[asyncio.Server | TlsAcceptor] = []
        self._connections: dict[ServerConnection | GrpcConnection, None] = {}
        # The connections are an ordered set: they are closed in the order of opening.
        self._all_gone = asyncio.Event()

    @property
    def connections(self) -> tuple[Peer, ...]:
        """The peers of all open connections, in the order of opening."""
        return tuple(connection.peer for connection in self._connections)

    async def start(self) -> int:
        """Start to listen; return the port, which is then also in :attr:`port`.

        :raises ConfigError: the port cannot be listened on.
        """
        self.port = await self.listen(self.port)
        self._sweep = asyncio.get_running_loop().call_later(self._sweep_interval, self._sweep_idle)
        self._loop_monitor.start()
        return self.port

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Neither count nor log long turns of the event loop in the block, because something else starts in it."""
        self._loop_monitor.stop()
        try:
            yield
        finally:
            self._loop_monitor.start()

    def limit(self, lanes: Mapping[str, LaneLimit], writing_limit_ms: int) -> None:
        """Replace the limits that the constructor's parameters of the same names have set."""
        self.dispatcher.lanes.limit(lanes)
        self._loop_monitor.writing_limit_ms = writing_limit_ms

    async def listen(self, port: int) -> int:
        """Listen on one more port with the same handlers, and return the port; 0 picks a free one.

        :raises ConfigError: the port cannot be listened on.
        """
        try:
            if self._tls_contexts is not None or self._proxies is not None:
                return await self._listen_with_acceptor(port)
            return await self._listen_plain(port)
        except OSError as e:
            why = _PORT_FAULTS.get(e.errno, e.strerror or str(e))
            raise ConfigError(f"cannot listen on {self.host}:{port}: {why}") from e

    async def _listen_plain(self, port: int) -> int:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: ServerConnection(self), self.host, port, backlog=_BACKLOG)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def _listen_with_acceptor(self, port: int) -> int:
        for sock in await self._bound_sockets(port):
            port = int(sock.getsockname()[1])
            try:
                acceptor = TlsAcceptor(
                    sock, self._tls_contexts, self._connection, enforcing=self._enforcing,
                    silence=self._idle_timeout, proxies=self._proxies,
                )  # fmt: skip
            except NotImplementedError:
                sock.close()
                if self._proxies is not None:
                    raise ConfigError("this event loop cannot serve proxies: set no proxyProtocolSources") from None
                if not self._is_plain_allowed:
                    raise ConfigError("this event loop cannot serve TLS: set tls.server.mode=disabled") from None
                self._tls_contexts = None
                return await self._listen_plain(port)
            self._listeners.append(acceptor)
        return port

    def _connection(self, opening: Opening) -> ServerConnection:
        return ServerConnection(self, opening)

    def _refused(self, proxy: Address, why: str) -> None:
        self.fault_log.closing(Peer(proxy), why)

    async def _bound_sockets(self, port: int) -> list[socket.socket]:
        """Return a listening socket for each address of the host, all with the same port."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        families = dict.fromkeys((family, address[0]) for family, _, _, _, address in found)
        sockets: list[socket.socket] = []
        try:
            for family, host in families:
                sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
                sockets.append(sock)
                port = int(sock.getsockname()[1])
        except OSError as e:
            if sockets and e.errno == errno.EADDRNOTAVAIL:  # "localhost" is ::1, too, also where there is no IPv6
                return sockets
            for sock in sockets:
                sock.close()
            raise
        return sockets

    async def send_away(self, seconds: float, codes: Collection[RequestCode]) -> None:
        """Answer some requests with GO_AWAY, and wait until none of them has arrived for a second.

        Requests of clients that do not understand GO_AWAY are served.

        :param seconds: maximum time to wait.
        :param codes: codes of the requests to answer with GO_AWAY; others are served.
        """
        go_away = GoAway(codes)
        self.dispatcher.send_away(go_away)
        await go_away.wait(seconds)

    async def stop(self) -> None:
        """Stop listening, wait up to a second for handlers, close all connections. Repeated calls have no effect."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._loop_monitor.stop()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        await self.dispatcher.drain(_DRAIN_SECONDS)
        await self._end_connections()

    async def _end_connections(self) -> None:
        if not self._connections:
            return
        self._all_gone.clear()
        for connection in tuple(self._connections):
            connection.close()
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._all_gone.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
            await self._all_gone.wait()

    # -- for connections

    def begins_http2(self, connection: ServerConnection, transport: asyncio.Transport, data: bytes) -> bool:
        """Take over a connection if its first bytes are HTTP/2; return False if this server does not speak it."""
        if self._grpc is None:
            return False
        del self._connections[connection]
        connection.release()
        successor = GrpcConnection(self, self._grpc, transport, connection.peer)
        transport.set_protocol(successor)
        successor.data_received(data)
        return True

    def connected(self, connection: ServerConnection | GrpcConnection) -> None:
        self._connections[connection] = None
        self.turns.is_crowded = len(self._connections) > _CROWD

    def disconnected(self, connection: ServerConnection | GrpcConnection) -> None:
        self._connections.pop(connection, None)
        self.turns.is_crowded = len(self._connections) > _CROWD
        if not self._connections:
            self._all_gone.set()
        if self._on_disconnect is not None:
            self._on_disconnect(connection.peer)

    def _sweep_idle(self) -> None:
        """Close connections on which no data arrived during the idle timeout; one timer serves all connections."""
        for connection in tuple(self._connections):
            connection.quiet_sweeps += 1
            if connection.quiet_sweeps > _SWEEPS_PER_TIMEOUT:
                connection.close("idle")
        self._sweep = asyncio.get_running_loop().call_later(self._sweep_interval, self._sweep_idle)
