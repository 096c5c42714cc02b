"""What tests take: seconds on the clock and of cores, of this process and of what it has started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.times import Times, cores_used, main, table

LINES: list[dict[str, float | str]] = [
    {"test": "a.py::one", "begin": 0.0, "seconds": 1.0, "cores": 0.5},
    {"test": "b.py::two", "begin": 1.0, "seconds": 4.0, "cores": 0.1},
    {"test": "a.py::three", "begin": 5.0, "seconds": 2.0, "cores": 0.25},
]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_child_counts_while_it_runs_and_after_its_end() -> None:
    before = cores_used()
    work = "x = sum(range(4_000_000)); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    running = cores_used()
    child.communicate(b"\n")
    assert before < running <= cores_used()


def test_files_are_sorted_by_seconds_on_the_clock() -> None:
    assert [line.split() for line in table(LINES, by_test=False).splitlines()[1:]] == [
        ["4.0", "0.1", "b.py"], ["3.0", "0.8", "a.py"], ["7.0", "0.8", "all"],
    ]  # fmt: skip
    assert [line.split()[2] for line in table(LINES, by_test=True).splitlines()[1:]] == [
        "b.py::two", "a.py::three", "a.py::one", "all",
    ]  # fmt: skip


def test_the_table_of_a_file_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "times").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    assert main([str(tmp_path / "times"), "--tests"]) == 0
    assert "a.py::three" in capsys.readouterr().out
    assert main([]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_each_test_adds_a_line(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    hook = Times(tmp_path / "times").pytest_runtest_protocol(request.node)
    next(hook)
    with pytest.raises(StopIteration):
        next(hook)
    [line] = map(json.loads, (tmp_path / "times").read_text().splitlines())
    assert line["test"] == request.node.nodeid
    assert line["seconds"] >= 0
