"""Formats of an answer."""

import pytest
from starlette.requests import Request

from rocketmq_py.console.page import Page, as_csv, as_json, number, paged, parse_number, wanted_format
from rocketmq_py.console.security import Refused


def test_a_spreadsheet_gets_no_formula_and_no_zero_for_what_is_unknown():
    rows = [{"a": "=1+1", "b": None, "c": -1}, {"a": "@x", "b": "-2", "c": 0}]
    assert as_csv(rows, ("a", "b", "c")).splitlines() == ["a,b,c", "'=1+1,?,-1", "'@x,'-2,0"]


def test_a_page_behind_the_end_is_the_last():
    assert paged(range(5), 9, 2) == (range(4, 5), {"page": 3, "pages": 3, "total": 5, "size": 2})
    assert paged([], 1, 2) == ([], {"page": 1, "pages": 1, "total": 0, "size": 2})


def test_pages_of_a_list():
    assert paged("abcde", 1, 2) == ("ab", {"page": 1, "pages": 3, "total": 5, "size": 2})
    assert paged("abcd", 2, 2) == ("cd", {"page": 2, "pages": 2, "total": 4, "size": 2})
    assert paged("abcd", 0, 4) == ("abcd", {"page": 1, "pages": 1, "total": 4, "size": 4})


def test_json_is_indented_and_keeps_its_letters():
    assert as_json({"a": "\u00e4", "b": [1]}) == '{\n "a": "\u00e4",\n "b": [\n  1\n ]\n}'


def test_lists_in_a_table_are_json():
    rows = [{"a": ["\u00e4"], "b": {"x": 1}, "c": (1, 2)}, {"a": "\t", "b": "\r", "c": "+1"}]
    text = as_csv(rows, ("a", "b", "c", "d"))
    assert text == 'a,b,c,d\r\n"[""\u00e4""]","{""x"": 1}","[1, 2]",?\r\n\'\t,"\'\r",\'+1,?\r\n'


def test_a_page_is_no_table_unless_it_says_so():
    page = Page("x.html", {})
    assert (page.rows, page.columns, page.status) == (None, (), 200)


def request(query="", accept=None):
    headers = [] if accept is None else [(b"accept", accept.encode())]
    return Request({"type": "http", "query_string": query.encode(), "headers": headers})


@pytest.mark.parametrize(
    ("query", "accept", "wanted"),
    [
        ("", None, "html"), ("", "application/json", "json"), ("", " TEXT/CSV ;q=1", "csv"),
        ("", "image/png, application/json", "json"), ("", "text/html, application/json", "html"),
        ("", "*/*", "html"), ("", "image/png", "html"), ("format=csv", "application/json", "csv"),
        ("format=html", "application/json", "html"), ("format=json", None, "json"),
    ],
)  # fmt: skip
def test_a_format_is_asked_for_or_accepted(query, accept, wanted):
    assert wanted_format(request(query, accept)) == wanted


def test_another_format_is_refused():
    with pytest.raises(Refused, match="format='xml' is not one of html, json, csv") as refused:
        wanted_format(request("format=xml"))
    assert refused.value.status == 400
    with pytest.raises(Refused):
        wanted_format(request("format="))


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "\u00b2", "\u0661", "--1", "+1", "1" * 20, str(10**18 + 1)])
def test_what_is_no_number_in_its_range_is_refused(text):
    with pytest.raises(Refused, match="is not a number from 0 to 1000000000000000000") as refused:
        parse_number("x", text)
    assert refused.value.status == 400
    with pytest.raises(Refused):
        number(
            Request({"type": "http", "query_string": f"n={text}".replace("+", "%2B").encode(), "headers": []}), "n", 7
        )


def test_numbers_up_to_their_limits():
    assert [parse_number("x", text) for text in ("0", "007", str(10**18))] == [0, 7, 10**18]
    assert parse_number("x", "9" * 19, most=10**19) == 10**19 - 1
    assert parse_number("x", "-5", least=-5, most=-5) == -5
    for text in ("-6", "-4"):
        with pytest.raises(Refused):
            parse_number("x", text, least=-5, most=-5)
    assert [number(request(query), "n", 7) for query in ("", "n=", "n=%20", "n=%200%20", f"n={10**18}")] == [
        7, 7, 7, 0, 10**18,
    ]  # fmt: skip
