"""Records that another broker with the same commit log has, as pieces that fill a gap of this log."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import SIZE_MAGIC, Damage, Found, parse_record
from rocketmq_py.wire.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_SIZE, QUEUE_ID_AT, QUEUE_OFFSET_AT


class Piece(NamedTuple):
    """A record that a replica has; ``found`` is None for the blank record, which goes on to the end of its file."""

    begin: int
    end: int
    data: bytes
    found: Found | None


def has_room(log: CommitLog, at: int) -> bool:
    """Return whether a record can begin at an offset of the log; else the file ends there with a blank record."""
    room = log.next_file(at) - at
    return not SIZE_MAGIC.size <= room < MIN_SIZE + SIZE_MAGIC.size


def blank_piece(log: CommitLog, at: int) -> Piece:
    """The blank record from an offset of the log to the end of its file."""
    end = log.next_file(at)
    return Piece(at, end, SIZE_MAGIC.pack(end - at, MAGIC_BLANK), None)


def parse_piece(log: CommitLog, at: int, end: int | None, data: bytes) -> Piece | None:
    """Return what a replica has at an offset of its log; None if that is no whole record that fits there.

    :param end: where the gap ends, None if it has no end.
    """
    file_end = log.next_file(at)
    if len(data) < SIZE_MAGIC.size:
        return None
    size, magic = SIZE_MAGIC.unpack_from(data)
    if magic == MAGIC_BLANK:
        return Piece(at, file_end, data[: SIZE_MAGIC.size], None) if at + size == file_end else None
    if magic not in (MAGIC_V1, MAGIC_V2) or size < MIN_SIZE or size != len(data):
        return None
    if at + size > min(end or file_end, file_end - SIZE_MAGIC.size):
        return None
    try:
        return Piece(at, at + size, data, parse_record(data, 0, at))
    except Damage:
        return None


def is_same(piece: Piece, own: bytes) -> bool:
    """Return whether a record of a replica is that of this log, properties apart.

    No checksum covers properties: the damage of a log can begin in those of the record before it.
    """
    if piece.found is None:
        return False
    checked = -len(piece.found.properties) or None
    return piece.data[:checked] == own[:checked]


def mends_head(piece: Piece, own: bytes, queue_id: int, queue_offset: int) -> bool:
    """Return whether a record of a replica has this place, and differs from that of this log in its place at most."""
    found = piece.found
    if found is None or (found.queue_id, found.queue_offset) != (queue_id, queue_offset):
        return False
    return _without_place(piece.data) == _without_place(own)


def _without_place(record: bytes) -> tuple[bytes, bytes, bytes]:
    return record[:QUEUE_ID_AT], record[QUEUE_ID_AT + 4 : QUEUE_OFFSET_AT], record[QUEUE_OFFSET_AT + 8 :]
