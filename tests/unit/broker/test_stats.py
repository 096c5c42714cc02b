"""Counters of the broker, its topics and its groups."""

from __future__ import annotations

import datetime

import pytest

from rocketmq_py.broker import stats as module
from rocketmq_py.broker.stats import Day, Meter, Stats, next_morning, three_rates
from rocketmq_py.core.broker.stats import StatsClock, StatsItem
from rocketmq_py.store import Arrival

NOON = int(datetime.datetime(2026, 3, 4, 12).astimezone().timestamp() * 1000)
MORNING = int(datetime.datetime(2026, 3, 5).astimezone().timestamp() * 1000)
SYSTEM = "rmq_sys_x"


@pytest.fixture
def stats() -> Stats:
    return Stats(NOON, "c", lambda topic: topic == SYSTEM)


def arrival(topic: str, *sizes: int) -> Arrival:
    entries = [part for size in sizes for part in (0, size, 0)]
    return Arrival(topic, 0, 0, len(sizes), NOON, entries)


def value(stats: Stats, name: str, key: str) -> tuple[int, int]:
    found = stats.find(name, key)
    assert found is not None
    return found.value, found.times


def test_the_names_of_counters_are_java_s() -> None:
    assert [
        module.TOPIC_PUT_NUMS, module.TOPIC_PUT_SIZE, module.GROUP_GET_NUMS, module.GROUP_GET_SIZE,
        module.BROKER_PUT_NUMS, module.BROKER_GET_NUMS, module.SENT_BACK_NUMS, module.SENT_BACK_TO_DLQ_TIMES,
    ] == ["TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "BROKER_PUT_NUMS", "BROKER_GET_NUMS",
          "SNDBCK_PUT_NUMS", "SNDBCK2DLQ_TIMES"]  # fmt: skip


def test_stored_messages_are_counted_by_topic(stats: Stats) -> None:
    stats.arrived([arrival("t", 10), arrival("t", 1, 2, 3), arrival(SYSTEM, 5)])
    assert value(stats, "TOPIC_PUT_NUMS", "t") == (4, 2)
    assert value(stats, "TOPIC_PUT_SIZE", "t") == (16, 2)
    assert value(stats, "TOPIC_PUT_NUMS", SYSTEM) == (1, 1)
    assert value(stats, "BROKER_PUT_NUMS", "c") == (5, 1)
    assert value(stats, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "c") == (4, 1)
    assert (stats.put.count, stats.put_day.now) == (5, 4)


