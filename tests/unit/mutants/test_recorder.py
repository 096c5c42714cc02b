"""How long a test takes, for the choice of tests that are tried."""

from __future__ import annotations

import time

import pytest

from tests.mutants import recorder


def test_time_in_which_a_test_waits_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = recorder.unhindered()
    queued = recorder.queued_seconds
    monkeypatch.setattr(recorder, "queued_seconds", lambda pid: queued(pid) + 1_000)
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + 1_002)
    assert recorder.unhindered() - begin == pytest.approx(2, abs=1)
