"""Which faults are tried."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.mutants import chooser
from tests.mutants.chooser import Wish, choose, equivalent, every_place, lines_of_diff
from tests.mutants.faults import faults

PACKAGE = Path(__file__).parents[3] / "src" / "rocketmq_py"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "wire").mkdir()
    (tmp_path / "core").mkdir()
    (tmp_path / "wire" / "a.py").write_text("x = a < 1\ny = 2\nz = 3\n")
    (tmp_path / "core" / "b.py").write_text("x = 1\ny = not b\n")
    (tmp_path / "model.py").write_text("x = 1\n")
    return tmp_path


def chosen(package: Path, wish: Wish, seed: int = 1) -> list[str]:
    places = choose(list(every_place(package, set())), wish, random.Random(seed))
    return [f"{place.package} {place.file}:{place.fault.line}" for place in places]


def test_each_package_has_a_sample(package: Path) -> None:
    assert chosen(package, Wish(9)) == [
        "core core/b.py:1",
        "core core/b.py:2",
        "(top) model.py:1",
        "wire wire/a.py:1",
        "wire wire/a.py:2",
        "wire wire/a.py:3",
    ]
    assert [line.split()[0] for line in chosen(package, Wish(1))] == ["core", "(top)", "wire"]
    assert len({tuple(chosen(package, Wish(1), seed)) for seed in range(20)}) > 2


def test_one_sample_of_all_packages_together(package: Path) -> None:
    assert len(chosen(package, Wish(9, together=True))) == 6
    assert len(chosen(package, Wish(2, together=True))) == 2
    assert len({tuple(chosen(package, Wish(2, together=True), seed)) for seed in range(20)}) > 3


def test_files_are_chosen_by_how_their_name_begins(package: Path) -> None:
    assert chosen(package, Wish(9, only=["core/b", "model"])) == [
        "core core/b.py:1",
        "core core/b.py:2",
        "(top) model.py:1",
    ]


def test_only_changed_lines_are_tried_and_the_sample_is_of_all_of_them(package: Path) -> None:
    changed = {"wire/a.py": {2, 3}, "core/b.py": {2}}
    assert chosen(package, Wish(9, changed=changed)) == ["core core/b.py:2", "wire wire/a.py:2", "wire wire/a.py:3"]
    assert len(chosen(package, Wish(2, changed=changed))) == 2
    assert chosen(package, Wish(9, changed={})) == []


def test_every_fault_of_a_named_line_is_tried(package: Path) -> None:
    assert chosen(package, Wish(1, lines=frozenset({("wire/a.py", 1)}))) == ["wire wire/a.py:1"] * 4


def test_a_fault_known_to_change_nothing_is_not_tried(package: Path) -> None:
    known = {("core/b.py", "", "y = not b", "y = b")}
    assert all(place.file != "core/b.py" or place.fault.line == 1 for place in every_place(package, known))


def test_lines_of_a_diff() -> None:
    diff = """diff --git a/src/rocketmq_py/wire/ids.py b/src/rocketmq_py/wire/ids.py
--- a/src/rocketmq_py/wire/ids.py
+++ b/src/rocketmq_py/wire/ids.py
@@ -3 +3,2 @@ def f():
-a
+b
+c
@@ -20,4 +21,0 @@
-d
@@ -30 +28 @@
-e
+f
--- a/src/rocketmq_py/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-g
"""
    assert lines_of_diff(diff) == {"wire/ids.py": {3, 4, 28}}


def test_a_fault_that_changes_nothing_needs_a_reason() -> None:
    entry = '[[equivalent]]\nfile = "a.py"\nscope = "f"\nline = "x = 1"\nfault = "x = 2"\n'
    assert equivalent(entry + 'reason = "never read"') == {("a.py", "f", "x = 1", "x = 2")}
    with pytest.raises(ValueError, match="x = 1"):
        equivalent(entry + 'reason = " "')


def test_the_list_of_faults_that_change_nothing_is_up_to_date() -> None:
    known = equivalent(chooser.EQUIVALENT.read_text())
    files = {file for file, *_ in known}
    sources = {file: (PACKAGE / file).read_bytes() for file in files}
    there = {(file, fault.scope, *fault.lines(source)) for file, source in sources.items() for fault in faults(source)}
    assert known <= there
