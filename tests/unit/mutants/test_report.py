"""The table by package."""

from __future__ import annotations

from tests.mutants.report import ENDLESS, HIGHER, NOT_RUN, NOTICED, SURVIVED, Result, table


def test_a_line_that_no_test_runs_counts_as_not_noticed() -> None:
    outcomes = [("wire", NOTICED), ("wire", NOTICED), ("core", NOTICED), ("core", SURVIVED), ("core", NOT_RUN)]
    results = [Result(package, "a.py", 3, "f", "x", "y", outcome) for package, outcome in outcomes]
    assert [row.split() for row in table(results).splitlines()[1:]] == [
        ["core", "3", "1", "0", "0", "1", "1", "33", "%", "33", "%"],
        ["wire", "2", "2", "0", "0", "0", "0", "100", "%", "100", "%"],
        ["all", "5", "3", "0", "0", "1", "1", "60", "%", "60", "%"],
    ]


def test_what_only_a_higher_tier_noticed_counts_for_all_tiers() -> None:
    results = [Result("wire", "a.py", 3, "f", "x", "y", outcome) for outcome in (NOTICED, HIGHER, HIGHER, SURVIVED)]
    assert table(results).splitlines()[-1].split() == ["all", "4", "1", "0", "2", "1", "0", "25", "%", "75", "%"]


def test_tests_that_do_not_end_have_noticed_and_are_counted_apart() -> None:
    results = [Result("wire", "a.py", 3, "f", "x", "y", outcome) for outcome in (NOTICED, ENDLESS, SURVIVED, NOT_RUN)]
    assert table(results).splitlines()[-1].split() == ["all", "4", "1", "1", "0", "1", "1", "50", "%", "50", "%"]


def test_a_survivor_is_told_with_its_place() -> None:
    told = Result("core", "core/a.py", 3, "A.f", "x = 1", "x = 2", SURVIVED).sentence()
    assert told == "survived core/a.py:3 A.f\n    - x = 1\n    + x = 2"


def test_no_fault_is_no_share() -> None:
    assert table([]).splitlines()[-1].split() == ["all", "0", "0", "0", "0", "0", "0", "–", "–"]
