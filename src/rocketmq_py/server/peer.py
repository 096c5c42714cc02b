"""A connection as handlers see it: addresses, state, and requests of this side (with ``opaque`` numbers of its own).

It gets a function that writes bytes, so a handler's test needs no connection.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from rocketmq_py.core.peer import InFlight
from rocketmq_py.errors import ConnectionLost, RequestTimeout
from rocketmq_py.server.requests.reply import Reply, encode_reply
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.record import pack_host

Address = tuple[str, int]


class Peer:
    """The other end of one connection; compares and hashes by identity.

    :param remote: address and port of the other end.
    :param local: address and port of this end.
    :param write: takes the bytes of whole frames.
    :param close: ends the connection.
    """

    __slots__ = ("__weakref__", "_close", "_oneways", "_write", "address", "calls", "closed", "host", "local_address")

    def __init__(
        self,
        remote: Address = ("127.0.0.1", 0),
        local: Address = ("127.0.0.1", 0),
        write: Callable[[bytes], None] = lambda _: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.address: str = format_address(*remote)
        """``ip:port`` of the other end."""
        self.local_address: str = format_address(*local)
        self.host: bytes = pack_host(_plain(remote[0]), remote[1])
        """The other end as messages store it: 4 or 16 bytes of address, 4 of port."""
        self.closed: bool = False
        self.calls: InFlight[asyncio.Future[Command]] = InFlight()
        """Requests this side has made that are not answered yet."""
        self._oneways = itertools.count()
        self._write = write
        self._close = close

    def __repr__(self) -> str:
        return f"<Peer {self.address}{' closed' if self.closed else ''}>"

    def write(self, frame: bytes) -> None:
        """Send the bytes of whole frames; dropped when the connection is gone."""
        if not self.closed:
            self._write(frame)

    def close(self) -> None:
        """End the connection once what was written has left."""
        if not self.closed:
            self._close()

    def send(self, command: Command) -> None:
        """Make a one-way request of the other end; dropped when the connection is gone."""
        opaque = next(self._oneways) & 0x7FFFFFFF
        self.write(encode_command(msgspec.structs.replace(command, flag=command.flag | ONEWAY_FLAG, opaque=opaque)))

    async def invoke(self, command: Command, timeout: float) -> Command:
        """Make a request of the other end and await its answer.

        :param timeout: seconds.
        :raises RequestTimeout: no answer came in time.
        :raises ConnectionLost: the connection is gone, or went while the answer was awaited.
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
        """Give an answer to whoever awaits it; an answer nobody awaits any more is dropped."""
        waiter = self.calls.take(answer.opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def lost(self) -> None:
        """The connection is gone: nothing is written any more, and nobody is kept waiting."""
        self.closed = True
        for waiter in self.calls.abandon():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"{self.address} disconnected before it answered"))


class Responder:
    """The right to answer one request later, once.

    :param peer: who asked.
    :param opaque: the number of the request.
    """

    __slots__ = ("_answered", "opaque", "peer")

    def __init__(self, peer: Peer, opaque: int) -> None:
        self.peer = peer
        self.opaque = opaque
        self._answered = False

    @property
    def alive(self) -> bool:
        """Whether an answer would still reach somebody."""
        return not self._answered and not self.peer.closed

    def reply(self, reply: Reply) -> None:
        """Answer; does nothing when that was done before or the connection is gone."""
        if self.alive:
            self.peer.write(self.encode(reply))

    def encode(self, reply: Reply) -> bytes:
        """The frame of the answer, which is given with it: whoever asks for it writes it."""
        self._answered = True
        return encode_reply(reply, self.opaque)


def answer_all(answers: Iterable[tuple[Responder, Reply]]) -> None:
    """As :meth:`Responder.reply` for many, those on one connection with one write."""
    frames: defaultdict[Peer, list[bytes]] = defaultdict(list)
    for responder, reply in answers:
        if responder.alive:
            frames[responder.peer].append(responder.encode(reply))
    for peer, parts in frames.items():
        peer.write(b"".join(parts))


def format_address(ip: str, port: int) -> str:
    """``ip:port``, the ip of an IPv6 address in brackets."""
    ip = _plain(ip)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _plain(ip: str) -> str:
    """Without a scope, and an IPv4 address that came through an IPv6 socket as what it is."""
    return ip.partition("%")[0].removeprefix("::ffff:") if "." in ip else ip.partition("%")[0]
