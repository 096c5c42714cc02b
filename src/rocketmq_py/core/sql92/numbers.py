"""Numbers as Java reads and compares them: the texts of Integer, Long and Double, and their compareTo.

An Integer is a plain ``int`` here, a Double a ``float``; a Long is a subclass of ``int``, because the type decides how
a text beside it is read.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

from rocketmq_py.errors import shortened


class Long(int):
    """An integer of 64 bits."""


Value = str | bool | int | Long | float

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

# Java looks at 16-bit units, so that digits outside the basic plane are none.
_INTEGER = re.compile(r"[+-]?\d+")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_BLANKS = "".join(map(chr, range(0x21)))
_LONG_TEXT = 64
"""Longer texts are cached, so that comparisons of one expression read the same text once."""
_MOST_DIGITS = 4300
"""The most digits ``int`` reads."""


def read_as(text: str, kind: type[Value]) -> Value:
    """Read a text as another type of value.

    :raises ValueError: it is not such a number. Every text is a boolean: true if it says so, else false.
    """
    if kind is bool:
        return text.lower() == "true"
    if kind is float:
        return read_double(text)
    most = LONG_MAX if kind is Long else INT_MAX
    value = _integer(text, most) if len(text) <= _LONG_TEXT else _long_integer(text, most)
    return Long(value) if kind is Long else value


def _integer(text: str, most: int) -> int:
    if not _INTEGER.fullmatch(text) or _ASTRAL.search(text):
        raise ValueError(f"{shortened(text)!r} is not an integer")
    value = int(text) if len(text) <= _MOST_DIGITS else math.inf
    if not -most - 1 <= value <= most:
        raise ValueError(f"{shortened(text)!r} has more than {most.bit_length() + 1} bits")
    return int(value)


_long_integer = lru_cache(maxsize=16)(_integer)


def read_double(text: str) -> float:
    """Read a text as a decimal number; too large ones are infinite.

    :raises ValueError: it is not a number.
    """
    return _double(text) if len(text) <= _LONG_TEXT else _long_double(text)


def _double(text: str) -> float:
    trimmed = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    found = _HEXADECIMAL.fullmatch(trimmed)
    if found is None:
        raise ValueError(f"{shortened(text)!r} is not a decimal number")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return math.copysign(math.inf, -1.0 if trimmed.startswith("-") else 1.0)


_long_double = lru_cache(maxsize=16)(_double)


def integer_literal(text: str) -> int:
    """Return the value of an integer in an expression: 32 bits if they suffice, else 64.

    :raises ValueError: 64 bits do not suffice.
    """
    value = _integer(text.rstrip("lL"), LONG_MAX)
    return value if value <= INT_MAX else Long(value)


def decimal_literal(text: str) -> float:
    """Return the value of a decimal number in an expression.

    :raises ValueError: it is zero, which Java refuses, or too near to it, or infinite.
    """
    value = float(text)
    if value == 0:
        said = "0.0 is refused by brokers, write 0" if Decimal(text) == 0 else f"{shortened(text)} is too near to 0"
        raise ValueError(said)
    if value == math.inf:
        raise ValueError(f"{shortened(text)} is too large")
    return value


def negated(value: float) -> float:
    """Return the negative, of the same type."""
    return Long(-value) if isinstance(value, Long) else -value


def order(left: Value, right: Value) -> int:
    """Return less than, equal to or greater than 0 as ``left`` is compared with ``right``; both of one type.

    Decimal numbers have Java's total order: -0.0 before 0.0, and NaN, equal to itself, after all others.
    """
    if left < right:  # type: ignore[operator]
        return -1
    if left > right:  # type: ignore[operator]
        return 1
    return _special(left, right) if isinstance(left, float) and isinstance(right, float) else 0


def _special(left: float, right: float) -> int:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    return int(math.copysign(1.0, left) - math.copysign(1.0, right)) if left == 0 else 0
