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
    """Places in the log, as the answer to SEND_HALF_MESSAGES carries them."""
    return pack(f">{len(offsets)}q", *offsets)


def decode_offsets(data: bytes) -> tuple[int, ...]:
    """What :func:`encode_offsets` was given.

    :raises CorruptRecord: it is cut off.
    """
    if len(data) % _OFFSET_SIZE:
        raise CorruptRecord(f"{len(data)} bytes are no list of offsets: {_OFFSET_SIZE} are expected for each")
    return unpack(f">{len(data) // _OFFSET_SIZE}q", data)


def encode_half_positions(places: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Where half messages are, as END_TRANSACTIONS carries it.

    :param places: of each its place in the log, and ``offsets`` that in the half topic.
    """
    flat = [0] * (2 * len(places))
    flat[0::2], flat[1::2] = places, offsets
    return encode_offsets(flat)


def decode_half_positions(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What :func:`encode_half_positions` was given.

    :raises CorruptRecord: it is cut off.
    """
    flat = decode_offsets(data)
    if len(flat) % 2:
        raise CorruptRecord(f"{len(data)} bytes are no list of places: {2 * _OFFSET_SIZE} are expected for each")
    return flat[0::2], flat[1::2]


def op_body(halves: Iterable[int]) -> bytes:
    """The body of an op message."""
    return "".join([f"{half}," for half in halves]).encode()


def parse_op_body(body: bytes) -> list[int]:
    """The half messages an op message ends; what is no number is left out, as Java does."""
    return [int(text) for text in body.split(b",") if text.isdigit()]
