"""A trial: tests run on a copy of the sources that has a fault, and the sources themselves stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.faults import Fault, faults
from tests.mutants.trial import Bench

SOURCE = """def larger(a, b):
    if a > b:
        return a
    return b


def unused(a):
    while a < 9:
        a += 1
"""
TESTS = """from rocketmq_py.pair import larger, unused


def test_the_larger_of_two():
    assert larger(2, 1) == 2


def test_loops():
    unused(1)


def test_fails():
    assert larger(1, 1) is None
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "root" / "src" / "rocketmq_py"
    (package / "testing").mkdir(parents=True)
    for name in ("__init__.py", "testing/__init__.py", "testing/plugin.py"):  # pytest loads the plugin of the package
        (package / name).touch()
    (package / "pair.py").write_text(SOURCE)
    tests = tmp_path / "root" / "tests"
    (tests / "mutants").mkdir(parents=True)
    (tests / "test_pair.py").write_text(TESTS)
    for name in ("recorder.py", "queued.py"):
        module = Path(__file__).parents[1] / "mutants" / name
        (tests / "mutants" / name).write_text(module.read_text())
    (tests / "conftest.py").write_text('from hypothesis import settings\n\nsettings.register_profile("quick")\n')
    return tmp_path / "root"


def fault(text: str) -> Fault:
    [found] = [f for f in faults(SOURCE.encode()) if f.lines(SOURCE.encode())[1] == text]
    return found


def test_a_trial_says_who_runs_a_line_and_whether_they_notice_its_fault(root: Path, tmp_path: Path) -> None:
    bench = Bench(root, tmp_path / "bench")
    recorded = bench.record(["tests/test_pair.py"])
    [(name, ran)] = recorded["lines"].items()
    lines = {test.partition("::")[2]: int(mask, 16) for test, mask in ran["pair.py"].items()}
    assert name == "tests/test_pair.py"
    assert lines == {"test_the_larger_of_two": 1 << 2 | 1 << 3, "test_loops": 1 << 8 | 1 << 9}
    assert recorded["seconds"].keys() == {f"{name}::{test}" for test in lines}

    larger, loops = f"{name}::test_the_larger_of_two", f"{name}::test_loops"
    assert not bench.notices("rocketmq_py/pair.py", fault("if a >= b:"), [larger], 60)
    assert bench.notices("rocketmq_py/pair.py", fault("if a <= b:"), [larger, loops], 60)
    assert bench.notices("rocketmq_py/pair.py", fault("a -= 1"), [loops], 3) is None, "it never ends"
    assert (root / "src" / "rocketmq_py" / "pair.py").read_text() == SOURCE
    assert (bench.source / "rocketmq_py" / "pair.py").read_text() == SOURCE
    assert not list(root.rglob("__pycache__"))
