"""Blocking connections over ``core.peer``: the calling thread itself writes requests and reads answers.

:class:`BlockingConnection` is one connection, with any number of requests in flight; Spark's planners and tasks use it.
:class:`DirectConnections` are connections that the threads of one client share, one request at a time on each: the
blocking producer's fast path. Neither needs an event loop, so no thread has to be woken for an answer, which saves a
third of the time of a send.
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
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from rocketmq_py.accelerator import installed
from rocketmq_py.core.address import parse_address
from rocketmq_py.core.peer import Peer, Reply
from rocketmq_py.errors import BrokerError, ClosedError, ConnectError, ConnectionLost, CorruptFrame, RequestTimeout
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.remoting.sockets import set_no_delay
from rocketmq_py.tls import connect_fault, early_close_fault, tls_fault
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.signing import Credentials

if TYPE_CHECKING:  # it needs asyncio, which Spark's workers do not import
    from rocketmq_py.remoting.connection_pool import ConnectionPool

_SMALL_READ = 4096
_LARGE_READ = 1024 * 1024
_FRESH_SECONDS = 1.0
"""An idle connection that was used within this time is assumed to be open: its socket is not checked."""
_IDLE_SECONDS = 60.0
"""A connection that was idle for longer is closed; brokers close idle connections after 120 s."""
_TICK = 0.01
"""Socket timeouts are rounded up to a multiple of this, so that requests with similar timeouts share one setting."""

Framed = Callable[[int], bytes]
"""Encodes one request as a frame with the given ``opaque``, the number that pairs answers with requests."""


class BlockingConnection:
    """A connection used by one thread at a time. Any number of requests may be in flight on it.

    Requests that the peer makes are ignored. Network and protocol errors close the connection, because answers that
    arrive later could not be used.

    :param address: ``host:port`` of the peer, for error messages.
    :param sock: a connected socket, which for TLS is wrapped already.
    :param timeout: seconds that :meth:`send` and :meth:`receive` wait for the peer.
    :param credentials: sign requests; None leaves them unsigned.
    :param read_size: bytes of one read of the socket.
    """

    __slots__ = (
        "_arrived", "_credentials", "_heard", "_peer", "_read_size", "_socket", "_ticks", "_timeout", "address", "used",
    )  # fmt: skip

    def __init__(
        self,
        address: str,
        sock: socket.socket,
        timeout: float,
        credentials: Credentials | None = None,
        read_size: int = _LARGE_READ,
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._credentials = credentials
        self._read_size = read_size
        self._socket = sock
        self._peer: Peer[None] = Peer(accelerator=installed())
        self._arrived: deque[Reply] = deque()
        self._heard = False
        self._ticks = 0
        self.used = time.monotonic()
        """Time of the last use, on the clock of ``time.monotonic``."""
        if not isinstance(sock, ssl.SSLSocket):
            sock.setblocking(True)  # without Python's timeout; the kernel's is used, see _limit

    @classmethod
    def connect(
        cls,
        address: str,
        timeout: float,
        *,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        hint: str = "",
    ) -> Self:
        """Connect to ``address``, a ``host:port``.

        :param timeout: seconds to wait for the connection, and afterwards in each :meth:`send` and :meth:`receive`.
        :param tls: TLS context; None for a plain connection.
        :param hint: advice for the error message if the address cannot be reached.
        :raises ConnectError: the address is invalid or cannot be reached in time, or TLS fails.
        """
        try:
            host, port = parse_address(address)
            sock = open_socket(host, port, timeout, tls)
        except (OSError, ValueError) as e:
            why = connect_fault(e) if isinstance(e, OSError) else e
            hint = "" if not hint or (isinstance(e, OSError) and tls_fault(e)) else f". {hint}"
            raise ConnectError(f"cannot connect to {address}: {why}{hint}") from e
        return cls(address, sock, timeout, credentials)

    # -- several requests in flight

    def send(self, requests: Iterable[tuple[int, dict[str, str], bytes]]) -> list[int]:
        """Send requests (code, header fields, body) in one write; returns their ``opaque`` numbers, in the same order.

        :raises RequestTimeout: the peer does not read them in time.
        :raises ConnectionLost: the connection is closed or breaks.
        """
        opaques: list[int] = []
        frames: list[bytes] = []
        for code, ext, body in requests:
            opaque = self._peer.add(None)
            opaques.append(opaque)
            fields = ext if self._credentials is None else self._credentials.signed(ext, body)
            frames.append(encode_command(Command(code, opaque, ext=fields, body=body)))
        self._write(b"".join(frames), time.monotonic() + self._timeout)
        return opaques

    def receive(self) -> Reply:
        """Wait for the next answer to any request in flight and return it.

        :raises RequestTimeout: no bytes come for ``timeout`` seconds.
        :raises ConnectionLost: the connection is closed or breaks.
        :raises CorruptFrame: the peer sends something that is not the protocol.
        """
        arrived = self._arrived
        try:
            while not arrived:
                self._limit(time.monotonic() + self._timeout)
                self._read()
        except RequestTimeout as e:
            raise RequestTimeout(f"{self.address} did not answer within {self._timeout:g} s") from e
        return arrived.popleft()

    @property
    def arrived(self) -> bool:
        """True if :meth:`receive` would return without waiting."""
        return bool(self._arrived)

    @property
    def in_flight(self) -> int:
        """Number of requests that were sent and not answered yet."""
        return len(self._peer)

    def call(self, code: int, header: Header, body: bytes = b"") -> Reply:
        """Send a request and return its answer; answers to earlier requests that arrive before it are dropped.

        Errors are those of :meth:`send` and :meth:`receive`, and:

        :raises BrokerError: the peer answers with another code than success.
        """
        (opaque,) = self.send([(code, header.to_ext(), body)])
        answer = self.receive()
        while answer.opaque != opaque:
            answer = self.receive()
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, self.address)
        return answer

    # -- one request at a time

    def exchange(self, framed: Framed, deadline: float) -> Reply:
        """Send a request and return its answer; no other request may be in flight.

        :param framed: encodes the request as a frame with the ``opaque`` that it gets.
        :param deadline: on the clock of ``time.monotonic``.
        :raises RequestTimeout: no answer by the deadline.
        :raises ConnectionLost: the connection is closed or breaks.
        """
        self._write(framed(self._peer.add(None)), deadline)
        arrived = self._arrived
        try:
            self._read()
            while not arrived:
                self._limit(deadline)
                self._read()
        except CorruptFrame as e:
            raise self._lost(e) from e
        return arrived.popleft()

    def oneway(self, framed: Framed, deadline: float) -> None:
        """Send a request that the peer does not answer. Parameters and errors as of :meth:`exchange`."""
        self._write(framed(self._peer.number()), deadline)

    # -- closing

    def is_alive(self) -> bool:
        """Return False if the peer has closed the connection or sent data without a request; does not wait.

        For a second after the last use, True is returned without a check.
        """
        if time.monotonic() - self.used < _FRESH_SECONDS:
            return True
        if isinstance(self._socket, ssl.SSLSocket):
            return not select.select([self._socket], (), (), 0)[0]
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self._socket.setblocking(True)
            return True
        except OSError:
            return False
        return False  # the peer closed the connection, or sent data although no request is in flight

    def close(self) -> None:
        """Close the socket. May be called more than once."""
        self._socket.close()

    # -- bytes

    def _write(self, frame: bytes, deadline: float) -> None:
        self._limit(deadline)
        try:
            self._socket.sendall(frame)
        except (BlockingIOError, TimeoutError) as e:
            self.close()
            raise RequestTimeout(f"{self.address} did not read a request in time") from e
        except OSError as e:
            raise self._lost(e) from e

    def _read(self) -> None:
        """Wait until data arrives, read it, and append the answers it completes to ``_arrived``."""
        try:
            data = self._socket.recv(self._read_size)
        except (BlockingIOError, TimeoutError) as e:
            self.close()
            raise RequestTimeout(f"{self.address} did not answer in time") from e
        except OSError as e:
            raise self._lost(e) from e
        if not data:
            raise self._lost("the peer closed it")
        self._heard = True
        try:
            answers, _ = self._peer.receive(data)
        except CorruptFrame:
            self.close()
            raise
        for _, reply in answers:
            self._arrived.append(reply)

    def _limit(self, deadline: float) -> None:
        """Set the timeout of the socket's next read or write so that it ends at the deadline.

        The kernel's timeouts are used, because Python's cost a poll before each read and write. With TLS they are
        Python's, because one TLS read may consist of several reads of the socket.

        :raises RequestTimeout: the deadline has passed.
        """
        self.used = time.monotonic()
        left = deadline - self.used
        if left <= 0:
            raise RequestTimeout(f"no time is left for a request to {self.address}")
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(left)
            return
        ticks = math.ceil(left / _TICK)
        if ticks != self._ticks:
            self._set_kernel_timeout(ticks)

    def _set_kernel_timeout(self, ticks: int) -> None:
        self._ticks = ticks
        try:
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _time_option(ticks * _TICK))
        except OSError as e:
            raise self._lost(e) from e

    def _lost(self, why: OSError | CorruptFrame | str) -> ConnectionLost:
        self.close()
        fault = tls_fault(why) if isinstance(why, OSError) else None
        if fault is None and not self._heard and not isinstance(why, CorruptFrame):
            fault = early_close_fault(why, over_tls=isinstance(self._socket, ssl.SSLSocket))
        return ConnectionLost(f"the connection to {self.address} ended: {fault or why}")


class DirectConnections:
    """Blocking connections by address, each with at most one request in flight. Thread-safe.

    A request uses the idle connection that was used last, so that a single thread always uses the same connection.

    :param connections: the client's asyncio pool, whose address map, TLS context and error hints are used here, too.
    """

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._idle: dict[str, list[BlockingConnection]] = {}
        self._closed = False

    def exchange(self, address: str, framed: Framed, deadline: float) -> Reply:
        """Send a request and return its answer.

        :param address: ``host:port`` of the peer.
        :param framed: encodes the request as a frame with the ``opaque`` that it gets.
        :param deadline: on the clock of ``time.monotonic``.
        :raises ConnectError: no connection can be made.
        :raises RequestTimeout: no answer by the deadline.
        :raises ConnectionLost: the connection breaks.
        """
        connection = self._take(address, deadline)
        try:
            reply = connection.exchange(framed, deadline)
        except BaseException:  # an interrupt, too: the next request would read the answer to this one
            connection.close()
            raise
        if reply.code == ResponseCode.GO_AWAY:
            connection.close()
        else:
            self._put_back(connection)
        return reply

    def oneway(self, address: str, framed: Framed, deadline: float) -> None:
        """Send a request that the peer does not answer. Parameters and errors as of :meth:`exchange`."""
        connection = self._take(address, deadline)
        try:
            connection.oneway(framed, deadline)
        except BaseException:  # part of the frame may have been written
            connection.close()
            raise
        self._put_back(connection)

    def close(self) -> None:
        """Close the connections that are idle now, and those in use when they are put back."""
        self._closed = True
        for idle in list(self._idle.values()):
            with contextlib.suppress(IndexError):  # another thread may take the last one
                while True:
                    idle.pop().close()

    def _take(self, address: str, deadline: float) -> BlockingConnection:
        if self._closed:
            raise ClosedError("this client is closed; make a new one")
        idle = self._idle.get(address) or self._idle.setdefault(address, [])
        while True:
            try:
                connection = idle.pop()
            except IndexError:  # a check beforehand would race with other threads
                return self._connect(address, deadline)
            if connection.is_alive():
                return connection
            connection.close()

    def _put_back(self, connection: BlockingConnection) -> None:
        idle = self._idle[connection.address]
        idle.append(connection)
        with contextlib.suppress(IndexError):  # other threads may have taken all
            if connection.used - idle[0].used > _IDLE_SECONDS:
                idle.pop(0).close()
        if self._closed:
            self.close()

    def _connect(self, address: str, deadline: float) -> BlockingConnection:
        timeout = min(self._connections.connect_timeout, max(0.001, deadline - time.monotonic()))
        host, port = self._connections.where(address)
        try:
            sock = open_socket(host, port, timeout, self._connections.tls)
        except TimeoutError as e:
            raise self._connections.cannot_connect(address, f"no connection within {timeout:.3g} s") from e
        except OSError as e:
            raise self._connections.cannot_connect(address, e) from e
        return BlockingConnection(address, sock, timeout, read_size=_SMALL_READ)


def open_socket(host: str, port: int, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Open a TCP connection and return its socket, wrapped with TLS if ``tls`` is given.

    :param timeout: seconds for the connection, and again for the TLS handshake.
    :raises OSError: the connection cannot be made, or TLS fails.
    """
    sock = socket.create_connection((host, port), timeout)
    set_no_delay(sock)
    if tls is None:
        return sock
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def _time_option(seconds: float) -> bytes:
    """Encode a timeout for SO_RCVTIMEO and SO_SNDTIMEO: milliseconds on Windows, else seconds and microseconds."""
    if os.name == "nt":
        return struct.pack("@L", int(seconds * 1000))
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
