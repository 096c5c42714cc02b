"""Child programs of the benchmarks: output in time, too late, and at their end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.errors import BenchError
from benchmarks.machine import anonymous_mib, cpu_seconds, paused
from benchmarks.program import Program, Runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks run on Linux")

STEPPED = """
import json, sys
print(json.dumps({"type": "waiting"}), flush=True)
for line in sys.stdin:
    print(json.dumps({"type": "run", "told": line.strip()}), flush=True)
    print(json.dumps({"type": "waiting"}), flush=True)
"""


def python(source: str, folder: Path) -> Program:
    return Program([sys.executable, "-c", source], folder / "log")


def test_a_server_prints_ready(tmp_path: Path) -> None:
    with python("print('READY a=1 b=2', flush=True); input()", tmp_path) as program:
        assert program.ready() == "a=1 b=2"


def test_another_line_than_ready_is_an_error(tmp_path: Path) -> None:
    with python("print('hello', flush=True); input()", tmp_path) as program, pytest.raises(BenchError, match="hello"):
        program.ready()


def test_a_silent_program_is_an_error(tmp_path: Path) -> None:
    with python("input()", tmp_path) as program, pytest.raises(BenchError, match="silent"):
        program.line(timeout=0.05)


def test_a_dead_program_gives_its_status_and_last_output(tmp_path: Path) -> None:
    last_words = pytest.raises(BenchError, match=r"(?s)exit status 1.*no more memory")
    with python("raise SystemExit('no more memory')", tmp_path) as program, last_words:
        program.line(timeout=30)


def test_a_runner_runs_on_command(tmp_path: Path) -> None:
    with python(STEPPED, tmp_path) as program:
        runner = Runner(program, warm_timeout=30, run_timeout=30)
        assert [runner.run("a")["told"], runner.run()["told"], runner.run("b")["told"]] == ["a", "", "b"]


def test_a_row_of_another_type_is_an_error(tmp_path: Path) -> None:
    source = 'print(\'{"type": "failed"}\', flush=True); input()'
    with python(source, tmp_path) as program, pytest.raises(BenchError, match="failed"):
        program.row("run", timeout=30)


def test_a_paused_program_continues(tmp_path: Path) -> None:
    with python(STEPPED, tmp_path) as program:
        runner = Runner(program, warm_timeout=30, run_timeout=30)
        with paused(program.pid):
            assert cpu_seconds(program.pid) >= 0
            assert anonymous_mib(program.pid) > 0
        assert runner.run("x")["told"] == "x"
