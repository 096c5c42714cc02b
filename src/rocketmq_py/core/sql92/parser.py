"""The parser of SQL expressions: converts a text to a tree.

The grammar is that of Java's SelectorParser.jj; combinations that Java's expression classes refuse are refused, too.
Precedence from low to high: OR; AND; ``= <> IS``; ``> >= < <= BETWEEN IN CONTAINS STARTSWITH ENDSWITH``; the unary
operators NOT, ``+`` and ``-``.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.core.sql92.numbers import decimal_literal, integer_literal, order
from rocketmq_py.core.sql92.tokens import DECIMAL, INTEGER, NAME, TEXT, Token, Tokens
from rocketmq_py.core.sql92.tree import (
    And,
    Between,
    Compare,
    Constant,
    Equal,
    In,
    IsNull,
    Negate,
    Node,
    Not,
    Or,
    Property,
    Search,
    Truth,
    is_boolean,
)  # fmt: skip
from rocketmq_py.errors import SqlIllegal, shortened

MAX_DEPTH = 200
"""Maximum nesting of expressions. In Java, the stack of a thread is the limit, some thousands."""
MAX_LENGTH = 64 * 1024
"""Maximum number of characters of an expression. In Java, the size of a frame is the limit."""
MAX_PARTS = 4096
"""Maximum number of literals, property names, signs, NOTs and parentheses, without the texts of IN. Java has no limit.
"""

_OR, _AND, _EQUALITY, _COMPARISON = 1, 2, 3, 4
_PREFIXES = ("+", "-", "NOT", "(")
_SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_LEVELS = {"OR": _OR, "AND": _AND} | dict.fromkeys(("=", "<>", "IS"), _EQUALITY) | dict.fromkeys(
    (">", ">=", "<", "<=", "BETWEEN", "IN", "NOT", *_SEARCHES), _COMPARISON
)  # fmt: skip
_LITERALS: dict[str, Callable[[str], Constant]] = {
    "TRUE": lambda _: Constant(True),
    "FALSE": lambda _: Constant(False),
    "NULL": lambda _: Constant(None),
    INTEGER: lambda text: Constant(integer_literal(text)),
    DECIMAL: lambda text: Constant(decimal_literal(text)),
    TEXT: lambda text: Constant(_unquoted(text)),
}


def parse(expression: str) -> tuple[Node, int]:
    """Parse an expression; return its tree, and the position at which parsing stopped.

    Text after the first complete expression is ignored.

    :raises SqlIllegal: the expression is too long or complex, breaks the grammar, or has operands of wrong types.
    """
    check_length(expression)
    parser = _Parser(expression)
    node = parser.condition()
    return node, parser.next.start


def check_length(expression: str) -> None:
    """Check the length of an expression.

    :raises SqlIllegal: it has more than ``MAX_LENGTH`` characters.
    """
    if len(expression) > MAX_LENGTH:
        said = f"it has {len(expression)} characters, more than the {MAX_LENGTH} that are allowed"
        raise SqlIllegal(expression, 0, said)


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._depth = self._parts = 0
        self._tokens = Tokens(expression)
        self.next = self._tokens.next()

    def condition(self) -> Node:
        return self._boolean(self._chain(_OR), self.next.start, "the whole expression")

    # -- tokens

    def _take(self) -> Token:
        taken = self.next
        self.next = self._tokens.next()
        return taken

    def _expect(self, *kinds: str, wanted: str = "") -> Token:
        if self.next.kind not in kinds:
            raise self._error(f"{wanted or ' or '.join(kinds)} is expected, not {self.next}")
        return self._take()

    def _error(self, why: str, at: int | None = None) -> SqlIllegal:
        return SqlIllegal(self._expression, self.next.start if at is None else at, why)

    # -- grammar

    def _chain(self, lowest: int) -> Node:
        """Parse operands joined by operators of precedence ``lowest`` or higher."""
        left, highest = self._operand(), _COMPARISON
        while lowest <= (level := _LEVELS.get(self.next.kind, 0)) <= highest:
            left, highest = self._joined(left, level), level
        return left

    def _joined(self, left: Node, level: int) -> Node:
        operator = self._take()
        if level <= _AND:
            return self._logical(left, operator, level)
        if operator.kind in ("=", "<>"):
            equal = self._equal(left, self._chain(_COMPARISON), operator)
            return equal if operator.kind == "=" else Not(equal)
        if operator.kind == "IS":
            negated = self._expect("NULL", "NOT").kind == "NOT"
            if negated:
                self._expect("NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        if operator.kind in ("<", "<=", ">", ">="):
            return self._compare(operator.kind, left, self._operand(), operator.start)
        if operator.kind == "NOT":
            return self._ranged(left, self._expect("BETWEEN", "IN", *_SEARCHES), negated=True)
        return self._ranged(left, operator, negated=False)

    def _logical(self, left: Node, operator: Token, level: int) -> Node:
        kind, word = Or if level == _OR else And, operator.kind
        right = self._chain(level + 1)
        first = self._boolean(left, operator.start, f"what stands before {word}")
        # (a OR b) OR c has the same result as a OR b OR c, so a chain becomes one node instead of a deep tree.
        terms = [*first.terms] if isinstance(first, kind) else [first]
        terms.append(self._boolean(right, operator.start, f"what stands after {word}"))
        while self.next.kind == word:
            at = self._take().start
            terms.append(self._boolean(self._chain(level + 1), at, f"what stands after {word}"))
        return kind(tuple(terms))

    def _ranged(self, left: Node, operator: Token, *, negated: bool) -> Node:
        if operator.kind == "BETWEEN":
            return self._between(left, operator.start, negated=negated)
        if operator.kind == "IN":
            return self._in(left, operator.start, negated=negated)
        return Search(operator.kind, left, self._text(), negated)

    def _between(self, value: Node, at: int, *, negated: bool) -> Node:
        low = self._operand()
        self._expect("AND")
        high = self._operand()
        self._check_comparable(value, low, high, at=at)
        if not negated and isinstance(low, Constant) and isinstance(high, Constant) and _is_before(high, low):
            raise self._error(f"BETWEEN needs the smaller value first, not {low.value} AND {high.value}", at)
        return Between(value, low, high, negated)

    def _in(self, left: Node, at: int, *, negated: bool) -> Node:
        self._expect("(")
        texts = [self._text()]
        while self.next.kind == ",":
            self._take()
            texts.append(self._text())
        self._expect(")", wanted="',' or ')'")
        if not isinstance(left, Property):
            raise self._error("IN needs a property name before it", at)
        return In(left, frozenset(texts), negated)

    def _text(self) -> str:
        return _unquoted(self._expect(TEXT).text)

    def _operand(self) -> Node:
        """Parse a literal, a property name or an expression in parentheses, possibly after a sign or NOT."""
        self._depth += 1
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise self._error(f"more than {MAX_PARTS} values, property names, signs, NOTs and parentheses")
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} deep")
        token = self.next
        if token.kind in _PREFIXES:
            found = self._prefixed(self._take())
        elif token.kind == NAME:
            found = Property(self._take().text)
        elif token.kind in _LITERALS:
            found = self._literal(self._take())
        else:
            raise self._error(f"a value or a property name is expected, not {token}")
        self._depth -= 1
        return found

    def _prefixed(self, token: Token) -> Node:
        if token.kind == "(":
            inner = self._chain(_OR)
            self._expect(")", wanted="an operator or ')'")
            return inner
        operand = self._operand()
        if token.kind == "NOT":
            return Not(self._boolean(operand, token.start, "what stands after NOT"))
        return Negate(operand) if token.kind == "-" else operand

    def _literal(self, token: Token) -> Constant:
        try:
            return _LITERALS[token.kind](token.text)
        except ValueError as e:
            raise self._error(shortened(str(e), 200), token.start) from None

    # -- what Java's expression classes refuse

    def _boolean(self, node: Node, at: int, what: str) -> Node:
        if is_boolean(node):
            return node
        if isinstance(node, Property):
            return Truth(node)
        raise self._error(f"{what} is a value, not a condition", at)

    def _equal(self, left: Node, right: Node, operator: Token) -> Node:
        if Constant(None) in (left, right):
            raise self._error("nothing equals NULL; write IS NULL or IS NOT NULL", operator.start)
        both = isinstance(left, Constant) and isinstance(right, Constant)
        if both and is_boolean(left) and not is_boolean(right):
            raise self._error("TRUE and FALSE cannot be compared with other literals", operator.start)
        return Equal(left, right)

    def _compare(self, operator: str, left: Node, right: Node, at: int) -> Node:
        self._check_comparable(left, right, at=at)
        return Compare(operator, left, right)

    def _check_comparable(self, *operands: Node, at: int) -> None:
        for operand in operands:
            if is_boolean(operand) or (isinstance(operand, Constant) and isinstance(operand.value, str)):
                raise self._error("only numbers and properties are greater or smaller than others", at)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _is_before(left: Constant, right: Constant) -> bool:
    """Return True if the number ``left`` is smaller than the number ``right``."""
    one, other = left.value, right.value
    assert one is not None
    assert other is not None
    if isinstance(one, float) != isinstance(other, float):
        one, other = float(one), float(other)
    return order(one, other) < 0
