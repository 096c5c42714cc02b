"""Any SQL expression tree is written and read back; unreadable text is refused with a reason."""

from __future__ import annotations

import contextlib
from dataclasses import fields, is_dataclass

from hypothesis import given, settings, strategies as st

from rocketmq_py.core.sql92 import compile_sql
from rocketmq_py.core.sql92.evaluate import EvaluationError, build
from rocketmq_py.core.sql92.numbers import INT_MAX, LONG_MAX, Long
from rocketmq_py.core.sql92.parser import parse
from rocketmq_py.core.sql92.tokens import KEYWORDS
from rocketmq_py.core.sql92.tree import (
    And,
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
from rocketmq_py.errors import SqlIllegal
from tests.examples import examples
from tests.sql92_cases import SOUP, TEXTS, Cases

names = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,5}", fullmatch=True).filter(lambda name: name.upper() not in KEYWORDS)
properties = names.map(Property)
texts = st.text(max_size=6)
numbers = (
    st.integers(0, INT_MAX) | st.integers(INT_MAX + 1, LONG_MAX).map(Long)
    | st.floats(min_value=0, exclude_min=True, allow_infinity=False)
).map(Constant)  # fmt: skip
numeric = numbers | numbers.map(Negate)
comparable = properties | numeric
searches = st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])
simple = st.one_of(
    properties.map(Truth),
    st.builds(Equal, comparable, comparable | texts.map(Constant)),
    st.builds(Compare, st.sampled_from(["<", "<=", ">", ">="]), comparable, comparable),
    st.builds(Search, searches, comparable, texts, st.booleans()),
    st.builds(In, properties, st.frozensets(texts, min_size=1, max_size=3), st.booleans()),
    comparable.map(IsNull),
)  # fmt: skip


def chains(kind: type[And | Or], inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Conditions joined; the first is no chain of the same kind, since reading makes one chain of both."""
    terms = st.tuples(inner.filter(lambda node: not isinstance(node, kind)), inner).map(tuple)
    return terms.map(kind)


conditions = st.recursive(
    simple, lambda inner: inner.map(Not) | chains(And, inner) | chains(Or, inner) | inner.map(IsNull), max_leaves=8
)


def written(node: Node) -> str:  # noqa: C901, PLR0911, PLR0912 - one case per kind of node
    match node:
        case Property(name):
            return name
        case Constant(value) if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        case Constant(value):
            return repr(value)
        case Negate(operand):
            return f"- {written(operand)}"
        case Not(operand):
            return f"NOT ({written(operand)})"
        case Truth(operand):
            return f"({operand.name})"
        case And(terms):
            return " AND ".join(f"({written(term)})" for term in terms)
        case Or(terms):
            return " OR ".join(f"({written(term)})" for term in terms)
        case Equal(left, right):
            return f"{written(left)} = {written(right)}"
        case IsNull(operand):
            return f"({written(operand)}) IS NULL"
        case Compare(operator, left, right):
            return f"{written(left)}{operator}{written(right)}"
        case Search(operator, operand, text, negated):
            return f"{written(operand)} {'NOT ' * negated}{operator} {written(Constant(text))}"
        case In(operand, found, negated):
            listed = ",".join(written(Constant(text)) for text in found)
            return f"{operand.name} {'NOT ' * negated}IN ({listed})"


def untruthed(node: Node) -> Node:
    """A property alone under IS NULL is read as itself."""
    match node:
        case IsNull(Truth(operand)):
            return IsNull(operand)
        case IsNull(operand) | Not(operand):
            return type(node)(untruthed(operand))
        case And(terms) | Or(terms):
            return type(node)(tuple(map(untruthed, terms)))
    return node


def comparable(value: object) -> object:
    """A tree as nested tuples that tell 1 from 1.0 and true, with the members of sets in order."""
    if is_dataclass(value):
        return (type(value).__name__, *(comparable(getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    return sorted(value) if isinstance(value, frozenset) else repr(value)


@given(conditions)
def test_a_written_expression_is_read_back(tree: Node) -> None:
    text = written(tree)
    found, end = parse(text)
    assert comparable(found) == comparable(untruthed(tree))
    assert end == len(text)


@given(conditions, st.dictionaries(names, st.sampled_from(TEXTS) | texts))
def test_every_verdict_is_true_false_unknown_or_an_error(tree: Node, message: dict[str, str]) -> None:
    with contextlib.suppress(EvaluationError):
        assert build(tree)(message) in (True, False, None)


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(SOUP) | st.characters(), max_size=12).map("".join) | st.integers().map(
    lambda seed: Cases(seed).expression()
))  # fmt: skip
def test_every_text_is_parsed_or_refused_with_a_reason(text: str) -> None:
    refused: SqlIllegal | None = None
    try:
        found = compile_sql(text)
        assert text.endswith(found.unread)
        found.matches({})
    except SqlIllegal as e:
        refused = e
    assert refused is None or (0 <= refused.position <= len(text) and refused.reason)
