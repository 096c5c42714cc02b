"""A TCP proxy for fault injection: it closes connections, delays data, limits its rate, or stops forwarding."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, cast

from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.remoting.portal import Portal

_BACKLOG_SECONDS = 0.1
"""A rate-limited connection reads at most as much data ahead as it forwards in this many seconds."""


class TcpProxy:
    """Forwards connections to ``target``: ``with TcpProxy("127.0.0.1:10911") as proxy``.

    It runs in a background thread. Its methods take effect before they return.

    :param target: ``host:port`` to forward to.
    :param delay: delay of all data in each direction, in seconds.
    :param bytes_per_second: rate limit of each connection in each direction; None for no limit.
    :raises ConfigError: the target is not ``host:port``.
    """

    def __init__(self, target: str, *, delay: float = 0.0, bytes_per_second: float | None = None) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"{target!r} is not an address: host:port is expected")
        self.delay = delay
        """Delay in seconds. It and ``bytes_per_second`` may be changed at any time, for data received from then on."""
        self.bytes_per_second = bytes_per_second
        self._target = (host.strip("[]"), int(port))
        self._portal: Portal | None = None
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._endpoints: set[_Endpoint] = set()
        self.silent = False

    # -- start and stop

    def start(self) -> None:
        """Listen on a free port of 127.0.0.1; after :meth:`refuse`, on the previous port."""
        if self._portal is None:
            self._portal = Portal()
        self._portal.run(self._listen())

    def stop(self) -> None:
        """Close all connections and stop listening. Repeated calls have no effect."""
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.call(self._close)
            portal.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """``host:port`` to connect to instead of the target."""
        return f"127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """Number of connections that are open to both the client and the target."""
        return sum(not endpoint.is_lost for endpoint in self._endpoints) // 2

    # -- fault injection

    def kill(self) -> None:
        """Abort all connections; new ones are accepted."""
        self._running().call(self._abort)

    def refuse(self) -> None:
        """Abort all connections and accept no new ones until :meth:`start`."""
        self._running().call(self._close)

    def silence(self) -> None:
        """Stop forwarding; connections stay open and new ones are accepted."""
        self._running().call(self._set_silent, True)

    def resume(self) -> None:
        """Forward again, starting with the data received in the meantime."""
        self._running().call(self._set_silent, False)

    def half_open(self) -> None:
        """Close all connections to the target only: the clients' sides stay open, and data they send is discarded. New
        connections are accepted.
        """
        self._running().call(self._lose)

    def heal(self) -> None:
        """Remove all faults: forward without delay, accept connections, and abort half-open ones."""
        self.delay, self.bytes_per_second = 0.0, None
        self.resume()
        self._running().call(self._abort_lost)
        self.start()

    def _running(self) -> Portal:
        if self._portal is None:
            raise ClosedError("the proxy does not run: use it in a with statement, or start it")
        return self._portal

    # -- in the proxy's thread

    async def _listen(self) -> None:
        if self._listener is None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(lambda: _Endpoint(self, self._target), "127.0.0.1", self._port)
            self._port = self._listener.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._abort()

    def _abort(self) -> None:
        for endpoint in tuple(self._endpoints):
            endpoint.abort()

    def _lose(self) -> None:
        for endpoint in tuple(self._endpoints):
            endpoint.lose()

    def _abort_lost(self) -> None:
        for endpoint in tuple(self._endpoints):
            if endpoint.is_lost:
                endpoint.abort()

    def _set_silent(self, silent: bool) -> None:
        self.silent = silent
        for endpoint in self._endpoints:
            endpoint.read(not silent)

    def opened(self, endpoint: _Endpoint) -> None:
        """Register an open endpoint of a forwarded connection."""
        self._endpoints.add(endpoint)
        endpoint.read(not self.silent)

    def closed(self, endpoint: _Endpoint) -> None:
        """Remove a closed endpoint of a forwarded connection."""
        self._endpoints.discard(endpoint)


class _Endpoint(asyncio.Protocol):
    """One of the two sockets of a forwarded connection: accepted from a client, or opened to the target.

    The accepted endpoint opens the other one.

    :param target: host and port to connect to, for the accepted endpoint; None for the endpoint at the target.
    :param other: the accepted endpoint, for the endpoint at the target; None for the accepted endpoint.
    """

    _transport: asyncio.Transport

    def __init__(self, proxy: TcpProxy, target: tuple[str, int] | None, other: _Endpoint | None = None) -> None:
        self._proxy = proxy
        self._target = target
        self._other = other
        self._connecting: asyncio.Task[None] | None = None
        self._due = 0.0
        self._sent_by = 0.0
        self.is_lost = False
        """True if only the connection to the target is closed and this one, to the client, stays open."""
        self._held: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._target is None:
            self._proxy.opened(self)
        else:
            self._transport.pause_reading()
            self._connecting = asyncio.get_running_loop().create_task(self._connect(*self._target))

    async def _connect(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self._other = await loop.create_connection(lambda: _Endpoint(self._proxy, None, self), host, port)
        except OSError:
            self.abort()
            return
        if self._transport.is_closing():
            self._other.abort()
        else:
            self._proxy.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        if self._other is None or self._proxy.silent:
            self._held.append(data)  # uvloop starts to read after connection_made, even if that paused reading
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._proxy.bytes_per_second is not None:
            self._sent_by = max(self._sent_by, now) + len(data) / self._proxy.bytes_per_second
            if self._sent_by - now > _BACKLOG_SECONDS:  # unread data slows the sender down
                self._transport.pause_reading()
                loop.call_at(self._sent_by, self.read, True)
        self._due = max(self._due, self._sent_by, now + self._proxy.delay)
        if self._due <= now:
            self._other.write(data)
        else:
            loop.call_at(self._due, self._other.write, data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # the other endpoint is aborted with or without an error
        self._proxy.closed(self)
        if self._other is not None and not self._other.is_lost:
            self._other.abort()

    def lose(self) -> None:
        """Abort the connection to the target and keep the client's open; no effect on the endpoint at the target."""
        if self._target is not None and self._other is not None:
            self.is_lost = True
            self._other.abort()

    def read(self, wanted: bool) -> None:
        """Read from this socket if ``wanted`` is true and the proxy is not silent; otherwise pause reading."""
        wanted = wanted and not self._proxy.silent
        if not self._transport.is_closing() and self._transport.is_reading() != wanted:
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
        if wanted:
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for data in held:
            self.data_received(data)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()
