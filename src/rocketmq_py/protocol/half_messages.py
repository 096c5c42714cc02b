"""Encoding of lists of half messages in requests and in op messages.

SEND_HALF_MESSAGES and END_TRANSACTIONS are requests of this project only. An op message marks half messages as ended;
the format of its body is Java's (TransactionalMessageServiceImpl).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack, unpack

from rocketmq_py.errors import CorruptRecord

_OFFSET_SIZE = 8


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Encode commit log offsets as the body of the response to SEND_HALF_MESSAGES: 8 bytes each, big-endian."""
    return pack(f">{len(offsets)}q", *offsets)


def decode_offsets(data: bytes) -> tuple[int, ...]:
    """Decode a list of offsets encoded by :func:`encode_offsets`.

    :raises CorruptRecord: the number of bytes is not a multiple of 8.
    """
    if len(data) % _OFFSET_SIZE:
        raise CorruptRecord(f"{len(data)} bytes are not a list of offsets: {_OFFSET_SIZE} are expected for each")
    return unpack(f">{len(data) // _OFFSET_SIZE}q", data)


def encode_half_positions(places: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Encode the positions of half messages as the body of END_TRANSACTIONS.

    :param places: commit log offsets of the half messages.
    :param offsets: offsets of the same half messages in the half topic, in the same order.
    """
    flat = [0] * (2 * len(places))
    flat[0::2], flat[1::2] = places, offsets
    return encode_offsets(flat)


def decode_half_positions(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Decode the body of END_TRANSACTIONS; return the commit log offsets, and the offsets in the half topic.

    :raises CorruptRecord: the number of bytes is not a multiple of 16.
    """
    flat = decode_offsets(data)
    if len(flat) % 2:
        raise CorruptRecord(f"{len(data)} bytes are not a list of positions: {2 * _OFFSET_SIZE} are expected for each")
    return flat[0::2], flat[1::2]


def op_body(halves: Iterable[int]) -> bytes:
    """Encode the body of an op message, given the half topic offsets of the half messages that it marks as ended."""
    return "".join([f"{half}," for half in halves]).encode()


def parse_op_body(body: bytes) -> list[int]:
    """Decode the body of an op message; return the half topic offsets in it.

    Parts that are not numbers are ignored, as in Java.
    """
    return [int(text) for text in body.split(b",") if text.isdigit()]
