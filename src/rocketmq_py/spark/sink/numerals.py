"""Many numbers as texts of one width: a matrix with a row of ASCII characters for each number.

Digits are looked up four (or two) at a time: dividing by every power of ten costs five times as much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rocketmq_py.spark.decode.arrays import Ints

Chars = NDArray[np.uint8]


def _digits(texts: str, width: int) -> NDArray[np.unsignedinteger]:
    """Texts of one width, each as one number of the machine, so that looking them up copies them as a whole."""
    return np.frombuffer(texts.encode(), np.dtype(f"u{width}"))


_FOUR_DECIMALS = _digits("".join(f"{n:04d}" for n in range(10_000)), 4)
_TWO_HEXADECIMALS = _digits("".join(f"{n:02X}" for n in range(256)), 2)


def decimals(numbers: Ints, width: int) -> Chars:
    """Numbers from 0 on, ascending, with zeros in front; wider than ``width`` where the last one needs it."""
    width = max(width, len(str(numbers[-1]))) if len(numbers) else width
    groups = -(-width // 4)
    chars = np.empty((len(numbers), groups), _FOUR_DECIMALS.dtype)
    for group in reversed(range(groups)):
        higher = numbers // 10_000
        chars[:, group] = _FOUR_DECIMALS[numbers - higher * 10_000]
        numbers = higher
    return chars.view(np.uint8)[:, 4 * groups - width :]


def hexadecimals(numbers: Ints) -> Chars:
    """Numbers from 0 to 65,535 with four digits in upper case."""
    chars = np.empty((len(numbers), 2), _TWO_HEXADECIMALS.dtype)
    chars[:, 0], chars[:, 1] = _TWO_HEXADECIMALS[numbers >> 8], _TWO_HEXADECIMALS[numbers & 0xFF]
    return chars.view(np.uint8)
