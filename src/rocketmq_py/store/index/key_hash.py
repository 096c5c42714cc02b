"""Hashes of many index keys at once.

An index file uses Java's hash of ``topic#key``, a polynomial in 31 over the characters modulo 2**32. Python needs one
or two microseconds for one hash. For many keys of equal length the polynomials are computed in parallel: one large
integer has a lane of 64 bits for each key, and each character position costs one multiplication and one addition. A
position at which all keys have the same character costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from rocketmq_py.store.codec.columns import ones
from rocketmq_py.wire.java_hash import string_hash

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_WORTH = 8
"""Minimum number of keys of one length for which the parallel computation is faster."""
_LONGEST = 1024
"""Maximum length of keys in the parallel computation: 2**32 + 255 * (2**32 - 1) * 1024 is below 2**64."""


@lru_cache(maxsize=_LONGEST)
def _power(n: int) -> int:
    return pow(31, n, 1 << 32)


@lru_cache(maxsize=64)
def _lanes(count: int) -> Struct:
    return Struct("<" + "I4x" * count)


def _positive(lanes: int, count: int) -> list[int]:
    """Hashes as in index files: absolute values of signed 32-bit numbers, 0 for the smallest number.

    :param lanes: the numbers, each in the low half of its lane of 64 bits; the high halves are ignored.
    """
    each = ones(count)
    values = lanes & each * _MASK
    signs = values >> 31 & each
    values = (values ^ signs * _MASK) + signs & each * (_SIGN - 1)
    return list(_lanes(count).unpack(values.to_bytes(8 * count, "little")))


def key_hash(prefix: int, key: bytes) -> int:
    """Index hash of ``topic#key``, given the Java hash of ``topic#``; the key is UTF-8."""
    text = key.decode("utf-8", "replace")
    units = len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2
    value = (prefix * _power(units) + string_hash(text)) & _MASK
    return _positive(value, 1)[0]


def key_hashes(prefixes: Sequence[int], keys: Sequence[bytes]) -> list[int]:
    """Index hashes of keys, each with the Java hash of its ``topic#``."""
    lengths = set(map(len, keys))
    if len(lengths) == 1:
        return _equal_length(prefixes, keys, lengths.pop())
    hashes = [0] * len(keys)
    for length in lengths:
        places = [i for i, key in enumerate(keys) if len(key) == length]
        found = _equal_length([prefixes[i] for i in places], [keys[i] for i in places], length)
        for i, value in zip(places, found, strict=True):
            hashes[i] = value
    return hashes


def _equal_length(prefixes: Sequence[int], keys: Sequence[bytes], length: int) -> list[int]:
    count = len(keys)
    text = b"".join(keys)
    if count < _WORTH or not 0 < length <= _LONGEST or not text.isascii():
        return list(map(key_hash, prefixes, keys))
    power = _power(length)
    if prefixes.count(prefixes[0]) == count:
        first = (prefixes[0] * power & _MASK) * ones(count)
    else:
        first = int.from_bytes(_lanes(count).pack(*[prefix * power & _MASK for prefix in prefixes]), "little")
    return _positive(first + _polynomials(text, count, length), count)


def _polynomials(text: bytes, count: int, length: int) -> int:
    """Sums of each key's characters times powers of 31, each in its own lane of 64 bits."""
    total = same = 0
    spread = bytearray(8 * count)
    for i in range(length):
        column = text[i::length]
        if column == column[:1] * count:
            same += column[0] * _power(length - 1 - i)
        else:
            spread[0::8] = column
            total += int.from_bytes(spread, "little") * _power(length - 1 - i)
    return total + same * ones(count)
