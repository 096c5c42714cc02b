from __future__ import annotations

import pytest

from rocketmq_py.core.timer.delay_levels import DelayLevels, queue_of, retry_level

LEVELS = DelayLevels([1_000, 5_000, 10_000])


def test_delay_levels_have_queues_and_delays() -> None:
    assert LEVELS.highest == 3
    assert list(LEVELS.levels) == [1, 2, 3]
    assert [queue_of(level) for level in LEVELS.levels] == [0, 1, 2]
    assert LEVELS.deliver_time(2, 100) == 5_100


def test_a_level_beyond_the_highest_is_the_highest() -> None:
    assert LEVELS.clamp(99) == 3
    assert LEVELS.delay_ms(99) == 10_000


@pytest.mark.parametrize(("deliver", "due"), [(100, True), (101, False), (5_100, False), (5_101, True)])
def test_a_message_is_due_at_its_time_or_if_that_is_further_away_than_the_level(deliver: int, due: bool) -> None:
    assert LEVELS.is_due(2, deliver, 100) is due


def test_retries_begin_with_the_third_level() -> None:
    assert [retry_level(times) for times in range(3)] == [3, 4, 5]
