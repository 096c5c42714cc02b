"""Who runs a line, and what has to be asked again after a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.whoruns import WhoRuns, in_order


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    (tmp_path / "src" / "b.py").write_text("2")
    (tmp_path / "test_x.py").write_text("3")
    (tmp_path / "test_y.py").write_text("4")
    return tmp_path


def known(root: Path) -> WhoRuns:
    return WhoRuns(root, root / "src", root / "cache")


def learnt(root: Path) -> WhoRuns:
    who = known(root)
    lines = {"test_x.py": {"a.py": {"test_x.py::one": f"{1 << 3 | 1 << 5:x}", "test_x.py::two": f"{1 << 5:x}"}}}
    who.learn(["test_x.py", "test_y.py"], {"lines": lines, "seconds": {"test_x.py::one": 0.5, "test_x.py::two": 0.25}})
    return who


def test_a_line_is_run_by_those_that_were_seen_on_it(root: Path) -> None:
    for who in (learnt(root), known(root)):  # a second run reads what the first has learnt
        assert who.of_lines("a.py", range(3, 4), ["test_x.py"]) == {"test_x.py::one": 0.5}
        assert who.of_lines("a.py", range(5, 6), ["test_x.py"]) == {"test_x.py::one": 0.5, "test_x.py::two": 0.25}
        assert who.of_lines("a.py", range(4, 5), ["test_x.py"]) == {}
        assert who.of_lines("a.py", range(4, 6), ["test_x.py"]).keys() == {"test_x.py::one", "test_x.py::two"}
        assert who.of_lines("b.py", range(3, 4), ["test_x.py"]) == {}
        assert who.of_lines("a.py", range(3, 4), ["test_y.py"]) == {}


def test_a_line_that_an_import_runs_matters_to_those_who_run_the_module_or_one_that_imports_it(root: Path) -> None:
    who = learnt(root)
    both = {"test_x.py::one": 0.5, "test_x.py::two": 0.25}
    assert who.of_import("a.py", ["test_x.py", "test_y.py"]) == both
    assert who.of_import("b.py", ["test_x.py", "test_y.py"]) == {}
    (root / "src" / "a.py").write_text("from rocketmq_py.b import c")
    assert who.of_import("b.py", ["test_x.py"]) == both
    (root / "src" / "a.py").write_text("from rocketmq_py import (\n    a,\n    b as c,\n)")
    assert who.of_import("b.py", ["test_x.py"]) == both
    (root / "src" / "a.py").write_text("from rocketmq_py.bb import b")
    assert who.of_import("b.py", ["test_x.py"]) == {}
    (root / "test_x.py").write_text("from rocketmq_py.b import c")
    assert who.of_import("b.py", ["test_x.py"]) == both


def test_who_has_passed(root: Path) -> None:
    who = learnt(root)
    assert who.passed(["test_x.py", "test_y.py", "test_z.py"]) == {"test_x.py::one": 0.5, "test_x.py::two": 0.25}
    assert who.passed(["test_y.py"]) == {}


def test_nothing_is_asked_again_while_nothing_changes(root: Path) -> None:
    tests = [root / "test_x.py", root / "test_y.py"]
    assert known(root).out_of_date(tests, ["a.py"]) == ["test_x.py", "test_y.py"]
    learnt(root)
    assert known(root).out_of_date(tests, ["a.py", "b.py"]) == []


def test_a_test_file_that_changed_is_asked_again(root: Path) -> None:
    learnt(root)
    (root / "test_y.py").write_text("5")
    assert known(root).out_of_date([root / "test_x.py", root / "test_y.py"], ["a.py"]) == ["test_y.py"]


def test_a_source_that_changed_concerns_only_those_that_ran_it(root: Path) -> None:
    learnt(root)
    (root / "src" / "a.py").write_text("6")
    tests = [root / "test_x.py", root / "test_y.py"]
    assert known(root).out_of_date(tests, ["a.py"]) == ["test_x.py"]
    assert known(root).out_of_date(tests, ["b.py"]) == []


def test_a_modules_own_tests_are_tried_first_then_its_folders_then_the_quick_ones() -> None:
    tests = {
        "tests/unit/cli/test_root.py::a": 1.0,
        "tests/property/test_blocks.py::b": 0.1,
        "tests/unit/store/log/test_scan.py::c": 2.0,
        "tests/unit/store/log/test_commit_log.py::d": 3.0,
    }
    order = [test[-1] for test in in_order(tests, "store/log/commit_log.py", 9.0)]
    assert order == ["d", "c", "b", "a"]


def test_a_budget_leaves_out_the_last_but_never_all() -> None:
    tests = {"tests/unit/test_a.py::a": 1.0, "tests/unit/test_a.py::b": 2.0, "tests/unit/test_a.py::c": 3.0}
    assert in_order(tests, "a.py", 3.0) == ["tests/unit/test_a.py::a", "tests/unit/test_a.py::b"]
    assert in_order(tests, "a.py", 0.5) == ["tests/unit/test_a.py::a"]
    assert in_order({}, "a.py", 9.0) == []
