"""A blocking connection to a broker or name server, for processes without an event loop: Spark's planners and workers.

Knows sockets and frames. Several requests may be under way; answers may come in any order and are paired by ``opaque``.
Refuses to know what requests mean and when to try again.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import NoReturn

from rocketmq_py.errors import BrokerError, ConnectError, ConnectionLost, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.header import Header
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

_READ_SIZE = 1024 * 1024


class Connection:
    """A connection made on construction.

    :param address: ``host:port``.
    :param timeout: seconds to wait for the connection, and each time for bytes of an answer.
    :raises ConnectError: nobody listens there, or not in time.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.address = address
        self._opaque = count()
        self._frames = FrameDecoder()
        self._arrived: deque[Command] = deque()
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
        except (OSError, ValueError) as e:
            raise ConnectError(
                f"cannot connect to {address}: {e}. Is it running, and reachable from this machine under that address"
                " (a broker announces its brokerIP1)?"
            ) from e
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
            parts.append(encode_command(Command(code, opaque, ext=ext, body=body)))
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
        commands = (decode_command(frame) for frame in self._frames.feed(data))
        self._arrived.extend(command for command in commands if command.is_response)  # a broker may also ask; not us

    def _lost(self, reason: OSError | str) -> NoReturn:
        self.close()
        raise ConnectionLost(f"connection to {self.address} is lost: {reason}")


class Connections:
    """Connections by address, made when first needed. For one thread."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._open: dict[str, Connection] = {}

    def to(self, address: str) -> Connection:
        """The connection to ``address``.

        :raises ConnectError: it cannot be made.
        """
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = Connection(address, self._timeout)
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
