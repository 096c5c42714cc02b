"""The frames of replication: a slave reports where its log ends, its master sends the bytes from there on.

They are no requests and answers: after the connection is made each side sends when it has something to say. Knows the
bytes (DefaultHAConnection, DefaultHAClient). Refuses to know what the bytes of a log are.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from rocketmq_py.errors import CorruptFrame

_REPORT = Struct(">q")
_HEADER = Struct(">qi")

pack_report = _REPORT.pack
"""A slave's log ends at this offset; as the first frame of a connection: send from here, 0 says that it is empty."""
pack_header = _HEADER.pack
"""So many bytes of the log follow, from this offset on; none is a heartbeat."""


class ReportReader:
    """What a slave reports, out of bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """The newest offset reported; None when no report is whole yet.

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
    """Bytes of the master's log from ``offset`` on; a heartbeat has none."""

    offset: int
    data: memoryview


class PieceReader:
    """The bytes of a master's log, out of what it sends.

    A frame is not waited for: what has come of it is a piece of its own, so that no size of frame needs room.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._offset = self._left = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces in what has come; they are views of it.

        :raises CorruptFrame: a header makes no sense.
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
        """Take the header; how many bytes follow it."""
        self._offset, self._left = _HEADER.unpack(self._header)
        self._header.clear()
        if self._offset < 0 or self._left < 0:
            raise CorruptFrame(
                f"{self._left} bytes of the log at {self._offset} cannot be: is that a master's HA port?"
            )
        return self._left
