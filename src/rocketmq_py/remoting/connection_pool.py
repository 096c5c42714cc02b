"""The connections of one client: one per address, opened when first needed and opened again when lost.

Requests that peers make are passed to the handler registered for their code. Which address to use is up to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

from rocketmq_py.core.address import parse_address
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ClosedError, ConnectError, ConnectionLost, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.remoting.forks import Process
from rocketmq_py.remoting.single_flight import SingleFlight, WorkCancelled
from rocketmq_py.remoting.sockets import set_no_delay
from rocketmq_py.tls import Tls, client_context, connect_fault, tls_fault
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, encode_command
from rocketmq_py.wire.signing import Credentials

_log = logging.getLogger(__name__)

_CLOSE_SECONDS = 1.0

PushHandler = Callable[[str, Command], Command | Awaitable[Command | None] | None]
"""Handler of a peer's request: takes the peer's address and the request; returns the answer, or None for no answer."""

OnLost = Callable[[str], None]
"""Callback that takes the address, ``host:port``, of a lost connection."""


class ConnectionPool:
    """Connections by address, for one event loop.

    :param connect_timeout: seconds to wait for a connection.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: how servers are reached over TLS; None or False for plain connections.
    :param credentials: sign requests; None leaves them unsigned.
    :param hint: returns advice for the error message when the given address cannot be reached; "" for none.
    :param on_open: called with every new connection before anything is sent over it.
    :param on_lost: called with the address of a connection that broke or that the peer closed.
    :raises ConfigError: ``tls`` names a file that cannot be used.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 3.0,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        hint: Callable[[str], str] = lambda _: "",
        on_open: Callable[[Connection], None] = lambda _: None,
        on_lost: OnLost = lambda _: None,
    ) -> None:
        self.connect_timeout = connect_timeout
        self.tls = client_context(tls)
        """The TLS context; None for plain connections."""
        self.credentials = credentials
        self._address_map = dict(address_map or {})
        self._hint = hint
        self._open: dict[str, Connection] = {}
        self._retired: set[Connection] = set()
        self._opening = SingleFlight(self._connect)
        self._push_handlers: dict[int, PushHandler] = {}
        self._on_open = on_open
        self._on_lost = on_lost
        self._answering: set[asyncio.Task[None]] = set()
        self._closed = False
        self._process = Process()

    def on_request(self, code: int, handler: PushHandler) -> None:
        """Pass requests of ``code`` that peers make to ``handler``, which replaces an earlier handler of this code.

        A one-way request is not answered, whatever the handler returns. An exception it raises is answered with
        SYSTEM_ERROR, and a request without a handler with REQUEST_CODE_NOT_SUPPORTED.
        """
        self._push_handlers[code] = handler

    # -- requests

    async def invoke(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        timeout: float = 3.0,
        *,
        check: bool = True,
    ) -> Command:
        """Send a request and return its answer. After GO_AWAY (1500) it is sent once more over a new connection.

        :param timeout: seconds for everything, connecting included.
        :param check: raise for an answer with another code than success.
        :raises BrokerError: the peer answered with another code.
        :raises ConnectError: no connection can be made.
        :raises RequestTimeout: no answer in time.
        :raises ConnectionLost: the connection breaks.
        """
        reply = await self._ask(address, code, header, body, timeout)
        if check and reply.code != ResponseCode.SUCCESS:
            raise BrokerError.of(reply.code, reply.remark, address)
        return reply.command()

    async def oneway(self, address: str, code: int, header: Header | None = None, body: bytes = b"") -> None:
        """Send a request that is not answered.

        :raises ConnectError: no connection can be made.
        """
        (await self.get(address)).oneway(code, header, body)

    async def _ask(self, address: str, code: int, header: Header | None, body: bytes, timeout: float) -> Reply:
        deadline = time.monotonic() + timeout
        connection = await self.get(address, timeout)
        try:
            reply = await connection.call(code, header, body, deadline - time.monotonic())
            if reply.code == ResponseCode.GO_AWAY:
                self.retire(connection)
                connection = await self.get(address, deadline - time.monotonic())
                reply = await connection.call(code, header, body, deadline - time.monotonic())
        except RequestTimeout as e:
            raise RequestTimeout(f"{address} did not answer {code_name(code)} within {timeout:g} s") from e
        return reply

    # -- connections

    def ready(self, address: str) -> Connection | None:
        """Return the open connection to ``address``; None if there is none."""
        connection = self._open.get(address)
        return None if connection is None or connection.closed else connection

    async def get(self, address: str, timeout: float | None = None) -> Connection:
        """Return the connection to ``address``; open one if there is none. Concurrent callers share one attempt.

        :param timeout: seconds to wait for the connection; at most ``connect_timeout``, which None stands for.
        :raises ConnectError: it cannot be opened.
        :raises ConnectionLost: :meth:`drop_all` was called meanwhile.
        :raises ForkedError: this client was made in another process.
        :raises ClosedError: this client is closed.
        """
        self.check_usable()
        connection = self.ready(address)
        if connection is not None:
            return connection
        wait = self.connect_timeout if timeout is None else max(0.0, min(timeout, self.connect_timeout))
        try:
            return await self._opening.get(address, wait)
        except TimeoutError as e:
            raise self.cannot_connect(address, f"no connection within {wait:.3g} s") from e
        except WorkCancelled as e:
            if self._closed:
                raise ClosedError("this client was closed while it was connecting") from e
            raise ConnectionLost(f"the connection to {address} was closed here while it was opened") from e

    def where(self, address: str) -> tuple[str, int]:
        """Return the host and port to connect to for ``address``, after applying the address map.

        :raises ConfigError: the address is not ``host:port``.
        """
        return parse_address(self._address_map.get(address, address))

    def cannot_connect(self, address: str, why: str | OSError) -> ConnectError:
        """Return the error to raise for an address that cannot be reached; its message includes the hint."""
        mapped = self._address_map.get(address)
        where = f"{address} (mapped to {mapped})" if mapped else address
        hint = self._hint(address)
        if isinstance(why, OSError):
            if tls_fault(why):
                hint = ""
            elif isinstance(why, socket.gaierror):
                hint = "Is the name spelt as it should be, and known from here?"
            why = connect_fault(why)
        return ConnectError(f"cannot connect to {where}: {why}{'. ' if hint else ''}{hint}")

    def check_usable(self) -> None:
        """Raise an error if this client cannot make requests.

        :raises ForkedError: this client was made in another process.
        :raises ClosedError: this client is closed.
        """
        self._process.check()
        if self._closed:
            raise ClosedError("this client is closed; make a new one")

    def retire(self, connection: Connection) -> None:
        """Send no further request over ``connection``; it closes after its last answer."""
        self._forget(connection)
        self._retired.add(connection)
        connection.retire()

    def drop(self, address: str) -> None:
        """Close the connection to ``address``, if there is one; the next request opens another."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def drop_all(self) -> None:
        """Close all connections, and cancel attempts to open one. Requests in flight fail with ConnectionLost."""
        self._opening.cancel()
        for connection in [*self._open.values(), *self._retired]:
            connection.close()
        self._open.clear()

    async def close(self) -> None:
        """Close all connections; later requests raise ClosedError. Requests in flight fail with ConnectionLost."""
        self._closed = True
        tasks = [*self._opening.tasks, *self._answering]
        connections = [*self._open.values(), *self._retired]
        self.drop_all()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.tls is not None:
            await asyncio.gather(*(connection.wait_closed(_CLOSE_SECONDS) for connection in connections))

    async def _connect(self, address: str) -> Connection:
        connection = Connection(address, self._pushed, self._lost, self.credentials)
        try:
            host, port = self.where(address)
            sock = await _connected_socket(host, port, self.connect_timeout)
            await self._open_on(sock, host, connection)
        except TimeoutError as e:
            raise self.cannot_connect(address, f"no connection within {self.connect_timeout:g} s") from e
        except OSError as e:
            raise self.cannot_connect(address, e) from e
        self._open[address] = connection
        self._on_open(connection)
        return connection

    async def _open_on(self, sock: socket.socket, host: str, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        if self.tls is None:
            await loop.create_connection(lambda: connection, sock=sock)
            return
        try:
            await loop.create_connection(
                lambda: connection, sock=sock, ssl=self.tls, server_hostname=host,
                ssl_handshake_timeout=self.connect_timeout,
            )  # fmt: skip
        except ConnectionError as e:
            if isinstance(e, ConnectionRefusedError):
                raise
            raise OSError("the other end closed it during the TLS handshake; does it serve TLS there?") from e

    def _lost(self, connection: Connection) -> None:
        self._forget(connection)
        if not connection.closed_here:
            self._on_lost(connection.address)

    def _forget(self, connection: Connection) -> None:
        self._retired.discard(connection)
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]

    # -- requests of peers

    def _pushed(self, connection: Connection, request: Command) -> None:
        task = asyncio.ensure_future(self._answer(connection, request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: Connection, request: Command) -> None:
        answer = await self._handle(connection.address, request)
        if answer is not None and not request.is_oneway and not connection.closed:
            answer.opaque, answer.flag = request.opaque, RESPONSE_FLAG
            connection.write(encode_command(answer))

    async def _handle(self, address: str, request: Command) -> Command | None:
        handler = self._push_handlers.get(request.code)
        if handler is None:
            remark = f"this client does not handle request code {request.code}"
            return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        try:
            answer = handler(address, request)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as e:  # noqa: BLE001 - the peer gets the handler's fault as its answer
            _log.exception("handling %s of %s failed", code_name(request.code), address)
            return Command(ResponseCode.SYSTEM_ERROR, remark=f"{type(e).__name__}: {e}")


def code_name(code: int) -> str:
    """Describe a request code for messages: ``SEND_MESSAGE (10)``, or ``request code 9`` if it has no name."""
    with contextlib.suppress(ValueError):
        return f"{RequestCode(code).name} ({int(code)})"
    return f"request code {code}"


async def _connected_socket(host: str, port: int, timeout: float) -> socket.socket:
    """Return a TCP socket connected to the first address of ``host`` that accepts a connection.

    :param timeout: seconds for all addresses together.
    :raises OSError: no address accepts a connection in time.
    """
    loop = asyncio.get_running_loop()
    fault: OSError | None = None
    async with asyncio.timeout(timeout):
        for family, kind, proto, _, where in await _resolve(host, port):
            sock = socket.socket(family, kind, proto)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, where)
            except OSError as e:
                sock.close()
                fault = e
            except BaseException:
                sock.close()
                raise
            else:
                set_no_delay(sock)
                return sock
    raise fault or OSError(f"{host} has no address")


async def _resolve(host: str, port: int) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    try:  # an IP address needs no look-up, and so no thread
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # type: ignore[return-value]
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)  # type: ignore[return-value]
