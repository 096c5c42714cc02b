"""Accepting connections on a port that speaks TLS: the first byte of each says whether it does.

Knows listening sockets. The byte is looked at, not taken, so that whoever the connection is given to reads all of it.
Refuses to know what is said over a connection. A port without TLS needs none of this and is served by the loop itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from rocketmq_py.server.peer import format_address
from rocketmq_py.server.tls import Certificates
from rocketmq_py.tls import connect_fault

log = logging.getLogger(__name__)

_HANDSHAKE = 0x16
_HANDSHAKE_SECONDS = 10.0


class TlsAcceptor:
    """Listens on one socket; connections are handed to protocols once they have said their first byte.

    :param sock: bound and listening.
    :param connected: makes the protocol of a connection.
    :param enforcing: turn away who does not speak TLS.
    :param silence: seconds a connection may say nothing at all.
    """

    def __init__(
        self,
        sock: socket.socket,
        certificates: Certificates,
        connected: Callable[[], asyncio.Protocol],
        *,
        enforcing: bool,
        silence: float,
    ) -> None:
        self.sock = sock
        self._certificates = certificates
        self._connected = connected
        self._enforcing = enforcing
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._entering: set[asyncio.Task[None]] = set()
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening; whoever is not in yet is turned away."""
        if self.sock.fileno() >= 0:
            self._loop.remove_reader(self.sock.fileno())
            self.sock.close()
        for sock in tuple(self._silent):
            self._turn_away(sock)
        for task in self._entering:
            task.cancel()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as e:  # too many open files, for instance: tried again when somebody else knocks
                log.warning("a connection cannot be accepted: %s", e)
                return
            sock.setblocking(False)
            self._silent[sock] = self._loop.call_later(self._silence, self._turn_away, sock)
            self._loop.add_reader(sock.fileno(), self._spoken, sock)

    def _spoken(self, sock: socket.socket) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._turn_away(sock)
            return
        tls = first[0] == _HANDSHAKE
        if self._enforcing and not tls:
            log.warning("turning %s away: it does not speak TLS, which this port asks for", _who(sock))
            self._turn_away(sock)
            return
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()
        task = self._loop.create_task(self._enter(sock, self._certificates.current() if tls else None))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _enter(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        who = _who(sock)
        try:
            if context is None:
                await self._loop.connect_accepted_socket(self._connected, sock)
            else:
                await self._loop.connect_accepted_socket(
                    self._connected, sock, ssl=context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
                )
        except OSError as e:  # ssl's errors and a handshake that takes too long are some
            sock.close()
            log.warning("no TLS connection with %s: %s", who, _why(e))

    def _turn_away(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()
        sock.close()


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionError):  # TLS 1.3 tells a server nothing more of what a client makes of it
        return "the client ended the handshake; it may not accept the certificate of this server"
    return connect_fault(error, "client")


def _who(sock: socket.socket) -> str:
    try:
        return format_address(*sock.getpeername()[:2])
    except OSError:
        return "somebody who has left"