def test_pulled_messages_are_counted_by_group_and_topic(stats: Stats) -> None:
    stats.pulled("g", "t", 3, 30)
    stats.pulled("g", "t", 1, 5)
    stats.pulled("h", SYSTEM, 2, 7)
    stats.missed()
    assert value(stats, "GROUP_GET_NUMS", "t@g") == (4, 2)
    assert value(stats, "GROUP_GET_SIZE", "t@g") == (35, 2)
    assert value(stats, "BROKER_GET_NUMS", "c") == (6, 3)
    assert value(stats, "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "c") == (4, 2)
    assert (stats.got.count, stats.pulls_found.count, stats.pulls_missed.count) == (6, 3, 1)
    assert (stats.got_day.now, stats.put.count) == (4, 0)


def test_popped_messages_are_pulled_ones_and_counted_by_themselves(stats: Stats) -> None:
    stats.pulled("g", "t", 2, 20)
    stats.pulled_by_pop("g", "t", 3, 30)
    stats.pulled_by_pop("g", "t", 1, 5)
    stats.pulled_by_pop("h", "t", 1, 7)
    assert value(stats, "GROUP_GET_NUMS", "t@g") == (6, 3)
    assert stats.popped == {("g", "t"): (4, 35), ("h", "t"): (1, 7)}


def test_messages_sent_back_are_counted(stats: Stats) -> None:
    stats.sent_back("g", "t", dead=False)
    stats.sent_back("g", "t", dead=True)
    assert value(stats, "SNDBCK_PUT_NUMS", "t@g") == (2, 2)
    assert value(stats, "SNDBCK2DLQ_TIMES", "t@g") == (1, 1)


def test_the_counters_of_a_topic_or_a_group_are_dropped(stats: Stats) -> None:
    stats.arrived([arrival("t", 1), arrival("u", 1)])
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        stats.pulled(group, topic, 1, 1)
    stats.remove_topic("t")
    assert stats.find("TOPIC_PUT_NUMS", "t") is stats.find("GROUP_GET_NUMS", "t@g") is None
    assert stats.find("GROUP_GET_NUMS", "u@g") is not None
    stats.remove_group("g")
    assert stats.find("GROUP_GET_NUMS", "u@g") is None
    assert stats.find("TOPIC_PUT_NUMS", "u") is not None
    stats.arrived([arrival("t", 1)])
    stats.pulled("g", "t", 1, 1)
    assert (value(stats, "TOPIC_PUT_NUMS", "t"), value(stats, "GROUP_GET_NUMS", "t@g")) == ((1, 1), (1, 1))
    assert value(stats, "BROKER_PUT_NUMS", "c")[0] == 3


def test_rates_are_those_of_the_last_minute(stats: Stats) -> None:
    assert (stats.topic_rate("t"), stats.group_rate("g", "t")) == (0.0, 0.0)
    for second in range(61):
        stats.tick(NOON + second * 1_000)
        stats.arrived([arrival("t", 1, 1)])
        stats.pulled("g", "t", 1, 1)
    stats.tick(NOON + 61_000)
    assert stats.topic_rate("t") == pytest.approx(2.0, rel=0.2)
    assert stats.group_rate("g", "t") == pytest.approx(1.0, rel=0.2)
    assert stats.topic_rate("other") == 0.0


def test_samples_are_a_second_apart(stats: Stats) -> None:
    for after_ms, count in ((0, 0), (999, 5), (1_000, 7), (1_500, 9), (2_000, 11)):
        stats.put.count = count
        stats.tick(NOON + after_ms)
    assert list(stats.put._samples) == [(NOON, 0), (NOON + 1_000, 7), (NOON + 2_000, 11)]
    assert stats.put.rate(10_000) == 5.5
    assert stats.put.rate(1_000) == 4.0


def test_a_day_begins_at_midnight(stats: Stats) -> None:
    stats.arrived([arrival("t", 1)])
    stats.tick(MORNING - 1)
    assert (stats.put_day.yesterday_morning, stats.put_day.today_morning, stats.put_day.now) == (0, 0, 1)
    stats.tick(MORNING + 1_000)
    assert (stats.put_day.yesterday_morning, stats.put_day.today_morning, stats.put_day.now) == (0, 1, 1)
    stats.arrived([arrival("t", 1, 1)])
    stats.tick(MORNING + 3_000)
    assert (stats.put_day.today_morning, stats.put_day.now) == (1, 3)
    stats.tick(next_morning(MORNING))
    assert (stats.put_day.yesterday_morning, stats.put_day.today_morning, stats.got_day.today_morning) == (1, 3, 0)


@pytest.mark.parametrize(("now", "morning"), [(NOON, MORNING), (MORNING - 1, MORNING)])
def test_the_next_morning_is_after_now(now: int, morning: int) -> None:
    assert next_morning(now) == morning
    assert next_morning(MORNING) > MORNING


def test_a_meter_without_time_has_no_rate() -> None:
    meter = Meter(3)
    assert meter.rate(10_000) == 0.0
    for count in (0, 5):
        meter.count = count
        meter.sample(1_000)
    assert meter.rate(10_000) == 0.0
    for second, count in ((2, 10), (3, 20), (4, 40)):
        meter.count = count
        meter.sample(second * 1_000)
    assert meter.rate(600_000) == 15.0, "three samples are kept"


def test_rates_are_printed_as_java_prints_them() -> None:
    one, two = Meter(10), Meter(10)
    for meter, count in ((one, 10), (two, 30)):
        meter.sample(0)
        meter.count = count
        meter.sample(10_000)
    assert three_rates(one) == "1.0 1.0 1.0"
    assert three_rates(one, two) == "4.0 4.0 4.0"
    assert three_rates(Meter(10)) == "0.0 0.0 0.0"


def test_a_day_shows_its_counter() -> None:
    counter = StatsItem(StatsClock(0))
    day = Day(counter)
    counter.value = 7
    day.begin()
    assert (day.yesterday_morning, day.today_morning, day.now) == (0, 7, 7)
