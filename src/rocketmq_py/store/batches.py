"""Splitting the body of a batch send, and encoding the records of one whose messages all have the same shape.

Messages of a batch mostly are alike: equal lengths, the same properties in the same order, only body and keys differ.
Then one ``struct`` call takes all of them apart and one puts all records together; message by message the same costs
three times as much. Knows the layouts of ``wire.batch`` and ``wire.record``. Refuses to know queues and files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from rocketmq_py.store import fields
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.record import SYS_FLAG_AT

_HEAD = Struct(">i8xii")
_OVERHEAD = 22
_WORTH = 4
"""From this many messages on it pays to look whether they have one shape."""
_CRC_MASK = 0x7FFFFFFF
_RECORD_FIELDS = 10


class SameShape(NamedTuple):
    """The messages of a batch, one column per field.

    ``ends`` are the properties with their length before them; ``words`` the values of KEYS.
    """

    flags: Sequence[int]
    bodies: Sequence[bytes]
    ends: Sequence[bytes]
    uniq_keys: Sequence[bytes] | None
    words: Sequence[bytes] | None
    tags_code: int


@lru_cache(maxsize=64)
def _messages(body: int, end: int, count: int) -> Struct:
    return Struct(">" + f"i8xii{body}s{end}s" * count)


@lru_cache(maxsize=64)
def _pieces(before: int, sizes: tuple[int, ...], count: int) -> Struct:
    return Struct(">" + (f"{before}x" + "".join(f"{size}s" for size in sizes)) * count)


def same_shape(body: bytes) -> SameShape | None:
    """The messages of a batch body if all have one shape, else None (also when the body is no batch)."""
    if len(body) < _OVERHEAD * _WORTH:
        return None
    size, _, length = _HEAD.unpack_from(body)
    end = size - 20 - length
    if length < 0 or end < 2 or len(body) % size or len(body) < size * _WORTH:
        return None
    count = len(body) // size
    columns = _messages(length, end, count).unpack(body)
    sizes, flags, lengths, bodies, ends = (columns[i::5] for i in range(5))
    if sizes.count(size) != count or lengths.count(length) != count or ends[0][:2] != (end - 2).to_bytes(2, "big"):
        return None
    properties = ends[0][2:]
    spans = {name: fields.value_span(properties, name) for name in (fields.UNIQ_KEY, fields.KEYS)}
    values = _values(body, 20 + length, ends[0], spans, count)
    if values is None:
        return None
    code = fields.tags_code(properties)
    return SameShape(flags, bodies, ends, values[fields.UNIQ_KEY], values[fields.KEYS], code)


def _values(
    body: bytes, before: int, end: bytes, spans: dict[bytes, tuple[int, int] | None], count: int
) -> dict[bytes, Sequence[bytes] | None] | None:
    """The values at these spans of every message's properties; None unless all the rest of the properties is equal."""
    cuts = [0]
    for begin, stop in sorted(span for span in spans.values() if span is not None):
        cuts += (begin + 2, stop + 2)
    cuts.append(len(end))
    sizes = tuple(b - a for a, b in itertools.pairwise(cuts))
    found = _pieces(before, sizes, count).unpack(body)
    columns = [found[i :: len(sizes)] for i in range(len(sizes))]
    for column in columns[0::2]:
        if column.count(column[0]) != count:
            return None
    for column in columns[1::2]:
        joined = b"".join(column)
        if b"\x01" in joined or b"\x02" in joined:
            return None
    by_begin = dict(zip(cuts[1::2], columns[1::2], strict=False))
    return {name: by_begin[span[0] + 2] if span is not None else None for name, span in spans.items()}


@lru_cache(maxsize=64)
def _records(rest: int, body: int, topic: int, end: int, count: int) -> Struct:
    return Struct(">" + f"8sI4siqq{rest}s{body}s{topic}s{end}s" * count)


def encode_same_shape(shape: SameShape, head: bytes, topic_part: bytes, queue_offset: int, physical: int) -> bytes:
    """The records of a batch.

    :param head: the fixed part of any of them: what differs in it is replaced.
    :param queue_offset: of the first, and ``physical`` its place in the log.
    """
    bodies, ends, count = shape.bodies, shape.ends, len(shape.bodies)
    size = int.from_bytes(head[:4], "big")
    columns: list[object] = [None] * (_RECORD_FIELDS * count)
    columns[0::10] = [head[:8]] * count
    columns[1::10] = [crc32(body) & _CRC_MASK for body in bodies]
    columns[2::10] = [head[12:16]] * count
    columns[3::10] = shape.flags
    columns[4::10] = range(queue_offset, queue_offset + count)
    columns[5::10] = range(physical, physical + count * size, size)
    columns[6::10] = [head[SYS_FLAG_AT:]] * count
    columns[7::10] = bodies
    columns[8::10] = [topic_part] * count
    columns[9::10] = ends
    layout = _records(len(head) - SYS_FLAG_AT, len(bodies[0]), len(topic_part), len(ends[0]), count)
    return layout.pack(*columns)


def split(body: bytes, common: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message; the batch's ``common`` properties follow each one's own.

    :raises CorruptRecord: the body is no batch.
    """
    for flag, content, own in decode_batch(body):
        separator = b"\x02" if own and common and not own.endswith(b"\x02") else b""
        yield flag, content, own + separator + common
