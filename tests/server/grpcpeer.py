"""A plain socket that speaks gRPC, for calls that no client makes."""

from __future__ import annotations

import socket
import ssl
from collections import defaultdict
from types import TracebackType
from typing import Self, TypeVar

from rocketmq_py.protocol.grpc.definition import FilterExpression, Resource, Settings, Subscription, SubscriptionEntry
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.service import SERVICE, StatusResponse, TelemetryCommand
from rocketmq_py.wire.grpc import MessageReader, framed
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.hpack import Headers, HpackDecoder, encode_headers
from rocketmq_py.wire.protobuf import ProtoMessage

M = TypeVar("M", bound=ProtoMessage)

SECONDS = 240.0
WINDOW = 2**31 - 1


class GrpcPeer:
    """One connection: ``with GrpcPeer("127.0.0.1:10911") as peer``.

    :param window: how much the server may send in a stream.
    """

    def __init__(self, address: str, client_id: str = "raw", *, tls: ssl.SSLContext | None = None, window: int = WINDOW,
                 **metadata: str) -> None:  # fmt: skip
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._hpack = HpackDecoder(1 << 20)
        self._rest = b""
        self._next = 1
        self.metadata = {
            "x-mq-client-id": client_id,
            "x-mq-client-version": "5.1.0",
            "x-mq-language": "OTHER",
            **metadata,
        }
        self.headers: defaultdict[int, list[Headers]] = defaultdict(list)
        self.messages: defaultdict[int, list[bytes]] = defaultdict(list)
        self.readers: defaultdict[int, MessageReader] = defaultdict(lambda: MessageReader(1 << 26))
        self.ended: dict[int, str] = {}
        self.goaway: tuple[int, str] | None = None
        self.send(frames.PREFACE + frames.settings({frames.SETTING_WINDOW: window}))
        if window == WINDOW:
            self.send(frames.window_update(0, WINDOW - 65_535))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def open(self, method: str, *, timeout: str = "", **more: str) -> int:
        """The number of a new call of a method."""
        stream, self._next = self._next, self._next + 2
        metadata = self.metadata | {name.replace("_", "-"): value for name, value in more.items()}
        headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", f"/{SERVICE}/{method}".encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *((name.encode(), value.encode()) for name, value in metadata.items() if value),
            *([(b"grpc-timeout", timeout.encode())] if timeout else []),
        ]
        self.send(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, encode_headers(headers)))
        return stream

    def tell(self, stream: int, message: ProtoMessage | bytes, *, is_end: bool = False) -> None:
        """Send a message in a call."""
        raw = framed(message if isinstance(message, bytes) else message.encode())
        pieces = [raw[at : at + 16_384] for at in range(0, len(raw), 16_384)]
        for number, piece in enumerate(pieces, 1):
            self.send(frames.frame(frames.DATA, frames.END_STREAM * (is_end and number == len(pieces)), stream, piece))

    def begin(self, method: str, request: ProtoMessage | bytes, *, timeout: str = "", **more: str) -> int:
        stream = self.open(method, timeout=timeout, **more)
        self.tell(stream, request, is_end=True)
        return stream

    def call(self, method: str, request: ProtoMessage, response: type[M], **more: str) -> M:
        """The only message of the answer."""
        [found] = self.call_stream(method, request, response, **more)
        return found

    def call_stream(self, method: str, request: ProtoMessage, response: type[M], **more: str) -> list[M]:
        """All messages of the answer."""
        stream = self.begin(method, request, **more)
        assert self.end_of(stream) == "0"
        return [response.decode(message) for message in self.messages[stream]]

    def status(self, method: str, request: ProtoMessage, **more: str) -> int:
        """The code of the response."""
        found = self.call(method, request, StatusResponse, **more).status
        assert found is not None
        return found.code

    def end_of(self, stream: int) -> str:
        """How a call ended: the status of gRPC, the status of HTTP, or ``reset CODE``."""
        while stream not in self.ended:
            self.read()
        return self.ended[stream]

    def next_message(self, stream: int) -> bytes:
        while not self.messages[stream]:
            assert stream not in self.ended, self.ended
            self.read()
        return self.messages[stream].pop(0)

    def read(self) -> None:
        """Handle what arrives next; an assertion fails when the connection ends."""
        data = self.socket.recv(1 << 20)
        assert data or self.goaway, "the connection was closed"
        if not data:
            raise EOFError(self.goaway)
        data = self._rest + data
        while len(data) >= 9:
            head, flags, stream = frames.unpack_head(data)
            length = head >> 8
            if len(data) < 9 + length:
                break
            self._frame(head & 0xFF, flags, stream, data[9 : 9 + length])
            data = data[9 + length :]
        self._rest = data

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.HEADERS:
            self.headers[stream].append(self._hpack.decode(payload))
        elif kind == frames.DATA:
            self.messages[stream] += self.readers[stream].feed(payload)
        elif kind == frames.RST_STREAM:
            self.ended.setdefault(stream, f"reset {frames.unpack_u32(payload)[0]}")
        elif kind == frames.GOAWAY:
            self.goaway = frames.unpack_u32(payload, 4)[0], payload[8:].decode()
        if kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM:
            last = dict(self.headers[stream][-1])
            self.ended[stream] = last.get(b"grpc-status", last.get(b":status", b"")).decode()

    def wait_for_goaway(self) -> tuple[int, str]:
        while self.goaway is None:
            self.read()
        return self.goaway

    def text_of(self, stream: int) -> str:
        """The status text of an ended call."""
        return dict(self.headers[stream][-1])[b"grpc-message"].decode()

    # -- what clients do first

    def configure(self, settings: Settings) -> tuple[int, Settings]:
        """Open the telemetry stream; its number, and the settings of the server."""
        stream = self.open("Telemetry")
        self.tell(stream, TelemetryCommand(settings=settings))
        answer = TelemetryCommand.decode(self.next_message(stream))
        assert answer.status is not None
        assert answer.status.code == Code.OK
        assert answer.settings is not None
        return stream, answer.settings

    def consume(
        self, topic: str, group: str, expression: str = "*", client_type: int = ClientType.SIMPLE_CONSUMER
    ) -> int:
        """Configure a consumer."""
        entry = SubscriptionEntry(
            topic=Resource(name=topic), expression=FilterExpression(type=1, expression=expression)
        )
        subscription = Subscription(group=Resource(name=group), subscriptions=[entry])
        return self.configure(Settings(client_type=client_type, subscription=subscription))[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
