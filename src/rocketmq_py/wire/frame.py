"""Frames of the remoting protocol: splitting a byte stream into frames, and building frames.

A frame is ``length 4 | serialize type 1 + header length 3 | header | body`` (big-endian; the length is the number of
bytes after the length field).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import Generic, TypeVar

import msgspec

from rocketmq_py.accelerator import Accelerator, SendRun, Telling
from rocketmq_py.errors import CorruptFrame

MAX_FRAME = 16 * 1024 * 1024
"""Java's default limit for the length of a frame, in bytes (``com.rocketmq.remoting.frameMaxLength``)."""

JSON = 0
ROCKETMQ = 1

_LENGTHS = Struct(">II")
_unpack_lengths = _LENGTHS.unpack_from
pack_lengths = _LENGTHS.pack
HEAD_SIZE = _LENGTHS.size
"""Number of bytes of a frame before its header."""


class Frame(msgspec.Struct, gc=False):
    """One undecoded frame: serialize type of the header (0 JSON, 1 ROCKETMQ), header and body."""

    serialize_type: int
    header: bytes
    body: bytes


def encode_frame(header: bytes, body: bytes = b"", serialize_type: int = JSON) -> bytes:
    """Build the bytes of one frame."""
    size = len(header)
    return pack_lengths(4 + size + len(body), serialize_type << 24 | size) + header + body


Item = TypeVar("Item")


class StreamDecoder(ABC, Generic[Item]):
    """Base of decoders that split the bytes read from a socket into items, such as frames.

    The bytes of an incomplete frame are kept for the next call.

    :param max_frame: limit in bytes of a frame after its length field. A larger length raises CorruptFrame before
        memory is allocated for the frame.
    """

    __slots__ = ("_kept", "_missing", "max_frame")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._kept = bytearray()
        self._missing = 0

    @property
    def buffered(self) -> int:
        """Number of bytes of the incomplete frame at the end of the stream."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[Item]:
        """Decode the next bytes of the stream; return the items completed by them, in order.

        :raises CorruptFrame: the stream is corrupt; close the connection.
        """
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._missing:
                return []
            data = bytes(kept)
            kept.clear()
        items: list[Item] = []
        rest = self._cut(data, items)
        if rest < len(data):
            kept += memoryview(data)[rest:]
        return items

    @abstractmethod
    def _cut(self, data: bytes, items: list[Item]) -> int:
        """Append the items of ``data`` to ``items``; return the position of the first unused byte."""

    def _corrupt(self, length: int, header_length: int) -> CorruptFrame:
        if length > self.max_frame:
            return CorruptFrame(
                f"a frame of {length} bytes is announced, the limit is {self.max_frame}: not a RocketMQ peer, or a "
                "message larger than the frame limit"
            )
        return CorruptFrame(f"header length {header_length} does not fit into a frame of {length} bytes")


class FrameDecoder(StreamDecoder[Frame]):
    """Splits a stream into frames."""

    __slots__ = ()

    def _cut(self, data: bytes, items: list[Frame]) -> int:
        position, size = 0, len(data)
        self._missing = 8
        while size - position >= 8:
            length, packed = _unpack_lengths(data, position)
            header_length = packed & 0xFFFFFF
            if length > self.max_frame or header_length > length - 4 or length < 4:
                raise self._corrupt(length, header_length)
            end = position + 4 + length
            if end > size:
                self._missing = end - position
                break
            body = position + 8 + header_length
            items.append(Frame(packed >> 24, data[position + 8 : body], data[body:end]))
            position = end
        return position


class RunDecoder(StreamDecoder[Frame | SendRun]):
    """Splits a stream into frames and :class:`~rocketmq_py.accelerator.SendRun`\\ s, with the accelerator.

    :param max_frame: see :class:`StreamDecoder`.
    :param overtaken: codes of one-way requests that come after the sends around them, so that these are one run.
    :param telling: the properties by which sends are told apart; None for all.
    """

    __slots__ = ("_cut_read", "_overtaken", "_telling")

    def __init__(
        self, max_frame: int, accelerator: Accelerator, overtaken: Sequence[int] = (),
        telling: Telling = None,
    ) -> None:  # fmt: skip
        super().__init__(max_frame)
        self._cut_read = accelerator.cut_read
        self._overtaken = overtaken
        self._telling = telling

    def _cut(self, data: bytes, items: list[Frame | SendRun]) -> int:
        read = bytes(data)
        found, position, self._missing, fault = self._cut_read(
            read, self.max_frame, Frame, self._overtaken, self._telling
        )
        if fault is not None:
            raise self._corrupt(*fault)
        items += found
        return position
