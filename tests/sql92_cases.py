"""Random SQL92 expressions and properties, for tests that compare two judges of them.

Knows how to hit every rule of the grammar and of comparisons often, breaches included. Refuses to know verdicts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

NAMES = ("a", "b", "_c", "$d", "T9", "isnt", "missing")
TEXTS = (
    "x", "xyz", "", "it's", "true", "TRUE", "false", "null", "10", "+10", "-3", "007", "0", "-0", "+",
    "2.5", "1e1", "10.0", "-0.0", "0.0", " 10 ", "5.", ".5", ".", "1e", "1_0", "1e400", "-1e400", "1e-400",
    "NaN", "-NaN", "Infinity", "-Infinity", "0x1p3", "0x.8P1d", "1.5f", "3d",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "\u0661\u0662", "\U0001d7d9", "\u6f22\u5b57", "\U0001f600",
)  # fmt: skip
INTEGERS = (
    "0", "5", "10", "12", "0L", "10L", "10l", "007", "2147483647", "2147483648", "9223372036854775807", "3000000000L",
    "9223372036854775808", "9007199254740993",
)  # fmt: skip
DECIMALS = (
    "2.5", "10.0", "5.", ".5", "1e1", "1E+1", "5.e0", "0.0", "0e0", "1e400", "1e-400", "4.9e-324",
    "9007199254740992.0", "1e",
)  # fmt: skip
SPACES = (" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", " /* a 'comment' **/ ", " -- to the end\n", " /**/ ")
GARBAGE = (
    " LIKE 'x%'", " + 1 > 5", " b", " #", " 'x", ";", " )", " , 'x'", " -- no end", " /* no end",
    " !", " NOT", " IS", " 007", " = = 5",
)  # fmt: skip
SOUP = (
    *NAMES, *INTEGERS[:4], *DECIMALS[:3], "'x'", "'it''s'", "''", "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "+",
    "-", "AND", "or", "Not", "BETWEEN", "in", "IS", "NULL", "TRUE", "false", "CONTAINS", "startswith", "EndsWith",
    "--", "/*", "*/", "!=", "==", '"x"', "%", "\u00e9", "\x00", "ANDY", "l", "e5",
)  # fmt: skip


class Cases:
    """An endless supply, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._one_of: Callable[[tuple[str, ...]], str] = self._random.choice

    def properties(self) -> dict[str, str]:
        return {name: self._one_of(TEXTS) for name in NAMES[:-1] if self._random.random() < 0.8}

    def expression(self) -> str:
        """Mostly legal; one in ten is a soup of tokens."""
        if self._random.random() < 0.1:
            return "".join(self._one_of(SOUP) + self._one_of((" ", " ", "")) for _ in range(self._random.randrange(9)))
        garbage = self._one_of(GARBAGE) if self._random.random() < 0.2 else ""
        return self._condition(self._random.randrange(4)) + garbage

    def _joined(self, *parts: str) -> str:
        return "".join(part + self._one_of(SPACES) for part in parts).rstrip(" ")

    def _condition(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.3:
            return self._simple()
        kind = self._random.randrange(6)
        inner = self._condition(depth - 1)
        if kind == 0:
            return self._joined("NOT", self._one_of((inner, f"({inner})")))
        if kind == 1:
            return f"({inner})"
        if kind == 2:
            return self._joined(self._one_of((inner, f"({inner})")), self._one_of(("=", "<>")), self._value())
        operator = self._one_of(("AND", "OR", "and", "Or"))
        return self._joined(inner, operator, self._condition(depth - 1))

    def _simple(self) -> str:
        left = self._value()
        kinds = (self._comparison, self._comparison, self._equality, self._equality, self._null, self._between,
                 self._in, self._search, lambda left: left)  # fmt: skip
        return self._random.choice(kinds)(left)

    def _comparison(self, left: str) -> str:
        sides = [left, self._number() if self._random.random() < 0.8 else self._value()]
        self._random.shuffle(sides)
        return self._joined(sides[0], self._one_of((">", ">=", "<", "<=")), sides[1])

    def _equality(self, left: str) -> str:
        return self._joined(left, self._one_of(("=", "<>")), self._value())

    def _null(self, left: str) -> str:
        return self._joined(left, self._one_of(("IS NULL", "is not null", "IS NULL IS NULL", "IS NULL = TRUE")))

    def _between(self, left: str) -> str:
        left = self._one_of((left, *NAMES))
        return self._joined(left, self._one_of(("BETWEEN", "NOT BETWEEN")), self._number(), "AND", self._number())

    def _in(self, left: str) -> str:
        left = self._one_of((left, *NAMES))
        texts = ",".join(self._text() for _ in range(self._random.randrange(1, 7)))
        return self._joined(left, self._one_of(("IN", "NOT IN", "in")), f"({texts})")

    def _search(self, left: str) -> str:
        word = self._one_of(("CONTAINS", "STARTSWITH", "ENDSWITH", "not contains", "NOT StartsWith", "NOT ENDSWITH"))
        return self._joined(left, word, self._text())

    def _value(self) -> str:
        kind = self._random.randrange(20)
        if kind < 12:
            return self._one_of(NAMES)
        if kind < 15:
            return self._number()
        if kind < 17:
            return self._text()
        if kind == 17:
            return self._one_of(("TRUE", "false", "NULL", "+a", "-b", "-(a > 5)", "(a = 'x')", "+TRUE", "-'5'"))
        return f"({self._one_of(NAMES)})"

    def _number(self) -> str:
        if self._random.random() < 0.5:
            return self._one_of(("5", "10", "-3", "2.5", "10.0", "3000000000"))
        sign = self._one_of(("", "", "", "-", "- ", "+", "--", "- -", "-+"))
        return sign + self._one_of(self._random.choice((INTEGERS, INTEGERS, DECIMALS)))

    def _text(self) -> str:
        return "'" + self._one_of(TEXTS).replace("'", "''") + "'"
