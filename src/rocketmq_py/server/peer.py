"""The connection of a client, for handlers: addresses, state, and requests from the server to the client.

Bytes are written by a function that the constructor takes, so that tests of handlers need no connection.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Self

import msgspec

from rocketmq_py.core.peer import InFlight
from rocketmq_py.errors import ConnectionLost, RequestTimeout
from rocketmq_py.server.reply import Reply, encode_reply
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.record import pack_host

Address = tuple[str, int]


def _drop(_: bytes) -> None:
    """Discard a frame: the ``write`` of a peer without a connection."""


def _do_nothing() -> None:
    """Do nothing: the ``close`` of a peer without a connection."""


class Peer:
    """The remote end of one connection; compared and hashed by identity.

    :param remote: address and port of the remote end.
    :param local: address and port of the local end.
    :param write: sends the bytes of whole frames.
    :param close: closes the connection.
    """

    protocol = "remoting"
    """What the client speaks, as a label of metrics."""

    __slots__ = ("__weakref__", "_close", "_oneways", "_write", "address", "calls", "closed", "host", "local_address")

    def __init__(
        self,
        remote: Address = ("127.0.0.1", 0),
        local: Address = ("127.0.0.1", 0),
        write: Callable[[bytes], None] = _drop,
        close: Callable[[], None] = _do_nothing,
    ) -> None:
        self.address: str = format_address(*remote)
        """``ip:port`` of the remote end."""
        self.local_address: str = format_address(*local)
        self.host: bytes = pack_host(_plain(remote[0]), remote[1])
        """The remote address as stored in messages: 4 or 16 bytes of IP address, 4 bytes of port."""
        self.closed: bool = False
        self.calls: InFlight[asyncio.Future[Command]] = InFlight()
        """Requests from the server to this client without a response yet."""
        self._oneways = itertools.count()
        self._write = write
        self._close = close

    @classmethod
    def of(cls, other: Peer, write: Callable[[bytes], None], close: Callable[[], None]) -> Self:
        """Return a peer with the addresses of another one."""
        peer = cls(write=write, close=close)
        peer.address, peer.local_address, peer.host = other.address, other.local_address, other.host
        return peer

    def __repr__(self) -> str:
        return f"<Peer {self.address}{' closed' if self.closed else ''}>"

    def write(self, frame: bytes) -> None:
        """Send the bytes of whole frames; drop them if the connection is closed."""
        self._write(frame)

    def close(self) -> None:
        """Close the connection after all written bytes have been sent."""
        self._close()

    def send(self, command: Command) -> None:
        """Send a one-way request to the client; drop it if the connection is closed."""
        opaque = next(self._oneways) & 0x7FFFFFFF
        self.write(encode_command(msgspec.structs.replace(command, flag=command.flag | ONEWAY_FLAG, opaque=opaque)))

    async def invoke(self, command: Command, timeout: float) -> Command:
        """Send a request to the client and return its response.

        :param timeout: seconds.
        :raises RequestTimeout: no response in time.
        :raises ConnectionLost: the connection is closed, or was closed before the response.
        """
        if self.closed:
            raise ConnectionLost(f"{self.address} is no longer connected; request {command.code} was not sent")
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        opaque = self.calls.add(answer)
        self.write(encode_command(msgspec.structs.replace(command, opaque=opaque)))
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise RequestTimeout(f"{self.address} did not answer request {command.code} in {timeout:g} s") from None
        finally:
            self.calls.take(opaque)

    def answered(self, answer: Command) -> None:
        """Complete the request that a response belongs to; drop the response if there is none."""
        waiter = self.calls.take(answer.opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def lost(self) -> None:
        """Mark the connection as closed and fail all pending requests with ConnectionLost."""
        self.closed = True
        # What is written from now on is dropped. The functions given to the constructor may refer to the connection:
        # without them no reference cycle is left.
        self._write, self._close = _drop, _do_nothing
        for waiter in self.calls.abandon():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"{self.address} disconnected before it answered"))


class Responder:
    """Answers one request later, at most once.

    :param peer: the client that sent the request.
    :param opaque: the number of the request.
    """

    __slots__ = ("_answered", "opaque", "peer")

    def __init__(self, peer: Peer, opaque: int) -> None:
        self.peer = peer
        self.opaque = opaque
        self._answered = False

    @property
    def alive(self) -> bool:
        """True if the request is not answered yet and its connection is open."""
        return not self._answered and not self.peer.closed

    def reply(self, reply: Reply) -> None:
        """Send the reply, unless the request was answered before or the connection is closed."""
        if self.alive:
            self.peer.write(self.encode(reply))

    def encode(self, reply: Reply) -> bytes:
        """Return the frame of the reply and mark the request as answered; the caller writes the frame."""
        self._answered = True
        return encode_reply(reply, self.opaque)


def answer_all(answers: Iterable[tuple[Responder, Reply]]) -> None:
    """Send many replies like :meth:`Responder.reply`, with one write per connection."""
    frames: defaultdict[Peer, list[bytes]] = defaultdict(list)
    for responder, reply in answers:
        if responder.alive:
            frames[responder.peer].append(responder.encode(reply))
    for peer, parts in frames.items():
        peer.write(b"".join(parts))


def format_address(ip: str, port: int) -> str:
    """Return ``ip:port``, with an IPv6 address in brackets."""
    ip = _plain(ip)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _plain(ip: str) -> str:
    """Remove the scope of an IPv6 address, and the prefix of an IPv4 address that is mapped to IPv6."""
    return ip.partition("%")[0].removeprefix("::ffff:") if "." in ip else ip.partition("%")[0]
