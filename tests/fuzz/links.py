"""Connections of the fuzz run: to a server in this process, in memory or by a real socket, and what is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import Frame, FrameDecoder
from rocketmq_py.wire.http2 import frames
from tests.fuzz.grpc_cases import HOLDING, SETTINGS, GrpcCase
from tests.fuzz.proxy_cases import ProxyCase

UNKNOWN = 0
"""The outcome of a transaction that its producer does not know yet."""


class Link(asyncio.Protocol):
    """The client's end of a connection; knows which requests must still be answered."""

    def __init__(self) -> None:
        self._sent = FrameDecoder()
        self._received = FrameDecoder()
        self.waiting: dict[int, tuple[int, float]] = {}
        """Opaque numbers of requests that are not answered yet: code and time."""
        self._watched: dict[int, asyncio.Future[Command]] = {}
        self.changed = asyncio.Event()
        """Set by each answer and by the end of the connection."""
        self.is_closed = False
        self.must_close = False
        """Whether a corrupt frame was sent."""
        self.may_expire = False
        """Whether a broker registered with a heartbeat timeout of its own: the name server ends its connection
        when that is over.
        """
        self.answered = self.asked = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self.changed.set()
        for answer in self._watched.values():
            answer.cancel("the connection was closed")

    def send(self, data: bytes) -> None:
        """Send bytes, and note which answers they ask for."""
        self._note_all(data)
        self._transmit(data)

    def _note_all(self, data: bytes) -> None:
        try:
            for frame in self._sent.feed(data):
                self._note(frame)
        except CorruptFrame:
            self.must_close = True

    def _transmit(self, data: bytes) -> None:
        self.transport.write(data)

    def _note(self, frame: Frame) -> None:
        command = decode_command(frame)
        self.may_expire |= command.code == Code.REGISTER_BROKER and "heartbeatTimeoutMillis" in command.ext
        if not command.is_response and not command.is_oneway and not _ends_nothing(command):
            self.waiting[command.opaque] = (command.code, time.monotonic())
            self.asked += 1

    @property
    def is_stuck(self) -> bool:
        """Whether the server waits for the rest of a frame with a wrong length."""
        return self._sent.buffered > 0

    def watch(self, opaque: int) -> asyncio.Future[Command]:
        """Return the future answer to a request."""
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._watched[opaque] = answer
        return answer

    def data_received(self, data: bytes) -> None:
        for frame in self._received.feed(data):
            command = decode_command(frame)
            if command.is_response and self.waiting.pop(command.opaque, None) is not None:
                self.answered += 1
                self.changed.set()
                watched = self._watched.pop(command.opaque, None)
                if watched is not None:
                    watched.set_result(command)

    def close(self) -> None:
        self.transport.close()


def _ends_nothing(command: Command) -> bool:
    """Whether a producer does not know the outcome of a transaction yet; as in Java, this is not answered."""
    if command.code != Code.END_TRANSACTION:
        return False
    try:
        return EndTransaction.from_ext(command.ext).commit_or_rollback == UNKNOWN
    except BadHeader:
        return False


class MemoryTransport(asyncio.Transport):
    """The server's end of a connection without a socket."""

    def __init__(self, server: asyncio.Protocol, client: Link, port: int) -> None:
        super().__init__()
        self._server, self._client, self._port = server, client, port
        self._is_closing = self._is_paused = False
        self._held: list[bytes] = []
        server.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._server = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._server

    def deliver(self, data: bytes) -> None:
        """Pass bytes of the client to the server, once it reads."""
        if self._is_paused:
            self._held.append(data)
        elif not self._is_closing:
            self._server.data_received(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"peername": ("127.0.0.1", self._port), "sockname": ("127.0.0.1", 10911),
                 "socket": SimpleNamespace(setsockopt=lambda *_: None)}  # fmt: skip
        return known.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._client.is_closed:
            self._client.data_received(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        while self._held and not self._is_paused and not self._is_closing:
            self._server.data_received(self._held.pop(0))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._lost)

    abort = close

    def _lost(self) -> None:
        self._server.connection_lost(None)
        self._client.connection_lost(None)


class MemoryLink(Link):
    """The client's end of a connection in memory. What it sends arrives in a turn of its own of the event loop."""

    def _transmit(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.transport.deliver, data)


class SlaveMemoryLink(MemoryLink):
    """A slave's end of a connection in memory: it sends reports, and drops the log that it gets."""

    def send(self, data: bytes) -> None:
        self._transmit(data)

    def data_received(self, data: bytes) -> None:
        """Drop the bytes."""


class SlaveLink(Link):
    """The same by a socket."""

    def send(self, data: bytes) -> None:
        self._transmit(data)

    def data_received(self, data: bytes) -> None:
        """Drop the bytes."""


class GrpcLink(Link):
    """A client of gRPC: it sends cases, and knows by the numbers of streams which calls have ended."""

    def __init__(self) -> None:
        super().__init__()
        self._input = bytearray()
        self._is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transmit(SETTINGS)

    def send(self, data: Any) -> None:
        case: GrpcCase = data
        if case.breaks:  # the server may close the connection, or wait for the rest of a frame
            self.waiting.clear()
            self.asked = self.answered
            self._is_broken = self.may_expire = True
        for stream_id, method in case.calls.items():
            code = Code.POP_MESSAGE if method == HOLDING else Code.SEND_MESSAGE
            self.waiting[stream_id] = (code, time.monotonic())
            self.asked += 1
        self._transmit(case.data)

    @property
    def is_stuck(self) -> bool:
        return self._is_broken

    def data_received(self, data: bytes) -> None:
        self._input += data
        while len(self._input) >= frames.HEAD_SIZE:
            head, flags, stream_id = frames.unpack_head(self._input)
            end = frames.HEAD_SIZE + (head >> 8)
            if len(self._input) < end:
                return
            del self._input[:end]
            kind = head & 0xFF
            ends = kind == frames.RST_STREAM or (kind == frames.HEADERS and flags & frames.END_STREAM)
            if ends and self.waiting.pop(stream_id, None) is not None:
                self.answered += 1
                self.changed.set()


class GrpcMemoryLink(GrpcLink, MemoryLink):
    """The same in memory."""


class ProxiedLink(Link):
    """A connection through a balancer: its first bytes are the header that the balancer writes, right or wrong.

    It is used once.
    """

    def send(self, data: Any) -> None:
        case: ProxyCase = data
        if case.is_right:
            self._note_all(case.request)
        else:
            self.may_expire = True
        self._transmit(case.data)

    @property
    def is_stuck(self) -> bool:
        return True


def connect_in_memory(server: asyncio.Protocol, link: MemoryLink, port: int) -> MemoryLink:
    """Connect a link with the protocol object of a server; ``port`` is the client's."""
    link.connection_made(MemoryTransport(server, link, port))
    return link


async def connect_by_socket(link: Link, port: int) -> Link:
    """Connect a link with a server that listens on a port."""
    await asyncio.get_running_loop().create_connection(lambda: link, "127.0.0.1", port)
    return link
