"""SQL92 filters: Java's grammar and three-valued logic, as tabled; ``tests/interop`` asks Java itself."""

from __future__ import annotations

import pickle
import re
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from rocketmq_py.core.sql92 import EvaluationError, compile_sql, numbers, tokens
from rocketmq_py.core.sql92.compiled import _KEPT_CHARACTERS, Compiler
from rocketmq_py.core.sql92.evaluate import build
from rocketmq_py.core.sql92.parser import MAX_DEPTH, MAX_LENGTH, MAX_PARTS, parse
from rocketmq_py.core.sql92.tree import And, Or
from rocketmq_py.errors import ConfigError, SqlIllegal

PROPERTIES = {"a": "10", "f": "2.5", "t": "true", "b": "x", "n": "-7", "q": "it's", "big": "3000000000"}
ERROR = EvaluationError


def verdict(expression: str) -> bool | type[EvaluationError] | None:
    try:
        return compile_sql(expression).evaluate(PROPERTIES)
    except EvaluationError:
        return ERROR


@pytest.mark.parametrize(("expression", "expected"), [
    # numbers
    ("a > 5", True), ("a = 10", True), ("5 < a", True), ("a >= 10.0", True), ("a <= 9", False), ("a <> 10", False),
    ("a BETWEEN 10 AND 11", True), ("a NOT BETWEEN 5 AND 9", True), ("n BETWEEN -8 AND -6", True), ("n = - 7", True),
    ("a > +5", True), ("a > --5", True), ("a = 10L", True), ("f > 2.0", True), ("f = 2.5", True), ("f = .25e1", True),
    ("a > b", ERROR), ("a > f", True), ("f > a", False), ("a < 0x1p9", False), ("5 < 6", True), ("5 = 5.0", True),
    ("5 < 3000000000", True), ("-3000000000 = -3000000000L", True),
    # the number decides how the property is read
    ("f > 2", ERROR), ("f BETWEEN 2 AND 3", ERROR), ("f BETWEEN 2.0 AND 3.0", True), ("b > 5", ERROR),
    ("big > 5", ERROR), ("big >= 3000000000", True), ("5 = b", ERROR), ("a - 5", False),
    # texts
    ("a = '10'", True), ("b = 'x'", True), ("b <> 'y'", True), ("q = 'it''s'", True), ("a = '10.0'", False),
    ("b IN ('y', 'x')", True), ("b NOT IN ('y')", True), ("b CONTAINS 'x'", True), ("b NOT CONTAINS 'x'", False),
    ("q STARTSWITH 'it'", True), ("q ENDSWITH 't'", False), ("q NOT ENDSWITH 't'", True), ("b CONTAINS ''", False),
    ("b NOT CONTAINS ''", False), ("missing CONTAINS 'x'", False), ("missing NOT CONTAINS 'x'", False),
    ("5 CONTAINS '5'", False), ("(b > 5) CONTAINS ''", False), ("(b > 5) CONTAINS 'x'", ERROR),
    # truth
    ("t = TRUE", True), ("t = 'true'", True), ("t", False), ("NOT t", True), ("(t)", False), ("b = FALSE", True),
    ("TRUE", True), ("FALSE OR a = 10", True), ("(a = 10) = TRUE", True), ("TRUE = (missing = 1)", False),
    ("TRUE = t", ERROR), ("5 = TRUE", False), ("TRUE = -5", False), ("TRUE = FALSE", False), ("TRUE <> FALSE", True),
    # unknown
    ("missing = 'x'", None), ("missing <> 'x'", None), ("NOT (missing = 'x')", None), ("missing NOT IN ('x')", None),
    ("missing > 5", None), ("missing", None), ("NOT missing", None), ("missing IS NULL", True), ("a IS NULL", False),
    ("missing IS NOT NULL", False), ("a IS NOT NULL", True), ("5 = missing", False), ("5 <> missing", True),
    ("missing = absent", True), ("NULL", None), ("NULL IS NULL", True), ("-b > 5", None), ("-'5' = 5", None),
    ("5 > missing", None),
    ("a = 10 OR missing = 1", True), ("a = 9 OR missing = 1", None), ("missing = 1 OR a = 10", True),
    ("a = 9 AND missing = 1", False), ("a = 10 AND missing = 1", None), ("missing = 1 AND a = 9", False),
    # errors come only as far as operands are looked at
    ("a = 10 OR b > 5", True), ("b > 5 OR a = 10", ERROR), ("a = 9 AND b > 5", False), ("missing > -(b > 5)", None),
    # precedence
    ("a = 9 AND a = 9 OR a = 10", True), ("a = 10 OR a = 9 AND a = 9", True), ("(a = 10 OR a = 9) AND a = 9", False),
    ("NOT a = 10 OR a = 10", True), ("NOT (a = 9)", True), ("a = 10 = TRUE", True), ("a IS NULL IS NULL", False),
    # a whole number beside a broken one counts as a double, as in Java
    ("a BETWEEN 9007199254740993 AND 9007199254740992.0", False),
    # words, blanks, comments
    ("a iS nOt NuLl", True), ("a\t=\n10\r\n\f", True), ("a /* b **/ = -- five\n 10", True), ("a=10and b='x'", True),
])  # fmt: skip
def test_expressions_evaluate_to_their_expected_value(expression: str, expected: object) -> None:
    assert verdict(expression) is expected
    assert compile_sql(expression).matches(PROPERTIES) is (expected is True)


