"""Delivery progress of timed messages that brokers of one name report to each other."""

from __future__ import annotations

import pytest

from rocketmq_py.core.timer.progress import DeliveryProgress, LateEntries, UndeliveredEntries
from rocketmq_py.core.timer.timers import DEFAULT, TimerEntry

WINDOW, PRECISION = 20, 1_000


def covers(told: DeliveryProgress, queue_offset: int, out_ms: int, stored_ms: int = 0) -> bool:
    return told.covers(queue_offset, out_ms, stored_ms, WINDOW, PRECISION)


@pytest.mark.parametrize(
    ("queue_offset", "out_ms", "covered"), [(4, 9_000, True), (5, 9_000, False), (4, 10_000, False), (3, 9_000, False)]
)
def test_a_report_covers_known_messages_that_were_due(queue_offset: int, out_ms: int, *, covered: bool) -> None:
    """Neither messages the one who speaks has not seen, nor those it says are waiting."""
    told = DeliveryProgress(5, 10_000, frozenset({3}))
    assert covers(told, queue_offset, out_ms) is covered


def test_a_former_acting_master_covers_messages_of_the_next_round() -> None:
    """A message of second 50 stored in second 0 goes round after 20 seconds, and is looked at then."""
    assert not covers(DeliveryProgress(5, 30_000), 4, 50_000)
    for acted_from, covered in ((20_000, True), (20_001, False)):
        assert covers(DeliveryProgress(5, 30_000, frozenset(), acted_from), 4, 50_000) is covered
    assert not covers(DeliveryProgress(5, 20_000, frozenset(), 0), 4, 50_000), "its slot is not over"
    assert not covers(DeliveryProgress(5, 30_000, frozenset({4}), 0), 4, 50_000)
    assert not covers(DeliveryProgress(4, 30_000, frozenset(), 0), 4, 50_000)


def test_late_messages_limit_the_report_until_their_slot_ends() -> None:
    late = LateEntries()
    assert late.limit(9, 50) == 9
    late.add(3, 60)
    late.add(5, 70)
    assert late.limit(9, 70) == 3
    assert late.limit(9, 71) == 9
    late.add(12, 80)
    assert late.limit(15, 80) == 12


def entry(position: int, slot: int) -> TimerEntry:
    return TimerEntry(slot + 1_000, position, slot, position * 10, 100, DEFAULT, slot - 500)


def test_a_limited_number_of_undelivered_messages_is_kept_apart() -> None:
    untaken = UndeliveredEntries(most=2)
    first, second, third = entry(1, 5_000), entry(2, 4_000), entry(3, 3_000)
    assert untaken.add(first, 70)
    assert untaken.add(second, 60)
    assert not untaken.add(third, 50)
    assert untaken.add(first, 70), "it is among them already"
    assert (len(untaken), untaken.first_slot, untaken.places()) == (2, 4_000, [60, 70])
    assert first in untaken
    assert third not in untaken
    untaken.done(second)
    assert (list(untaken), untaken.first_slot) == ([first], 5_000)
    untaken.done(first)
    untaken.done(first)
    assert (list(untaken), untaken.first_slot, untaken.places()) == ([], None, [])
