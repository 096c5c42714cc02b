"""A blocking connection to a broker or name server, for processes without an event loop: Spark's planners and workers.

Knows sockets, TLS, signatures and frames. Several requests may be under way; answers may come in any order and are
paired by ``opaque``. Refuses to know what requests mean and when to try again.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import NoReturn

from rocketmq_py.core.address import parse_address
from rocketmq_py.errors import BrokerError, ConnectError, ConnectionLost, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.spark.options.security import OPEN, Security
from rocketmq_py.tls import connect_fault, tls_fault
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

_READ_SIZE = 1024 * 1024


class BlockingConnection:
    """A connection made on construction.

    :param address: ``host:port``.
    :param timeout: seconds to wait for the connection, and each time for bytes of an answer.
    :param security: whether to speak TLS, and who signs.
    :param context: the TLS context of ``security``, where it has been made before.
    :raises ConnectError: nobody listens there, or not in time, or TLS cannot be agreed on.
    """

    def __init__(
        self, address: str, timeout: float, security: Security = OPEN, context: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self._credentials = security.credentials
        self._opaque = count()
        self._frames = FrameDecoder()
        self._arrived: deque[Command] = deque()
        self._heard = False
        self._socket = _connect(address, timeout, context or security.context())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, requests: Iterable[tuple[RequestCode, dict[str, str], bytes]]) -> list[int]:
        """Send requests (code, header fields, body) in one write; returns the ``opaque`` their answers will carry.

        :raises ConnectionLost: the connection is gone.
        """
        opaques: list[int] = []
        parts: list[bytes] = []
        for code, ext, body in requests:
            opaque = next(self._opaque)
            opaques.append(opaque)
            fields = ext if self._credentials is None else self._credentials.signed(ext, body)
            parts.append(encode_command(Command(code, opaque, ext=fields, body=body)))
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as e:
            self._lost(e)
        return opaques

    def receive(self) -> Command:
        """The next answer to any request.

        :raises RequestTimeout: none came in time.
        :raises ConnectionLost: the connection is gone.
        """
        while not self._arrived:
            self._read()
        return self._arrived.popleft()

    @property
    def arrived(self) -> bool:
        """Whether :meth:`receive` would return without waiting."""
        return bool(self._arrived)

    def call(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """One request and its successful answer; nothing else may be under way.

        :raises BrokerError: the peer answered with another code than success.
        """
        (opaque,) = self.send([(code, header.to_ext(), body)])
        answer = self.receive()
        while answer.opaque != opaque:
            answer = self.receive()
        if answer.code != 0:
            raise BrokerError.of(answer.code, answer.remark, self.address)
        return answer

    def close(self) -> None:
        """Close the socket; may be called more than once."""
        self._socket.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except TimeoutError as e:
            self.close()  # a late answer must not be taken for the answer to a later request
            raise RequestTimeout(f"{self.address} did not answer within {self._socket.gettimeout()} s") from e
        except OSError as e:
            self._lost(e)
        if not data:
            self._lost("the peer closed it")
        self._heard = True
        commands = (decode_command(frame) for frame in self._frames.feed(data))
        self._arrived.extend(command for command in commands if command.is_response)  # a broker may also ask; not us

    def _lost(self, reason: OSError | str) -> NoReturn:
        self.close()
        fault = tls_fault(reason) if isinstance(reason, OSError) else None
        raise ConnectionLost(f"connection to {self.address} is lost: {fault or f'{reason}{self._unheard()}'}")

    def _unheard(self) -> str:
        """What to try when nothing was heard: so ends a connection that does not speak TLS as the peer asks."""
        if self._heard:
            return ""
        if isinstance(self._socket, ssl.SSLSocket):
            return ", without a word; does the peer ask for a certificate of ours (option tlsCert)?"
        return ", without a word; does the peer ask for TLS (option tls)?"


def _connect(address: str, timeout: float, context: ssl.SSLContext | None) -> socket.socket:
    try:
        host, port = parse_address(address)
        plain = socket.create_connection((host, port), timeout)
    except (OSError, ValueError) as e:
        why = connect_fault(e) if isinstance(e, OSError) else e
        raise ConnectError(
            f"cannot connect to {address}: {why}. Is it running, and reachable from this machine under that address"
            " (a broker announces its brokerIP1)?"
        ) from e
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except OSError as e:
        plain.close()
        raise ConnectError(f"cannot connect to {address}: {connect_fault(e)}") from e


class BlockingConnections:
    """Connections by address, made when first needed. For one thread."""

    def __init__(self, timeout: float, security: Security = OPEN) -> None:
        self._timeout = timeout
        self._security = security
        self._context = security.context()
        self._open: dict[str, BlockingConnection] = {}

    def to(self, address: str) -> BlockingConnection:
        """The connection to ``address``.

        :raises ConnectError: it cannot be made.
        """
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = BlockingConnection(address, self._timeout, self._security, self._context)
        return connection

    def drop(self, address: str) -> None:
        """Forget a connection that failed; the next use makes a new one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all of them."""
        for address in list(self._open):
            self.drop(address)
