"""How many messages are sent to many groups, and how long before delayed messages are due."""

from __future__ import annotations

import pytest

from benchmarks.drive import _words
from benchmarks.growth.delivered import fan_out_rate, lead_seconds
from benchmarks.loads import Load


@pytest.mark.parametrize(("groups", "rate"), [(1, 1_000), (100, 1_000), (101, 990), (300, 333), (1_000_000, 1)])
def test_messages_to_many_groups_are_at_most_100_000_deliveries_a_second(groups: int, rate: int) -> None:
    assert fan_out_rate(groups) == rate


def test_delayed_messages_are_sent_in_time_at_half_the_rate_of_the_warm_up() -> None:
    assert lead_seconds(1_000_000, 50_000) == 45
    assert lead_seconds(1_000, 50_000) == pytest.approx(5.04)


def test_groups_and_the_first_offset_are_passed_on() -> None:
    words = _words(Load("fan-out", groups=7, begin=40), 1)
    assert words[0] == "fan-out"
    assert words[words.index("--groups") + 1] == "7"
    assert words[words.index("--from") + 1] == "40"
    assert not {"--groups", "--from"} & set(_words(Load("pull"), 1))
