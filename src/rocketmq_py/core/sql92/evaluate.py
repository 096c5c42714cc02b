"""Evaluation of SQL expressions: converts the tree of an expression to a function of a message's properties.

The three-valued logic is that of Java's expression classes: a condition is True, False or None for unknown. Operands
are evaluated in Java's order, too, because that decides whether an error occurs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import singledispatch

from rocketmq_py.core.sql92.numbers import Value, negated, order, read_as, read_double
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
)  # fmt: skip
from rocketmq_py.errors import shortened

Properties = Mapping[str, str]
Run = Callable[[Properties], Value | None]

_INCOMPARABLE = -1
_TESTS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip


class EvaluationError(ValueError):
    """A property cannot be converted to the type of a comparison. On a broker, such a message does not match."""


@singledispatch
def build(node: Node) -> Run:
    """Return a function that evaluates a tree node on a message's properties and may raise :class:`EvaluationError`.

    Each type of node has its own implementation (:func:`functools.singledispatch`).
    """
    raise TypeError(f"{node!r} is not part of an expression")


@build.register
def _property(node: Property) -> Run:
    name = node.name
    return lambda properties: properties.get(name)


@build.register
def _constant(node: Constant) -> Run:
    value = node.value
    return lambda _: value


@build.register
def _negate(node: Negate) -> Run:
    operand = build(node.operand)

    def run(properties: Properties) -> Value | None:
        value = operand(properties)
        if value is None or isinstance(value, str | bool):
            return None
        return negated(value)

    return run


@build.register
def _not(node: Not) -> Run:
    operand = build(node.operand)

    def run(properties: Properties) -> bool | None:
        verdict = operand(properties)
        return None if verdict is None else not verdict

    return run


@build.register
def _truth(node: Truth) -> Run:
    name = node.operand.name
    return lambda properties: False if name in properties else None


@build.register
def _and(node: And) -> Run:
    return _until(False, node.terms)


@build.register
def _or(node: Or) -> Run:
    return _until(True, node.terms)


def _until(deciding: bool, terms: tuple[Node, ...]) -> Run:
    """Return a function for AND (``deciding`` False) or OR (``deciding`` True).

    It evaluates the terms in order until one has the value ``deciding``. If none has, the result is unknown if a term
    is unknown, else ``not deciding``.
    """
    runs = tuple(map(build, terms))

    def run(properties: Properties) -> bool | None:
        verdict: bool | None = not deciding
        for term in runs:
            found = term(properties)
            if found is deciding:
                return deciding
            if found is None:
                verdict = None
        return verdict

    return run


@build.register
def _equal(node: Equal) -> Run:
    left, right = build(node.left), build(node.right)

    def run(properties: Properties) -> bool | None:
        one, other = left(properties), right(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else compare(one, other) == 0

    return run


@build.register
def _is_null(node: IsNull) -> Run:
    operand = build(node.operand)
    return lambda properties: operand(properties) is None


@build.register
def _compare(node: Compare) -> Run:
    left, right, test = build(node.left), build(node.right), _TESTS[node.operator]

    def run(properties: Properties) -> bool | None:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        return None if other is None else test(_ordered(one, other), 0)

    return run


@build.register
def _between(node: Between) -> Run:
    operand, low, high, deciding = build(node.operand), build(node.low), build(node.high), node.negated
    first, second = (_TESTS["<"], _TESTS[">"]) if node.negated else (_TESTS[">="], _TESTS["<="])

    def run(properties: Properties) -> bool | None:
        one = operand(properties)
        if one is None:
            return None
        other = low(properties)
        verdict = None if other is None else first(_ordered(one, other), 0)
        if verdict is deciding:
            return deciding
        other = high(properties)
        last = None if other is None else second(_ordered(one, other), 0)
        return last if last is deciding or verdict is not None else None

    return run


def _ordered(one: Value, other: Value) -> int:
    """Compare two values like :func:`compare`, but two texts as decimal numbers.

    :raises EvaluationError: a text cannot be converted.
    """
    if isinstance(one, str) and isinstance(other, str):
        return order(_decimal(one), _decimal(other))
    return compare(one, other)


@build.register
def _search(node: Search) -> Run:
    if not node.text:
        return lambda _: False
    operand, found, text, wanted = build(node.operand), _SEARCHES[node.operator], node.text, not node.negated

    def run(properties: Properties) -> bool:
        value = operand(properties)
        return isinstance(value, str) and found(value, text) is wanted

    return run


@build.register
def _in(node: In) -> Run:
    name, texts, negated_ = node.operand.name, node.texts, node.negated

    def run(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (value in texts) is not negated_

    return run


def compare(left: Value, right: Value) -> int:
    """Compare two values; return -1, 0 or 1 if ``left`` is less, equal or greater.

    A text is converted to the type of the other value. A boolean compared with a number is always less, as in Java.

    :raises EvaluationError: a text cannot be converted to the type of the other value.
    """
    one, other = type(left), type(right)
    if one is other:
        return order(left, right)
    if one is str:
        return order(_read(left, other), right)
    if other is str:
        if one is bool:
            raise EvaluationError(f"{left} stands before {shortened(str(right))!r}, where Java cannot compare them")
        return order(left, _read(right, one))
    if bool in (one, other):
        return _INCOMPARABLE
    if float in (one, other):
        return order(float(left), float(right))
    return order(left, right)


def _read(text: Value, kind: type[Value]) -> Value:
    try:
        return read_as(str(text), kind)
    except ValueError as e:
        raise EvaluationError(str(e)) from None


def _decimal(text: str) -> float:
    try:
        return read_double(text)
    except ValueError as e:
        raise EvaluationError(str(e)) from None
