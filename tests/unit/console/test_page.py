"""Formats of an answer."""

from rocketmq_py.console.page import as_csv, paged


def test_a_spreadsheet_gets_no_formula_and_no_zero_for_what_is_unknown():
    rows = [{"a": "=1+1", "b": None, "c": -1}, {"a": "@x", "b": "-2", "c": 0}]
    assert as_csv(rows, ("a", "b", "c")).splitlines() == ["a,b,c", "'=1+1,?,-1", "'@x,'-2,0"]


def test_a_page_behind_the_end_is_the_last():
    assert paged(range(5), 9, 2) == (range(4, 5), {"page": 3, "pages": 3, "total": 5, "size": 2})
    assert paged([], 1, 2) == ([], {"page": 1, "pages": 1, "total": 0, "size": 2})
