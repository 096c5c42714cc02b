"""Open half messages, and how each is ended."""

from __future__ import annotations

from typing import Any

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
from rocketmq_py.core.transaction.table import COMMIT, ENDED, OPEN, ROLLBACK, OpProgress, TransactionTable, run_length
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.protocol.half_messages import (
    decode_half_positions,
    decode_offsets,
    encode_half_positions,
    encode_offsets,
    op_body,
    parse_op_body,
)

RULES = Rules(timeout_ms=6_000, check_max=15, reserved_ms=72 * 3_600_000)
NOW = 1_000_000_000


def aged(age_ms: int, **more: object) -> HalfMessage:
    """A half message born, and stored, so long before now."""
    return HalfMessage(NOW - age_ms, NOW - age_ms, **more)  # type: ignore[arg-type]


# -- judging


@pytest.mark.parametrize(
    ("half", "step"),
    [
        (aged(6_001), CheckStep.CHECK),
        (aged(6_000), CheckStep.WAIT),
        (aged(1), CheckStep.WAIT),
        (HalfMessage(NOW + 1, NOW - 5_000), CheckStep.CHECK),  # born in the future: a clock was set back
        (HalfMessage(NOW - 60_000, NOW), CheckStep.WAIT),  # stored since the round began
        (aged(60_000, checks=14), CheckStep.CHECK),
        (aged(60_000, checks=15), CheckStep.GIVE_UP),
        (HalfMessage(NOW - 1, NOW, checks=15), CheckStep.GIVE_UP),
        (aged(72 * 3_600_000), CheckStep.CHECK),
        (aged(72 * 3_600_000 + 1), CheckStep.GIVE_UP),
        (aged(1, immunity="0"), CheckStep.CHECK),
        (aged(30_000, immunity="30"), CheckStep.POSTPONE),
        (aged(30_001, immunity="30"), CheckStep.CHECK),
        (aged(6_000, immunity="soon"), CheckStep.POSTPONE),
        (aged(6_001, immunity="soon"), CheckStep.CHECK),
        (HalfMessage(NOW + 60_000, NOW - 1, immunity="30"), CheckStep.POSTPONE),
    ],
)
def test_half_messages_are_checked_skipped_or_given_up(half: HalfMessage, step: CheckStep) -> None:
    assert decide_check(half, RULES, NOW, NOW) is step


def test_a_half_message_is_read_from_its_properties() -> None:
    assert read_half_message(
        {"TRANSACTION_CHECK_TIMES": "3", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9"}, 1, 2
    ) == HalfMessage(1, 2, 3, "9")
    assert read_half_message({"TRANSACTION_CHECK_TIMES": "many"}, 1, 2) == HalfMessage(1, 2)


@pytest.mark.parametrize(("text", "milliseconds"), [("10", 10_000), ("0", 0), ("-1", 6_000), ("x", 6_000), ("", 6_000)])
def test_the_immunity_time_is_read_from_the_property(text: str, milliseconds: int) -> None:
    assert immunity_ms(text, 6_000) == milliseconds


@pytest.mark.parametrize(
    ("text", "age", "late"),
    [(None, 10**9, False), ("", 10**9, False), ("10", 10_000, False), ("10", 10_001, True), ("1", 6_000, False),
     ("1", 6_001, True), ("x", 6_001, True)],
)  # fmt: skip
def test_an_end_after_the_immunity_time_is_too_late(text: str | None, age: int, late: bool) -> None:
    properties = {} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}
    assert is_too_late(properties, NOW - age, 6_000, NOW) is late


# -- the ledger


def test_a_half_message_ends_once() -> None:
    ledger = TransactionTable(5)
    assert ledger.outcome(7) == OPEN
    assert ledger.end(7, ROLLBACK) == [7]
    assert ledger.outcome(7) == ROLLBACK
    assert [ledger.outcome(half) for half in (5, 6, 8)] == [OPEN] * 3
    assert ledger.next_open(9) == 5
    ledger.end(5, COMMIT)
    ledger.end(6)
    assert ledger.next_open(9) == 8
    ledger.advance(8)
    assert (ledger.base, ledger.next_open(9), ledger.next_open(8)) == (8, 8, 8)
    assert [ledger.outcome(half) for half in (5, 6, 7, 8)] == [ENDED, ENDED, ENDED, OPEN]


def test_half_messages_before_the_table_count_as_open() -> None:
    ledger = TransactionTable(5)
    assert ledger.outcome(4) == OPEN
    assert ledger.end(4, COMMIT) == [4]
    assert ledger.outcome(4) == ENDED


def test_an_end_at_an_earlier_offset_ends_the_moved_message() -> None:
    ledger = TransactionTable(5)
    ledger.move(5, 9)
    ledger.advance(6)
    ledger.move(9, 12)
    ledger.advance(10)
    assert ledger.outcome(5) == ledger.outcome(9) == ledger.outcome(12) == OPEN
    assert ledger.end(5, COMMIT) == [5, 9, 12]
    assert ledger.outcome(9) == ledger.outcome(12) == COMMIT
    assert ledger.next_open(14) == 10
    ledger.advance(13)
    assert [ledger.outcome(half) for half in (5, 9, 12)] == [ENDED] * 3


def test_a_given_up_transaction_can_still_be_ended() -> None:
    ledger = TransactionTable(5)
    ledger.move(5, 9)
    ledger.advance(9)
    ledger.give_up(9)
    ledger.advance(10)
    assert ledger.outcome(5) == OPEN
    assert ledger.end(5, COMMIT) == [5, 9]
    assert ledger.outcome(5) == ledger.outcome(9) == ENDED


