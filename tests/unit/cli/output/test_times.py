"""Times and spans as people write and read them."""

import datetime

import click
import pytest

from rocketmq_py.cli.output.times import Time, parse_span, parse_time, show_span, show_time

NOW = 1_700_000_000_000


def local(*fields):
    return int(datetime.datetime(*fields).astimezone().timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("now", NOW),
        ("1699999999999", 1699999999999),
        ("90s", NOW - 90_000),
        ("1h30m", NOW - 5_400_000),
        ("2d ago", NOW - 2 * 86_400_000),
        ("1.5s", NOW - 1500),
        ("2026-01-31", local(2026, 1, 31)),
        ("2026-01-31T12:30", local(2026, 1, 31, 12, 30)),
        ("2026-01-31 12:30:01", local(2026, 1, 31, 12, 30, 1)),
        ("2026-01-31T12:30:00+02:00", 1769855400000),
        ("2026-01-31T12:30:00Z", 1769862600000),
    ],
)
def test_times_are_parsed(text, means):
    assert parse_time(text, NOW) == means


@pytest.mark.parametrize("text", ["", "soon", "10", "5x", "1h 30", "31.01.2026"])
def test_an_invalid_time_is_refused(text):
    with pytest.raises(click.BadParameter, match="is no time; write 2026-01-31T12:30, how long ago"):
        Time().convert(text, None, None)


def test_durations_are_parsed():
    assert parse_span("1d2h3m4s5ms") == 93_784_005
    assert parse_span("1h later") is None


def test_a_time_is_shown_in_local_time_to_the_millisecond():
    assert show_time(local(2026, 1, 31, 12, 30) + 7) == "2026-01-31 12:30:00.007"
    assert show_time(0) is None
    assert show_time(None) is None


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(350, "350ms"), (12_999, "12s"), (185_000, "3m05s"), (7_800_000, "2h10m"), (367_200_000, "4d06h")],
)
def test_a_duration_is_shown_in_two_units(milliseconds, shown):
    assert show_span(milliseconds) == shown
