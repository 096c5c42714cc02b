"""Convert arrays of numbers to texts of equal width: a matrix with a row of ASCII characters for each number.

Digits are looked up in a table four (or two) at a time: dividing by every power of ten takes five times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rocketmq_py.arrow.decode.arrays import Ints

Chars = NDArray[np.uint8]


def _digits(texts: str, width: int) -> NDArray[np.unsignedinteger]:
    """Split ``texts`` after every ``width`` characters; return each part as an integer, which is fast to copy."""
    return np.frombuffer(texts.encode(), np.dtype(f"u{width}"))


_FOUR_DECIMALS = _digits("".join(f"{n:04d}" for n in range(10_000)), 4)
_TWO_HEXADECIMALS = _digits("".join(f"{n:02X}" for n in range(256)), 2)


def decimals(numbers: Ints, width: int) -> Chars:
    """Return ascending numbers, 0 or above, as decimals with leading zeros.

    All have ``width`` digits, or as many as the last number needs.
    """
    width = max(width, len(str(numbers[-1]))) if len(numbers) else width
    groups = -(-width // 4)
    chars = np.empty((len(numbers), groups), _FOUR_DECIMALS.dtype)
    for group in reversed(range(groups)):
        higher = numbers // 10_000
        chars[:, group] = _FOUR_DECIMALS[numbers - higher * 10_000]
        numbers = higher
    return chars.view(np.uint8)[:, 4 * groups - width :]


def hexadecimals(numbers: Ints) -> Chars:
    """Return numbers from 0 to 65,535 as four hexadecimal digits each, in upper case."""
    chars = np.empty((len(numbers), 2), _TWO_HEXADECIMALS.dtype)
    chars[:, 0], chars[:, 1] = _TWO_HEXADECIMALS[numbers >> 8], _TWO_HEXADECIMALS[numbers & 0xFF]
    return chars.view(np.uint8)
