"""How long the tests of a fault may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import trial

STATISTICS = Path(f"/proc/{os.getpid()}/schedstat")


class Slow:
    """A process that needs some seconds of a processor, on a machine that gives it one in every ``share`` seconds."""

    pid = 7

    def __init__(self, needs: float, share: int) -> None:
        self.ends_at, self.share, self.now = needs * share, share, 0.0

    def wait(self, seconds: float) -> int:
        self.now = min(self.now + seconds, self.ends_at)
        if self.now < self.ends_at:
            raise subprocess.TimeoutExpired("x", seconds)
        return 3

    def queued(self, pid: int) -> float:
        assert pid == self.pid
        return self.now - self.now / self.share


@pytest.mark.parametrize("share", [1, 2, 64])
@pytest.mark.parametrize(("needs", "status"), [(9.0, 3), (10.5, None)])
def test_a_busy_machine_takes_no_time_from_the_tests(
    needs: float, status: int | None, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    process: Any = Slow(needs, share)
    monkeypatch.setattr(trial, "queued_seconds", process.queued)
    assert trial.ended(process, 10.0, lambda: process.now) == status


@pytest.mark.skipif(not STATISTICS.exists(), reason="the system does not tell it")
def test_what_a_process_waited_for_a_processor_is_known_while_it_lives() -> None:
    before = int(STATISTICS.read_text().split()[1])
    found = trial.queued_seconds(os.getpid())
    assert before <= round(found * 1e9) <= int(STATISTICS.read_text().split()[1])


def test_of_a_process_that_is_gone_it_is_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        pass
    assert trial.queued_seconds(process.pid) == 0
