"""``make bench`` passes on what its help promises."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.__main__ import main

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(("said", "only"), [([], None), (["ONLY=send-1"], "send-1")])
def test_make_bench_passes_its_arguments_on(said: list[str], only: str | None) -> None:
    words = ["make", "--silent", "--dry-run", "bench", "ARGS=--quick --runs 2", "PYTHON=python", *said]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [command] = [line for line in printed.splitlines() if " -m benchmarks " in line]
    context = main.make_context("bench", command.split(" -m benchmarks ")[1].split())
    assert context.params == {"only": only, "quick": True, "runs": 2}
