"""Numbers as Java parses and compares them: parsing of Integer, Long and Double, and their compareTo.

An Integer is a plain ``int`` here, a Double a ``float``. A Long is a subclass of ``int``, because a text is converted
to the type of the number that it is compared with.
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

# Java examines 16-bit units, so it does not accept digits outside the Basic Multilingual Plane.
_INTEGER = re.compile(r"[+-]?\d+")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_BLANKS = "".join(map(chr, range(0x21)))
_LONG_TEXT = 64
"""Results for longer texts are cached, because the comparisons of an expression may parse one text several times."""
_MOST_DIGITS = 4300
"""Maximum number of digits that ``int`` parses."""


def read_as(text: str, kind: type[Value]) -> Value:
    """Convert a text to a value of type ``kind``: bool, int, Long or float.

    Every text is a valid bool: True for "true" in any case, False for all others.

    :raises ValueError: the text is not a number of this type, or out of its range.
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
    """Parse a text as Java's Double.parseDouble; a number that is too large becomes infinite.

    :raises ValueError: the text is not a number.
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
    """Parse an integer literal of an expression: an ``int`` if it fits into 32 bits, else a :class:`Long`.

    :raises ValueError: it does not fit into 64 bits.
    """
    value = _integer(text.rstrip("lL"), LONG_MAX)
    return value if value <= INT_MAX else Long(value)


def decimal_literal(text: str) -> float:
    """Parse a decimal literal of an expression.

    :raises ValueError: it is zero, which Java refuses, or rounds to zero, or is too large for a double.
    """
    value = float(text)
    if value == 0:
        said = "0.0 is refused by brokers, write 0" if Decimal(text) == 0 else f"{shortened(text)} is too near to 0"
        raise ValueError(said)
    if value == math.inf:
        raise ValueError(f"{shortened(text)} is too large")
    return value


def negated(value: float) -> float:
    """Return the negated number, of the same type."""
    return Long(-value) if isinstance(value, Long) else -value


def order(left: Value, right: Value) -> int:
    """Compare two values of the same type; return -1, 0 or 1 if ``left`` is less, equal or greater.

    Decimal numbers have the order of Java's Double.compareTo: -0.0 is less than 0.0, and NaN is equal to itself and
    greater than all others.
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