@pytest.mark.parametrize(("text", "decimal"), [
    (" 10 ", True), ("10d", True), ("1e1F", True), ("0x1.4p3", True), ("-0x1p99999", False), ("1e999", True),
    ("NaN", True), ("-Infinity", False), ("Infinity", True), ("1_0", None), ("ten", None), ("", None), ("1e", None),
])  # fmt: skip
def test_decimal_numbers_are_read_as_java_does(text: str, decimal: bool | None) -> None:
    found = compile_sql("x > 9.5")
    if decimal is None:
        with pytest.raises(EvaluationError, match="not a decimal number"):
            found.evaluate({"x": text})
    else:
        assert found.evaluate({"x": text}) is decimal


@pytest.mark.parametrize(("left", "right", "equal", "greater"), [
    ("0.0", "-0.0", False, True), ("NaN", "NaN", True, False), ("NaN", "Infinity", False, True),
    ("1", "1.0", True, False),
])  # fmt: skip
def test_decimal_numbers_have_javas_order(left: str, right: str, equal: bool, greater: bool) -> None:
    both = {"x": left, "y": right}
    assert compile_sql("x > y").evaluate(both) is greater
    assert compile_sql("x <= y").evaluate(both) is not greater
    assert compile_sql("x >= y AND x <= y").evaluate(both) is equal


@pytest.mark.parametrize(("text", "ok"), [
    ("10", True), ("+10", True), ("0010", True), ("\u0661\u0660", True), (" 10", False), ("10.0", False),
    ("1_0", False), ("", False), ("-", False), ("\U0001d7cf\U0001d7ce", False), ("2147483648", False),
    ("0" * 5000 + "10", False),
])  # fmt: skip
def test_integers_are_read_as_java_does(text: str, ok: bool) -> None:
    found = compile_sql("x = 10")
    assert found.matches({"x": text}) is ok
    if not ok:
        with pytest.raises(EvaluationError):
            found.evaluate({"x": text})


