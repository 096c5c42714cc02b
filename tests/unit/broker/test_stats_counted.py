"""Counters of messages in and out, by topic and group, under Java's names; rates, mornings, and what is dropped."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from rocketmq_py.broker.stats import Day, Meter, Stats, next_morning, three_rates
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.store import Arrival

START = 1_700_000_000_000


def arrival(topic: str, *sizes: int) -> Arrival:
    """Messages of these sizes, from queue offset 7 on; entries are position, size and tags code."""
    entries = [number for at, size in enumerate(sizes) for number in (at * 1_000, size, 99)]
    found = SimpleNamespace(topic=topic, queue_offset=7, next_offset=7 + len(sizes), entries=entries)
    return cast("Arrival", found)


@pytest.fixture
def stats() -> Stats:
    return Stats(START, "c", lambda topic: topic.startswith("SYS"))


def counted(stats: Stats, name: str, key: str) -> tuple[int, int] | None:
    """The sum and the number of calls."""
    item = stats.find(name, key)
    return None if item is None else (item.value, item.times)


def test_stored_messages_are_counted_by_topic_and_in_all(stats: Stats) -> None:
    stats.arrived([arrival("t", 100), arrival("u", 10, 20, 30), arrival("SYS", 5)])
    stats.arrived([arrival("t", 40)])
    assert counted(stats, "TOPIC_PUT_NUMS", "t") == (2, 2)
    assert counted(stats, "TOPIC_PUT_SIZE", "t") == (140, 2)
    assert counted(stats, "TOPIC_PUT_NUMS", "u") == (3, 1)
    assert counted(stats, "TOPIC_PUT_SIZE", "u") == (60, 1)
    assert counted(stats, "TOPIC_PUT_NUMS", "SYS") == (1, 1)
    assert counted(stats, "BROKER_PUT_NUMS", "c") == (6, 2)
    assert counted(stats, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "c") == (5, 2)
    assert (stats.put.count, stats.put_day.now) == (6, 5)
    assert counted(stats, "TOPIC_PUT_NUMS", "absent") is None


def test_pulled_messages_are_counted_by_group_and_topic(stats: Stats) -> None:
    stats.pulled("g", "t", 3, 300)
    stats.pulled("g", "t", 1, 50)
    stats.pulled("h", "t", 2, 70)
    stats.pulled("g", "SYS", 4, 80)
    assert counted(stats, "GROUP_GET_NUMS", "t@g") == (4, 2)
    assert counted(stats, "GROUP_GET_SIZE", "t@g") == (350, 2)
    assert counted(stats, "GROUP_GET_NUMS", "t@h") == (2, 1)
    assert counted(stats, "GROUP_GET_NUMS", "SYS@g") == (4, 1)
    assert counted(stats, "BROKER_GET_NUMS", "c") == (10, 4)
    assert counted(stats, "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "c") == (6, 3)
    assert (stats.got.count, stats.pulls_found.count, stats.pulls_missed.count) == (10, 4, 0)
    assert stats.got_day.now == 6


def test_pulls_without_messages_are_counted_apart(stats: Stats) -> None:
    for _ in range(3):
        stats.missed()
    assert (stats.pulls_missed.count, stats.pulls_found.count, stats.got.count) == (3, 0, 0)


def test_messages_sent_back_are_counted_dead_ones_twice(stats: Stats) -> None:
    for dead in (False, True, True):
        stats.sent_back("g", "t", dead=dead)
    assert counted(stats, "SNDBCK_PUT_NUMS", "t@g") == (3, 3)
    assert counted(stats, "SNDBCK2DLQ_TIMES", "t@g") == (2, 2)


def test_dead_letters_are_known_by_topic_and_group_while_both_are_there(stats: Stats) -> None:
    for topic, group, dead in (
        ("t", "g", True),
        ("t", "g", True),
        ("t", "h", True),
        ("u", "g", True),
        ("u", "h", False),
    ):
        stats.sent_back(group, topic, dead=dead)
    assert list(stats.dead_letters()) == [("t", "g", 2), ("t", "h", 1), ("u", "g", 1)]
    stats.remove_group("h")
    assert list(stats.dead_letters()) == [("t", "g", 2), ("u", "g", 1)]
    stats.remove_topic("t")
    assert list(stats.dead_letters()) == [("u", "g", 1)]


def test_counters_of_a_topic_or_group_that_is_deleted_are_dropped(stats: Stats) -> None:
    for topic in ("t", "u"):
        stats.arrived([arrival(topic, 1)])
        for group in ("g", "h"):
            stats.pulled(group, topic, 1, 1)
    counts = stats.message_counts = MessageCounts()
    for topic in ("t", "u"):
        counts.sent(topic, topic, None, 100)
    stats.remove_topic("t")
    assert list(counts.received) == [("u", "normal")]
    assert counted(stats, "TOPIC_PUT_NUMS", "t") is None
    assert counted(stats, "GROUP_GET_SIZE", "t@g") is None
    assert counted(stats, "TOPIC_PUT_NUMS", "u") == (1, 1)
    stats.remove_group("g")
    assert counted(stats, "GROUP_GET_NUMS", "u@g") is None
    assert counted(stats, "GROUP_GET_NUMS", "u@h") == (1, 1)
    assert counted(stats, "BROKER_PUT_NUMS", "c") == (2, 2)
    stats.arrived([arrival("t", 1)])
    stats.pulled("g", "u", 1, 1)
    assert counted(stats, "TOPIC_PUT_NUMS", "t") == (1, 1), "counted anew"
    assert counted(stats, "GROUP_GET_NUMS", "u@g") == (1, 1)


# -- time


def test_samples_are_taken_once_a_second(stats: Stats) -> None:
    stats.tick(START)
    stats.put.count = 5
    stats.tick(START + 999)
    assert stats.put.rate(10_000) == 0
    stats.tick(START + 1_000)
    assert stats.put.rate(10_000) == 5
    for meter in (stats.got, stats.pulls_found, stats.pulls_missed):
        meter.count = 10
    stats.tick(START + 2_000)
    assert (stats.put.rate(10_000), stats.got.rate(10_000)) == (2.5, 5)
    assert (stats.pulls_found.rate(10_000), stats.pulls_missed.rate(10_000)) == (5, 5)


def test_rates_of_topics_and_groups_are_those_of_the_last_minute(stats: Stats) -> None:
    stats.tick(START)
    stats.arrived([arrival("t", *[1] * 60)])
    stats.pulled("g", "t", 30, 1)
    for second in range(1, 62):
        stats.tick(START + second * 1_000)
    assert 0.5 <= stats.topic_rate("t") <= 2
    assert 0.25 <= stats.group_rate("g", "t") <= 1
    assert stats.topic_rate("t") == 2 * stats.group_rate("g", "t")
    assert (stats.topic_rate("u"), stats.group_rate("h", "t")) == (0, 0)


def test_a_morning_keeps_the_totals_of_the_night(stats: Stats) -> None:
    stats.arrived([arrival("t", 1, 1), arrival("SYS", 1)])
    stats.pulled("g", "t", 1, 1)
    midnight = next_morning(START)
    stats.tick(midnight - 1_000)
    assert (stats.put_day.today_morning, stats.put_day.yesterday_morning) == (0, 0)
    stats.tick(midnight)
    assert (stats.put_day.today_morning, stats.put_day.yesterday_morning) == (2, 0)
    assert stats.got_day.today_morning == 1
    stats.arrived([arrival("t", 1)])
    stats.tick(midnight + 60_000)
    assert stats.put_day.today_morning == 2
    stats.tick(next_morning(midnight))
    assert (stats.put_day.today_morning, stats.put_day.yesterday_morning, stats.put_day.now) == (3, 2, 3)


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_the_next_morning_is_the_next_local_midnight(hour: int) -> None:
    now = datetime.datetime(2026, 1, 5, hour, 0, 1).astimezone()
    found = datetime.datetime.fromtimestamp(next_morning(int(now.timestamp() * 1000)) / 1000, now.tzinfo)
    assert (found.date(), found.time()) == (datetime.date(2026, 1, 6), datetime.time.min)


def test_midnight_itself_belongs_to_its_day() -> None:
    midnight = next_morning(START)
    assert next_morning(midnight - 1) == midnight
    assert 23 <= (next_morning(midnight) - midnight) / 3_600_000 <= 25


# -- rates


def test_a_rate_needs_two_samples_at_different_times() -> None:
    meter = Meter(3)
    meter.sample(1_000)
    assert meter.rate(10_000) == 0
    meter.count = 5
    meter.sample(1_000)
    assert meter.rate(10_000) == 0
    meter.sample(3_000)
    assert meter.rate(10_000) == 2.5
    meter.sample(4_000)
    assert meter.rate(10_000) == 0, "the first sample is forgotten"


@pytest.mark.parametrize(("window", "rate"), [(999, 0.0), (1_000, 8.0), (1_999, 8.0), (2_000, 6.0), (9_000, 6.0)])
def test_a_rate_begins_with_the_oldest_sample_in_its_window(window: int, rate: float) -> None:
    meter = Meter(10)
    for now, count in ((0, 0), (1_000, 4), (2_000, 12)):
        meter.count = count
        meter.sample(now)
    assert meter.rate(window) == rate


def test_three_rates_are_those_of_ten_seconds_a_minute_and_ten_minutes() -> None:
    one, other = Meter(1_000), Meter(1_000)
    for second in range(601):
        one.count = max(0, second - 590) * 60
        other.count = second
        one.sample(second * 1_000)
        other.sample(second * 1_000)
    assert three_rates(one) == "60.0 10.0 1.0"
    assert three_rates(one, other) == "61.0 11.0 2.0"


def test_a_day_begins_with_what_the_last_one_had() -> None:
    day = Day(counter := SimpleNamespace(value=5))  # type: ignore[arg-type]
    day.begin()
    counter.value = 9
    day.begin()
    assert (day.yesterday_morning, day.today_morning, day.now) == (5, 9, 9)


def test_counters_are_sampled_by_the_steps_that_are_begun_and_in_their_order() -> None:
    begun: list[Iterator[None]] = []
    stats = Stats(START, "c", lambda _: False, begun.append)
    stats.tick(START)
    stats.arrived([arrival("t", *[1] * 10)])
    stats.tick(START + 5_000)
    assert begun == []
    stats.tick(START + 10_000)
    stats.tick(START + 11_000)
    assert len(begun) == 1
    assert stats.topic_rate("t") == 0
    stats.tick(START + 20_000)
    assert len(begun) == 2
    assert list(begun[0]) == [], "what was left of the first sampling is done before the second begins"
    stats.arrived([arrival("t", *[1] * 10)])
    list(begun[1])
    assert stats.topic_rate("t") == 1.0
