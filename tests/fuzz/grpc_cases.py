"""Calls of gRPC and frames of HTTP/2, most of them wrong in one place, made from a seed and a number."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, NamedTuple

from rocketmq_py.protocol.grpc import service
from rocketmq_py.wire.grpc import framed
from rocketmq_py.wire.http2 import frames
from rocketmq_py.wire.http2.hpack import encode_headers
from rocketmq_py.wire.protobuf import ProtoMessage
from tests.fuzz.frames import flipped

METHODS: dict[str, type[ProtoMessage]] = {
    "QueryRoute": service.QueryRouteRequest,
    "QueryAssignment": service.QueryAssignmentRequest,
    "Telemetry": service.TelemetryCommand,
    "SendMessage": service.SendMessageRequest,
    "ReceiveMessage": service.ReceiveMessageRequest,
    "AckMessage": service.AckMessageRequest,
    "ChangeInvisibleDuration": service.ChangeInvisibleDurationRequest,
    "ForwardMessageToDeadLetterQueue": service.ForwardMessageToDeadLetterQueueRequest,
    "EndTransaction": service.EndTransactionRequest,
    "RecallMessage": service.RecallMessageRequest,
    "Heartbeat": service.HeartbeatRequest,
    "NotifyClientTermination": service.NotifyClientTerminationRequest,
    "SyncLiteSubscription": service.StatusResponse,
    "PullMessage": service.StatusResponse,
}
HOLDING = "ReceiveMessage"
"""Its calls are answered after seconds."""
STREAM = "Telemetry"
"""Its calls last as long as their clients."""

SETTINGS = (
    frames.PREFACE
    + frames.frame(
        frames.SETTINGS, 0, 0, frames.SETTING_WINDOW.to_bytes(2, "big") + frames.MAX_WINDOW.to_bytes(4, "big")
    )
    + frames.frame(frames.WINDOW_UPDATE, 0, 0, (frames.MAX_WINDOW - frames.DEFAULT_WINDOW).to_bytes(4, "big"))
)
"""What a client sends first; it takes answers of any size."""

_TEXTS = ("", "t", "u", "%RETRY%g", "TBW102", "g", "a\0b", "\N{SNOWMAN}", "x" * 300, "../..", "*", "A || B", "k1 k2",
          "0 0 60000 0 0 broker-0 0 0 0", "127.0.0.1")  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 4, 5, 16, 32, 127, 128, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000)
_NEXT_DEEPEST = 3


class GrpcCase(NamedTuple):
    """Bytes of a client.

    :ivar calls: the method of the call that they begin, by its stream; empty if they need not be answered.
    :ivar breaks: the server may close the connection.
    """

    data: bytes
    calls: dict[int, str]
    breaks: bool


class Draft:
    """A call before it is encoded."""

    def __init__(self, stream_id: int, chance: random.Random) -> None:
        self.stream_id, self.chance = stream_id, chance
        self.method = chance.choice(tuple(METHODS))
        self.message = plausible(METHODS[self.method], chance).encode()
        self.headers = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"b"),
            (b":path", f"/{service.SERVICE}/{self.method}".encode()), (b"te", b"trailers"),
            (b"content-type", b"application/grpc"), (b"x-mq-client-id", b"c%d" % chance.randrange(4)),
            (b"x-mq-language", b"JAVA"), (b"grpc-timeout", chance.choice((b"30S", b"6000m", b"1H"))),
        ]  # fmt: skip
        self.is_cancelled = False
        self.breaks = False

    def framed(self) -> bytes:
        return framed(self.message)

    def encode(self, data: bytes | None = None) -> bytes:
        """The frames of the call, padded and continued by chance."""
        block, stream_id = encode_headers(self.headers), self.stream_id
        data = self.framed() if data is None else data
        cut = self.chance.randrange(len(block)) if self.chance.random() < 0.2 else len(block)
        parts = [frames.frame(frames.HEADERS, 0 if cut < len(block) else frames.END_HEADERS, stream_id, block[:cut])]
        if cut < len(block):
            parts.append(frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream_id, block[cut:]))
        last = 0 if self.method == STREAM or self.is_cancelled else frames.END_STREAM
        size = self.chance.choice((frames.MAX_FRAME_SIZE, 7)) if len(data) < 500 else frames.MAX_FRAME_SIZE
        pieces = [data[pos : pos + size] for pos in range(0, len(data), size)] or [b""]
        for piece in pieces:
            flags = last if piece is pieces[-1] else 0
            if self.chance.random() < 0.1 and len(piece) < frames.MAX_FRAME_SIZE - 9:
                parts.append(frames.frame(frames.DATA, flags | frames.PADDED, stream_id, b"\x08" + piece + bytes(8)))
            else:
                parts.append(frames.frame(frames.DATA, flags, stream_id, piece))
        if self.is_cancelled:
            parts.append(frames.frame(frames.RST_STREAM, 0, stream_id, bytes(3) + b"\x08"))
        return b"".join(parts)


def plausible(kind: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return a value of a field's type, or a message of a class, with texts and numbers that servers look at."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin in (UnionType, typing.Union):
        [inner] = [one for one in of if one is not NoneType]
        is_deep = depth > _NEXT_DEEPEST or chance.random() < 0.3
        return None if is_deep else plausible(inner, chance, depth)
    if origin is list:
        return [plausible(of[0], chance, depth + 1) for _ in range(chance.choice((0, 1, 1, 2, 9)))]
    if origin is dict:
        return {chance.choice(_TEXTS): chance.choice(_TEXTS) for _ in range(chance.randrange(3))}
    if isinstance(kind, type) and issubclass(kind, ProtoMessage):
        hints = typing.get_type_hints(kind)
        return kind(**{name: plausible(hints[name], chance, depth + 1) for name in kind.__struct_fields__})
    return {
        str: lambda: chance.choice(_TEXTS), bytes: lambda: chance.randbytes(chance.choice((0, 1, 40))),
        float: lambda: chance.choice((0.0, 2.0, -1.0, float("inf"))), bool: lambda: chance.random() < 0.5,
    }.get(kind, lambda: chance.choice(_NUMBERS))()  # fmt: skip


# -- what is wrong with a call


def _bytes_flipped(draft: Draft) -> bytes:
    draft.message = flipped(draft.message, draft.chance)
    return draft.encode()


def _message_cut(draft: Draft) -> bytes:
    draft.message = draft.message[: draft.chance.randrange(len(draft.message) + 1)]
    return draft.encode()


def _field_of_a_bomb(draft: Draft) -> bytes:
    """A message in a message in a message, or a field that says that it is longer than all."""
    inner = b""
    for _ in range(draft.chance.choice((1, 30, 400))):
        inner = b"\x0a" + _varint(len(inner)) + inner
    draft.message += draft.chance.choice((inner, b"\x0a\xff\xff\xff\xff\x7f", b"\x0a" + b"\xff" * 11, b"\x07", b"\0"))
    return draft.encode()


def _frame_of_message(draft: Draft) -> bytes:
    """The five bytes before a message."""
    framed = draft.framed()
    head = draft.chance.choice(
        (b"\x01" + framed[1:5], b"\xff" + framed[1:5], b"\0\xff\xff\xff\xff", b"\0\0\0\0\0", b"")
    )
    return draft.encode(head + framed[5:])


def _two_messages(draft: Draft) -> bytes:
    return draft.encode(draft.framed() * 2)


def _no_message(draft: Draft) -> bytes:
    return draft.encode(b"")


def _header(draft: Draft) -> bytes:
    chance, headers = draft.chance, draft.headers
    what = chance.randrange(5)
    if what == 0:
        headers.pop(chance.randrange(len(headers)))
    elif what == 1:
        headers.append(headers[chance.randrange(len(headers))])
    elif what == 2:
        place = chance.randrange(len(headers))
        headers[place] = headers[place][0], flipped(headers[place][1], chance)
    elif what == 3:
        values = (b"0n", b"99999999H", b"abc", b"-1S", b"", b"999999999S", b"1u")
        headers[-1] = b"grpc-timeout", chance.choice(values)
    else:
        auth = (b"MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=zz", b"Basic x", b"\xff")
        headers.append((b"authorization", chance.choice(auth)))
    draft.breaks = True  # HTTP/2 asks for some headers, and forbids some
    return draft.encode()


def _many_headers(draft: Draft) -> bytes:
    draft.headers += [(b"x-%d" % number, b"v" * 400) for number in range(draft.chance.choice((5, 20, 35)))]
    draft.breaks = True
    block = encode_headers(draft.headers)
    return frames.frame(frames.HEADERS, frames.END_HEADERS, draft.stream_id, block[: frames.MAX_FRAME_SIZE])


def _cancelled(draft: Draft) -> bytes:
    draft.is_cancelled = True
    return draft.encode()


# -- what is wrong with frames


def _frames_flipped(draft: Draft) -> bytes:
    draft.breaks = True
    return flipped(draft.encode(), draft.chance)


def _frame_lengths(draft: Draft) -> bytes:
    draft.breaks = True
    data = bytearray(draft.encode())
    data[:3] = draft.chance.choice((0, 1, len(data), 16_385, 2**24 - 1)).to_bytes(3, "big")
    return bytes(data)


def _other_frames(draft: Draft) -> bytes:
    draft.breaks = True
    chance = draft.chance
    return b"".join(
        frames.frame(chance.randrange(12), chance.choice((0, 1, 4, 5, 8, 0x20, 0xFF)),
                     chance.choice((0, draft.stream_id, draft.stream_id + 1, 1, 2**31 - 1)),
                     chance.randbytes(chance.choice((0, 1, 4, 6, 8, 30))))
        for _ in range(chance.choice((1, 3, 50)))
    ) + draft.encode()  # fmt: skip


def _header_block(draft: Draft) -> bytes:
    draft.breaks = True
    block = flipped(encode_headers(draft.headers), draft.chance)
    return frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, draft.stream_id, block)


_IN_CALLS: tuple[Callable[[Draft], bytes], ...] = (
    Draft.encode, Draft.encode, _bytes_flipped, _message_cut, _field_of_a_bomb, _frame_of_message, _two_messages,
    _no_message, _header, _many_headers, _cancelled,
)  # fmt: skip
_IN_FRAMES: tuple[Callable[[Draft], bytes], ...] = (_frames_flipped, _frame_lengths, _other_frames, _header_block)


def make_grpc_case(seed: int, number: int) -> GrpcCase:
    """Return the bytes of a number; the numbers of streams grow with it, on any connection."""
    chance = random.Random(f"grpc {seed} {number}")
    draft = Draft(2 * number + 1, chance)
    data = chance.choice(_IN_FRAMES if chance.random() < 0.15 else _IN_CALLS)(draft)
    is_answered = not (draft.breaks or draft.is_cancelled or draft.method == STREAM)
    return GrpcCase(data, {draft.stream_id: draft.method} if is_answered else {}, draft.breaks)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
