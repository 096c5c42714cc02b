"""Splitting the body of a batch send, and encoding the records of one whose messages all have the same shape.

Messages of a batch mostly are alike: equal lengths and flags, the same properties in the same order, only bodies, keys
and perhaps other values differ. Then one ``struct`` call takes all of them apart, what is equal in all of them
(``fillers``) is compared and repeated as a whole, and one call puts the records together; message by message the same
costs three times as much.
Knows the layouts of ``wire.batch`` and ``wire.record``. Refuses to know queues and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from rocketmq_py.store import fields
from rocketmq_py.wire.batch import decode_batch

_SIZE_FLAG_BODY = Struct(">i8xii")
_HEAD_SIZE = 20
_WORTH = 4
"""From this many messages on it pays to look whether they have one shape."""
_CRC_MASK = 0x7FFFFFFF
_CRC_AT, _QUEUE_OFFSET_AT, _AFTER_OFFSETS_AT = 8, 20, 36
"""Where the checksum, the two offsets and what follows them are in a record."""

Span = tuple[int, int]


class SameShape(NamedTuple):
    """The messages of a batch.

    ``keys`` are the values that may differ, one column each; ``fillers`` the bytes before, between and after them, the
    first with the length of the properties. The index wants the columns ``uniq_keys`` and ``words`` (values of KEYS).
    """

    flag: int
    bodies: Sequence[bytes]
    keys: Sequence[Sequence[bytes]]
    fillers: Sequence[bytes]
    uniq_keys: Sequence[bytes] | None
    words: Sequence[bytes] | None
    tags_code: int
    properties_size: int


@lru_cache(maxsize=64)
def _messages(body: int, cuts: tuple[int, ...], count: int) -> Struct:
    """Bodies, fillers and keys of ``count`` messages.

    The head of the next message counts as the end of the last filler, so that it is compared with it; behind the last
    message the first head follows once more.
    """
    sizes = [body, *(b - a for a, b in pairwise(cuts))]
    sizes[-1] += _HEAD_SIZE
    return Struct(f"{_HEAD_SIZE}x" + "".join(f"{size}s" for size in sizes) * count)


def same_shape(body: bytes) -> SameShape | None:
    """The messages of a batch body if all have one shape, else None (also when the body is no batch)."""
    if len(body) < (_HEAD_SIZE + 2) * _WORTH:
        return None
    size, flag, length = _SIZE_FLAG_BODY.unpack_from(body)
    end = _HEAD_SIZE + length
    if length < 0 or size < end + 2 or len(body) % size or len(body) < size * _WORTH:
        return None
    properties = body[end + 2 : size]
    if int.from_bytes(body[end : end + 2], "big") != len(properties):
        return None
    uniq_key, words = fields.value_span(properties, fields.UNIQ_KEY), fields.value_span(properties, fields.KEYS)
    others = fields.differing_spans(properties, body[end + 2 - size :])
    if others is None:
        return None
    cuts = _cuts({span for span in (uniq_key, words, *others) if span is not None}, len(properties))
    found = _messages(length, cuts, len(body) // size).unpack(body + body[:_HEAD_SIZE])
    columns = [found[i :: len(cuts)] for i in range(len(cuts))]
    if not _is_regular(columns):
        return None
    # In ``columns`` bodies stand before what begins at the first cut.
    return SameShape(
        flag, columns[0], columns[2::2], [body[end + cuts[i] : end + cuts[i + 1]] for i in range(0, len(cuts), 2)],
        columns[cuts.index(uniq_key[0] + 2) + 1] if uniq_key else None,
        columns[cuts.index(words[0] + 2) + 1] if words else None,
        fields.tags_code(fields.parse(properties).get(fields.TAGS)), len(properties),
    )  # fmt: skip


def _cuts(spans: Iterable[Span], end: int) -> tuple[int, ...]:
    """Where fillers and keys begin by turns, and the end, counted from the length of the properties on."""
    return (0, *(at + 2 for span in sorted(spans) for at in span), end + 2)


def _is_regular(columns: Sequence[Sequence[bytes]]) -> bool:
    """Whether fillers are equal in all messages and keys are nothing but values."""
    count = len(columns[0])
    if any(column.count(column[0]) != count for column in columns[1::2]):
        return False
    keys = b"".join([b"".join(column) for column in columns[2::2]])
    return b"\x01" not in keys and b"\x02" not in keys


@lru_cache(maxsize=64)
def _records(sizes: tuple[int, ...], count: int) -> Struct:
    """The end of the first field of a record, its size and magic, is written with the last filler before it."""
    return Struct(">8s" + (f"I{_QUEUE_OFFSET_AT - _CRC_AT - 4}sqq" + "".join(f"{size}s" for size in sizes)) * count)


def encode_same_shape(shape: SameShape, head: bytes, topic_part: bytes, queue_offset: int, physical: int) -> bytes:
    """The records of a batch.

    :param head: the fixed part of any of them: checksum and offsets in it are replaced.
    :param queue_offset: of the first, and ``physical`` its place in the log.
    """
    bodies, count = shape.bodies, len(shape.bodies)
    size = int.from_bytes(head[:4], "big")
    rest = head[_AFTER_OFFSETS_AT:]
    fillers = [topic_part + shape.fillers[0], *shape.fillers[1:]]
    fillers[-1] += head[:_CRC_AT]
    parts: list[Sequence[object]] = [
        [crc & _CRC_MASK for crc in map(crc32, bodies)],
        [head[_CRC_AT + 4 : _QUEUE_OFFSET_AT]] * count,
        range(queue_offset, queue_offset + count),
        range(physical, physical + count * size, size),
        [rest] * count,
        bodies,
        [fillers[0]] * count,
    ]
    sizes = [len(rest), len(bodies[0]), len(fillers[0])]
    for column, filler in zip(shape.keys, fillers[1:], strict=True):
        parts += (column, [filler] * count)
        sizes += (len(column[0]), len(filler))
    arguments: list[object] = [None] * (len(parts) * count)
    for i, part in enumerate(parts):
        arguments[i :: len(parts)] = part
    return _records(tuple(sizes), count).pack(head[:_CRC_AT], *arguments)[:-_CRC_AT]


def split(body: bytes, common: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message; the batch's ``common`` properties follow each one's own.

    :raises CorruptRecord: the body is no batch.
    """
    for flag, content, own in decode_batch(body):
        separator = b"\x02" if own and common and not own.endswith(b"\x02") else b""
        yield flag, content, own + separator + common
