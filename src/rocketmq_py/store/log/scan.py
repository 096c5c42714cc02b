"""Scan of the commit log, record by record, with validation.

The scan distinguishes valid records, the blank record at the end of a file, the end of the written part, and damage. It
is used by recovery, by replication and by the offline tools, and it changes nothing.
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

_MOST_SEARCHED = 8 * 1024 * 1024
"""Bytes that are searched for records where a scan met zeros: of its file, and at the begin of each later file."""
_BLOCK = 1024 * 1024
_SECTOR = 512
_MAX_TOPICS = 16 * 1024
"""Maximum number of decoded topic names kept by a scan: a master or a damaged log can have any number of them."""
SIZE_MAGIC = Struct(">ii")
"""The first two fields of each record, also of a blank one."""
_V6_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
_U16 = Struct(">H")
_COMMON = Struct(">iiIi4xqqi8x8xq8x4x8xi")
"""The fields of ``HEAD_V4`` that a scan needs: size, magic, CRC, queue id, both offsets, flags, store timestamp, body
length."""


class Found(msgspec.Struct, gc=False):
    """A record that a scan has found: the fields that consume queues and index need."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class Damage(Exception):
    """The reason why bytes are not a valid record; internal to the scan."""


class LogScan:
    """Iterator over the records of the log from ``start`` on.

    After the iteration ``end`` is the offset after the last valid record, and ``reason`` the damage found there, or
    None if nothing was written there.

    ``until`` limits the scan to bytes that have been received: a record that extends beyond it is incomplete, not
    damaged. When more bytes have been received, a new iteration continues at ``end``.

    :param start: offset at which a record begins.
    :param check_crc: whether to verify the CRC of each body.
    :param torn_anywhere: whether the written part can end at any byte, as in the log of a slave that was killed.
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
        """Yield the records of the file that begins at ``start``; the generator returns True if the log ends in it."""
        buffer = self._log.buffer(start)
        assert buffer is not None
        size_of_file = filled = self._log.file_size
        if self.until is not None:
            filled = min(size_of_file, self.until - start)
        position = self.end - start
        block, at = b"", 0
        while position + SIZE_MAGIC.size <= filled:
            if at + HEAD_V4.size > len(block):
                block, at = buffer[position : min(position + _BLOCK, filled)], 0
            size, magic = SIZE_MAGIC.unpack_from(block, at)
            if magic == MAGIC_BLANK:
                return filled < size_of_file
            if (size == 0 and magic == 0) or _size_of(size, magic, size_of_file - position) > filled - position:
                return True
            if at + size > len(block):
                block, at = buffer[position : min(position + max(_BLOCK, size), filled)], 0
            found = self._usual(block, at, start + position) or parse_record(
                block, at, start + position, check_crc=self._check_crc
            )
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
        """True if the end of a record's properties was not written or did not reach the disk.

        No checksum covers properties. Missing bytes read as zero, and properties never end with zeros; the bytes after
        the record are zero, too. A disk loses whole sectors, so the zeros begin at a sector boundary.
        """
        end = found.physical_offset + found.size
        zeros = len(found.properties) - len(found.properties.rstrip(b"\0"))
        if any(following) or not zeros or self._torn_anywhere:
            return zeros > 0 and not any(following)
        first_sector = (end - 1) // _SECTOR * _SECTOR
        return zeros >= end - first_sector and first_sector > found.physical_offset

    def _usual(self, block: bytes, at: int, physical: int) -> Found | None:
        """Fast path of :func:`parse_record`, with the same parameters; None if the record is unusual or damaged."""
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
        found = parse_record(block, at, physical, check_crc=self._check_crc)
        name = found.topic.encode()
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        self._topics[bytes([len(name)]) + name] = found.topic
        return found


def parse_record(block: bytes, at: int, physical: int, *, check_crc: bool = True) -> Found:
    """Parse the record at position ``at`` of a block that contains all of its bytes; its size is not checked.

    :param physical: offset in the log at which the record begins.
    :raises Damage: the bytes are not a valid record.
    """
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
    if check_crc and body_end > body and crc32(block[body:body_end]) & 0x7FFFFFFF != head[2]:
        raise Damage("the checksum of a body is wrong")
    topic, properties = _tail(block, body_end, at + size, head[1])
    return Found(physical, size, topic, head[3], head[5], sys_flag, head[10], properties)


def next_record(log: CommitLog, offset: int, most: int | None = None) -> int | None:
    """Offset of the first whole record behind ``offset``, where the log is damaged; None if there is none.

    :param most: search only so many bytes of the file, and the begins of later files.
    """
    for start in [start for start in log.starts if start + log.file_size > offset]:
        end = log.file_size if most is None else min(log.file_size, max(0, offset - start) + most)
        found = first_record(log, start, max(0, offset + 1 - start), end)
        if found is not None:
            return found
    return None


def next_after(log: CommitLog, scan: LogScan) -> int | None:
    """Offset of the next whole record behind the end of a scan; None if the log ends there.

    Where a scan met zeros, as at the end of each log, only the next 8 MiB and the begins of later files are searched.
    """
    return next_record(log, scan.end, _MOST_SEARCHED if scan.reason is None else None)


def first_record(log: CommitLog, start: int, begin: int, end: int) -> int | None:
    """Offset of the first whole record that begins in a part of the file at ``start``."""
    buffer = log.buffer(start)
    assert buffer is not None
    while begin < end:
        block = buffer[begin : min(end + SIZE_MAGIC.size - 1, begin + _BLOCK)]
        for at in _magics(block):
            offset = start + begin + at
            found = next(iter(LogScan(log, offset)), None)
            if found is not None and found.physical_offset == offset:
                return offset
        begin += max(1, len(block) - SIZE_MAGIC.size + 1)
    return None


def _magics(block: bytes) -> list[int]:
    """Positions at which a record can begin: its magic is behind its size."""
    found = []
    for magic in (MAGIC_V1, MAGIC_V2):
        text, at = magic.to_bytes(4, "big", signed=True), 3
        while (at := block.find(text, at + 1)) >= 0:
            found.append(at - 4)
    return sorted(found)


def _size_of(size: int, magic: int, room: int) -> int:
    """Check magic and size of a record against the bytes left in its file, and return the size."""
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise Damage(f"magic {magic & 0xFFFFFFFF:#010x} is not that of a record")
    if not MIN_SIZE <= size <= room:
        raise Damage(f"a record of {size} bytes cannot be here")
    return size


def _tail(block: bytes, at: int, end: int, magic: int) -> tuple[str, bytes]:
    """Topic and properties of a record; their lengths must add up to its size."""
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    topic_end = topic_at + (block[at] if magic == MAGIC_V1 else _U16.unpack_from(block, at)[0])
    if topic_end + 2 > end or topic_end + 2 + _U16.unpack_from(block, topic_end)[0] != end:
        raise Damage("the lengths in a record do not add up to its size")
    try:
        return block[topic_at:topic_end].decode(), block[topic_end + 2 : end]
    except UnicodeDecodeError as e:
        raise Damage("a topic is not UTF-8") from e
