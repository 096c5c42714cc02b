"""The tokenizer of SQL expressions: it returns one token at a time, in time linear in the length of the expression.

Text that is not a token is an error only if the parser gets there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rocketmq_py.errors import SqlIllegal, shortened

KEYWORDS = frozenset({
    "AND", "BETWEEN", "CONTAINS", "ENDSWITH", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "STARTSWITH", "TRUE",
})  # fmt: skip

NAME, TEXT, INTEGER, DECIMAL, END = "a property name", "a text in quotes", "an integer", "a decimal number", "the end"

# A "--" comment needs a line end: on the last line, "--" is two minus signs.
_BLANKS, _COMMENT, _LINE = r"[ \t\n\r\f]+", r"/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/", r"--[^\n\r]*+[\n\r]"
_SKIPPED = re.compile(f"(?:{_BLANKS}|{_LINE}|{_COMMENT})+")
_SKIPPED_AT_END = re.compile(f"(?:{_BLANKS}|{_COMMENT})+")
_EXPONENT = "[eE][+-]?[0-9]+"
_TOKEN = re.compile(
    rf"([0-9]+\.[0-9]*(?:{_EXPONENT})?|\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT})"
    r"|(0|[1-9][0-9]*[lL]?)"
    r"|('(?:''|[^'])*')"
    r"|([A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(<>|>=|<=|[=<>(),+-])"
)
_KINDS = (DECIMAL, INTEGER, TEXT, NAME)


class Token(NamedTuple):
    """A token of an expression.

    ``kind`` is a keyword in upper case, a symbol, or one of NAME, TEXT, INTEGER, DECIMAL and END; ``start`` is its
    0-based position in the expression.
    """

    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        return self.kind if self.kind == END else repr(shortened(self.text))


class Tokens:
    """Reads the tokens of an expression one by one.

    :ivar taken: number of tokens that were read.
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression
        # On the last line "--" begins no comment, so the rest is not searched for a line end at every "--".
        self._last_line = max(expression.rfind("\n"), expression.rfind("\r"))
        self._end = 0
        self.taken = 0

    def next(self) -> Token:
        """Return the next token, of kind END at the end of the expression.

        :raises SqlIllegal: the text at this position is not a token.
        """
        expression, position = self._expression, self._end
        skipped = (_SKIPPED if position <= self._last_line else _SKIPPED_AT_END).match(expression, position)
        start = skipped.end() if skipped else position
        self.taken += 1
        if start == len(expression):
            self._end = start
            return Token(END, "", start)
        found = _TOKEN.match(expression, start)
        if found is None:
            raise SqlIllegal(expression, start, _explained(expression[start]))
        self._end = found.end()
        return Token(_kind(found), found[0], start)


def _kind(found: re.Match[str]) -> str:
    group = found.lastindex or 0
    if group > len(_KINDS):
        return found[0]
    word = found[0].upper()
    return word if word in KEYWORDS else _KINDS[group - 1]


def _explained(character: str) -> str:
    if character == "'":
        return "a text begins here and has no closing quote"
    if character == '"':
        return "texts stand in single quotes, property names in none"
    if character == "!":
        return "'!' is not known; unequal is '<>', not is NOT"
    return f"{character!r} is not known"
