"""Splitting the body of a batch send, and encoding the records of one whose messages all have the same shape.

Messages of a batch mostly are alike: equal lengths and flags, the same properties in the same order, only bodies, keys
and perhaps other values differ. Then one ``struct`` call takes all of them apart, what is equal in all of them
(``fillers``) is compared and repeated as a whole, one call puts the records together, and numbers are written into all
of them by columns; message by message the same costs four times as much. Records of the log are taken apart in the same
way.
Knows the layouts of ``wire.batch`` and ``wire.record``. Refuses to know queues and files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from struct import Struct, pack
from typing import NamedTuple
from zlib import crc32

from rocketmq_py.model import RecordHead
from rocketmq_py.store.write import columns, dispatch_fields
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.record import MAGIC_V1, MIN_SIZE, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT, head_struct

_SIZE_FLAG_BODY = Struct(">i8xii")
_HEAD_SIZE = 20
MIN_UNIFORM = 4
"""From this many messages on it pays to look whether they have one shape."""
_WITHOUT_SIGN = bytes(byte & 0x7F for byte in range(256))
"""The first byte of a checksum as records have it."""
_CRC_AT, _BORN_AT = 8, 40
"""Where the checksum is in a record, and when and where it was born."""
_TAIL, _PREPARED_AT = 16, -12
"""The bytes of the fixed part of a record behind the hosts; where among them, from their end, the place of the half
message is."""

Span = tuple[int, int]
Column = Sequence[bytes]


class UniformMessages(NamedTuple):
    """Messages that are alike.

    ``keys`` are the values that may differ, one column each; ``fillers`` the bytes of the properties before, between
    and after them. The index wants the columns ``uniq_keys`` and ``words`` (values of KEYS).
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
        """Bytes of the properties of each."""
        return sum(map(len, self.fillers)) + sum(len(column[0]) for column in self.keys)

    @property
    def properties(self) -> bytes:
        """The properties of the first one."""
        keys = (column[0] for column in self.keys)
        return b"".join([self.fillers[0], *chain.from_iterable(zip(keys, self.fillers[1:], strict=True))])

    @property
    def varied(self) -> set[bytes]:
        """The names of the properties whose values may differ."""
        return set(self._names())

    def _names(self) -> list[bytes]:
        return [filler.rpartition(b"\x02")[2][:-1] for filler in self.fillers[:-1]]

    def values(self, name: bytes) -> Column:
        """The value of a property in each message; empty where there is none."""
        names = self._names()
        if name in names:
            return self.keys[names.index(name)]
        return [dispatch_fields.parse(self.properties).get(name, b"")] * len(self.bodies)

    def only(self, picks: Sequence[int]) -> UniformMessages:
        """Some of the messages."""
        if len(picks) == len(self.bodies):
            return self
        bodies, *keys = ([column[i] for i in picks] for column in (self.bodies, *self.keys))
        taken = {id(column): key for column, key in zip(self.keys, keys, strict=True)}
        uniq_keys, words = taken.get(id(self.uniq_keys)), taken.get(id(self.words))
        return self._replace(bodies=bodies, keys=keys, uniq_keys=uniq_keys, words=words)

    def extended(self, text: bytes, values: Column | None = None, rest: bytes = b"") -> UniformMessages:
        """The same with more properties: behind those each has, ``text``, its one of ``values``, and ``rest``."""
        if values is None:
            return self._replace(fillers=[*self.fillers[:-1], self.fillers[-1] + text + rest])
        return self._replace(keys=[*self.keys, values], fillers=[*self.fillers[:-1], self.fillers[-1] + text, rest])

    def shortened(self, tail: bytes) -> UniformMessages | None:
        """The same without the last entries of the properties; None where those are not ``tail``."""
        last = self.fillers[-1]
        if not last.endswith(b"\x02" + tail):
            return None
        return self._replace(fillers=[*self.fillers[:-1], last[: len(last) - len(tail)]])


class AdjacentRecords(NamedTuple):
    """Records that lie next to each other and are alike; ``head`` is that of the first."""

    head: RecordHead
    topic: str
    shape: UniformMessages


class UniformRecords(NamedTuple):
    """Records from anywhere in the log that are alike; ``head`` is that of the first.

    ``born`` says when and where each was, as records do.
    """

    head: RecordHead
    topic: str
    shape: UniformMessages
    born: Column


