"""The figures of the long run."""

from __future__ import annotations

from benchmarks.drive import Driven
from benchmarks.rows.hold import figures


def minute(p99: float, cores: float = 0.5) -> Driven:
    return Driven(1, 1, 1.0, 1.0, 1.0, p99, 10 * p99, 20 * p99, 0.1, 0.1, [0.1], cores, 0.1, [[1]])


def test_the_last_minutes_are_compared_with_the_first() -> None:
    ours = [minute(p99, cores=p99) for p99 in (1, 2, 3, 40, 50, 60, 70, 8, 9, 10)]
    java = [minute(100.0, cores=1.5)] * 10
    p99, p999, drift, drift_999 = figures(ours, java)
    assert [figure.name for figure in (p99, p999, drift, drift_999)] == [
        "hold-p99", "hold-p999", "hold-p99-drift", "hold-p999-drift",
    ]  # fmt: skip
    assert (p99.our_median, p99.peer_median, p99.cores) == (9.5, 100, (9.5, 1.5))
    assert p99.tails is not None
    assert (p99.tails[0].p999, p99.tails[1].p999) == (95, 1000)
    assert (p999.our_median, p999.peer_median) == (95, 1000)
    assert (list(drift.ours), list(drift.peer), drift.ratio) == ([8, 9, 10], [1, 2, 3], 4.5)
    assert (list(drift_999.ours), list(drift_999.peer)) == ([80, 90, 100], [10, 20, 30])
    assert not drift.holds


def test_two_minutes_have_a_first_and_a_last() -> None:
    *_, drift, _ = figures([minute(4), minute(5)], [minute(1), minute(1)])
    assert (list(drift.ours), list(drift.peer)) == ([5], [4])
    assert drift.holds
