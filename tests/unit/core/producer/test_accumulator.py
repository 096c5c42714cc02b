"""When batches leave."""

from __future__ import annotations

import math

import pytest

from rocketmq_py.core.producer.accumulator import Accumulator, BatchLimits, Lane, Parcel
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

TOPIC = Lane("t")
QUEUE = Lane("t", MessageQueue("t", "b", 0))


def accumulator(linger: object = 1.0, max_bytes: int = 100, max_messages: int = 10) -> Accumulator[str]:
    return Accumulator(BatchLimits(linger, max_bytes, max_messages))  # type: ignore[arg-type]


def add(acc: Accumulator[str], entry: str, at: float = 0.0, *, lane: Lane = TOPIC, size: int = 1, kind: object = "k",
        timeout: float = 60.0) -> list[list[str]]:  # fmt: skip
    return names(acc.add(lane, entry, size, kind, at, at + timeout))


def names(parcels: object) -> list[list[str]]:
    return [parcel.entries for parcel in parcels]  # type: ignore[attr-defined]


def take(acc: Accumulator[str], at: float) -> list[Parcel[str]]:
    return acc.take(at).leaving


def test_a_batch_leaves_when_its_first_message_has_lingered() -> None:
    acc = accumulator(1.0)
    assert add(acc, "a") == add(acc, "b", 0.9) == []
    assert acc.next_at == 1.0
    assert take(acc, 0.99) == []
    assert names(take(acc, 1.0)) == [["a", "b"]]
    assert acc.next_at == math.inf


def test_a_full_batch_leaves_at_once() -> None:
    acc = accumulator(max_messages=2)
    assert add(acc, "a") == []
    assert add(acc, "b") == [["a", "b"]]
    assert add(acc, "c", size=99) == []
    assert add(acc, "d", size=1) == [["c", "d"]]


def test_a_message_that_does_not_fit_begins_the_next_batch() -> None:
    acc = accumulator(max_bytes=100)
    assert add(acc, "a", size=60) == []
    assert add(acc, "b", size=41) == [["a"]]
    assert add(acc, "c", size=60) == [["b"]]
    assert len(acc) == 1


def test_kinds_do_not_mix_and_order_holds() -> None:
    acc = accumulator()
    assert add(acc, "a") == []
    assert add(acc, "b", kind="other") == [["a"]]
    assert add(acc, "c", kind=None) == [["b"], ["c"]]
    assert add(acc, "d", kind=None) == [["d"]]


def test_one_batch_of_a_queue_is_under_way_at_a_time() -> None:
    acc = accumulator(max_messages=1)
    (first,) = acc.add(QUEUE, "a", 1, "k", 0.0, 60.0)
    assert add(acc, "b", lane=QUEUE) == add(acc, "c", lane=QUEUE) == []
    assert take(acc, 30.0) == []
    acc.ended(first, 30.0)
    assert acc.waits_for_turn
    (second,) = take(acc, 30.0)
    assert second.entries == ["b"]
    assert not acc.waits_for_turn


def test_batches_of_a_topic_are_under_way_together() -> None:
    acc = accumulator(max_messages=1)
    assert [add(acc, each) for each in "abc"] == [[["a"]], [["b"]], [["c"]]]


def test_a_batch_that_waits_for_another_until_its_deadline_is_late() -> None:
    acc = accumulator(max_messages=1)
    (first,) = acc.add(QUEUE, "a", 1, "k", 0.0, 60.0)
    add(acc, "b", 1.0, lane=QUEUE, timeout=2.0)
    assert acc.take(2.9).late == []
    assert acc.next_at == 3.0
    taken = acc.take(3.0)
    assert (names(taken.leaving), names(taken.late), len(acc)) == ([], [["b"]], 0)
    acc.ended(first, 4.0)
    assert take(acc, 4.0) == []


def test_a_batch_lingers_at_most_half_of_its_timeout() -> None:
    acc = accumulator(10.0)
    add(acc, "a", 5.0, timeout=2.0)
    assert acc.next_at == 6.0
    assert names(take(acc, 6.0)) == [["a"]]


def test_natural_one_at_a_time_leaves_at_once() -> None:
    acc = accumulator("natural")
    for number in range(3):
        (parcel,) = acc.add(TOPIC, "a", 1, "k", float(number), 60.0)
        assert not acc.waits_for_turn
        acc.ended(parcel, number + 0.5)


def test_natural_a_lane_is_quiet_while_messages_leave_alone() -> None:
    acc = accumulator("natural", max_messages=3)
    assert acc.is_quiet(TOPIC)
    (parcel,) = acc.add(TOPIC, "a", 1, "k", 0.0, 60.0)
    assert not acc.is_quiet(TOPIC)
    assert acc.is_quiet(QUEUE)
    acc.ended(parcel, 1.0)
    assert acc.is_quiet(TOPIC)
    assert acc.add(TOPIC, "b", 1, "k", 1.0, 60.0, follows=True) == []
    assert not acc.is_quiet(TOPIC)
    add(acc, "c", 1.0)
    (parcel,) = take(acc, 1.0)
    acc.ended(parcel, 2.0)
    assert not acc.is_quiet(TOPIC)  # it left with another
    assert not accumulator(1.0).is_quiet(TOPIC)