class _Cut(NamedTuple):
    """Where in properties the values are that may differ, in this order."""

    spans: Sequence[Span]
    uniq_key: Span | None
    words: Span | None
    end: int

    @property
    def edges(self) -> list[int]:
        """Where fillers and values begin by turns, and the end."""
        return [0, *chain.from_iterable(self.spans), self.end]

    def sizes(self, lead: int) -> list[int]:
        """Of fillers and values by turns, ``lead`` bytes being before the first."""
        sizes = [b - a for a, b in pairwise(self.edges)]
        sizes[0] += lead
        return sizes


def _cut(first: bytes, last: bytes, varied: Sequence[bytes] = ()) -> _Cut | None:
    """By the properties of the first and the last of some messages; None if these are not alike.

    :param varied: names whose values may differ though these two are equal.
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
    """Bodies, fillers and keys of ``count`` messages.

    The head of the next message counts as the end of the last filler, so that it is compared with it; behind the last
    message the first head follows once more.
    """
    last = sizes[-1] + _HEAD_SIZE
    return Struct(f"{_HEAD_SIZE}x" + "".join(f"{size}s" for size in (body, *sizes[:-1], last)) * count)


def uniform_messages(body: bytes) -> UniformMessages | None:
    """The messages of a batch body if all have one shape, else None (also when the body is no batch)."""
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
    """Messages that are alike but for bodies and the values in ``texts``, which are fillers and values by turns.

    None if they are not: where fillers differ, or there is more in a value than a value.
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
    """Of each record what is before its checksum and before its offsets, these, and parts of such sizes."""
    parts = "".join(f"{size}s" for size in sizes)
    return Struct(">" + f"{_CRC_AT}s4x{QUEUE_OFFSET_AT - _CRC_AT - 4}sqq{parts}" * count)


class _Found(NamedTuple):
    """Records taken apart; ``alike`` but for the other columns."""

    alike: UniformRecords
    offsets: Sequence[int]
    places: Sequence[int]
    stored: Column


def _take_apart(raw: bytes, count: int, varied: Sequence[bytes] = ()) -> _Found | None:
    """What so many records one behind the other have in common; None if they are not alike."""
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
    """What records have in common; None if they differ in more than time, host of birth, bodies and values.

    Neither checksums are looked at, nor where the records are.

    :param varied: names of properties, beside those for the index, whose values mostly differ.
    """
    found = _take_apart(b"".join(raws), len(raws), varied)
    return found.alike if found is not None else None


def adjacent_records(raw: bytes, count: int) -> AdjacentRecords | None:
    """What ``count`` records have in common that lie next to each other in the log, and their queue offsets do, too.

    None if there is more in which they differ than bodies and values of properties. Checksums are not looked at.
    """
    found = _take_apart(raw, count)
    if found is None:
        return None
    (head, topic, shape, born), first = found.alike, found.alike.head.physical_offset
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
    """The records of messages.

    :param head: the fixed part of any of them: checksum and offsets in it are replaced.
    :param queue_offset: of the first, and ``physical`` its place in the log.
    :param born: when and where each was, if not all when and where ``head`` says; of one length.
    :param prepared: where the half message of each is, if they have any.
    """
    bodies, count, size = shape.bodies, len(shape.bodies), int.from_bytes(head[:4], "big")
    offsets, places = columns.progression(queue_offset, 1, count), columns.progression(physical, size, count)
    first = head[:QUEUE_OFFSET_AT] + offsets[:8] + places[:8] + head[SYS_FLAG_AT:]
    constants = [topic_part + shape.properties_size.to_bytes(2, "big") + shape.fillers[0], *shape.fillers[1:]]
    constants[-1] += first  # of the record behind
    records = _join_by_turns(first, (bodies, *shape.keys), constants)
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


def _join_by_turns(first: bytes, values: Sequence[Column], constants: Sequence[bytes]) -> bytearray:
    """``first``, and for each row by turns its value of a column and the constant behind that column."""
    count, width = len(values[0]), 2 * len(values)
    parts = [first] * (1 + width * count)
    for i, (column, constant) in enumerate(zip(values, constants, strict=True)):
        parts[1 + 2 * i :: width] = column
        parts[2 + 2 * i :: width] = [constant] * count
    return bytearray().join(parts)


def split(body: bytes, common: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message; the batch's ``common`` properties follow each one's own.

    :raises CorruptRecord: the body is no batch.
    """
    for flag, content, own in decode_batch(body):
        separator = b"\x02" if own and common and not own.endswith(b"\x02") else b""
        yield flag, content, own + separator + common
