"""Lists of half message positions, as requests and op messages carry them.

SEND_HALF_MESSAGES and END_TRANSACTIONS are requests of this project. The body of an op message, which ends half
messages, is Java's (TransactionalMessageServiceImpl).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack, unpack

from rocketmq_py.errors import CorruptRecord

_OFFSET_SIZE = 8


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Encode commit log offsets, as the response to SEND_HALF_MESSAGES carries them."""
    return pack(f">{len(offsets)}q", *offsets)


def decode_offsets(data: bytes) -> tuple[int, ...]:
    """Decode a list of commit log offsets.

    :raises CorruptRecord: the data is cut off.
    """
    if len(data) % _OFFSET_SIZE:
        raise CorruptRecord(f"{len(data)} bytes are not a list of offsets: {_OFFSET_SIZE} are expected for each")
    return unpack(f">{len(data) // _OFFSET_SIZE}q", data)


def encode_half_positions(places: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Encode the positions of half messages, as END_TRANSACTIONS carries them.

    :param places: their commit log offsets. :param offsets: their offsets in the half topic.
    """
    flat = [0] * (2 * len(places))
    flat[0::2], flat[1::2] = places, offsets
    return encode_offsets(flat)


def decode_half_positions(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Decode what :func:`encode_half_positions` encoded.

    :raises CorruptRecord: the data is cut off.
    """
    flat = decode_offsets(data)
    if len(flat) % 2:
        raise CorruptRecord(f"{len(data)} bytes are not a list of positions: {2 * _OFFSET_SIZE} are expected for each")
    return flat[0::2], flat[1::2]


def op_body(halves: Iterable[int]) -> bytes:
    """Encode the body of an op message."""
    return "".join([f"{half}," for half in halves]).encode()


def parse_op_body(body: bytes) -> list[int]:
    """Decode the half topic offsets that an op message ends; texts that are not numbers are ignored, as in Java."""
    return [int(text) for text in body.split(b",") if text.isdigit()]
