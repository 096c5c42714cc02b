"""The rules of delivery times, and the agenda."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.core.timer.timers import (
    DEFAULT,
    DELETE,
    Agenda,
    TimerEntry,
    TimerPosition,
    due_ms,
    is_timer,
    requested_time,
    slot_of,
    wheel_position,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import Message


@pytest.mark.parametrize(("deliver", "slot"), [(5_000, 4_000), (5_001, 5_000), (5_999, 5_000), (6_000, 5_000)])
def test_a_slot_ends_with_the_time_it_is_named_by(deliver: int, slot: int) -> None:
    assert slot_of(deliver, 1_000) == slot


@pytest.mark.parametrize("text", ["", "soon", "1.5", "0x10", "\u0661", "9" * 20, "--1"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TIMER_DELIVER_MS is"):
        requested_time({"TIMER_DELIVER_MS": text}, 0)


def test_a_delivered_timer_message_is_no_timer() -> None:
    assert is_timer({"TIMER_DELAY_MS": "5"})
    assert not is_timer({"TIMER_DELAY_MS": "5", "TIMER_OUT_MS": "0"})
    assert not is_timer({"DELAY": "5"})


def test_properties_give_the_due_time_in_milliseconds() -> None:
    assert due_ms({"TIMER_DELIVER_MS": "5300"}, 5_000, 1_000, 1_000) == 5_300
    assert due_ms({"TIMER_DELAY_MS": "4300"}, 5_000, 1_000, 1_000) == 5_300
    assert due_ms({"TIMER_DELAY_MS": "4300"}, 5_000, 9_000, 1_000) == 6_000, "stored again on a later round"
    assert due_ms({}, 5_000, 1_000, 1_000) == 6_000


def test_a_distant_time_goes_round_the_wheel_without_a_short_last_round() -> None:
    assert wheel_position(59_000, 500, 60, 1_000) == TimerPosition(59_000, rolls=False)
    assert wheel_position(60_000, 500, 60, 1_000) == TimerPosition(30_000, rolls=True)
    assert wheel_position(79_000, 500, 60, 1_000) == TimerPosition(30_000, rolls=True)
    assert wheel_position(80_000, 500, 60, 1_000) == TimerPosition(60_000, rolls=True)


def entry(due: int, position: int, slot: int = 0, magic: int = DEFAULT) -> TimerEntry:
    return TimerEntry(due, position, slot, 0, 0, magic, 0)


def test_the_agenda_returns_due_entries_in_order() -> None:
    agenda = Agenda()
    for one in (entry(30, 1), entry(10, 3), entry(10, 2)):
        agenda.add(one)
    assert agenda.take(9, 5) == []
    assert agenda.take(10, 1) == [entry(10, 2)]
    agenda.back([entry(10, 2)])
    assert agenda.take(29, 5) == [entry(10, 2), entry(10, 3)]
    assert agenda.take(30, 5) == [entry(30, 1)]
    assert agenda.take(30, 5) == []


@given(st.lists(st.tuples(st.sampled_from("atbd"), st.integers(1, 3), st.integers(0, 9)), max_size=40))
def test_the_agenda_equals_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    agenda, waiting, position = Agenda(), list[TimerEntry](), itertools.count(1)
    for step, most, time in steps:
        if step == "a":
            waiting.append(entry(time, next(position) * (-1) ** most))
            agenda.add(waiting[-1])
            continue
        due = sorted(one for one in waiting if one.due <= time)[:most]
        taken = agenda.take(time, most)
        assert taken == due
        if step == "b":
            agenda.back(taken)
        else:
            agenda.done(taken)
            waiting = [one for one in waiting if one not in due]
        assert len(agenda) == len(waiting)


def test_a_slot_is_complete_when_all_its_entries_are_done() -> None:
    agenda = Agenda()
    assert agenda.is_complete(0)
    agenda.hold(0)
    agenda.add(entry(10, 1))
    agenda.add(entry(20, 2))
    agenda.cancel("t", "k", entry(0, 3, magic=DELETE))
    agenda.done(agenda.take(10, 5))
    assert agenda.begun() == [0]
    assert [one.position for one in agenda.rest(0)] == [2, 3]
    assert agenda.is_cancelled(0, "t", "k")
    assert not agenda.is_cancelled(1, "t", "k")
    agenda.release(0)
    assert not agenda.is_complete(0)
    agenda.done(agenda.take(20, 5))
    assert agenda.is_complete(0)
    agenda.forget(0)
    assert agenda.begun() == []
    assert not agenda.is_cancelled(0, "t", "k")


NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("wish", "properties"),
    [
        ({"delay": 1.5}, {"TIMER_DELAY_MS": "1500"}), ({"delay": 0}, {"TIMER_DELAY_MS": "0"}),
        ({"deliver_at": NOON}, {"TIMER_DELIVER_MS": "1767355200250"}),
        ({"delay": datetime.timedelta(minutes=1, milliseconds=5)}, {"TIMER_DELAY_MS": "60005"}),
        ({"deliver_at": 1767355200250}, {"TIMER_DELIVER_MS": "1767355200250"}),
        ({"delay_level": 3}, {"DELAY": "3"}), ({}, {}),
    ],
)  # fmt: skip
def test_a_message_has_one_delivery_time_property(wish: dict[str, Any], properties: dict[str, str]) -> None:
    message = Message("t", b"x", **wish)
    assert {name: value for name, value in message.properties.items() if name != "WAIT"} == properties


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"delay": 1, "deliver_at": 5}, "give one of"), ({"delay": 1, "delay_level": 2}, "give one of"),
        ({"deliver_at": 1, "delay_level": 2}, "give one of"), ({"delay": -1}, "not negative"),
        ({"delay": float("nan")}, "not negative"), ({"delay": float("inf")}, "not negative"),
        ({"deliver_at": "tomorrow"}, "a datetime or milliseconds"), ({"deliver_at": 1.5}, "a datetime or milliseconds"),
        ({"deliver_at": True}, "a datetime or milliseconds"),
        ({"deliver_at": 1767355200}, "these are seconds"), ({"delay": "5s"}, "seconds or a timedelta"),
        ({"delay": datetime.timedelta(seconds=-1)}, "not negative"), ({"delay_level": -1}, "1 to 18, or 0 for none"),
    ],
)  # fmt: skip
def test_contradictory_delivery_times_are_refused(wish: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Message("t", b"x", **wish)


def test_a_delay_in_seconds_has_priority() -> None:
    assert due_ms({"TIMER_DELAY_SEC": "4", "TIMER_DELAY_MS": "4300"}, 5_000, 1_500, 1_000) == 5_500
    assert due_ms({"TIMER_DELAY_MS": "4300", "TIMER_DELIVER_MS": "5100"}, 5_000, 1_000, 1_000) == 5_300
