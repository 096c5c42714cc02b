"""MurmurHash3 (128 bits, x64), with which Java brokers hash group names for the bloom filters of SQL subscriptions."""

from __future__ import annotations

_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_MASK = (1 << 64) - 1


def murmur3_64(data: bytes) -> int:
    """Return the first 64 bits of the hash with seed 0 as an unsigned number.

    Guava's ``murmur3_128().hashBytes(data).asLong()`` returns the same bits as a signed one.
    """
    one = two = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        one ^= _mixed_one(data[at : at + 8])
        one = ((_rotated(one, 27) + two) * 5 + 0x52DCE729) & _MASK
        two ^= _mixed_two(data[at + 8 : at + 16])
        two = ((_rotated(two, 31) + one) * 5 + 0x38495AB5) & _MASK
    one ^= _mixed_one(data[whole : whole + 8]) ^ len(data)
    two ^= _mixed_two(data[whole + 8 :]) ^ len(data)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return (_final(one) + _final(two)) & _MASK


def _mixed_one(part: bytes) -> int:
    return _rotated(int.from_bytes(part, "little") * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_two(part: bytes) -> int:
    return _rotated(int.from_bytes(part, "little") * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