def test_only_the_latest_given_up_transactions_are_remembered() -> None:
    ledger = TransactionTable(0)
    for half in range(10_001):
        ledger.give_up(half)
        ledger.advance(half + 1)
    assert (ledger.outcome(0), ledger.outcome(1)) == (ENDED, OPEN)
    assert ledger.may_be_forgotten(0)
    ledger.recall(0)
    assert (ledger.outcome(0), ledger.outcome(1)) == (OPEN, ENDED), "another one is forgotten for it"
    ledger.end(0, COMMIT)
    assert ledger.outcome(0) == ENDED
    assert not ledger.may_be_forgotten(0), "its end is known"
    assert not ledger.may_be_forgotten(10_001), "not dealt with yet"


def test_offsets_before_the_table_have_ended_unless_given_up() -> None:
    ledger = TransactionTable(0)
    ledger.end(0, COMMIT)
    ledger.advance(1)
    assert ledger.outcome(0) == ENDED
    assert not ledger.may_be_forgotten(0)


def test_a_long_ended_range_is_skipped_in_one_step() -> None:
    ledger = TransactionTable(0)
    ledger.move(1_000, 200_000)
    ledger.move(2_000, 2_000_000)
    ledger.end(1_000)
    ledger.advance(1_000_000)
    assert (ledger.outcome(1_000), ledger.outcome(2_000)) == (ENDED, OPEN)


# -- op messages


def test_an_op_message_is_needed_until_all_its_half_messages_have_passed() -> None:
    ops = OpProgress(3)
    ops.add(3, [7, 5])
    ops.add(4, [6])
    ops.add(5, [])
    assert ops.passed(6) == 3
    assert ops.passed(7) == 3
    assert ops.passed(8) == 6
    assert ops.passed(9) == 6


def test_the_body_of_an_op_message() -> None:
    assert op_body([5, 12]) == b"5,12,"
    assert parse_op_body(b"5,12,") == [5, 12]
    assert parse_op_body(b"7") == [7]
    assert parse_op_body(b"x,-3,,9,") == [9]


def test_numbers_in_properties() -> None:
    assert [int_property(text) for text in ("7", "-7", "", "x", None)] == [7, -7, -1, -1, -1]


# -- many at once


def test_a_batch_of_ends_equals_single_ends() -> None:
    together, one_by_one = TransactionTable(10), TransactionTable(10)
    assert together.are_open(12, 5)
    together.end_all(12, 5, COMMIT)
    for half in range(12, 17):
        assert one_by_one.end(half, COMMIT) == [half]
    halves = range(5, 30)
    assert [together.outcome(half) for half in halves] == [one_by_one.outcome(half) for half in halves]
    together.end(10), together.end(11)
    assert together.next_open(30) == 17


def test_a_batch_may_end_before_later_half_messages_have() -> None:
    table = TransactionTable(10)
    table.end(20, ROLLBACK)
    table.end_all(12, 3, COMMIT)
    assert [table.outcome(half) for half in (11, 12, 14, 15, 20)] == [OPEN, COMMIT, COMMIT, OPEN, ROLLBACK]


@pytest.mark.parametrize(("first", "count"), [(9, 3), (12, 5), (16, 1), (8, 30), (20, 2), (24, 3), (30, 4)])
def test_a_range_is_open_only_if_no_offset_needs_a_check(first: int, count: int) -> None:
    ledger = TransactionTable(10)
    ledger.end(12, ROLLBACK)
    ledger.end(16)
    ledger.move(21, 25)
    ledger.advance(11)
    closer = {*range(11), 12, 16, 21, 25}
    assert ledger.are_open(first, count) == closer.isdisjoint(range(first, first + count))


@pytest.mark.parametrize(
    ("places", "offsets", "rows"),
    [
        ([100, 150, 200], [7, 8, 9], [(3, 50)]),
        ([100, 150, 210, 270, 330], [7, 8, 9, 10, 11], [(2, 50), (3, 60)]),
        ([100, 150, 200], [7, 8, 10], [(2, 50), (1, 1)]),
        ([100, 100, 90], [7, 8, 9], [(1, 1), (1, 1), (1, 1)]),
        ([100], [7], [(1, 1)]),
        ([], [], []),
    ],
)
def test_adjacent_half_messages_form_runs(places: list[int], offsets: list[int], rows: list[Any]) -> None:
    found, at = [], 0
    while at < len(places):
        found.append(run_length(places, offsets, at))
        at += found[-1][0]
    assert found == rows


def test_offsets_are_read_as_they_were_written() -> None:
    places, offsets = (1 << 40, 7), (3, 0)
    assert decode_half_positions(encode_half_positions(places, offsets)) == (places, offsets)
    assert decode_offsets(encode_offsets(places)) == places
    with pytest.raises(CorruptRecord, match="31 bytes are not a list of offsets"):
        decode_half_positions(encode_half_positions(places, offsets)[:31])
    with pytest.raises(CorruptRecord, match="24 bytes are not a list of positions"):
        decode_half_positions(encode_half_positions(places, offsets)[:24])


def test_a_half_message_that_its_copy_replaces_is_not_checked_and_ends_with_it() -> None:
    table = TransactionTable(0)
    table.replace(0, 2)
    assert [table.next_open(3), table.outcome(0), table.current(0)] == [1, OPEN, 2]
    assert table.end(0, COMMIT) == [0, 2]
    assert (table.outcome(0), table.outcome(2), table.outcome(1)) == (COMMIT, COMMIT, OPEN)


def test_the_places_of_a_half_message_that_ends_after_the_checks_are_forgotten() -> None:
    table = TransactionTable(0)
    table.move(0, 1)
    table.give_up(1)
    table.advance(2)
    assert table.end(0, COMMIT) == [0, 1]
    assert table.end(0, COMMIT) == [0]
