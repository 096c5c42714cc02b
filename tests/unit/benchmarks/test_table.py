from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from benchmarks.figures import Figure, Tails, at_least, at_most
from benchmarks.table import BEGIN, END, HEADINGS, circumstances, main, markdown, results, written_into


def file(time: str, *figures: Figure, quick: bool = False, **settings: Any) -> dict[str, Any]:
    machine = {"cores": 2, "system": "Linux", "python": "3.11.7", "java": "openjdk 17"}
    return {
        "time": time,
        "settings": {"quick": quick, **settings},
        "machine": machine,
        "figures": [figure.record() for figure in figures],
    }


def push(*ours: float) -> Figure:
    return Figure("push", "msg/s", at_least(1.5), ours, [100_000])


def test_the_newest_result_of_each_kind_counts() -> None:
    files = [
        file("2026-01-03", push(300_000), accelerator=True),
        file("2026-01-02", push(200_000)),
        file("2026-01-01", push(110_000), accelerator=False),
    ]
    (result,) = results(files).values()
    assert result.compiled is not None
    assert result.compiled["ours"] == 300_000
    assert result.plain is not None
    assert result.plain["ours"] == 110_000


def test_figures_have_the_order_of_the_rows() -> None:
    names = ["unheard", "push", "latency-p50", "send-64-cpu", "send-1024-c64", "send-1"]
    found = results([file("1", *(Figure(name, "s", at_most(1), [1], [1]) for name in names))])
    assert list(found) == ["send-1", "send-64-cpu", "send-1024-c64", "push", "latency-p50", "unheard"]


def test_a_line_has_both_columns_cores_and_percentiles() -> None:
    sends = Figure("send-256", "msg/s", at_least(2), [90_000, 100_000, 110_000], [60_000])
    sends.cores = (0.99512, 1.5)
    sends.tails = (Tails(2000, 4000, 9000.5), Tails(3000, 10_000, 200_000))
    plain = Figure("send-256", "msg/s", at_least(1.2), [80_000], [60_000])
    lines = markdown(results([file("1", sends), file("2", plain, accelerator=False)])).splitlines()
    assert lines[0] == f"| {' | '.join(HEADINGS)} |"
    assert lines[2] == (
        "| send-256 | msg/s | 100,000 (90,000 – 110,000) | 60,000 (60,000 – 60,000) | **1.67 ×** | ≥ 2 × | 0.99 / 1.50 "
        "| 2,000 / 4,000 / 9,000 | 3,000 / 10,000 / 200,000 | 80,000 (80,000 – 80,000) | 1.33 × | ≥ 1.2 × |"
    )


def test_what_was_not_measured_is_empty() -> None:
    lines = markdown(results([file("1", push(120_000), accelerator=False)])).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| push | msg/s |  |  |  |  |  |  |  | 120,000 (120,000 – 120,000) |")


def test_the_circumstances_are_told() -> None:
    files = [file("2026-01-01T10:00", push(1)), file("2026-01-02T10:00", push(1), quick=True)]
    assert circumstances(files) == (
        "2 cores, Linux, Python 3.11.7, openjdk 17. Measured on 2026-01-01, 2026-01-02; 1 of 2 results with `--quick`. "
        "Median (minimum – maximum) of the runs."
    )
    assert "--quick" not in circumstances(files[:1])


def test_the_table_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    page, stored = tmp_path / "page.md", tmp_path / "result.json"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    stored.write_text(json.dumps(file("1", push(150_000))))
    for _ in range(2):
        done = CliRunner().invoke(main, [str(stored), "--into", str(page)])
        assert (done.exit_code, done.output) == (0, "")
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\n2 cores")
    assert text.endswith(f"\n\n{END}\nafter\n")
    assert "old" not in text
    assert text.count("| push |") == 1
    assert "| push | msg/s | 150,000" in CliRunner().invoke(main, [str(stored)]).output


@pytest.mark.parametrize("page", ["", f"{BEGIN}\n", END])
def test_a_page_without_the_marks_is_left_alone(page: str) -> None:
    with pytest.raises(click.ClickException, match="has no lines"):
        written_into(page, "table")
