"""What a check does with an open half message, at each of its limits."""

from __future__ import annotations

import pytest

from rocketmq_py.core.transaction.check import (
    CheckStep,
    HalfMessage,
    Rules,
    decide_check,
    immunity_ms,
    int_property,
    is_too_late,
    read_half_message,
)

RULES = Rules(timeout_ms=6_000, check_max=15, reserved_ms=100_000)
CHECK, POSTPONE, WAIT, GIVE_UP = CheckStep.CHECK, CheckStep.POSTPONE, CheckStep.WAIT, CheckStep.GIVE_UP
BORN, ROUND = 1_000_000, 2_000_000


def step(age: int, stored_ms: int = BORN, checks: int = 0, immunity: str | None = None) -> CheckStep:
    return decide_check(HalfMessage(BORN, stored_ms, checks, immunity), RULES, ROUND, BORN + age)


@pytest.mark.parametrize(
    ("age", "expected"),
    [(-1, CHECK), (0, WAIT), (6_000, WAIT), (6_001, CHECK), (100_000, CHECK), (100_001, GIVE_UP)],
)
def test_a_half_message_is_asked_about_once_it_is_older_than_the_timeout(age: int, expected: CheckStep) -> None:
    """One from the future has a producer whose clock is wrong: its age says nothing."""
    assert step(age) == expected


@pytest.mark.parametrize(("checks", "expected"), [(14, CHECK), (15, GIVE_UP), (16, GIVE_UP)])
def test_checks_are_given_up_after_so_many(checks: int, expected: CheckStep) -> None:
    assert step(6_001, checks=checks) == expected
    assert step(6_001, checks=checks, stored_ms=ROUND) == (GIVE_UP if expected == GIVE_UP else WAIT)


@pytest.mark.parametrize(("stored", "expected"), [(ROUND - 1, CHECK), (ROUND, WAIT), (ROUND + 1, WAIT)])
def test_what_was_stored_in_this_round_waits_for_the_next_one(stored: int, expected: CheckStep) -> None:
    assert step(6_001, stored) == expected
    assert step(6_001, stored, immunity="1") == expected


@pytest.mark.parametrize(
    ("immunity", "age", "expected"),
    [
        ("10", 10_000, POSTPONE),
        ("10", 10_001, CHECK),
        ("1", 1_001, CHECK),
        ("-1", 6_000, POSTPONE),
        ("-1", 6_001, CHECK),
        ("x", 6_000, POSTPONE),
        ("0", 0, POSTPONE),
        ("0", 1, CHECK),
    ],
)
def test_a_message_may_be_immune_for_another_time(immunity: str, age: int, expected: CheckStep) -> None:
    assert step(age, immunity=immunity) == expected


def test_what_a_check_needs_of_a_half_message() -> None:
    properties = {"TRANSACTION_CHECK_TIMES": "3", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7"}
    assert read_half_message(properties, 5, 6) == HalfMessage(5, 6, 3, "7")
    assert read_half_message({}, 5, 6) == HalfMessage(5, 6)
    assert read_half_message({"TRANSACTION_CHECK_TIMES": "-3"}, 5, 6).checks == 0


@pytest.mark.parametrize(
    ("immunity", "age", "is_late"),
    [
        (None, 1_000_000, False),
        ("", 1_000_000, False),
        ("1", 6_000, False),
        ("1", 6_001, True),
        ("10", 10_000, False),
        ("10", 10_001, True),
        ("x", 6_001, True),
    ],
)
def test_an_end_is_too_late_only_for_messages_with_such_a_time(immunity: str | None, age: int, is_late: bool) -> None:
    properties = {} if immunity is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity}
    assert is_too_late(properties, BORN, 6_000, BORN + age) is is_late


def test_numbers_in_properties_are_read_as_by_java() -> None:
    assert [int_property(text) for text in (None, "x", "", "7", "-2")] == [-1, -1, -1, 7, -2]
    assert [immunity_ms(text, 6_000) for text in ("-1", "x", "0", "2", "-2")] == [6_000, 6_000, 0, 2_000, -2_000]
