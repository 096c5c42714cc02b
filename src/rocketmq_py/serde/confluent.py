"""The wire form of Confluent's serializers: ``0 | schema id 4 | value``, with message indexes in front for Protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from rocketmq_py.serde.base import BodyMismatch

HEAD = Struct(">BI")
_MAGIC = 0
_MOST_INDEXES = 64
_MOST_SHIFT = 63


def framed(schema_id: int, value: bytes) -> bytes:
    """Return a value with the id of its schema in front."""
    return HEAD.pack(_MAGIC, schema_id) + value


def unframed(body: bytes) -> tuple[int, bytes]:
    """Return the schema id in front of a value, and the value.

    :raises BodyMismatch: nothing of the kind is there.
    """
    if len(body) < HEAD.size or body[0] != _MAGIC:
        begin = body[: HEAD.size].hex() or "nothing"
        raise BodyMismatch(f"the body does not begin with a zero byte and a schema id, but with {begin}")
    return HEAD.unpack_from(body)[1], body[HEAD.size :]


def encode_indexes(indexes: Sequence[int]) -> bytes:
    """Encode the place of a message type in its file; that of the first one is a single zero byte."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def decode_indexes(value: bytes) -> tuple[list[int], bytes]:
    """Return the place of a message type in front of a value, and the value.

    :raises BodyMismatch: there is none.
    """
    count, at = _read(value, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise BodyMismatch(f"the body has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _read(value, at)
        indexes.append(index)
    return indexes or [0], value[at:]


def _varint(number: int) -> bytes:
    left, out = number << 1, bytearray()  # zigzag: the last bit is for negative numbers, and there are none
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift <= _MOST_SHIFT:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise BodyMismatch("the body ends in its message indexes")
