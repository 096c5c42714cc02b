"""Rows and records as text, JSON and lines of JSON."""

import json

import pytest

from rocketmq_py.cli.output.tables import echo_record, echo_rows, table_text

ROWS = [{"name": "ä", "n": 1}, {"name": "b", "n": 22}]


def plain(text):
    return text.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("table", "name   n\nä      1\nb     22\n"),
        ("jsonl", '{"name": "ä", "n": 1}\n{"name": "b", "n": 22}\n'),
        ("json", json.dumps(ROWS, ensure_ascii=False, indent=2) + "\n"),
    ],
)
def test_rows_have_three_forms(capsys, output, text):
    echo_rows(iter(ROWS), output)
    assert capsys.readouterr().out == text


def test_columns_limit_a_table_only(capsys):
    echo_rows(ROWS, "table", ("n", "other"))
    echo_rows(ROWS, "jsonl", ("n",))
    assert capsys.readouterr().out == (
        ' n  other\n 1      -\n22      -\n{"name": "ä", "n": 1}\n{"name": "b", "n": 22}\n'
    )


def test_a_table_without_rows_is_its_header():
    assert plain(table_text([], ("a", "bc"))) == ["a  bc"]
    assert plain(table_text([])) == []


def test_columns_appear_in_the_order_of_their_first_row():
    assert plain(table_text([{"a": "x"}, {"b": "y", "a": "z"}])) == ["a  b", "x  -", "z  y"]


def test_only_the_header_is_bold():
    header, row = table_text([{"a": "x"}]).splitlines()
    assert (header, row) == ("\x1b[1ma\x1b[0m", "x")


@pytest.mark.parametrize(
    ("value", "cell"),
    [(True, "yes"), (False, "no"), (None, "-"), (0, "0"), ("", ""), ([], "-"), ([1, None, True], "1, -, yes"),
     ({}, "-"), ({"x": 1, "y": [2, 3]}, "x=1, y=2, 3")],
)  # fmt: skip
def test_cells_are_text(value, cell):
    assert plain(table_text([{"end": ".", "value": value}]))[1].removeprefix(".").strip() == cell


def test_yes_and_no_are_words_and_so_on_the_left():
    assert plain(table_text([{"flag": True}])) == ["flag", "yes"]
    assert plain(table_text([{"flag": None}, {"flag": 1}])) == ["flag", "   -", "   1"]


@pytest.mark.parametrize(
    ("output", "text"),
    [("json", '{\n  "a": "ä",\n  "b": [\n    1\n  ]\n}\n'), ("jsonl", '{"a": "ä", "b": [1]}\n')],
)
def test_a_record_is_one_document(capsys, output, text):
    echo_record({"a": "ä", "b": [1]}, output)
    assert capsys.readouterr().out == text


def test_a_record_has_a_line_for_each_value(capsys):
    echo_record({"name": "x", "on": True, "many": ["p", "q"], "map": {"k": 1, "l": None}, "no": [], "none": {}},
                "table")  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "name  x", "on    yes", "many  p", "      q", "map   k = 1", "      l = -", "no    -", "none  -"
    ]  # fmt: skip
    echo_record({}, "table")
    assert capsys.readouterr().out == ""
