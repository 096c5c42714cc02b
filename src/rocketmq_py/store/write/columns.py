"""Numbers at the same place of many records of one size, written column by column: no Python number for each.

Records lie back to back in one buffer. Every byte of a field is a column over all of them, which one strided assignment
writes. Fields that count up come from arithmetic with one large integer that has 64 bits for each record.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

_WIDTH = 8


@lru_cache(maxsize=64)
def ones(count: int) -> int:
    """The number that has a 1 in each of so many times 64 bits."""
    return int.from_bytes((1).to_bytes(_WIDTH, "big") * count, "big")


@lru_cache(maxsize=64)
def _positions(count: int) -> int:
    return int.from_bytes(Struct(f">{count}q").pack(*range(count)), "big")


def progression(first: int, step: int, count: int) -> bytes:
    """``first``, ``first + step`` and so on as 64-bit numbers, big-endian; none is negative or beyond 63 bits."""
    return (ones(count) * first + _positions(count) * step).to_bytes(_WIDTH * count, "big")


def put(records: bytearray, at: int, size: int, values: bytes, width: int) -> None:
    """Write the field at ``at`` of every record.

    :param size: of a record.
    :param values: of ``width`` bytes each.
    """
    for i in range(width):
        records[at + i :: size] = values[i::width]


def put_ascending(records: bytearray, at: int, size: int, values: bytes) -> None:
    """As :func:`put`, of 64-bit numbers none of which is less than the one before; every record has the first already.

    What the first and the last begin with is the same in all of them, and is not written again.
    """
    first, last = values[:_WIDTH], values[-_WIDTH:]
    for i in range(_WIDTH):
        if first[: i + 1] != last[: i + 1]:
            records[at + i :: size] = values[i::_WIDTH]
