"""Fields at the same position of many records of one size, written column by column without a Python integer for each.

Records are concatenated in one buffer. Each byte of a field is a column over all records, written by one strided
assignment. Ascending fields are computed with one large integer that has 64 bits for each record.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

_WIDTH = 8


@lru_cache(maxsize=64)
def ones(count: int) -> int:
    """Return the integer whose big-endian form is the 64-bit number 1, repeated ``count`` times."""
    return int.from_bytes((1).to_bytes(_WIDTH, "big") * count, "big")


@lru_cache(maxsize=64)
def _positions(count: int) -> int:
    return int.from_bytes(Struct(f">{count}q").pack(*range(count)), "big")


def progression(first: int, step: int, count: int) -> bytes:
    """``first``, ``first + step`` and so on as big-endian 64-bit numbers; all must be in 0 to 2**63 - 1."""
    return (ones(count) * first + _positions(count) * step).to_bytes(_WIDTH * count, "big")


def put(records: bytearray, at: int, size: int, values: bytes, width: int) -> None:
    """Write the field at position ``at`` of every record.

    :param size: bytes of a record.
    :param values: encoded values of ``width`` bytes each.
    """
    for i in range(width):
        records[at + i :: size] = values[i::width]


def put_ascending(records: bytearray, at: int, size: int, values: bytes) -> None:
    """As :func:`put`, for ascending 64-bit numbers in records that already have the first number.

    The bytes that the first and the last number have in common are equal in all numbers and are not written again.
    """
    first, last = values[:_WIDTH], values[-_WIDTH:]
    for i in range(_WIDTH):
        if first[: i + 1] != last[: i + 1]:
            records[at + i :: size] = values[i::_WIDTH]
