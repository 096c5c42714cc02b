"""The table of a measurement, whose brokers need not have the same quantities."""

from __future__ import annotations

from benchmarks.growth.__main__ import _table


def test_a_quantity_that_one_broker_lacks_is_a_dash() -> None:
    found = {"ours": {"start s": 1.5, "longest turn, ms": 0.0}, "java": {"start s": 4.0, "stop s": 2.0}}
    title, *lines = _table("20 topics", found).splitlines()
    assert title.split() == ["20", "topics", "ours", "java"]
    assert [line.split()[-2:] for line in lines] == [["1.5", "4"], ["0", "–"], ["–", "2"]]


def test_a_broker_that_was_not_measured_has_dashes_and_a_reason() -> None:
    _, line, reason = _table("20 topics", {"ours": {"start s": 1.5}, "java": "not measured: no Java"}).splitlines()
    assert line.split()[-2:] == ["1.5", "–"]
    assert reason.strip() == "java: not measured: no Java"
