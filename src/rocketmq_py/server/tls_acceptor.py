"""Accept connections on a port that serves TLS: the first byte of each connection shows whether it is TLS.

The byte is only peeked at, so the protocol of the connection receives it, too. Connections of proxies may have a header
of the PROXY protocol in front of it, which names the client. A port that expects neither TLS nor such headers uses the
event loop's own server instead.

Thousands of clients may connect and send at once, as the members of a group do. One turn of the event loop opens a
bounded number of connections, and serves those that are open already in between.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rocketmq_py.core.networks import Network, is_in_networks
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.server.peer import Address, format_address
from rocketmq_py.server.tls import TlsContexts
from rocketmq_py.tls import connect_fault
from rocketmq_py.wire.proxy_header import MAX_HEADER, parse_proxy_header

log = logging.getLogger(__name__)

_HANDSHAKE = 0x16
_HANDSHAKE_SECONDS = 10.0
_AT_ONCE = 64
"""At most this many connections are accepted, and as many opened, in one turn of the event loop: some 5 ms each."""
_TLS_SHARE = 8
"""A connection with TLS counts as this many without: its handshake takes that much longer."""


class Opening(NamedTuple):
    """What is known of a connection before its protocol is created.

    :ivar source: address and port of the client that a PROXY header names; None without one.
    :ivar first: bytes that were read already, in front of those that the protocol receives.
    """

    source: Address | None = None
    first: bytes = b""


class Proxies(NamedTuple):
    """The load balancers that may write a PROXY header.

    :ivar networks: their addresses; a header from elsewhere is not looked for.
    :ivar refused: called with the address of one whose header is wrong, and the reason; its connection is closed.
    """

    networks: tuple[Network, ...]
    refused: Callable[[Address, str], None]


class TlsAcceptor:
    """Accepts connections of one socket, and creates the protocol of each when its first byte has arrived.

    :param sock: a listening socket.
    :param contexts: the TLS contexts of new connections; None: all are served without TLS.
    :param connected: creates the protocol of a connection.
    :param enforcing: close connections without TLS.
    :param silence: seconds within which the first byte has to arrive, after a PROXY header if there is one.
    :param proxies: who may write PROXY headers; None: nobody.
    :raises NotImplementedError: the event loop cannot watch sockets (Windows' proactor).
    """

    def __init__(
        self,
        sock: socket.socket,
        contexts: TlsContexts | None,
        connected: Callable[[Opening], asyncio.Protocol],
        *,
        enforcing: bool,
        silence: float,
        proxies: Proxies | None = None,
    ) -> None:
        self.sock = sock
        self._contexts = contexts
        self._connected = connected
        self._enforcing = enforcing
        self._silence = silence
        self._proxies = proxies
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._waiting: deque[tuple[socket.socket, bool, Opening]] = deque()
        """Connections to be opened, and whether TLS begins; not empty: a call of ``_open_some`` is due."""
        self._opening: set[asyncio.Task[None]] = set()
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening; close connections whose first byte or TLS handshake is still awaited."""
        if self.sock.fileno() >= 0:
            self._loop.remove_reader(self.sock.fileno())
            self.sock.close()
        for sock in tuple(self._silent):
            self._reject(sock)
        while self._waiting:
            self._waiting.popleft()[0].close()
        for task in self._opening:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):  # if there are more, the event loop calls this again in its next turn
            try:
                sock, address = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as e:  # such as too many open files; the event loop calls this again
                log.warning("a connection cannot be accepted: %s", e)
                return
            sock.setblocking(False)
            self._silent[sock] = self._loop.call_later(self._silence, self._reject, sock)
            if self._proxies is not None and is_in_networks(address[0], self._proxies.networks):
                self._loop.add_reader(sock.fileno(), self._header, sock, address[:2], bytearray())
            else:
                self._loop.add_reader(sock.fileno(), self._first_byte, sock, Opening())

    def _header(self, sock: socket.socket, proxy: Address, begun: bytearray) -> None:
        """Read a PROXY header, if the connection of a proxy begins with one, and nothing of what follows it.

        :param begun: the bytes that were read before. What may be a part of a header is read, not only peeked at:
            bytes that are left would make the event loop call this again at once, until more arrive.
        """
        peeked = self._peek(sock, MAX_HEADER)
        if not peeked:
            return
        try:
            header = parse_proxy_header(bytes(begun) + peeked)
        except CorruptFrame as e:
            assert self._proxies is not None
            self._proxies.refused(proxy, str(e))
            self._reject(sock)
            return
        if header is None:
            begun += sock.recv(len(peeked))
        elif header.length:
            sock.recv(header.length - len(begun))
            self._loop.add_reader(sock.fileno(), self._first_byte, sock, Opening(header.source))
        else:
            self._begin(sock, (bytes(begun) + peeked)[0], Opening(first=bytes(begun)))

    def _peek(self, sock: socket.socket, size: int) -> bytes | None:
        """Return the next bytes of a connection without reading them; None if there are none, or it has ended."""
        try:
            data = sock.recv(size, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data = b""
        if not data:
            self._reject(sock)
        return data

    def _first_byte(self, sock: socket.socket, opening: Opening) -> None:
        first = self._peek(sock, 1)
        if first:
            self._begin(sock, first[0], opening)

    def _begin(self, sock: socket.socket, first: int, opening: Opening) -> None:
        """Queue a connection to be opened, now that the first byte of its client is known."""
        tls = first == _HANDSHAKE and self._contexts is not None
        if self._enforcing and not tls:
            log.warning(
                "closing the connection of %s: it does not use TLS, which this port requires", _who(sock, opening)
            )
            self._reject(sock)
            return
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()
        self._waiting.append((sock, tls, opening))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._open_some)

    def _open_some(self) -> None:
        """Open the connections that have waited longest, as many as one turn may, and the others in later turns."""
        room = _AT_ONCE
        while self._waiting and room > 0:
            sock, tls, opening = self._waiting.popleft()
            room -= _TLS_SHARE if tls else 1
            task = self._loop.create_task(self._open_tls(sock, opening) if tls else self._open(sock, opening))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        if self._waiting:
            self._loop.call_soon(self._open_some)

    async def _open(self, sock: socket.socket, opening: Opening) -> None:
        try:
            await self._loop.connect_accepted_socket(partial(self._connected, opening), sock)
        except OSError as e:
            sock.close()
            log.warning("no connection with %s: %s", _who(sock, opening), e)

    async def _open_tls(self, sock: socket.socket, opening: Opening) -> None:
        who = _who(sock, opening)
        assert self._contexts is not None
        try:
            context = await self._contexts.context()
            if context is None:
                sock.close()  # the reason was logged once by the contexts
                return
            await self._loop.connect_accepted_socket(
                partial(self._connected, opening), sock, ssl=context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError as e:  # includes ssl.SSLError and a handshake that takes too long
            sock.close()
            log.warning("no TLS connection with %s: %s", who, _why(e))
        except asyncio.CancelledError:
            sock.close()
            raise

    def _reject(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()
        sock.close()


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionError):  # in TLS 1.3 the server does not get the reason
        return "the client ended the handshake; it may not accept the certificate of this server"
    return connect_fault(error, "client")


def _who(sock: socket.socket, opening: Opening) -> str:
    if opening.source is not None:
        return format_address(*opening.source)
    try:
        return format_address(*sock.getpeername()[:2])
    except OSError:
        return "a closed connection"
