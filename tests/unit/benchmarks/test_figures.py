from __future__ import annotations

import pytest

from benchmarks import figures
from benchmarks.figures import Figure, Floor, Tails, at_least, at_most, human, significant, table


def test_the_ratio_is_of_the_medians_ours_over_the_peers() -> None:
    figure = Figure("send-1", "µs p50", at_most(0.7), ours=[10, 500, 20], peer=[40, 1, 40])
    assert (figure.our_median, figure.peer_median, figure.ratio) == (20, 40, 0.5)


@pytest.mark.parametrize(
    ("floor", "ratio", "holds"),
    [
        (at_most(0.7), 0.69, True),
        (at_most(0.7), 0.704, True),
        (at_most(0.7), 0.71, False),
        (at_least(1.2), 1.2, True),
        (at_least(1.2), 1.19, False),
    ],
)
def test_a_floor_holds_for_the_ratio_as_it_is_printed(floor: Floor, ratio: float, holds: bool) -> None:
    assert floor.holds(ratio) is holds


@pytest.mark.parametrize(("accelerator", "bounds"), [(object(), (2.0, 0.5)), (None, (1.2, 0.65))])
def test_pure_python_has_bounds_of_its_own(
    monkeypatch: pytest.MonkeyPatch, accelerator: object, bounds: tuple[float, float]
) -> None:
    monkeypatch.setattr(figures, "installed", lambda: accelerator)
    assert (at_least(2.0, pure=1.2).bound, at_most(0.5, pure=0.65).bound) == bounds
    assert at_least(3.0).bound == 3.0


def test_the_summary_has_the_agreed_members() -> None:
    figure = Figure("push", "msg/s", at_least(0.7), ours=[100_123.4, 99_000, 101_000], peer=[120_000] * 3)
    assert figure.summary() == {
        "name": "push", "unit": "msg/s", "ours": 100_100, "peer": 120_000, "ratio": 0.8344, "runs": 3,
    }  # fmt: skip


def test_cores_and_tails_stand_beside_a_figure() -> None:
    figure = Figure("send-256", "msg/s", at_least(2), [90_000], [60_000])
    figure.cores = (0.99512, 1.5)
    figure.tails = (Tails(2000, 4000, 9000.5), Tails(3000, 10_000, 200_000))
    summary = figure.summary()
    assert summary["cores"] == {"ours": 0.995, "peer": 1.5}
    assert summary["us"]["peer"] == {"p50": 3000, "p99": 10_000, "p999": 200_000}
    row = table([figure]).splitlines()[-1]
    assert row.endswith("MISS  1.00 / 1.50  2,000 / 4,000 / 9,000  3,000 / 10,000 / 200,000")


def test_the_record_keeps_every_run_and_the_verdict() -> None:
    record = Figure("push", "msg/s", at_least(0.7), ours=[1, 2], peer=[3, 4], notes={"why": "x"}).record()
    assert record["ours_runs"] == [1, 2]
    assert record["peer_runs"] == [3, 4]
    assert record["holds"] is False
    assert record["notes"] == {"why": "x"}


def test_the_table_names_what_missed_its_floor() -> None:
    text = table([
        Figure("start", "s", at_most(0.15), ours=[0.2], peer=[5.0]),
        Figure("batch", "msg/s", at_least(0.6), ours=[100_000], peer=[400_000]),
    ])  # fmt: skip
    head, _, start, batch = text.splitlines()
    assert "floor" in head
    assert start.split()[0] == "start"
    assert start.endswith("≤ 0.15 ×  pass")
    assert batch.endswith("MISS")
    assert "100,000" in batch


def test_figures_are_rounded_for_people_and_for_files() -> None:
    assert human(123_456) == "123,000"
    assert human(0.12345) == "0.123"
    assert significant(123_456) == 123_500
