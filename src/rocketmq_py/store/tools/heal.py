"""Records that a damaged commit log lacks, read from a broker that has the same log: a slave, or the master.

Both brokers have each record at the same offset of the log, so the records between two whole ones are found by reading
one after the other. A record is taken only if its sizes, its own offset and the checksum of its body are right, and if
it is the one that the consume queue expects there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rocketmq_py.errors import StoreError
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.pieces import Piece, blank_piece, has_room, is_same, parse_piece
from rocketmq_py.store.log.scan import Found

Read = Callable[[int], bytes | None]
"""Returns what a replica has at an offset of its log: a record, or the blank record at the end of a file; or None."""


class Part(NamedTuple):
    """Bytes of the log, within one file, that are taken from a replica."""

    begin: int
    end: int
    records: int


class Replica:
    """Reads the records of a gap from another broker.

    :param log: the damaged log.
    :param expects: returns whether a record can be the one that the consume queue has at its offset.
    """

    def __init__(self, log: CommitLog, read: Read, expects: Callable[[Found], bool] = lambda _: True) -> None:
        self._log = log
        self._read = read
        self._expects = expects

    def same(self, neighbours: Sequence[tuple[int, int]]) -> list[int]:
        """Return the offsets of those whole records of this log that the replica has, too: it is a copy of it.

        :param neighbours: offset and size of each.
        :raises StoreError: the replica has other records there.
        """
        found = []
        for begin, size in neighbours:
            piece, own = self._piece(begin, None), self._log.read(begin, size)
            if piece is None or piece.found is None or own is None:
                continue
            if not is_same(piece, own):
                raise StoreError(f"the replica has another record at {begin} of the commit log: it is of another log")
            found.append(begin)
        return found

    def differs(self, begin: int, size: int) -> bool:
        """Return whether the replica has a record with other properties than this log, where damage follows."""
        piece = self._piece(begin, None)
        return piece is not None and piece.data != self._log.read(begin, size)

    def pieces(self, begin: int, end: int | None, starts: Sequence[int] = ()) -> Iterator[Piece]:
        """Read the records from ``begin`` to ``end``; None reads on to the end of the replica's log.

        :param starts: offsets at which records begin, to go on behind what the replica does not have, either.
        """
        at: int | None = begin
        while at is not None and (end is None or at < end):
            piece = self._piece(at, end)
            if piece is not None:
                yield piece
            at = piece.end if piece is not None else min((start for start in starts if start > at), default=None)

    def _piece(self, at: int, end: int | None) -> Piece | None:
        data = self._read(at) or b""
        if not has_room(self._log, at) and (end is not None or self._read(self._log.next_file(at))):
            return blank_piece(self._log, at)  # brokers may not send the blank record
        piece = parse_piece(self._log, at, end, data)
        return None if piece is None or (piece.found is not None and not self._expects(piece.found)) else piece


def parts(pieces: Iterable[Piece]) -> Iterator[Part]:
    """Join pieces that follow each other in a file; a blank record is the last piece of its file."""
    joined: Part | None = None
    for piece in pieces:
        if joined is not None and piece.begin != joined.end:
            yield joined
            joined = None
        begin, _, records = joined or Part(piece.begin, piece.end, 0)
        joined = Part(begin, piece.end, records + (piece.found is not None))
        if piece.found is None:
            yield joined
            joined = None
    if joined is not None:
        yield joined
