"""Values that are not of the declared type: converted as Java's servers do, or refused with the name of the member."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.coercion import convert_leniently


class Inner(msgspec.Struct):
    whole: int = 7


class Kinds(msgspec.Struct):
    number: float = 1.5
    flag: bool = True
    text: str = "default"
    texts: list[str] = msgspec.field(default_factory=lambda: ["default"])
    table: dict[str, int] = msgspec.field(default_factory=lambda: {"default": 1})
    anything: Any = "default"
    inner: Inner | None = None


def converted(**given: Any) -> Kinds:
    return convert_leniently(given, Kinds)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("2.5", 2.5), (".5", 0.5), ("-3", -3.0), ("1e3", 1000.0), (4, 4.0), ("", 1.5), ("NULL", 1.5), (None, 1.5)],
)
def test_texts_are_numbers(given: object, expected: float) -> None:
    assert converted(number=given).number == expected


@pytest.mark.parametrize("given", ["x", "1_000", "nan", 10**400, [1], {}])
def test_what_is_no_number_is_refused_by_name(given: object) -> None:
    with pytest.raises(BadHeader, match=r"Kinds: number is .*: a number is expected"):
        converted(number=given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("Y", True), ("n", False), (0, False), (1, True), ("TRUE", True), (False, False), ("", True), ("null", True)],
)
def test_texts_and_numbers_are_booleans(given: object, expected: bool) -> None:
    assert converted(flag=given).flag is expected


@pytest.mark.parametrize("given", ["yes", 2, [True], 1.0])
def test_what_is_no_boolean_is_refused_by_name(given: object) -> None:
    with pytest.raises(BadHeader, match=r"Kinds: flag is .*: true or false is expected"):
        converted(flag=given)


@pytest.mark.parametrize(("given", "expected"), [(True, "true"), (False, "false"), (["one"], "one"), (None, "default")])
def test_booleans_and_lists_of_one_are_texts(given: object, expected: str) -> None:
    assert converted(text=given).text == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("", []), ("a", ["a"]), ([None, "a"], ["a"]), ([True], ["true"]), (None, ["default"])]
)
def test_one_value_is_a_list_of_it(given: object, expected: list[str]) -> None:
    assert converted(texts=given).texts == expected


@pytest.mark.parametrize("given", [0, 1.5, True])
def test_numbers_are_no_lists(given: object) -> None:
    with pytest.raises(BadHeader, match=r"Kinds: texts is .*: a list is expected"):
        converted(texts=given)


@pytest.mark.parametrize(
    ("given", "expected"), [("", {"default": 1}), ("null", {"default": 1}), ({"a": "2", "b": None}, {"a": 2})]
)
def test_members_of_tables_are_converted(given: object, expected: dict[str, int]) -> None:
    assert converted(table=given).table == expected


def test_the_error_names_the_member_of_a_member() -> None:
    with pytest.raises(BadHeader, match=r"Kinds: table\.a is 'x': a whole number is expected"):
        converted(table={"a": "x"})
    with pytest.raises(BadHeader, match=r"Kinds: inner\.whole is 'x': a whole number is expected"):
        converted(inner={"whole": "x"})
    for given in (7, ["a"], "x"):
        with pytest.raises(BadHeader, match=r"Kinds: table is .*: an object is expected"):
            converted(table=given)
        with pytest.raises(BadHeader, match=r"Kinds: inner is .*: an object is expected"):
            converted(inner=given)


def test_members_without_a_type_are_left_as_they_are() -> None:
    given = {"a": [1, "2", None]}
    assert converted(anything=given).anything == given


@pytest.mark.parametrize("given", ["", "null"])
def test_an_empty_text_is_no_object(given: str) -> None:
    assert converted(inner=given).inner is None
    assert convert_leniently(given, Kinds) == Kinds()
