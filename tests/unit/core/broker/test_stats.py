"""Counts over a minute, an hour and a day: samples and windows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rocketmq_py.core.broker.stats import DAY, HOUR, MINUTE, Snapshot, StatsClock, StatsItem

START = 1_000_000


def add(item: StatsItem, count: int) -> None:
    item.value += count
    item.times += 1


def advance(clock: StatsClock, now_ms: int, items: Iterable[StatsItem]) -> int:
    """Sample items at once; return the number of steps."""
    return sum(1 for _ in clock.advance(now_ms, items) or ())


def ticked(clock: StatsClock, item: StatsItem, seconds: int, *adds: tuple[int, int]) -> None:
    """Let time pass second by second; ``adds`` are (second, count)."""
    for second in range(1, seconds + 1):
        for at, count in adds:
            if at == second:
                add(item, count)
        advance(clock, START + second * 1_000, [item])


def test_there_is_no_rate_before_the_first_sample() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    add(item, 5)
    advance(clock, START + 9_999, [item])
    assert item.snapshot(MINUTE) == Snapshot(0, 0.0, 0.0)
    advance(clock, START + 10_000, [item])
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
    advance(clock, START + 70_000, [item])
    assert item.snapshot(MINUTE) == Snapshot(0, 0.0, 0.0)


def test_longer_windows_keep_samples_longer() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    ticked(clock, item, 3_600, (1, 100), (3_000, 20))
    assert item.snapshot(MINUTE).sum == 0
    assert item.snapshot(HOUR) == Snapshot(120, 120 / 3_600, 60.0)
    assert item.snapshot(DAY) == Snapshot(120, 120 / 3_600, 60.0)
    advance(clock, START + 2 * 3_600_000, [item])
    assert item.snapshot(HOUR).sum == 0
    assert item.snapshot(DAY) == Snapshot(120, 120 / 7_200, 60.0)
    advance(clock, START + 26 * 3_600_000, [item])
    assert item.snapshot(DAY).sum == 0


@pytest.mark.parametrize("late", [10_000, 60_000, 700_000])
def test_a_late_sample_counts_everything_since_the_last(late: int) -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    add(item, 7)
    advance(clock, START + late, [item])
    add(item, 3)
    advance(clock, START + late + 10_000, [item])
    assert item.snapshot(MINUTE).sum == 10
    advance(clock, START + late + 80_000, [item])
    assert item.snapshot(MINUTE).sum == 0


def test_a_later_item_starts_at_its_first_sample() -> None:
    clock = StatsClock(START)
    advance(clock, START + 100_000, [])
    item = StatsItem(clock)
    add(item, 4)
    advance(clock, START + 110_000, [item])
    assert item.snapshot(MINUTE) == Snapshot(4, 0.4, 4.0)


def test_an_idle_item_keeps_few_samples() -> None:
    clock = StatsClock(START)
    item = StatsItem(clock)
    for tick in range(1, 500):
        add(item, 1)
        advance(clock, START + tick * 10_000, [item])
    assert len(item._samples[MINUTE]) <= 8
    assert item.snapshot(MINUTE) == Snapshot(6, 0.1, 1.0)
    for tick in range(500, 600):
        advance(clock, START + tick * 10_000, [item])
    assert len(item._samples[MINUTE]) <= 8
    assert item.snapshot(MINUTE).sum == 0


def test_many_items_are_sampled_in_steps_of_a_hundred() -> None:
    clock = StatsClock(START)
    items = [StatsItem(clock) for _ in range(201)]
    assert clock.advance(START + 9_999, items) is None
    assert [advance(clock, START + after * 1_000, items) for after in (10, 11, 20)] == [3, 0, 3]
    assert advance(clock, START + 600_000, items) == 6, "two windows"


def test_an_item_that_is_not_sampled_yet_has_what_it_had_before() -> None:
    clock = StatsClock(START)
    items = [StatsItem(clock) for _ in range(101)]
    first, last = items[0], items[-1]
    for item in (first, last):
        add(item, 10)
    advance(clock, START + 10_000, items)
    for item in (first, last):
        add(item, 30)
    steps = clock.advance(START + 20_000, items)
    assert steps is not None
    next(steps)
    assert first.snapshot(MINUTE) == Snapshot(40, 2.0, 20.0)
    assert last.snapshot(MINUTE) == Snapshot(10, 0.5, 10.0)
    assert next(steps) is None
    assert last.snapshot(MINUTE) == first.snapshot(MINUTE)


def test_items_that_are_added_meanwhile_are_sampled_next_time() -> None:
    clock = StatsClock(START)
    items = {number: StatsItem(clock) for number in range(150)}
    steps = clock.advance(START + 10_000, items.values())
    assert steps is not None
    next(steps)
    items[150] = StatsItem(clock)
    assert sum(1 for _ in steps) == 1
    add(items[150], 7)
    assert items[150].snapshot(MINUTE) == Snapshot()
    advance(clock, START + 20_000, items.values())
    assert items[150].snapshot(MINUTE) == Snapshot(7, 0.7, 7.0)
