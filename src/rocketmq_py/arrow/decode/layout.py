"""Locate the fields of many stored records, for all of them at once with NumPy.

Regular records are all V1 or all V2, all with IPv4 or all with IPv6 hosts, and no inner batches. Others raise
:class:`Irregular`, and the plain record codec decodes them.
"""

from __future__ import annotations

from struct import Struct, error as StructError
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.wire.record import (
    BORN_HOST_V6,
    COMPRESSED,
    INNER_BATCH,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    NEED_UNWRAP,
    STORE_HOST_V6,
    SYS_FLAG_AT,
)

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_I32 = Struct(">i")


class Irregular(Exception):
    """The records have different layouts or special contents: they must be decoded with the plain record codec."""


def _head_dtype(born_host: int, store_host: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("size", ">i4"), ("magic", ">i4"), ("crc", ">u4"), ("queueId", ">i4"), ("flag", ">i4"),
            ("queueOffset", ">i8"), ("physicalOffset", ">i8"), ("sysFlag", ">i4"), ("bornTimestamp", ">i8"),
            ("bornHost", f"V{born_host}"), ("storeTimestamp", ">i8"), ("storeHost", f"V{store_host}"),
            ("reconsumeTimes", ">i4"), ("preparedOffset", ">i8"), ("bodyLength", ">i4"),
        ]
    )  # fmt: skip


_V6_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
_HEADS = {
    flags: _head_dtype(20 if flags & BORN_HOST_V6 else 8, 20 if flags & STORE_HOST_V6 else 8)
    for flags in (0, BORN_HOST_V6, STORE_HOST_V6, _V6_HOSTS)
}
_PLAIN_HEAD = _HEADS[0]


def record_starts(raw: bytes) -> Ints:
    """Return the byte position of each record in ``raw``, a sequence of complete records.

    :raises CorruptRecord: the size fields of the records do not add up to the length of ``raw``.
    """
    starts: list[int] = []
    append, unpack = starts.append, _I32.unpack_from
    position, end = 0, len(raw)
    try:
        while position < end:
            append(position)
            (size,) = unpack(raw, position)
            if size < MIN_SIZE:
                raise CorruptRecord(f"record at byte {position} of {end} claims {size} bytes")
            position += size
    except StructError as e:
        raise CorruptRecord(f"record at byte {position} of {end}: {e}") from e
    if position != end:
        raise CorruptRecord(f"the last record at byte {starts[-1]} claims {position - end} bytes more than there are")
    return np.array(starts, np.int64)


def windows(data: Bytes, width: int) -> NDArray[np.uint8]:
    """Return a view of ``data`` as a matrix whose row ``i`` is the ``width`` bytes that start at byte ``i``."""
    return as_strided(data, (max(len(data) - width + 1, 0), width), (1, 1), writeable=False)


def holds_compressed(raw: bytes, starts: Ints) -> bool:
    """Return whether the body of at least one of the records is compressed."""
    lowest_byte = np.frombuffer(raw, np.uint8)[starts + (SYS_FLAG_AT + 3)]
    return bool((lowest_byte & COMPRESSED).any())


class Layout:
    """The positions of all fields of the records in ``raw``.

    ``head`` is a structured array of the fixed-length fields, ``data`` is ``raw`` as an array of bytes; the other
    members are byte positions and lengths in ``data``.
    """

    __slots__ = ("body_length", "body_start", "data", "head", "properties_length", "properties_start", "starts",
                 "topic_length", "topic_start")  # fmt: skip

    def __init__(self, raw: bytes, starts: Ints) -> None:
        """Locate the fields of all records.

        :param starts: byte position of each record in ``raw``.
        :raises Irregular: the records have different layouts, one is an inner batch, or its lengths do not add up.
        """
        self.starts = starts
        self.data = data = np.frombuffer(raw, np.uint8)
        self.head = head = _read_heads(data, starts)
        ends = starts + head["size"]
        self.body_start = starts + head.dtype.itemsize
        self.body_length = head["bodyLength"].astype(np.int64)
        at = self.body_start + self.body_length
        if (self.body_length < 0).any() or (at + 3 > ends).any():
            raise Irregular("body lengths beyond their records")
        self._locate_topic(at, head["magic"])
        at = self.topic_start + self.topic_length
        if (at + 2 > ends).any():
            raise Irregular("topic lengths beyond their records")
        self.properties_length = _u16(data, at)
        self.properties_start = at + 2
        if (self.properties_start + self.properties_length != ends).any():
            raise Irregular("lengths of a record disagree")

    def __len__(self) -> int:
        return len(self.starts)

    def _locate_topic(self, at: Ints, magic: NDArray[np.int32]) -> None:
        version_1 = bool((magic == MAGIC_V1).all())
        if not version_1 and not (magic == MAGIC_V2).all():
            raise Irregular("V1 and V2 records, or no records at all")
        self.topic_start = at + (1 if version_1 else 2)
        self.topic_length = self.data[at].astype(np.int64) if version_1 else _u16(self.data, at)

    def int_field(self, name: str, dtype: type[np.int32 | np.int64]) -> NDArray[Any]:
        """Return a fixed-length integer field of all records, in the machine's byte order."""
        return self.head[name].astype(dtype)

    def only_topic(self) -> bytes | None:
        """Return the topic, not decoded, if all records have the same; else None."""
        length = int(self.topic_length[0])
        if not (self.topic_length == length).all():
            return None
        topics = windows(self.data, length)[self.topic_start]
        return topics[0].tobytes() if (topics == topics[0]).all() else None


def _read_heads(data: Bytes, starts: Ints) -> NDArray[Any]:
    heads = _gather(data, starts, _PLAIN_HEAD)
    flags = heads["sysFlag"]
    if (flags & (NEED_UNWRAP | INNER_BATCH)).any():
        raise Irregular("inner batches")
    hosts = int(flags[0]) & _V6_HOSTS
    if (flags & _V6_HOSTS != hosts).any():
        raise Irregular("IPv4 and IPv6 hosts")
    return _gather(data, starts, _HEADS[hosts]) if hosts else heads


def _gather(data: Bytes, starts: Ints, dtype: np.dtype[Any]) -> NDArray[Any]:
    if starts[-1] + dtype.itemsize > len(data):
        raise Irregular("the last record is too short")
    return windows(data, dtype.itemsize)[starts].view(dtype).ravel()


def _u16(data: Bytes, at: Ints) -> Ints:
    return (data[at].astype(np.int64) << 8) | data[at + 1]
