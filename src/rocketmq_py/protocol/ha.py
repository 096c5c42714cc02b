"""The protocol of replication: a slave reports the end of its commit log, the master sends the bytes that follow.

These messages are not requests and responses; after connecting, each side sends independently of the other. Layout:
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
"""Encode a slave's report, given the end of its commit log. The master starts to send at the offset of a connection's
first report; 0 means that the slave's log is empty.
"""
pack_header = _HEADER.pack
"""Encode the header of a master's frame, given log offset and number of bytes that follow; 0 bytes are a heartbeat."""


class ReportReader:
    """Decodes the stream of a slave's reports."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Decode received bytes; return the latest reported offset, None if they complete no report.

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
    """Bytes of the master's commit log, which begin at ``offset``; empty for a heartbeat."""

    offset: int
    data: memoryview


class PieceReader:
    """Decodes the stream of a master's frames.

    It yields the bytes of a frame as they arrive, without collecting the whole frame, so its use of memory does not
    depend on the size of frames.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._offset = self._left = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Decode received bytes; yield the log bytes in them, with their offsets, as views of ``data``.

        :raises CorruptFrame: the header of a frame is invalid.
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
        """Decode the collected header of a frame; return the number of log bytes that follow it.

        :raises CorruptFrame: the header is invalid.
        """
        self._offset, self._left = _HEADER.unpack(self._header)
        self._header.clear()
        if self._offset < 0 or self._left < 0:
            raise CorruptFrame(
                f"{self._left} bytes of the log at {self._offset} cannot be: is that a master's HA port?"
            )
        return self._left
