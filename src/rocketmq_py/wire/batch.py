"""The body of a batch: several messages of one topic in one send (MessageDecoder.encodeMessage).

The layout of each message is ``size 4 | magic 4 (0) | crc 4 (0) | flag 4 | body length 4 | body | properties length 2 |
properties``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error as StructError

from rocketmq_py.errors import CorruptRecord

_HEAD = Struct(">iiiii")
_U16 = Struct(">H")
_OVERHEAD = _HEAD.size + 2

MAX_PROPERTIES = 32767


def encode_batch(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Encode ``(flag, body, properties)`` triples as the body of a batch."""
    parts: list[bytes] = []
    for flag, body, properties in messages:
        size = _OVERHEAD + len(body) + len(properties)
        parts += (_HEAD.pack(size, 0, 0, flag, len(body)), body, _U16.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield ``(flag, body, properties)`` of each message of a batch.

    :raises CorruptRecord: the data is cut off or its lengths are inconsistent.
    """
    position, end = 0, len(data)
    while position < end:
        try:
            size, _, _, flag, body_length = _HEAD.unpack_from(data, position)
            body_end = position + 20 + body_length
            (properties_length,) = _U16.unpack_from(data, body_end)
        except StructError as e:
            raise CorruptRecord(f"a message of a batch is cut off at byte {position} of {end}") from e
        if body_length < 0 or size != _OVERHEAD + body_length + properties_length or position + size > end:
            raise CorruptRecord(f"lengths of the message at byte {position} of a batch of {end} bytes disagree")
        yield flag, data[position + 20 : body_end], data[body_end + 2 : position + size]
        position += size


unwrap_inner_batch = decode_batch
"""Yield ``(flag, body, properties)`` of each message in the body of an inner batch, which has the same layout."""