def test_natural_what_follows_a_direct_request_waits_for_the_end_of_the_turn() -> None:
    acc = accumulator("natural")
    assert acc.add(TOPIC, "a", 1, "k", 0.0, 60.0, follows=True) == []
    assert acc.waits_for_turn
    assert names(take(acc, 0.0)) == [["a"]]


def test_natural_what_comes_while_a_request_is_under_way_leaves_together() -> None:
    acc = accumulator("natural")
    (parcel,) = acc.add(QUEUE, "a", 1, "k", 0.0, 60.0)
    assert add(acc, "b", lane=QUEUE) == add(acc, "c", lane=QUEUE) == []
    assert acc.waits_for_turn
    assert take(acc, 0.0) == []
    acc.ended(parcel, 0.1)
    assert names(take(acc, 0.1)) == [["b", "c"]]


def test_natural_after_company_a_first_message_waits_for_the_end_of_the_turn() -> None:
    acc = accumulator("natural", max_messages=3)
    add(acc, "a")
    add(acc, "b")
    (parcel,) = acc.add(TOPIC, "c", 1, "k", 0.0, 60.0) or take(acc, 1.0)
    acc.ended(parcel, 1.0)
    assert add(acc, "d", 1.0) == add(acc, "e", 1.0) == []
    assert names(take(acc, 1.0)) == [["d", "e"]]


def test_natural_does_not_wait_longer_than_an_eighth_of_a_round_trip() -> None:
    acc = accumulator("natural")
    (first,) = acc.add(TOPIC, "a", 1, "k", 0.0, 60.0)
    acc.ended(first, 0.8)
    acc.add(TOPIC, "b", 1, "k", 1.0, 60.0)
    assert add(acc, "c", 1.0) == []
    assert acc.next_at == pytest.approx(1.1)
    assert take(acc, 1.09) == []
    assert names(take(acc, 1.11)) == [["c"]]


def test_the_round_trip_is_smoothed() -> None:
    acc = accumulator("natural")
    for took in (0.8, 1.6):
        (parcel,) = acc.add(TOPIC, "a", 1, "k", 0.0, 60.0)
        acc.ended(parcel, took)
    acc.add(TOPIC, "b", 1, "k", 0.0, 60.0)
    add(acc, "c", 0.0)
    assert acc.next_at == pytest.approx(0.9 / 8)


def test_release_lets_a_topic_leave() -> None:
    acc = accumulator(60.0)
    add(acc, "a")
    add(acc, "b", lane=Lane("u"))
    acc.release("u")
    assert acc.waits_for_turn
    assert names(take(acc, 0.0)) == [["b"]]
    acc.release()
    assert names(take(acc, 0.0)) == [["a"]]


def test_messages_put_back_leave_alone_before_those_that_wait() -> None:
    acc = accumulator(max_messages=2)
    add(acc, "a", lane=QUEUE)
    (parcel,) = acc.add(QUEUE, "b", 1, "k", 0.0, 60.0)
    add(acc, "c", lane=QUEUE)
    acc.ended(parcel, 1.0)
    acc.put_back(parcel)
    acc.release()
    left = []
    while len(acc):
        (next_one,) = take(acc, 1.0)
        left.append(next_one.entries)
        acc.ended(next_one, 1.0)
    assert left == [["a"], ["b"], ["c"]]


def test_messages_put_back_do_not_linger_again() -> None:
    acc = accumulator(1.0, max_messages=2)
    add(acc, "a", lane=QUEUE)
    (parcel,) = acc.add(QUEUE, "b", 1, "k", 0.0, 60.0)
    add(acc, "c", lane=QUEUE)
    acc.ended(parcel, 0.1)
    acc.put_back(parcel)
    for name in ("a", "b"):
        (alone,) = take(acc, 0.1)
        assert alone.entries == [name]
        acc.ended(alone, 0.1)
    assert take(acc, 0.1) == []
    assert names(take(acc, 1.0)) == [["c"]]


def test_idle_lanes_are_forgotten() -> None:
    acc = accumulator(max_messages=1)
    (busy,) = acc.add(Lane("busy"), "a", 1, "k", 0.0, 60.0)
    known = set()
    for number in range(5000):
        (parcel,) = acc.add(Lane(f"t{number}"), "a", 1, "k", 0.0, 60.0)
        acc.ended(parcel, 0.0)
        known.add(len(acc._lanes))
    assert known == set(range(2, 4097))
    acc.ended(busy, 1.0)


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"linger": -0.1}, "batch_linger=-0.1 is out of range"),
        ({"linger": 60.1}, "batch_linger=60.1 is out of range"),
        ({"linger": math.nan}, "batch_linger=nan is out of range"),
        ({"linger": "always"}, "batch_linger='always' must be seconds or 'natural'"),
        ({"max_bytes": 0}, "batch_max_bytes=0 must be at least 1"),
        ({"max_messages": 0}, "batch_max_messages=0 must be at least 1"),
    ],
)
def test_limits_out_of_range_are_refused(limits: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        BatchLimits(**limits)  # type: ignore[arg-type]


def test_what_makes_batches() -> None:
    assert not BatchLimits().makes_batches
    assert BatchLimits(60).makes_batches
    assert BatchLimits("natural").makes_batches
