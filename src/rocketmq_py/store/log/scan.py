"""Walking the commit log record by record, believing nothing.

Knows when bytes are a whole, undamaged record, a blank end of a file, or the end of what was written. Used by recovery
and by tools that check a store. Refuses to change anything.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from zlib import crc32

import msgspec

from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.wire.record import (
    BORN_HOST_V6,
    HEAD_V4,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    STORE_HOST_V6,
    head_struct,
)  # fmt: skip

_BLOCK = 1024 * 1024
_SECTOR = 512
_SIZE_MAGIC = Struct(">ii")
_V6_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
_U16 = Struct(">H")
_COMMON = Struct(">iiIi4xqqi8x8xq8x4x8xi")
"""Of ``HEAD_V4`` what a scan looks at: size, magic, checksum, queue, both offsets, flags, store time, body length."""


class Found(msgspec.Struct, gc=False):
    """What the store wants to know of one record of the log."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class Damage(Exception):
    """Why bytes are no record; internal to the scan."""


class LogScan:
    """The records from ``start`` on, as an iterator.

    Afterwards ``end`` is where valid records end and ``reason`` why: None when nothing was written there.

    With ``until`` set, what lies there or beyond has not come yet: a record that reaches further is not whole, and no
    damage. Once more has come, iterating again goes on at ``end``.

    :param start: a place where a record begins.
    :param torn_anywhere: whether what was written may end at any byte, as the log of a slave does that was killed.
    """

    def __init__(self, log: CommitLog, start: int, *, check_crc: bool = True, torn_anywhere: bool = False) -> None:
        self._log = log
        self._check_crc = check_crc
        self._torn_anywhere = torn_anywhere
        self.end = start
        self.until: int | None = None
        self.reason: str | None = None
        self._topics: dict[bytes, str] = {}

    def __iter__(self) -> Iterator[Found]:
        start = self._log.start_at_or_before(self.end)
        while start is not None and self.end < start + self._log.file_size:
            try:
                finished = yield from self._file(start)
            except Damage as e:
                self.reason = str(e)
                return
            if finished:
                return
            start = next((s for s in self._log.starts if s > start), None)
            self.end = self._log.next_file(self.end) if start is None else start

    def _file(self, start: int) -> Generator[Found, None, bool]:
        """Records of one file; returns whether the log ends in it."""
        buffer = self._log.buffer(start)
        assert buffer is not None
        size_of_file = filled = self._log.file_size
        if self.until is not None:
            filled = min(size_of_file, self.until - start)
        position = self.end - start
        block, at = b"", 0
        while position + _SIZE_MAGIC.size <= filled:
            if at + HEAD_V4.size > len(block):
                block, at = buffer[position : min(position + _BLOCK, filled)], 0
            size, magic = _SIZE_MAGIC.unpack_from(block, at)
            if magic == MAGIC_BLANK:
                return filled < size_of_file
            if (size == 0 and magic == 0) or _size_of(size, magic, size_of_file - position) > filled - position:
                return True
            if at + size > len(block):
                block, at = buffer[position : min(position + max(_BLOCK, size), filled)], 0
            found = self._usual(block, at, start + position) or self._record(block, at, start + position)
            position += size
            at += size
            if not block[at - 1] and self.until is None and self._is_torn(found, buffer[position : position + 8]):
                raise Damage("the properties of the last record are torn")
            yield found
            self.end = start + position
        if filled < size_of_file:
            return True
        raise Damage("the file ends without a blank")

    def _is_torn(self, found: Found, following: bytes) -> bool:
        """Whether the end of a record's properties was never written, or never reached the disk.

        No checksum covers them; but then they are zero, which properties never are at their end, and so is what follows
        the record. On the disk that begins at the edge of a sector.
        """
        end = found.physical_offset + found.size
        zeros = len(found.properties) - len(found.properties.rstrip(b"\0"))
        if any(following) or not zeros or self._torn_anywhere:
            return zeros > 0 and not any(following)
        first_sector = (end - 1) // _SECTOR * _SECTOR
        return zeros >= end - first_sector and first_sector > found.physical_offset

    def _usual(self, block: bytes, at: int, physical: int) -> Found | None:
        """As :meth:`_record` in half the time; None when the record is unusual or damaged."""
        size, magic, crc, queue_id, offset, own, flags, time, length = _COMMON.unpack_from(block, at)
        body, end = at + HEAD_V4.size, at + size
        topic = body + length
        if magic != MAGIC_V1 or own != physical or flags & _V6_HOSTS or length < 0 or topic + 3 > end:
            return None
        rest = topic + 1 + block[topic]
        if rest + 2 > end or rest + 2 + (block[rest] << 8) + block[rest + 1] != end:
            return None
        name = self._topics.get(block[topic:rest])
        if name is None:
            return self._first_of_topic(block, at, physical)
        if self._check_crc and length and crc32(block[body:topic]) & 0x7FFFFFFF != crc:
            return None
        return Found(physical, size, name, queue_id, offset, flags, time, block[rest + 2 : end])

    def _first_of_topic(self, block: bytes, at: int, physical: int) -> Found:
        found = self._record(block, at, physical)
        name = found.topic.encode()
        self._topics[bytes([len(name)]) + name] = found.topic
        return found

    def _record(self, block: bytes, at: int, physical: int) -> Found:
        """The record at a place of a block that has all of the size it claims."""
        head: tuple[int, ...] = HEAD_V4.unpack_from(block, at)
        size, sys_flag, body = head[0], head[7], at + HEAD_V4.size
        if sys_flag & _V6_HOSTS:
            layout = head_struct(sys_flag)
            if size < layout.size + MIN_SIZE - HEAD_V4.size:
                raise Damage(f"a record of {size} bytes is too short for its hosts")
            head, body = layout.unpack_from(block, at), at + layout.size
        body_end = body + head[14]
        if head[14] < 0 or body_end + 3 > at + size:
            raise Damage(f"a body of {head[14]} bytes does not fit into a record of {size}")
        if head[6] != physical:
            raise Damage(f"a record says that it is at {head[6]}")
        if self._check_crc and body_end > body and crc32(block[body:body_end]) & 0x7FFFFFFF != head[2]:
            raise Damage("the checksum of a body is wrong")
        topic, properties = _tail(block, body_end, at + size, head[1])
        return Found(physical, size, topic, head[3], head[5], sys_flag, head[10], properties)


def _size_of(size: int, magic: int, room: int) -> int:
    """The size of a record that says it has it, in a file that has so much room for it."""
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise Damage(f"magic {magic & 0xFFFFFFFF:#010x} is no record's")
    if not MIN_SIZE <= size <= room:
        raise Damage(f"a record of {size} bytes cannot be here")
    return size


def _tail(block: bytes, at: int, end: int, magic: int) -> tuple[str, bytes]:
    """Topic and properties of a record, whose lengths must add up to its size."""
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    topic_end = topic_at + (block[at] if magic == MAGIC_V1 else _U16.unpack_from(block, at)[0])
    if topic_end + 2 > end or topic_end + 2 + _U16.unpack_from(block, topic_end)[0] != end:
        raise Damage("the lengths in a record do not add up to its size")
    try:
        return block[topic_at:topic_end].decode(), block[topic_end + 2 : end]
    except UnicodeDecodeError as e:
        raise Damage("a topic is no UTF-8") from e
