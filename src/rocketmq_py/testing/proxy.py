"""A TCP proxy that tests break on purpose: it cuts connections, holds bytes back, slows them down, or goes silent.

Knows bytes and connections. Refuses to know the protocol that runs over them.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, cast

from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.remoting.portal import Portal

_BACKLOG_SECONDS = 0.1
"""Of a slow connection, so much is read ahead."""


class TcpProxy:
    """Forwards connections to ``target``: ``with TcpProxy("127.0.0.1:10911") as proxy``.

    It runs in a thread of its own. Its methods take effect before they return.

    :param target: ``host:port``.
    :param delay: seconds every piece of data is held back, in both directions.
    :param bytes_per_second: how much each connection carries in each direction; None: as much as comes.
    """

    def __init__(self, target: str, *, delay: float = 0.0, bytes_per_second: float | None = None) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"{target!r} is not an address: host:port is expected")
        self.delay = delay
        """May be changed at any time, as ``bytes_per_second``; what is under way keeps its time."""
        self.bytes_per_second = bytes_per_second
        self._target = (host.strip("[]"), int(port))
        self._portal: Portal | None = None
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._ends: set[_End] = set()
        self.silent = False

    # -- life

    def start(self) -> None:
        """Listen on a free port of 127.0.0.1, after :meth:`refuse` on the same one again."""
        if self._portal is None:
            self._portal = Portal()
        self._portal.run(self._listen())

    def stop(self) -> None:
        """Cut all connections and stop listening. May be called more than once."""
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.call(self._end)
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
        """Connections that are forwarded now."""
        return sum(not end.is_lost for end in self._ends) // 2

    # -- what may go wrong

    def kill(self) -> None:
        """Cut all connections at once; new ones are welcome."""
        self._running().call(self._cut)

    def refuse(self) -> None:
        """Cut all connections and accept no more, until :meth:`start`."""
        self._running().call(self._end)

    def silence(self) -> None:
        """Forward nothing any more, while connections stay open and new ones are accepted."""
        self._running().call(self._set_silent, True)

    def resume(self) -> None:
        """Forward again, first what came in the meantime."""
        self._running().call(self._set_silent, False)

    def half_open(self) -> None:
        """Let the target see all connections end, while those who connected hear nothing: theirs stay open, and what
        they send is lost. New connections are welcome.
        """
        self._running().call(self._lose)

    def heal(self) -> None:
        """Forward everything again at once, and accept connections; those that are :meth:`half_open` are cut."""
        self.delay, self.bytes_per_second = 0.0, None
        self.resume()
        self._running().call(self._cut_lost)
        self.start()

    def _running(self) -> Portal:
        if self._portal is None:
            raise ClosedError("the proxy does not run: use it in a with statement, or start it")
        return self._portal

    # -- in the proxy's thread

    async def _listen(self) -> None:
        if self._listener is None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(lambda: _End(self, self._target), "127.0.0.1", self._port)
            self._port = self._listener.sockets[0].getsockname()[1]

    def _end(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._cut()

    def _cut(self) -> None:
        for end in tuple(self._ends):
            end.abort()

    def _lose(self) -> None:
        for end in tuple(self._ends):
            end.lose()

    def _cut_lost(self) -> None:
        for end in tuple(self._ends):
            if end.is_lost:
                end.abort()

    def _set_silent(self, silent: bool) -> None:
        self.silent = silent
        for end in self._ends:
            end.read(not silent)

    def opened(self, end: _End) -> None:
        """An end of a forwarded connection is open."""
        self._ends.add(end)
        end.read(not self.silent)

    def closed(self, end: _End) -> None:
        """An end of a forwarded connection is gone."""
        self._ends.discard(end)


class _End(asyncio.Protocol):
    """One end of a forwarded connection; the accepted one makes the other.

    :param target: where to connect to; None for the end that was connected.
    """

    _transport: asyncio.Transport

    def __init__(self, proxy: TcpProxy, target: tuple[str, int] | None, other: _End | None = None) -> None:
        self._proxy = proxy
        self._target = target
        self._other = other
        self._connecting: asyncio.Task[None] | None = None
        self._due = 0.0
        self._sent_by = 0.0
        self.is_lost = False
        """Whether the other end is gone and this one must not know."""
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
            _, self._other = await loop.create_connection(lambda: _End(self._proxy, None, self), host, port)
        except OSError:
            self.abort()
            return
        if self._transport.is_closing():
            self._other.abort()
        else:
            self._proxy.opened(self)
            self._release()

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        if self._other is None or self._proxy.silent:
            self._held.append(data)  # uvloop starts to read after connection_made, whatever was asked for there
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._proxy.bytes_per_second is not None:
            self._sent_by = max(self._sent_by, now) + len(data) / self._proxy.bytes_per_second
            if self._sent_by - now > _BACKLOG_SECONDS:  # the sender is to notice: what is not read, it cannot send
                self._transport.pause_reading()
                loop.call_at(self._sent_by, self.read, True)
        self._due = max(self._due, self._sent_by, now + self._proxy.delay)
        if self._due <= now:
            self._other.write(data)
        else:
            loop.call_at(self._due, self._other.write, data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # whatever it was, the other end sees this one gone
        self._proxy.closed(self)
        if self._other is not None and not self._other.is_lost:
            self._other.abort()

    def lose(self) -> None:
        """Go on without the other end, which is cut; only for the end of whoever connected."""
        if self._target is not None and self._other is not None:
            self.is_lost = True
            self._other.abort()

    def read(self, wanted: bool) -> None:
        """Take data from this end, or leave it where it is."""
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
