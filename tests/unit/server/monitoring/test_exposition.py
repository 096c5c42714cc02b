"""The lines of an exposition, letter by letter."""

from __future__ import annotations

import pytest

from rocketmq_py.core.metrics.counters import RpcKey, RpcLatency
from rocketmq_py.core.metrics.exposition import GAUGE, HISTOGRAM, Family
from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.server.monitoring.exposition import RPC_LATENCY, Exposition, chunks, text_of

ONE, OTHER, SPANS = Family("one", GAUGE, "One."), Family("other", GAUGE, "Other."), Family("spans", HISTOGRAM, "Spans.")
ROWS = [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def spans(*values: float) -> Histogram:
    made = Histogram((1,))
    for value in values:
        made.observe(value)
    return made


@pytest.mark.parametrize(("most", "shown"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_a_family_has_at_most_so_many_series(most: int, shown: int) -> None:
    exposition = Exposition("x", most)
    lines = ["# HELP one One.\n# TYPE one gauge\n", "one{a} 1.0\n", "one{b} 2.0\n", "one{c} 3.0\n"]
    assert list(exposition.family(ONE, iter(ROWS))) == lines[: 1 + shown]
    assert exposition.left_out == ({"one": 3 - most} if most < 3 else {})


@pytest.mark.parametrize(("most", "shown"), [(1, 1), (2, 2), (3, 2)])
def test_a_histogram_has_at_most_so_many_series(most: int, shown: int) -> None:
    exposition = Exposition("x", most)
    text = "".join(exposition.histogram(SPANS, [("a", spans(1)), ("b", spans(2))]))
    assert text.count("spans_count") == shown
    assert text.startswith('# HELP spans Spans.\n# TYPE spans histogram\nspans_bucket{a,le="1.0"} 1.0\n')
    assert exposition.left_out == ({"spans": 1} if most < 2 else {})


def test_a_family_without_series_is_left_out() -> None:
    exposition = Exposition("x", 5)
    assert list(exposition.family(ONE, [])) == list(exposition.histogram(SPANS, [])) == []


def test_only_what_is_wanted_is_made() -> None:
    exposition = Exposition("x", 5)
    assert exposition.is_wanted(ONE)
    exposition.begin(frozenset({"other"}))
    assert [exposition.is_wanted(ONE), exposition.is_wanted(ONE, OTHER), exposition.is_wanted()] == [False, True, False]
    assert "".join(exposition.gauges((ONE, 1), (OTHER, 2))) == "# HELP other Other.\n# TYPE other gauge\nother{x} 2.0\n"
    assert list(exposition.histogram(SPANS, [("a", spans(1))])) == []
    exposition.begin(frozenset())
    assert "".join(exposition.gauges((ONE, 1))) == "# HELP one One.\n# TYPE one gauge\none{x} 1.0\n"


def test_what_is_left_out_is_logged_once_and_counted_in_each_exposition(caplog: pytest.LogCaptureFixture) -> None:
    exposition = Exposition("x", 1)
    for _ in range(2):
        exposition.begin(frozenset())
        assert exposition.left_out == {}
        list(exposition.family(ONE, ROWS))
        assert exposition.left_out == {"one": 2}
    list(exposition.family(OTHER, ROWS))
    assert [record.getMessage() for record in caplog.records] == [
        f"2 series of {name} are left out: metricsOtelCardinalityLimit is 1" for name in ("one", "other")
    ]


def test_latencies_have_names_of_codes_or_numbers() -> None:
    latency = RpcLatency()
    latency.observe(RpcKey(11, 0, True, "success"), 4)
    latency.observe(RpcKey(99_999, 77_777, False, "oneway"), 4)
    exposition = Exposition('a="b"', 5)
    counts = [line for line in "".join(exposition.rpc(latency)).splitlines() if "_count" in line]
    assert counts == [
        f'{RPC_LATENCY.name}_count{{a="b",protocol_type="remoting",{rest}}} 1.0'
        for rest in (
            'request_code="pull_message",response_code="success",is_long_polling="true",result="success"',
            'request_code="99999",response_code="77777",is_long_polling="false",result="oneway"',
        )
    ]
    assert [text_of(value=True), text_of(value=False)] == ["true", "false"]


@pytest.mark.parametrize(("lines", "pieces"), [(0, []), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])])
def test_lines_are_encoded_by_the_hundred(lines: int, pieces: list[int]) -> None:
    found = list(chunks("ä\n" for _ in range(lines)))
    assert [piece.count(b"\n") for piece in found] == pieces
    assert b"".join(found) == "ä\n".encode() * lines


def test_a_piece_ends_after_work_and_after_many_lines_at_once() -> None:
    long = "x" * 4_097
    assert list(chunks(["a", "", "", "b", "c", long, "d", "x" * 4_096])) == [
        b"a", b"", b"bc" + long.encode(), b"d" + b"x" * 4_096,
    ]  # fmt: skip


@pytest.mark.parametrize(("lines", "most", "pieces"), [
    (1, 9, [1]), (500, 999, [500]), (501, 999, [500, 1]), (600, 500, [500]), (600, 501, [500, 1]),
])  # fmt: skip
def test_lines_that_were_made_are_joined_within_the_limit(lines: int, most: int, pieces: list[int]) -> None:
    exposition = Exposition("x", most)
    head, *found = exposition.made(ONE, [f"{number}\n" for number in range(lines)])
    assert head == "# HELP one One.\n# TYPE one gauge\n"
    assert [piece.count("\n") for piece in found] == pieces
    assert "".join(found).split() == [str(number) for number in range(min(lines, most))]
    assert exposition.left_out == ({"one": lines - most} if lines > most else {})


def test_lines_that_nobody_wants_are_left_out() -> None:
    exposition = Exposition("x", 5)
    assert list(exposition.made(ONE, [])) == []
    exposition.begin(frozenset({"other"}))
    assert list(exposition.made(ONE, ["a\n"])) == []


@pytest.mark.parametrize(("most", "lines"), [(5, 10), (6, 10), (4, 8), (2, 4), (1, 2)])
def test_blocks_are_given_as_they_are_within_the_limit_of_series(most: int, lines: int) -> None:
    exposition = Exposition("x", most)
    blocks = [b"a0\na1\nb0\nb1\n", b"c0\nc1\nd0\nd1\n", b"e0\ne1\n"]
    head, *found = exposition.blocks(ONE, iter(blocks), 5, lines_of_series=2)
    assert head == b"# HELP one One.\n# TYPE one gauge\n"
    assert b"".join(found) == b"".join(b"".join(blocks).splitlines(keepends=True)[:lines])
    assert all(block is given for block, given in zip(blocks, found, strict=False)) or most < 5
    assert exposition.left_out == ({"one": 5 - most} if most < 5 else {})


def test_blocks_that_nobody_wants_are_left_out() -> None:
    exposition = Exposition("x", 5)
    assert list(exposition.blocks(ONE, [], 0)) == []
    exposition.begin(frozenset({"other"}))
    assert (list(exposition.blocks(ONE, [b"a\n"], 1)), exposition.left_out) == ([], {})
