"""Frames of log replication: a slave reports its log end, its master sends the bytes that follow.

These are not requests and responses: after connecting, each side sends when it has something to send. Layout:
DefaultHAConnection, DefaultHAClient.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from rocketmq_py.errors import CorruptFrame

_REPORT = Struct(">q")
_HEADER = Struct(">qi")

pack_report = _REPORT.pack
"""Encode a slave's report of its log end. The first report of a connection asks for the bytes from there; 0 means that
the log is empty.
"""
pack_header = _HEADER.pack
"""Encode the header of a frame of the master: log offset and number of bytes that follow. 0 bytes are a heartbeat."""


class ReportReader:
    """Decoder of a slave's reports."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Return the newest reported offset; None if no report is complete yet.

        :raises CorruptFrame: an offset is negative.
        """
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        offset: int = _REPORT.unpack_from(data, whole - _REPORT.size)[0]
        if offset < 0:
            raise CorruptFrame(f"a slave reports that its log ends at {offset}")
        return offset


class Piece(NamedTuple):
    """Bytes of the master's log from ``offset`` on; empty for a heartbeat."""

    offset: int
    data: memoryview


class PieceReader:
    """Decoder of the frames a master sends.

    It yields the bytes of a frame as they arrive instead of collecting the frame, so memory does not depend on frame
    sizes.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._offset = self._left = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield the pieces in ``data``; they are views of it.

        :raises CorruptFrame: a header is invalid.
        """
        view = memoryview(data)
        while view:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
            else:
                missing = _HEADER.size - len(self._header)
                self._header += view[:missing]
                view = view[missing:]
                if len(self._header) < _HEADER.size:
                    return
                if self._begin():
                    continue
                piece = view[:0]
            yield Piece(self._offset, piece)
            self._offset += len(piece)
            self._left -= len(piece)

    def _begin(self) -> int:
        """Decode the header; return the number of bytes that follow it."""
        self._offset, self._left = _HEADER.unpack(self._header)
        self._header.clear()
        if self._offset < 0 or self._left < 0:
            raise CorruptFrame(
                f"{self._left} bytes of the log at {self._offset} cannot be: is that a master's HA port?"
            )
        return self._left
