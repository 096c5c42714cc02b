"""Without a compiler nothing is measured, and that is said."""

from __future__ import annotations

import pytest

from benchmarks import drive
from benchmarks.__main__ import _measure
from benchmarks.errors import BenchError
from benchmarks.figures import Figure
from benchmarks.loads import WORKS
from benchmarks.rows import ROWS
from benchmarks.session import QUICK, Session


def test_a_missing_cargo_is_named_and_no_row_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="cargo is not on PATH"):
        drive.Generator.build()
    session = Session(QUICK, lambda _: None)
    figures: list[Figure] = []
    failures: dict[str, str] = {}
    _measure("send-256", session, figures, failures)
    assert not figures
    assert "cargo is not on PATH" in failures["send-256"]


def test_every_load_is_a_row() -> None:
    assert WORKS.keys() <= ROWS.keys()