@pytest.mark.parametrize(("expression", "place", "said"), [
    ("", 1, "a value or a property name is expected, not the end"), ("a >", 4, "expected, not the end"),
    ("a = = 5", 5, "not '='"), ("(a = 1", 7, "an operator or ')' is expected, not the end"), ("a) = 1)", 1, None),
    ("a IN (5)", 7, "a text in quotes is expected, not '5'"), ("a IN ('x' 'y')", 11, "',' or ')' is expected"),
    ("a IS 5", 6, "NULL or NOT is expected, not '5'"), ("a IS NOT 5", 10, "NULL is expected"),
    ("a NOT LIKE 'x'", 7, "BETWEEN or IN or CONTAINS"), ("a BETWEEN 1 OR 2", 13, "AND is expected, not 'OR'"),
    ("a != 1", 3, "unequal is '<>'"), ('"a" = 1', 1, "single quotes"), ("a = 'x", 5, "no closing quote"),
    ("a = #", 5, "'#' is not known"), ("a = 1 #", 7, "'#' is not known"), ("a /* b", 3, "'/' is not known"),
    ("a = NULL", 3, "write IS NULL"), ("TRUE = 5", 6, "cannot be compared"), ("b > 'a'", 3, "only numbers"),
    ("a > 5 > 3", 7, "only numbers"), ("a > TRUE", 3, "only numbers"), ("a BETWEEN 11 AND 5", 3, "smaller value first"),
    ("a BETWEEN 2 AND 1.5", 3, "smaller value first"), ("5 IN ('5')", 3, "a property name before it"),
    ("a > 0.0", 5, "write 0"), ("a > 1e400", 5, "too large"), ("a > 1e-400", 5, "too near to 0"),
    ("a > 9223372036854775808", 5, "more than 64 bits"), ("5", 2, "is a value, not a condition"),
    ("NOT 5", 1, "what stands after NOT"), ("-a", 3, "is a value"), ("5 AND a = 1", 3, "what stands before AND"),
    ("a = 1 OR 'x'", 7, "what stands after OR"), ("(" * 201 + "a" + ")" * 201, 201, "nested more than 200 deep"),
    ("a" + " = b" * 300, 1, "nested more than 200 deep"),
])  # fmt: skip
def test_errors_of_illegal_expressions_name_position_and_reason(expression: str, place: int, said: str | None) -> None:
    if said is None:
        assert compile_sql(expression).unread == ") = 1)"
        return
    with pytest.raises(SqlIllegal, match=re.escape(said)) as raised:
        compile_sql(expression)
    assert raised.value.position == place - 1
    assert f"character {place}: " in str(raised.value)
    assert isinstance(raised.value, ConfigError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_the_error_shows_the_text_near_the_position() -> None:
    with pytest.raises(SqlIllegal) as raised:
        compile_sql("a = 1 OR " * 100 + "b > 'x'" + " OR a = 1" * 100)
    assert len(str(raised.value)) < 300
    assert "b > 'x'" in str(raised.value)


@pytest.mark.parametrize(("expression", "unread", "expected"), [
    ("a + 1 > 5", "+ 1 > 5", False), ("b LIKE 'x'", "LIKE 'x'", False), ("a = 10 AND", None, None),
    ("a IS NOT NULL > 5", "> 5", True), ("a = 010", "10", False), ("a = 10 -- note", "-- note", True),
    ("a = 10 b #", "b #", True), ("a = 10  ", "", True),
])  # fmt: skip
def test_reading_stops_after_the_first_complete_expression(
    expression: str, unread: str | None, expected: bool | None
) -> None:
    if unread is None:
        with pytest.raises(SqlIllegal):
            compile_sql(expression)
        return
    found = compile_sql(expression)
    assert found.unread == unread
    assert found.evaluate(PROPERTIES) is expected


def test_depth_is_limited_and_chains_may_be_long() -> None:
    deepest = "(" * (MAX_DEPTH - 1) + "a = 10" + ")" * (MAX_DEPTH - 1)
    assert compile_sql(deepest).matches(PROPERTIES)
    assert compile_sql("a = 1 OR " * 2_000 + "a = 10").matches(PROPERTIES)
    assert compile_sql("NOT " * (MAX_DEPTH - 2) + "a").evaluate(PROPERTIES) is False


def test_only_syntax_trees_are_compiled() -> None:
    with pytest.raises(TypeError, match="not part of an expression"):
        build("a > 5")  # type: ignore[arg-type]


def test_a_filter_is_compiled_once_and_its_repr_shows_the_expression() -> None:
    assert compile_sql("a = 1") is compile_sql("a = 1")
    assert repr(compile_sql("a = 1")) == "SqlFilter('a = 1')"
    assert compile_sql("a = 1").expression == "a = 1"


# -- what an expression may take


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Counts calls and lines run meanwhile: the work, whatever the machine does beside it."""
    found = {"call": 0, "line": 0}

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        del frame, arg
        found[event] = found.get(event, 0) + 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(before)


def steps(expression: str) -> int:
    with counted() as found:
        Compiler()(expression)
    return found["line"]


@pytest.mark.parametrize("term", ["a = 1 OR ", "a = 1 AND ", "a BETWEEN 1 AND 2 OR ", "a = --1 OR ", "NOT (a) OR "])
def test_compilation_time_is_linear_in_the_length(term: str) -> None:
    once, twice = steps(term * 250 + "a"), steps(term * 500 + "a")
    assert twice < 2.2 * once


@pytest.mark.parametrize("operator", ["OR", "AND"])
def test_a_chain_of_operators_is_built_once(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So far each operator copied all terms before it: the lines run were few, the bytes moved many."""
    made: list[int] = []
    kind = Or if operator == "OR" else And
    original = kind.__init__

    def counting(self: Any, terms: tuple[Any, ...]) -> None:
        made.append(len(terms))
        original(self, terms)

    monkeypatch.setattr(kind, "__init__", counting)
    parse(f" {operator} ".join(["a = 1"] * 1_000))
    assert made == [1_000]


def test_comments_after_the_last_line_end_are_searched_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these searches runs to the end of the text, so that many of them take quadratic time."""
    searched = []

    class Pattern:
        def match(self, text: str, at: int) -> re.Match[str] | None:
            searched.append(at)
            return original.match(text, at)

    original = tokens._SKIPPED
    monkeypatch.setattr(tokens, "_SKIPPED", Pattern())
    assert compile_sql("a -- ten\n = 10 AND " + "a > --1 AND " * 50 + "a > --2").matches(PROPERTIES)
    assert searched == [0, 1]


def test_nested_ranges_do_not_grow_exponentially() -> None:
    expression = "a"
    for _ in range(60):
        expression = f"-({expression} NOT BETWEEN 1 AND 2)"
    assert compile_sql(f"{expression} = 1").evaluate(PROPERTIES) is None
    assert steps(f"{expression} = 1") < 60_000


@pytest.mark.parametrize(("expression", "said"), [
    ("a = '" + "x" * MAX_LENGTH + "'", "it has 65542 characters, more than the 65536 that are allowed"),
    ("a = 1 OR " * 5_000 + "a = 10", f"more than {MAX_PARTS} values"),
    ("(a) OR " * 2_050 + "a", f"more than {MAX_PARTS} values"),
    ("a = " + "1" * 5_000, "1111111...' has more than 64 bits"),
    ("a = " + "1" * 5_000 + ".0", "is too large"),
    ("a = 1 AND '" + "x" * 5_000 + "'", "is a value, not a condition"),
    ("a NOT '" + "x" * 5_000 + "'", "BETWEEN or IN or CONTAINS"),
])  # fmt: skip
def test_a_too_long_expression_is_refused_with_a_short_error(expression: str, said: str) -> None:
    with pytest.raises(SqlIllegal) as caught:
        compile_sql(expression)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_long_list_of_strings_is_cheap() -> None:
    found = compile_sql("a IN (" + ", ".join(f"'{number}'" for number in range(6_000)) + ")")
    assert found.matches({"a": "5999"})
    assert found.cost == 2


def test_a_long_value_is_parsed_as_a_number_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    pattern = numbers._DECIMAL

    class Pattern:
        def fullmatch(self, text: str) -> re.Match[str] | None:
            read.append(len(text))
            return pattern.fullmatch(text)

    monkeypatch.setattr(numbers, "_DECIMAL", Pattern())
    numbers._long_double.cache_clear()
    assert compile_sql("a < 1.5 OR " * 100 + "a > 1.5").matches({"a": "9" * 30_000})
    assert read == [30_000]


def test_the_cost_of_an_evaluation_grows_with_its_terms() -> None:
    assert compile_sql("a = 1").cost == 3
    assert compile_sql("a = 1 OR b = 2").cost == 7
    assert compile_sql("a CONTAINS 'x'").cost > 10


def test_the_cache_is_bounded_by_the_length_of_expressions() -> None:
    compiler = Compiler(most_characters=100, most=3)
    first = compiler("a = 1")
    assert compiler("a = 1") is first
    compiler("b = 1")
    compiler("c = 1")
    compiler("a = 1")
    compiler("d = 1")
    assert compiler("a = 1") is first  # the one asked for longest ago went
    assert compiler.characters == 15
    compiler("e = '" + "x" * 93 + "'")
    assert compiler.characters == 99
    assert compiler("a = 1") is not first
    compiler("f = '" + "x" * 200 + "'")  # longer than all that may be kept
    assert compiler.characters == 0


def test_a_compiled_expression_takes_at_most_150_bytes_for_each_character() -> None:
    limit = 25_000
    compiler = Compiler(most_characters=limit)
    tracemalloc.start()
    try:
        for number in range(4):
            compiler(f"n = {number} OR " + "a=1 OR " * 1_500 + "a=1")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 150 * limit
    assert _KEPT_CHARACTERS * 150 < 40 << 20
