"""Accept connections on a port that serves TLS: the first byte of each connection shows whether it is TLS.

The byte is only peeked at, so the protocol of the connection receives it, too. A port that never serves TLS uses the
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

from rocketmq_py.server.peer import format_address
from rocketmq_py.server.tls import TlsContexts
from rocketmq_py.tls import connect_fault

log = logging.getLogger(__name__)

_HANDSHAKE = 0x16
_HANDSHAKE_SECONDS = 10.0
_AT_ONCE = 64
"""At most this many connections are accepted, and as many opened, in one turn of the event loop: some 5 ms each."""
_TLS_SHARE = 8
"""A connection with TLS counts as this many without: its handshake takes that much longer."""


class TlsAcceptor:
    """Accepts connections of one socket, and creates the protocol of each when its first byte has arrived.

    :param sock: a listening socket.
    :param contexts: the TLS contexts of new connections.
    :param connected: creates the protocol of a connection.
    :param enforcing: close connections without TLS.
    :param silence: seconds within which the first byte has to arrive.
    :raises NotImplementedError: the event loop cannot watch sockets (Windows' proactor).
    """

    def __init__(
        self,
        sock: socket.socket,
        contexts: TlsContexts,
        connected: Callable[[], asyncio.Protocol],
        *,
        enforcing: bool,
        silence: float,
    ) -> None:
        self.sock = sock
        self._contexts = contexts
        self._connected = connected
        self._enforcing = enforcing
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._waiting: deque[tuple[socket.socket, bool]] = deque()
        """Connections to be opened, and whether they begin with TLS; not empty: a call of ``_open_some`` is due."""
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
                sock, _ = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as e:  # such as too many open files; the event loop calls this again
                log.warning("a connection cannot be accepted: %s", e)
                return
            sock.setblocking(False)
            self._silent[sock] = self._loop.call_later(self._silence, self._reject, sock)
            self._loop.add_reader(sock.fileno(), self._first_byte, sock)

    def _first_byte(self, sock: socket.socket) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._reject(sock)
            return
        tls = first[0] == _HANDSHAKE
        if self._enforcing and not tls:
            log.warning("closing the connection of %s: it does not use TLS, which this port requires", _who(sock))
            self._reject(sock)
            return
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()
        self._waiting.append((sock, tls))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._open_some)

    def _open_some(self) -> None:
        """Open the connections that have waited longest, as many as one turn may, and the others in later turns."""
        room = _AT_ONCE
        while self._waiting and room > 0:
            sock, tls = self._waiting.popleft()
            room -= _TLS_SHARE if tls else 1
            task = self._loop.create_task(self._open_tls(sock) if tls else self._open(sock))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        if self._waiting:
            self._loop.call_soon(self._open_some)

    async def _open(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connected, sock)
        except OSError as e:
            sock.close()
            log.warning("no connection with %s: %s", _who(sock), e)

    async def _open_tls(self, sock: socket.socket) -> None:
        who = _who(sock)
        try:
            context = await self._contexts.context()
            if context is None:
                sock.close()  # the reason was logged once by the contexts
                return
            await self._loop.connect_accepted_socket(
                self._connected, sock, ssl=context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
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


def _who(sock: socket.socket) -> str:
    try:
        return format_address(*sock.getpeername()[:2])
    except OSError:
        return "a closed connection"
