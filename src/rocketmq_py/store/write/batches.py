"""Decoding of the body of a batch send, and fast encoding of records for uniform messages.

Messages of a batch are mostly uniform: equal lengths and flags, the same properties in the same order; only bodies,
keys and some other values differ. One ``struct`` call then splits all of them, the constant parts (``fillers``) are
compared and repeated as a whole, one call joins the records, and numbers are written into all records by columns.
Message by message this costs four times as much. Records of the log are split in the same way. The layouts are those of
``wire.batch`` and ``wire.record``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from struct import Struct, pack
from typing import NamedTuple
from zlib import crc32

from rocketmq_py.model import RecordHead
from rocketmq_py.store.codec import columns, dispatch_fields
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.record import MAGIC_V1, MIN_SIZE, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT, head_struct

_SIZE_FLAG_BODY = Struct(">i8xii")
_HEAD_SIZE = 20
MIN_UNIFORM = 4
"""Minimum number of messages for which the check for uniformity pays."""
_WITHOUT_SIGN = bytes(byte & 0x7F for byte in range(256))
"""Translation of the first byte of a CRC: records have its sign bit cleared."""
_CRC_AT, _BORN_AT = 8, 40
"""Positions of the CRC and of born timestamp and host in a record."""
_TAIL, _PREPARED_AT = 16, -12
"""Size of the fixed part of a record after the hosts; position of the prepared transaction offset, from its end."""

Span = tuple[int, int]
Column = Sequence[bytes]


class UniformMessages(NamedTuple):
    """Messages with equal lengths, flags and property names, split into columns with one item per message.

    ``keys`` are the columns of the property values that may differ; ``fillers`` the bytes of the encoded properties
    before, between and after these values, the same for all messages. ``uniq_keys`` and ``words`` are the columns of
    the properties UNIQ_KEY and KEYS, for the index; None if the messages do not have them.
    """

    flag: int
    bodies: Column
    keys: Sequence[Column]
    fillers: Sequence[bytes]
    uniq_keys: Column | None
    words: Column | None
    tags_code: int

    @property
    def properties_size(self) -> int:
        """Encoded size of the properties of one message in bytes; it is the same for all messages of the batch."""
        return sum(map(len, self.fillers)) + sum(len(column[0]) for column in self.keys)

    @property
    def properties(self) -> bytes:
        """Encoded properties of the first message."""
        keys = (column[0] for column in self.keys)
        return b"".join([self.fillers[0], *chain.from_iterable(zip(keys, self.fillers[1:], strict=True))])

    @property
    def varied(self) -> set[bytes]:
        """Names of the properties whose values may differ."""
        return set(self._names())

    def _names(self) -> list[bytes]:
        return [filler.rpartition(b"\x02")[2][:-1] for filler in self.fillers[:-1]]

    def values(self, name: bytes) -> Column:
        """Value of a property in each message; ``b""`` for each if the messages do not have it."""
        names = self._names()
        if name in names:
            return self.keys[names.index(name)]
        return [dispatch_fields.parse(self.properties).get(name, b"")] * len(self.bodies)

    def only(self, picks: Sequence[int]) -> UniformMessages:
        """Return the messages at the positions ``picks``."""
        if len(picks) == len(self.bodies):
            return self
        bodies, *keys = ([column[i] for i in picks] for column in (self.bodies, *self.keys))
        taken = {id(column): key for column, key in zip(self.keys, keys, strict=True)}
        uniq_keys, words = taken.get(id(self.uniq_keys)), taken.get(id(self.words))
        return self._replace(bodies=bodies, keys=keys, uniq_keys=uniq_keys, words=words)

    def extended(self, text: bytes, values: Column | None = None, rest: bytes = b"") -> UniformMessages:
        """Return the messages with ``text``, their value in ``values`` and ``rest`` appended to their properties.

        :param values: one value per message; None to append only ``text`` and ``rest``.
        """
        if values is None:
            return self._replace(fillers=[*self.fillers[:-1], self.fillers[-1] + text + rest])
        return self._replace(keys=[*self.keys, values], fillers=[*self.fillers[:-1], self.fillers[-1] + text, rest])

    def shortened(self, tail: bytes) -> UniformMessages | None:
        """Return the messages without ``tail`` at the end of their properties; None if they do not end with it."""
        last = self.fillers[-1]
        if not last.endswith(b"\x02" + tail):
            return None
        return self._replace(fillers=[*self.fillers[:-1], last[: len(last) - len(tail)]])


class AdjacentRecords(NamedTuple):
    """Uniform records that are adjacent in the log; ``head`` is that of the first."""

    head: RecordHead
    topic: str
    shape: UniformMessages


class UniformRecords(NamedTuple):
    """Uniform records from anywhere in the log; ``head`` is that of the first.

    ``born`` has the born timestamp and host of each, encoded as in records.
    """

    head: RecordHead
    topic: str
    shape: UniformMessages
    born: Column


class _Cut(NamedTuple):
    """Spans of the property values that may differ, in ascending order."""

    spans: Sequence[Span]
    uniq_key: Span | None
    words: Span | None
    end: int

    @property
    def edges(self) -> list[int]:
        """Begin of each filler and value in turn, and the end."""
        return [0, *chain.from_iterable(self.spans), self.end]

    def sizes(self, lead: int) -> list[int]:
        """Sizes of fillers and values in turn; the first includes ``lead`` bytes before it."""
        sizes = [b - a for a, b in pairwise(self.edges)]
        sizes[0] += lead
        return sizes


def _cut(first: bytes, last: bytes, varied: Sequence[bytes] = ()) -> _Cut | None:
    """Find the values that differ between the properties of the first and the last message.

    None if the two differ in more than values.

    :param varied: names of further properties whose values may differ.
    """
    uniq_key, words = (
        dispatch_fields.value_span(first, dispatch_fields.UNIQ_KEY),
        dispatch_fields.value_span(first, dispatch_fields.KEYS),
    )
    others = dispatch_fields.differing_spans(first, last)
    if others is None:
        return None
    also = (dispatch_fields.value_span(first, name) for name in varied)
    return _Cut(sorted({span for span in (uniq_key, words, *others, *also) if span}), uniq_key, words, len(first))


@lru_cache(maxsize=64)
def _messages(body: int, sizes: tuple[int, ...], count: int) -> Struct:
    """Layout of the bodies, fillers and keys of ``count`` messages.

    The last filler includes the head of the next message, so that the heads are compared, too; the caller appends the
    first head after the last message.
    """
    last = sizes[-1] + _HEAD_SIZE
    return Struct(f"{_HEAD_SIZE}x" + "".join(f"{size}s" for size in (body, *sizes[:-1], last)) * count)


def uniform_messages(body: bytes) -> UniformMessages | None:
    """Split the body of a batch send into uniform messages; None if they are not uniform, or it is not a batch."""
    if len(body) < (_HEAD_SIZE + 2) * MIN_UNIFORM:
        return None
    size, flag, length = _SIZE_FLAG_BODY.unpack_from(body)
    end = _HEAD_SIZE + length
    if length < 0 or size < end + 2 or len(body) % size or len(body) < size * MIN_UNIFORM:
        return None
    properties = body[end + 2 : size]
    if int.from_bytes(body[end : end + 2], "big") != len(properties):
        return None
    cut = _cut(properties, body[end + 2 - size :])
    if cut is None:
        return None
    sizes = cut.sizes(2)
    found = _messages(length, tuple(sizes), len(body) // size).unpack(body + body[:_HEAD_SIZE])
    bodies, *texts = (found[i :: len(sizes) + 1] for i in range(len(sizes) + 1))
    return _shape(flag, bodies, texts, properties, cut)


def _shape(flag: int, bodies: Column, texts: Sequence[Column], properties: bytes, cut: _Cut) -> UniformMessages | None:
    """Uniform messages from their bodies and ``texts``, which are fillers and values in turn.

    None if fillers differ or a value contains a separator.
    """
    count, keys, edges = len(bodies), texts[1::2], cut.edges
    if any(column.count(column[0]) != count for column in texts[0::2]):
        return None
    values = b"".join([b"".join(column) for column in keys])
    if b"\x01" in values or b"\x02" in values:
        return None
    return UniformMessages(
        flag, bodies, keys, [properties[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)],
        keys[cut.spans.index(cut.uniq_key)] if cut.uniq_key else None,
        keys[cut.spans.index(cut.words)] if cut.words else None,
        dispatch_fields.tags_code(dispatch_fields.parse(properties).get(dispatch_fields.TAGS)),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _stored(sizes: tuple[int, ...], count: int) -> Struct:
    """Layout of records: bytes before the CRC, bytes before the offsets, both offsets, and parts of these sizes."""
    parts = "".join(f"{size}s" for size in sizes)
    return Struct(">" + f"{_CRC_AT}s4x{QUEUE_OFFSET_AT - _CRC_AT - 4}sqq{parts}" * count)


class _Found(NamedTuple):
    """Split records: their common part, and columns of what also differs."""

    uniform: UniformRecords
    offsets: Sequence[int]
    places: Sequence[int]
    stored: Column


def _split_records(raw: bytes, count: int, varied: Sequence[bytes] = ()) -> _Found | None:
    """Split ``count`` concatenated records; None if they are not uniform."""
    size = len(raw) // max(1, count)
    if count < MIN_UNIFORM or len(raw) % count or size < MIN_SIZE:
        return None
    flags = int.from_bytes(raw[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    layout = head_struct(flags)
    head = RecordHead(*layout.unpack_from(raw))
    at = layout.size + head.body_length
    end = at + 1 + raw[at] if layout.size <= at < size else size
    properties = raw[end + 2 : size]
    lengths = head.store_size, int.from_bytes(raw[end : end + 2], "big")
    if head.magic != MAGIC_V1 or end + 2 > size or lengths != (size, len(properties)):
        return None
    cut = _cut(properties, raw[end + 2 - size :], varied)
    if cut is None:
        return None
    born, stored = 8 + len(head.born_host), 8 + len(head.store_host)
    sizes = 4, born, stored, _TAIL, head.body_length, *cut.sizes(end + 2 - at)
    found = _stored(sizes, count).unpack(raw)
    parts = (found[i :: len(sizes) + 4] for i in range(len(sizes) + 4))
    before, after, offsets, places, flag, births, times, tail, bodies, *texts = parts
    if any(column.count(column[0]) != count for column in (before, after, flag, tail)):
        return None
    shape = _shape(head.flag, bodies, texts, properties, cut)
    if shape is None:
        return None
    topic = raw[at + 1 : end].decode("utf-8", "replace")
    return _Found(UniformRecords(head, topic, shape, births), offsets, places, times)


def uniform_records(raws: Sequence[bytes], varied: Sequence[bytes]) -> UniformRecords | None:
    """Split uniform records; None if they differ in more than timestamps, born host, bodies and property values.

    CRCs and offsets are not compared.

    :param varied: names of properties, beside UNIQ_KEY and KEYS, whose values mostly differ.
    """
    found = _split_records(b"".join(raws), len(raws), varied)
    return found.uniform if found is not None else None


def adjacent_records(raw: bytes, count: int) -> AdjacentRecords | None:
    """Split ``count`` uniform records that have consecutive physical and queue offsets.

    None if they differ in more than bodies and property values. CRCs are not compared.
    """
    found = _split_records(raw, count)
    if found is None:
        return None
    (head, topic, shape, born), first = found.uniform, found.uniform.head.physical_offset
    if (
        tuple(found.offsets) != tuple(range(head.queue_offset, head.queue_offset + count))
        or tuple(found.places) != tuple(range(first, first + count * head.store_size, head.store_size))
        or any(column.count(column[0]) != count for column in (born, found.stored))
    ):
        return None
    return AdjacentRecords(head, topic, shape)


def encode_uniform(
    shape: UniformMessages, head: bytes, topic_part: bytes, queue_offset: int, physical: int, born: Column = (),
    prepared: Sequence[int] = (),
) -> bytearray:  # fmt: skip
    """Encode the records of uniform messages.

    :param head: fixed part of a record; its CRC and offsets are replaced.
    :param topic_part: length and name of the topic, encoded as in a record.
    :param queue_offset: queue offset of the first record.
    :param physical: physical offset of the first record.
    :param born: encoded born timestamp and host of each record; empty: those of ``head``.
    :param prepared: prepared transaction offset of each record; empty: that of ``head``.
    """
    bodies, count, size = shape.bodies, len(shape.bodies), int.from_bytes(head[:4], "big")
    offsets, places = columns.progression(queue_offset, 1, count), columns.progression(physical, size, count)
    first = head[:QUEUE_OFFSET_AT] + offsets[:8] + places[:8] + head[SYS_FLAG_AT:]
    constants = [topic_part + shape.properties_size.to_bytes(2, "big") + shape.fillers[0], *shape.fillers[1:]]
    constants[-1] += first  # the head of the next record
    records = _interleave(first, (bodies, *shape.keys), constants)
    del records[size * count :]
    checksums = pack(f">{count}I", *map(crc32, bodies))
    columns.put(records, _CRC_AT, size, checksums, 4)
    records[_CRC_AT::size] = checksums[::4].translate(_WITHOUT_SIGN)
    columns.put_ascending(records, QUEUE_OFFSET_AT, size, offsets)
    columns.put_ascending(records, PHYSICAL_OFFSET_AT, size, places)
    if born:
        columns.put(records, _BORN_AT, size, b"".join(born), len(born[0]))
    if prepared:
        columns.put(records, len(head) + _PREPARED_AT, size, pack(f">{count}q", *prepared), 8)
    return records


def _interleave(first: bytes, values: Sequence[Column], constants: Sequence[bytes]) -> bytearray:
    """Join ``first``, then for each row the value of each column followed by the constant of that column."""
    count, width = len(values[0]), 2 * len(values)
    parts = [first] * (1 + width * count)
    for i, (column, constant) in enumerate(zip(values, constants, strict=True)):
        parts[1 + 2 * i :: width] = column
        parts[2 + 2 * i :: width] = [constant] * count
    return bytearray().join(parts)


def split(body: bytes, common: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Iterate over the messages of a batch body: flag, body and encoded properties of each.

    :param common: encoded properties that are appended to those of each message.
    :raises CorruptRecord: the body is not a batch.
    """
    for flag, content, own in decode_batch(body):
        separator = b"\x02" if own and common and not own.endswith(b"\x02") else b""
        yield flag, content, own + separator + common
