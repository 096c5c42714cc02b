"""Times and spans at the limits of their units."""

import pytest

from rocketmq_py.console.times import parse_time, show_span, show_time


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (999, "999 ms"), (1_000, "1 s"), (59_999, "59 s"), (60_000, "1 min"), (3_599_999, "59 min"), (3_600_000, "1 h"),
        (86_399_999, "23 h"), (86_400_000, "1 d"), (172_799_999, "1 d"), (172_800_000, "2 d"),
    ],
)  # fmt: skip
def test_a_span_is_shown_in_its_largest_unit(milliseconds, shown):
    assert show_span(milliseconds) == shown


def test_milliseconds_have_from_eleven_to_fifteen_digits():
    assert [parse_time("9" * digits, 5) for digits in (11, 15)] == [10**11 - 1, 10**15 - 1]
    for digits in (10, 16):
        with pytest.raises(ValueError, match=r".*"):
            parse_time("9" * digits, 5)


def test_a_time_before_the_epoch_is_unknown_and_one_of_its_first_second_is_not():
    assert [show_time(value) for value in (0, 1, 999, 1_000)] == [
        None, "1970-01-01 00:00:00.001Z", "1970-01-01 00:00:00.999Z", "1970-01-01 00:00:01.000Z",
    ]  # fmt: skip
    assert parse_time("2023-11-14T22:13:20.5", 5) == 1_700_000_000_500
