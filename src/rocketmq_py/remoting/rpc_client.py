"""A client for requests from one server to another, over a :class:`ConnectionPool` like that of the asyncio clients."""

from __future__ import annotations

import ssl
import time
from typing import Protocol

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, RequestTimeout
from rocketmq_py.remoting.connection_pool import ConnectionPool, OnLost, code_name
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials

_CONNECT_SECONDS = 3.0


class NewRpcClient(Protocol):
    """A function that creates an :class:`RpcClient`; ``on_lost`` as there."""

    def __call__(self, *, on_lost: OnLost = ...) -> RpcClient: ...


class RpcClient:
    """Sends requests to other servers, over connections that are opened when first needed and reused.

    :param tls: TLS context; None opens plain connections.
    :param credentials: sign requests; None leaves them unsigned.
    :param on_lost: called with the address of a connection that broke or that the other server closed.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        *,
        on_lost: OnLost = lambda _: None,
    ) -> None:
        self._pool = ConnectionPool(connect_timeout=_CONNECT_SECONDS, tls=tls, credentials=credentials, on_lost=on_lost)

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        """Send a request and return its answer, whatever its code.

        :param address: ``host:port``.
        :param timeout: seconds for everything, connecting included.
        :raises ConnectError: no connection can be made.
        :raises ConnectionLost: the connection breaks.
        :raises RequestTimeout: no answer in time.
        """
        deadline = time.monotonic() + timeout
        connection = await self._pool.get(address, timeout)
        try:
            return await connection.send(command, deadline)
        except RequestTimeout as e:
            name = code_name(command.code)
            raise RequestTimeout(f"{address} did not answer {name} within {timeout:g} s") from e

    async def ask(self, address: str, command: Command, timeout: float) -> Reply:
        """Send a request and return its answer, which must be success. Parameters and errors as :meth:`invoke`.

        :raises BrokerError: the server answered with another code.
        """
        reply = await self.invoke(address, command, timeout)
        if reply.code:
            raise BrokerError.of(reply.code, reply.remark, address)
        return reply

    async def oneway(self, address: str, command: Command, timeout: float) -> None:
        """Send a request that is not answered; returns when it is handed to the connection.

        :param timeout: seconds for connecting.
        :raises ConnectError: no connection can be made.
        """
        (await self._pool.get(address, timeout)).send_oneway(command)

    def close(self) -> None:
        """Close all connections; requests in flight fail with ConnectionLost."""
        self._pool.drop_all()
