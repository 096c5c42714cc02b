"""Two checkouts beside each other: what is compared, and what says so."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from benchmarks.ab import main, rounds
from benchmarks.figures import Figure, at_most


def test_rounds_are_compared_with_each_other() -> None:
    figure = Figure("send-64-cpu", "µs CPU/msg", at_most(1.03), ours=[10, 20, 30], peer=[10, 10, 20])
    assert rounds(figure) == "new / old by rounds 1.500 (1.000 – 2.000), least / least 1.000"
    assert rounds(Figure("x", "x", at_most(1), ours=[3], peer=[2])).startswith("new / old by rounds 1.500 (1.500")


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["--old", str(tmp_path), "send-1"])
    assert said.exit_code == 1
    assert "is no checkout" in said.output
