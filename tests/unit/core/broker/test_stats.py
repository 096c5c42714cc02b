"""Counts over a minute, an hour and a day: samples and windows."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.stats import DAY, HOUR, MINUTE, Snapshot, StatsClock, StatsItem

START = 1_000_000


def add(item: StatsItem, count: int) -> None:
    item.value += count
    item.times += 1


def ticked(clock: StatsClock, item: StatsItem, seconds: int, *adds: tuple[int, int]) -> None:
    """Let time pass second by second; ``adds`` are (second, count)."""
    for second in range(1, seconds + 1):
        for at, count in adds:
            if at == second:
                add(item, count)
        clock.advance(START + second * 1_000, [item])


def test_there_is_no_rate_before_the_first_sample() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    add(item, 5)
    clock.advance(START + 9_999, [item])
    assert item.snapshot(MINUTE) == Snapshot(0, 0.0, 0.0)
    clock.advance(START + 10_000, [item])
    assert item.snapshot(MINUTE) == Snapshot(5, 0.5, 5.0)
    assert item.snapshot(HOUR) == item.snapshot(DAY) == Snapshot()


def test_a_rate_covers_the_existing_samples() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    ticked(clock, item, 20, (1, 10), (11, 6))
    assert item.snapshot(MINUTE) == Snapshot(16, 0.8, 8.0)


def test_samples_leave_the_minute_window_after_a_minute() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    ticked(clock, item, 60, (1, 60))
    assert item.snapshot(MINUTE) == Snapshot(60, 1.0, 60.0)
    clock.advance(START + 70_000, [item])
    assert item.snapshot(MINUTE) == Snapshot(0, 0.0, 0.0)


def test_longer_windows_keep_samples_longer() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    ticked(clock, item, 3_600, (1, 100), (3_000, 20))
    assert item.snapshot(MINUTE).sum == 0
    assert item.snapshot(HOUR) == Snapshot(120, 120 / 3_600, 60.0)
    assert item.snapshot(DAY) == Snapshot(120, 120 / 3_600, 60.0)
    clock.advance(START + 2 * 3_600_000, [item])
    assert item.snapshot(HOUR).sum == 0
    assert item.snapshot(DAY) == Snapshot(120, 120 / 7_200, 60.0)
    clock.advance(START + 26 * 3_600_000, [item])
    assert item.snapshot(DAY).sum == 0


@pytest.mark.parametrize("late", [10_000, 60_000, 700_000])
def test_a_late_sample_counts_everything_since_the_last(late: int) -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    add(item, 7)
    clock.advance(START + late, [item])
    add(item, 3)
    clock.advance(START + late + 10_000, [item])
    assert item.snapshot(MINUTE).sum == 10
    clock.advance(START + late + 80_000, [item])
    assert item.snapshot(MINUTE).sum == 0


def test_a_later_item_starts_at_its_first_sample() -> None:
    clock = StatsClock(START)
    clock.advance(START + 100_000, [])
    item = StatsItem(clock)
    add(item, 4)
    clock.advance(START + 110_000, [item])
    assert item.snapshot(MINUTE) == Snapshot(4, 0.4, 4.0)


def test_an_idle_item_keeps_few_samples() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    for tick in range(1, 500):
        add(item, 1)
        clock.advance(START + tick * 10_000, [item])
    assert len(item._samples[MINUTE]) <= 8
    assert item.snapshot(MINUTE) == Snapshot(6, 0.1, 1.0)
    for tick in range(500, 600):
        clock.advance(START + tick * 10_000, [item])
    assert len(item._samples[MINUTE]) <= 8
    assert item.snapshot(MINUTE).sum == 0
