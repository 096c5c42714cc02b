"""Required replicas, the transfer rate, and the first offset of a slave."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.replication import (
    ReplicaWaits,
    TransferRate,
    acknowledged_offset,
    first_offset,
    required_replicas,
)


def test_an_empty_slave_begins_with_the_newest_file() -> None:
    assert first_offset(0, 2500, 1000) == 2000
    assert first_offset(0, 0, 1000) == 0
    assert first_offset(1234, 2500, 1000) == 1234


@pytest.mark.parametrize(
    ("ends", "slaves", "end"), [([], 1, -1), ([5], 1, 5), ([5], 2, -1), ([5, 9, 7], 1, 9), ([5, 9, 7], 3, 5)]
)
def test_the_acknowledged_offset_is_what_the_required_slaves_have(ends: list[int], slaves: int, end: int) -> None:
    assert acknowledged_offset(ends, slaves) == end


def test_the_transfer_rate_is_limited_per_second() -> None:
    rate = TransferRate(10_000)
    rate.add(60, 10_100)
    rate.add(30, 10_999)
    assert (rate.room(100, 10_999), rate.last_second(10_999)) == (10, 0)
    assert (rate.room(80, 10_999), rate.room(100, 11_000)) == (0, 100)
    rate.add(5, 11_500)
    assert rate.last_second(11_999) == 90
    assert rate.last_second(12_000) == 5
    assert rate.last_second(14_500) == 0, "nothing was moved in the second before"
    rate.add(7, 14_600)
    assert rate.room(100, 9_000) == 100, "a clock that is set back begins a new second"


def test_waits_for_smaller_offsets_end_first() -> None:
    waits: ReplicaWaits[str] = ReplicaWaits()
    assert waits.first is None
    for end, waiter in ((20, "b"), (10, "a"), (30, "c"), (20, "b2")):
        waits.add(end, 1, waiter)
    assert (len(waits), waits.furthest) == (4, 30)
    assert waits.first is not None
    assert (waits.first.end, waits.first.since_ms, waits.first.waiter) == (10, 1, "a")
    assert waits.reached(9) == []
    assert waits.reached(20) == ["a", "b", "b2"]
    assert waits.pop() == "c"
    assert len(waits) == 0


@pytest.mark.parametrize(
    ("present", "adapts", "wanted"),
    [(1, False, None), (2, False, None), (3, False, 3), (5, False, 3), (1, True, None), (2, True, 2), (4, True, 3)],
)
def test_required_replicas_depend_on_the_slaves_present(present: int, adapts: bool, wanted: int | None) -> None:
    assert required_replicas(3, 2, present, adapts=adapts) == wanted


def test_a_second_begins_with_its_first_millisecond() -> None:
    rate = TransferRate(10_000)
    rate.add(60, 10_000)
    rate.add(30, 10_000)
    assert (rate.room(100, 10_000), rate.last_second(10_000)) == (10, 0)
    assert rate.room(50, 10_000) == 0
    assert rate.last_second(11_000) == 90
