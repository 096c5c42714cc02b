"""gRPC over HTTP/2: messages in data frames, timeouts, status texts, and the header blocks of answers."""

from __future__ import annotations

import enum
from struct import Struct
from urllib.parse import quote

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.http2.hpack import encode_headers

CONTENT_TYPE = b"application/grpc"

_PREFIX = Struct(">BI")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MAX_DIGITS = 8
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
MAX_STATUS_TEXT = 1024
"""Longer texts are cut: clients limit the size of trailers, and the text may repeat what a client has sent."""


class GrpcStatus(enum.IntEnum):
    """How a call ended."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class MessageTooLarge(Exception):
    """A message is larger than the limit."""


class CompressedMessage(Exception):
    """A message is compressed, which this server has not offered."""


class MessageReader:
    """Collects the messages of one request from its data.

    :param max_message: limit of a message, in bytes; it is checked before the message arrives.
    """

    __slots__ = ("_kept", "_missing", "max_message")

    def __init__(self, max_message: int) -> None:
        self.max_message = max_message
        self._kept: bytearray | None = None
        self._missing = 0

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete message."""
        return 0 if self._kept is None else len(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now.

        :raises MessageTooLarge: a message exceeds the limit.
        :raises CompressedMessage: a message is compressed.
        """
        if self._kept is not None:
            self._kept += data
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data, self._kept = bytes(self._kept), None
        messages = []
        pos, end = 0, len(data)
        while end - pos >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(data, pos)
            if length > self.max_message:
                raise MessageTooLarge(f"a message of {length} bytes, {self.max_message} are allowed")
            if compressed:
                raise CompressedMessage("the message is compressed; send it with grpc-encoding identity")
            begin = pos + _PREFIX.size
            if end - begin < length:
                self._missing = length - (end - begin)
                break
            pos = begin + length
            messages.append(data[begin:pos])
        else:
            self._missing = 0
        if pos < end:
            self._kept = bytearray(data[pos:])
        return messages


def only_message(data: bytes) -> bytes | None:
    """Return the message of data that are one message and no more; None if they are not, or it is compressed."""
    size = len(data) - _PREFIX.size
    return data[_PREFIX.size :] if size >= 0 and _PREFIX.unpack_from(data) == (0, size) else None


def framed(message: bytes) -> bytes:
    """Return a message with its prefix, as it is sent in data frames."""
    return _PREFIX.pack(0, len(message)) + message


def parse_timeout(text: bytes) -> float:
    """Return the seconds of a ``grpc-timeout``.

    :raises CorruptFrame: it is no timeout.
    """
    digits, unit = text[:-1], text[-1:]
    if not digits.isdigit() or len(digits) > _MAX_DIGITS or unit not in _SECONDS:
        raise CorruptFrame(f"grpc-timeout {text[:20]!r} is no time")
    return int(digits) * _SECONDS[unit]


RESPONSE_HEADERS = encode_headers([(b":status", b"200"), (b"content-type", CONTENT_TYPE)])
"""The header block before the messages of an answer."""

OK_TRAILERS = encode_headers([(b"grpc-status", b"0")])
"""The header block after the messages of an answer."""


def trailers(status: GrpcStatus, text: str = "") -> bytes:
    """Return the header block that ends an answer."""
    return encode_headers(_status(status, text))


def trailers_only(status: GrpcStatus, text: str) -> bytes:
    """Return the header block of an answer without messages."""
    return encode_headers([(b":status", b"200"), (b"content-type", CONTENT_TYPE), *_status(status, text)])


def http_error(status: int) -> bytes:
    """Return the header block that answers a request which is no call of gRPC."""
    return encode_headers([(b":status", b"%d" % status)])


def _status(status: GrpcStatus, text: str) -> list[tuple[bytes, bytes]]:
    headers = [(b"grpc-status", b"%d" % status)]
    if text:
        headers.append((b"grpc-message", quote(text[:MAX_STATUS_TEXT], safe=_PRINTABLE, errors="replace").encode()))
    return headers
