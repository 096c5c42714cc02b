"""Frames of HTTP/2 (RFC 9113): types, flags, error codes, and building frames."""

from __future__ import annotations

import enum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every client."""

HEAD_SIZE = 9
MAX_FRAME_SIZE = 16_384
"""The largest frame payload that both sides accept unless SETTINGS allow more; this server does not."""
MAX_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65_535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

SETTING_ENABLE_PUSH, SETTING_MAX_STREAMS, SETTING_WINDOW, SETTING_FRAME_SIZE, SETTING_HEADER_LIST = 2, 3, 4, 5, 6

_U32 = Struct(">I")
_SETTING = Struct(">HI")
_GOAWAY = Struct(">II")
_HEAD = Struct(">IBI")  # the first number is length << 8 | type
unpack_u32 = _U32.unpack_from
unpack_head = _HEAD.unpack_from
iter_settings = _SETTING.iter_unpack


class ErrorCode(enum.IntEnum):
    """Why a stream or connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def whole_answer(stream_id: int, head: bytes, data: bytes, tail: bytes) -> bytes:
    """Return three frames: a header block, data, and the header block that ends the stream."""
    return b"".join((
        _HEAD.pack(len(head) << 8 | HEADERS, END_HEADERS, stream_id), head,
        _HEAD.pack(len(data) << 8 | DATA, 0, stream_id), data,
        _HEAD.pack(len(tail) << 8 | HEADERS, END_HEADERS | END_STREAM, stream_id), tail,
    ))  # fmt: skip


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Return a frame that ends a stream."""
    return frame(RST_STREAM, 0, stream_id, _U32.pack(code))


def window_update(stream_id: int, size: int) -> bytes:
    """Return a frame that lets the other side send ``size`` bytes more, in a stream or (0) in the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(size))


def goaway(last_stream: int, code: ErrorCode, why: str = "") -> bytes:
    """Return a frame that announces the end of the connection; streams after ``last_stream`` were not handled."""
    return frame(GOAWAY, 0, 0, _GOAWAY.pack(last_stream, code) + why.encode())


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(name, value) for name, value in values.items()))
