"""How long the tests of a fault may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import trial
from tests.mutants.__main__ import Benches, again
from tests.mutants.faults import faults
from tests.mutants.report import ENDLESS, NOTICED, SURVIVED, Result

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


@pytest.mark.parametrize(("status", "noticed"), [(0, False), (1, True), (2, True), (None, None)])
def test_tests_that_do_not_end_say_neither_yes_nor_no(
    status: int | None, noticed: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = b"def f(x):\n    return x < 3\n"
    source = tmp_path / "root" / "src" / "p" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_bytes(sound)
    bench = trial.Bench(tmp_path / "root", tmp_path / "bench")
    tried: list[bytes] = []

    def pytest_ends(*_: object) -> int | None:
        tried.append((bench.source / "p" / "a.py").read_bytes())
        return status

    monkeypatch.setattr(bench, "_pytest", pytest_ends)
    fault = faults(sound)[0]
    assert bench.notices("p/a.py", fault, ["tests/unit/test_a.py::test_f"], 10.0) is noticed
    assert tried == [fault.apply(sound)] != [sound]
    assert (bench.source / "p" / "a.py").read_bytes() == sound


class Played:
    """A judge whose tests do not end the first ``hangs`` times they are asked about a place."""

    def __init__(self, hangs: int) -> None:
        self.hangs = hangs
        self.asked: list[object] = []

    def result(self, bench: object, place: Any) -> Result:
        self.asked.append(place)
        outcome = ENDLESS if self.asked.count(place) <= self.hangs else SURVIVED
        return Result("wire", place, 1, "f", "x", "y", outcome)


@pytest.mark.parametrize(("hangs", "outcome"), [(1, SURVIVED), (2, ENDLESS)])
def test_what_did_not_end_is_tried_once_more_and_nothing_else_is(hangs: int, outcome: str) -> None:
    judge: Any = Played(hangs)
    places: Any = ["a.py", "b.py"]
    first = [judge.result(None, "a.py"), Result("wire", "b.py", 1, "f", "x", "y", NOTICED)]
    bench: Any = object()
    assert [each.outcome for each in again(Benches([bench]), judge, places, first)] == [outcome, NOTICED]
    assert judge.asked == ["a.py", "a.py"]
