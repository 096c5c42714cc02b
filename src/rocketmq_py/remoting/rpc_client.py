"""Requests a server makes of others, over one kept connection per address.

Knows asyncio transports. What a connection's bytes mean is told by the sans-IO ``core.peer``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import msgspec

from rocketmq_py.core.address import parse_address
from rocketmq_py.core.peer import Peer, Reply
from rocketmq_py.errors import BrokerError, ConnectError, ConnectionLost, CorruptFrame, RequestTimeout
from rocketmq_py.tls import connect_fault
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.signing import Credentials

_CONNECT_SECONDS = 3.0


class _Link(asyncio.Protocol):
    """One connection and the requests under way on it."""

    def __init__(self, address: str, on_lost: Callable[[str], None]) -> None:
        self.address = address
        self.closed = False
        self._on_lost = on_lost
        self._peer: Peer[asyncio.Future[Reply]] = Peer()
        self._transport: asyncio.Transport | None = None
        self._fault: CorruptFrame | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            answers, _ = self._peer.receive(data)
        except CorruptFrame as e:
            self._fault = e
            self.close()
            return
        for waiter, reply in answers:
            if not waiter.done():
                waiter.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed:
            self._on_lost(self.address)
        self.closed = True
        why = self._fault or exc or "the other end closed it"
        for waiter in self._peer.abandon():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"the connection to {self.address} broke: {why}"))

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    async def invoke(self, command: Command) -> Reply:
        assert self._transport is not None
        waiter: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        opaque = self._peer.add(waiter)
        self._transport.write(encode_command(msgspec.structs.replace(command, opaque=opaque)))
        try:
            return await waiter
        finally:
            self._peer.take(opaque)

    def tell(self, command: Command) -> None:
        assert self._transport is not None
        oneway = msgspec.structs.replace(command, opaque=self._peer.number(), flag=command.flag | ONEWAY_FLAG)
        self._transport.write(encode_command(oneway))


class RpcClient:
    """Connections to other servers, made when needed and kept.

    ``on_lost`` hears the address of a connection the other end has closed.

    :param tls: the context of connections with TLS; None makes them without.
    :param credentials: what requests are signed with; None leaves them unsigned.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, credentials: Credentials | None = None) -> None:
        self._credentials = credentials
        self._tls = tls
        self._links: dict[str, _Link] = {}
        self.on_lost: Callable[[str], None] = lambda _: None

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        """Make a request.

        :param address: ``host:port``.
        :param timeout: seconds for everything, connecting included.
        :raises ConnectError: nobody listens there. :raises ConnectionLost: the connection broke.
        :raises RequestTimeout: no answer in time.
        """
        try:
            async with asyncio.timeout(timeout):
                link = await self._link(address)
                return await link.invoke(self._signed(command))
        except TimeoutError as e:
            raise RequestTimeout(f"{address} did not answer request {command.code} within {timeout:g} s") from e

    async def ask(self, address: str, command: Command, timeout: float) -> Reply:
        """As :meth:`invoke`, where only success will do.

        :raises BrokerError: the server answered with another code.
        """
        reply = await self.invoke(address, command, timeout)
        if reply.code:
            raise BrokerError.of(reply.code, reply.remark, address)
        return reply

    async def tell(self, address: str, command: Command, timeout: float) -> None:
        """Make a one-way request: it has been written when this returns.

        :param timeout: seconds for connecting. Errors as :meth:`invoke`.
        """
        try:
            async with asyncio.timeout(timeout):
                link = await self._link(address)
        except TimeoutError as e:
            raise ConnectError(f"cannot connect to {address} within {timeout:g} s") from e
        link.tell(self._signed(command))

    def _signed(self, command: Command) -> Command:
        if self._credentials is None:
            return command
        return msgspec.structs.replace(command, ext=self._credentials.signed(command.ext, command.body))

    async def _link(self, address: str) -> _Link:
        link = self._links.get(address)
        if link is not None and not link.closed:
            return link
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                _, link = await loop.create_connection(lambda: _Link(address, self.on_lost), host, port, ssl=self._tls)
        except OSError as e:  # a timeout is one, too
            raise ConnectError(f"cannot connect to {address}: {connect_fault(e)}") from e
        self._links[address] = link
        return link

    def close(self) -> None:
        """End all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()
