"""The demo, in small: it agrees with itself, goes on where it was stopped, and says so when it cannot."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.spark.standalone import QUICK_JVM

ROOT = Path(__file__).parents[2]


def demo(data: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", "--data", str(data), *options]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JVM}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=1000)
    return output


def sent(data: Path) -> int:
    return int(msgspec.json.decode((data / "state.json").read_bytes())["sent"])


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_an_interrupted_run_continues_and_the_numbers_agree(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = demo(data, "--limit", "3000", "--rate", "8")
    assert first.stdout is not None
    for line in first.stdout:
        if re.search(r"micro-batches [1-9]", line):
            break
    first.send_signal(signal.SIGINT)
    finish(first)
    assert first.returncode != 0
    assert 0 < sent(data) < 3000

    second = demo(data, "--limit", "3000")
    output = finish(second)
    assert second.returncode == 0, output
    assert "FAIL" not in output
    assert pd.read_parquet(data / "windows")["departures"].sum() == 3000
    assert (data / "delays.png").stat().st_size > 10_000

    third = demo(data, "--limit", "3000")
    output = finish(third)
    assert third.returncode == 0, output


def test_another_limit_on_the_same_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b'{"sent":5,"limit":10}')
    run = demo(tmp_path, "--limit", "20")
    output = finish(run)
    assert run.returncode == 2
    assert "--limit 10" in output
    assert not (tmp_path / "store").exists()
