"""How many pulls of a queue are in flight, and for which offsets."""

from __future__ import annotations

import pytest

from rocketmq_py.core.consumer.pulls_ahead import NextPull, PullsAhead, check_in_flight
from rocketmq_py.errors import ConfigError


def free(_coming: int) -> bool:
    return True


def started(in_flight: object, offset: int = 0, *, filtered: bool = False) -> PullsAhead:
    ahead = PullsAhead(in_flight, 10)  # type: ignore[arg-type]
    ahead.begin(offset, filtered=filtered)
    return ahead


def asked(ahead: PullsAhead, admit: object = free) -> list[tuple[int, int]]:
    return [(pull.offset, pull.number) for pull in ahead.pulls(admit)]  # type: ignore[arg-type]


def answer(ahead: PullsAhead, pull: NextPull, next_offset: int, end: int, *, waited: bool = True) -> int:
    return ahead.answered(pull.segment, next_offset, end, size=100, waited=waited)


def test_one_in_flight_is_javas_behaviour() -> None:
    ahead = started(1, 5)
    assert not ahead.goes_ahead
    for offset in (5, 15, 25):
        (pull,) = ahead.pulls(free)
        assert pull == NextPull(offset, 10, None)
        assert ahead.pulls(free) == []
        assert ahead.coming == 0
        assert answer(ahead, pull, offset + 10, 1000) == offset + 10
    assert ahead.limit == 1


def test_pulls_ahead_end_at_the_known_end_of_the_queue() -> None:
    ahead = started(4)
    assert ahead.goes_ahead
    (first,) = ahead.pulls(free)
    assert first.segment is None
    answer(ahead, first, 10, 35)
    assert asked(ahead) == [(10, 10), (20, 10), (30, 5)]
    assert ahead.coming == 25


def test_at_the_end_there_is_one_pull_without_an_end() -> None:
    ahead = started(4)
    (first,) = ahead.pulls(free)
    answer(ahead, first, 10, 15)
    (second,) = ahead.pulls(free)
    answer(ahead, second, 15, 15)
    assert ahead.pulls(free) == [NextPull(15, 10, None)]
    assert ahead.pulls(free) == []


def test_the_end_moves_with_each_answer() -> None:
    ahead = started(4)
    (first,) = ahead.pulls(free)
    answer(ahead, first, 10, 15)
    (second,) = ahead.pulls(free)
    answer(ahead, second, 15, 40)
    assert asked(ahead) == [(15, 10), (25, 10), (35, 5)]


def test_a_short_answer_is_completed_before_anything_else() -> None:
    ahead = started(3)
    (first,) = ahead.pulls(free)
    answer(ahead, first, 10, 100)
    second, *_ = ahead.pulls(free)
    assert answer(ahead, second, 14, 100) == 14
    assert asked(ahead, lambda _: False) == [(14, 4)]  # four a pull is what the broker gives


def test_messages_beyond_a_segment_belong_to_another_pull() -> None:
    ahead = started(3, filtered=True)
    (first,) = ahead.pulls(free)
    answer(ahead, first, 40, 200)
    second, third, _ = ahead.pulls(free)
    assert (second.offset, second.number, third.offset) == (40, 10, 80)
    assert answer(ahead, second, 95, 200) == 80


def test_flow_control_counts_what_is_coming() -> None:
    ahead = started(8)
    (first,) = ahead.pulls(free)
    answer(ahead, first, 10, 1000)
    seen = list[int]()

    def admit(coming: int) -> bool:
        seen.append(coming)
        return coming < 25

    assert asked(ahead, admit) == [(10, 10), (20, 10), (30, 10)]
    assert seen == [0, 10, 20, 30]
    assert started(8).pulls(lambda _: False) == []


def test_auto_grows_with_full_answers_that_were_waited_for() -> None:
    ahead = started("auto")
    assert ahead.goes_ahead
    (pull,) = ahead.pulls(free)
    answer(ahead, pull, 10, 10_000)
    assert ahead.limit == 2
    under_way = ahead.pulls(free)
    for expected in (3, 4, 5):
        answer(ahead, under_way[0], under_way[0].offset + 10, 10_000)
        assert ahead.limit == expected
        under_way = under_way[1:] + ahead.pulls(free)
    answer(ahead, under_way[0], under_way[0].offset + 10, 10_000, waited=False)
    assert ahead.limit == 5
    under_way = under_way[1:] + ahead.pulls(free)
    answer(ahead, under_way[0], under_way[0].offset + 9, 10_000)
    assert ahead.limit == 5


def test_auto_grows_to_32_and_shrinks_to_1_at_the_end() -> None:
    ahead = started("auto")
    under_way = ahead.pulls(free)
    end = 2000
    while under_way:
        pull = under_way.pop(0)
        answer(ahead, pull, min(pull.offset + 10, end), end)
        if pull.offset + 10 >= end:
            break
        under_way += ahead.pulls(free)
    assert ahead.limit == 16  # half of 32
    for offset, limit in ((2001, 8), (2002, 4), (2003, 2), (2004, 1), (2005, 1)):
        (pull,) = ahead.pulls(free)
        assert pull.segment is None
        answer(ahead, pull, offset, offset)
        assert ahead.limit == limit


def test_auto_does_not_grow_while_flow_control_limits_it() -> None:
    ahead = started("auto")
    (pull,) = ahead.pulls(free)
    answer(ahead, pull, 10, 10_000)
    (pull,) = ahead.pulls(lambda coming: coming < 10)
    answer(ahead, pull, 20, 10_000)
    assert ahead.limit == 2


def test_a_new_start_goes_ahead_up_to_the_end_known_before() -> None:
    ahead = started(3)
    (pull,) = ahead.pulls(free)
    answer(ahead, pull, 10, 100)
    ahead.begin(10, filtered=False)
    assert asked(ahead) == [(10, 10), (20, 10), (30, 10)]
    ahead.forget_end()
    ahead.begin(10, filtered=False)
    assert ahead.pulls(free) == [NextPull(10, 10, None)]


def test_another_filter_learns_anew() -> None:
    ahead = started(3, filtered=True)
    (pull,) = ahead.pulls(free)
    answer(ahead, pull, 50, 1000)
    ahead.begin(50, filtered=False)
    assert asked(ahead) == [(50, 10), (60, 10), (70, 10)]


@pytest.mark.parametrize("value", [0, 65, -1, True, "all", 1.5, None])
def test_numbers_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="pulls_in_flight="):
        check_in_flight(value)


@pytest.mark.parametrize("value", [1, 64, "auto"])
def test_numbers_in_range_are_taken(value: object) -> None:
    check_in_flight(value)
