"""Connections for threads that wait: the calling thread itself writes a request and reads the answer.

One request at a time on each; a thread takes the one that was last put back, so that one thread keeps using the same
one. Saves waking the event loop and being woken by it: a third of the time of a send. Knows blocking sockets. Refuses
to know what requests mean.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable

from rocketmq_py.core.peer import Peer, Reply
from rocketmq_py.errors import ClosedError, ConnectionLost, CorruptFrame, RequestTimeout
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.remoting.connection_pool import ConnectionPool, set_no_delay
from rocketmq_py.tls import tls_fault

_READ_SIZE = 4096
_FRESH_SECONDS = 1.0
"""How long an idle connection is taken for alive without looking."""
_IDLE_SECONDS = 60.0
"""How long a connection is kept that no thread needs any more; brokers end them after 120 s."""
_TICK = 0.01
"""Time limits are rounded up to this many seconds, so that sends with the same limit need not set it anew."""

Framed = Callable[[int], bytes]
"""Makes the frame of a request with an ``opaque``."""


class DirectConnections:
    """Blocking connections by address. Safe to use from several threads.

    :param connections: says where an address is, and what to try when it cannot be reached.
    """

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._idle: dict[str, list[_DirectConnection]] = {}
        self._closed = False

    def exchange(self, address: str, framed: Framed, deadline: float) -> Reply:
        """A request and its answer.

        :param deadline: on the clock of ``time.monotonic``.
        :raises ConnectError: no connection could be made.
        :raises RequestTimeout: no answer in time.
        :raises ConnectionLost: the connection broke first.
        """
        connection = self._take(address, deadline)
        try:
            reply = connection.exchange(framed, deadline)
        except BaseException:  # an interrupt, too: the answer would be taken for that of the next request
            connection.close()
            raise
        if reply.code == ResponseCode.GO_AWAY:
            connection.close()
        else:
            self._put_back(connection)
        return reply

    def oneway(self, address: str, framed: Framed, deadline: float) -> None:
        """A request nobody answers. Errors as :meth:`exchange`."""
        connection = self._take(address, deadline)
        try:
            connection.oneway(framed, deadline)
        except BaseException:  # nobody can tell how much of the frame has gone
            connection.close()
            raise
        self._put_back(connection)

    def close(self) -> None:
        """Close the connections that are idle now, and those in use when they are put back."""
        self._closed = True
        for idle in list(self._idle.values()):
            with contextlib.suppress(IndexError):  # empty, whoever took the last one
                while True:
                    idle.pop().close()

    def _take(self, address: str, deadline: float) -> _DirectConnection:
        if self._closed:
            raise ClosedError("this client is closed; make a new one")
        idle = self._idle.get(address) or self._idle.setdefault(address, [])
        while True:
            try:
                connection = idle.pop()
            except IndexError:  # not asked beforehand: another thread may take the last one
                return self._connect(address, deadline)
            if connection.is_alive():
                return connection
            connection.close()

    def _put_back(self, connection: _DirectConnection) -> None:
        idle = self._idle[connection.address]
        idle.append(connection)
        with contextlib.suppress(IndexError):  # other threads may have taken all
            if connection.used - idle[0].used > _IDLE_SECONDS:
                idle.pop(0).close()
        if self._closed:
            self.close()

    def _connect(self, address: str, deadline: float) -> _DirectConnection:
        timeout = min(self._connections.connect_timeout, max(0.001, deadline - time.monotonic()))
        host, port = self._connections.where(address)
        tls = self._connections.tls
        try:
            sock = socket.create_connection((host, port), timeout)
            set_no_delay(sock)
            if tls is not None:
                return _TlsConnection(address, _handshaken(sock, host, tls))
        except TimeoutError as e:
            raise self._connections.cannot_connect(address, f"no connection within {timeout:.3g} s") from e
        except OSError as e:
            raise self._connections.cannot_connect(address, e) from e
        sock.setblocking(True)
        return _DirectConnection(address, sock)


def _handshaken(sock: socket.socket, host: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


class _DirectConnection:
    """A connection of one thread at a time."""

    __slots__ = ("_peer", "_socket", "_ticks", "address", "used")

    def __init__(self, address: str, sock: socket.socket) -> None:
        self.address = address
        self._socket = sock
        self._peer: Peer[bool] = Peer()
        self._ticks = 0
        self.used = time.monotonic()

    def exchange(self, framed: Framed, deadline: float) -> Reply:
        """A request and its answer."""
        self._write(framed(self._peer.add(True)), deadline)
        while True:
            try:
                data = self._socket.recv(_READ_SIZE)
            except (BlockingIOError, TimeoutError) as e:
                raise RequestTimeout(f"{self.address} did not answer in time") from e
            except OSError as e:
                raise self._lost(e) from e
            reply = self._answer(data)
            if reply is not None:
                return reply
            self._limit(deadline)

    def oneway(self, framed: Framed, deadline: float) -> None:
        """A request nobody answers."""
        self._write(framed(self._peer.number()), deadline)

    def _write(self, frame: bytes, deadline: float) -> None:
        self._limit(deadline)
        try:
            self._socket.sendall(frame)
        except (BlockingIOError, TimeoutError) as e:
            raise RequestTimeout(f"{self.address} took no request in time") from e
        except OSError as e:
            raise self._lost(e) from e

    def is_alive(self) -> bool:
        """Whether the peer has not hung up meanwhile, as far as can be seen."""
        if time.monotonic() - self.used < _FRESH_SECONDS:
            return True
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self._socket.setblocking(True)
            return True
        except OSError:
            return False
        return False  # an end, or an answer to nothing

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _limit(self, deadline: float) -> None:
        """Let the kernel end reads and writes at the deadline: a limit kept here would cost a poll before each."""
        self.used = time.monotonic()
        ticks = math.ceil((deadline - self.used) / _TICK)
        if ticks <= 0:
            raise RequestTimeout(f"no time is left for a request to {self.address}")
        if ticks != self._ticks:
            self._ticks = ticks
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _time_option(ticks * _TICK))

    def _answer(self, data: bytes) -> Reply | None:
        if not data:
            raise self._lost("the peer closed it")
        try:
            answers, _ = self._peer.receive(data)
        except CorruptFrame as e:
            raise self._lost(e) from e
        return answers[0][1] if answers else None  # no other request is under way

    def _lost(self, why: object) -> ConnectionLost:
        if isinstance(why, OSError):
            why = tls_fault(why) or why
        return ConnectionLost(f"the connection to {self.address} ended: {why}")


class _TlsConnection(_DirectConnection):
    """The same over TLS, where one read may take several of the kernel's: ``ssl`` itself keeps the time."""

    __slots__ = ()

    def is_alive(self) -> bool:
        """Whether nothing has come meanwhile: an end of the connection would."""
        if time.monotonic() - self.used < _FRESH_SECONDS:
            return True
        return not select.select([self._socket], (), (), 0)[0]

    def _limit(self, deadline: float) -> None:
        self.used = time.monotonic()
        left = deadline - self.used
        if left <= 0:
            raise RequestTimeout(f"no time is left for a request to {self.address}")
        self._socket.settimeout(left)


def _time_option(seconds: float) -> bytes:
    """Seconds as the options for time limits take them: milliseconds on Windows, else seconds and microseconds."""
    if os.name == "nt":
        return struct.pack("@L", int(seconds * 1000))
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
