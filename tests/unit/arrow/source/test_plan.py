"""Offsets: ranges of batch reads and micro-batches, and data loss."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.arrow.options.offsets import Boundary, Bounds, Offsets, from_document, to_document
from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.source.plan import (
    admit,
    admit_bytes,
    backlog,
    batch_plan,
    beyond_the_end,
    carry,
    repeated_first_plan,
    resolve,
    resolve_committed,
    resolve_times,
    split,
    stream_plan,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

A, B, C = (MessageQueue("t", "broker-a", i) for i in range(3))

queues = st.builds(MessageQueue, st.sampled_from("tu"), st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(queues, st.integers(0, 1000), min_size=1)


@given(offsets)
def test_offsets_are_converted_to_json_and_back(known: Offsets) -> None:
    assert from_document(json.loads(json.dumps(to_document(known)))) == known


def test_boundaries_are_resolved_to_offsets() -> None:
    bounds = {A: Bounds(5, 9), B: Bounds(0, 3)}
    assert resolve(Boundary.EARLIEST, bounds, "startingOffsets") == {A: 5, B: 0}
    assert resolve(Boundary.LATEST, bounds, "startingOffsets") == {A: 9, B: 3}
    assert resolve({A: 7, B: -1}, bounds, "startingOffsets") == {A: 7, B: 3}


def test_resolving_needs_exactly_the_existing_queues() -> None:
    with pytest.raises(ConfigError, match="startingOffsets must name every queue, missing: t@broker-a:1"):
        resolve({A: 1}, {A: Bounds(0, 9), B: Bounds(0, 9)}, "startingOffsets")
    with pytest.raises(ConfigError, match="endingOffsets names t@broker-a:2, which the subscribed topics do not have"):
        resolve({A: 1, C: 1}, {A: Bounds(0, 9)}, "endingOffsets")


def test_a_batch_read_covers_existing_messages() -> None:
    bounds = {A: Bounds(5, 9), B: Bounds(0, 3), C: Bounds(2, 2)}
    plan = batch_plan({A: 5, B: 1, C: 2}, {A: 9, B: 3, C: 2}, bounds)
    assert plan == ([QueueRange(A, 5, 9), QueueRange(B, 1, 3)], [])


def test_a_batch_read_reports_removed_and_missing_messages() -> None:
    plan = batch_plan({A: 2, B: 0}, {A: 9, B: 7}, {A: Bounds(5, 9), B: Bounds(0, 3)})
    assert plan.ranges == [QueueRange(A, 5, 9), QueueRange(B, 0, 3)]
    assert plan.losses == [
        "offsets 2 to 4 of t@broker-a:0 have been removed by retention",
        "t@broker-a:1 ends at offset 3, but 7 was asked for",
    ]


def test_a_micro_batch_covers_the_range_between_two_offsets() -> None:
    plan = stream_plan({A: 3, B: 4}, {A: 8, B: 4}, {A: 0, B: 0})
    assert plan == ([QueueRange(A, 3, 8)], [])


def test_a_micro_batch_reads_a_new_queue_from_its_beginning() -> None:
    assert stream_plan({A: 3}, {A: 3, B: 4}, {A: 0, B: 0}) == ([QueueRange(B, 0, 4)], [])
    assert "is new to the query and starts at offset 2" in stream_plan({A: 3}, {A: 3, B: 4}, {A: 0, B: 2}).losses[0]


def test_a_micro_batch_reports_removed_and_recreated_queues() -> None:
    plan = stream_plan({A: 3, B: 9, C: 1}, {A: 8, B: 2}, {A: 6, B: 0})
    assert plan.ranges == [QueueRange(A, 6, 8), QueueRange(B, 0, 2)]
    assert [loss.split(",")[0] for loss in plan.losses] == [
        "t@broker-a:2",
        "offsets 3 to 5 of t@broker-a:0 have been removed by retention",
        "t@broker-a:1 ended at offset 9 and now ends at 2: it was created again",
    ]


def test_a_micro_batch_of_an_unreachable_broker_is_planned_unchanged() -> None:
    assert stream_plan({A: 3}, {A: 8}, {}) == ([QueueRange(A, 3, 8)], [])


def test_unreachable_queues_keep_their_offsets() -> None:
    assert carry({A: 3, B: 4}, {A: 9}) == {A: 9, B: 4}


@given(st.dictionaries(queues, st.integers(0, 100)), offsets, st.integers(1, 400))
def test_admission_never_passes_the_limit_or_the_end_and_always_advances(
    start: Offsets, latest: Offsets, limit: int
) -> None:
    ends = admit(start, latest, limit)
    taken = {queue: ends[queue] - start.get(queue, 0) for queue in latest if latest[queue] > start.get(queue, 0)}
    lag = {queue: latest[queue] - start.get(queue, 0) for queue in taken}
    assert ends.keys() == latest.keys()
    assert all(0 <= taken[queue] <= lag[queue] for queue in taken)
    assert sum(taken.values()) == min(limit, sum(lag.values()))
    if limit >= len(taken):
        assert all(taken.values()), "a queue is starved"


def test_admission_divides_the_limit_by_lag() -> None:
    assert admit({A: 0, B: 0}, {A: 900, B: 100}, 100) == {A: 90, B: 10}


def test_admission_by_bytes_counts_the_messages_of_each_topic_as_large_as_they_are() -> None:
    sizes = {"t": 100.0, "u": 900.0}
    latest = {A: 100, MessageQueue("u", "broker-a", 0): 100}
    assert admit_bytes({}, latest, 50_000, sizes) == dict.fromkeys(latest, 50)
    assert admit_bytes({}, latest, 100_000, sizes) == latest
    assert sum(admit_bytes({}, latest, 99_999, sizes).values()) == 199
    assert sum(admit_bytes({}, latest, 1, sizes).values()) == 1
    assert admit_bytes({A: 200}, {A: 100}, 1, sizes) == {A: 100}, "a moved end is not a backlog"


def test_a_data_loss_error_has_a_hint_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(DataLossError(["one", "two"])))
    assert str(error).startswith("one; two. To go on with what is still there, set failOnDataLoss=false")


def test_a_read_starts_at_the_offsets_of_a_group() -> None:
    bounds = {A: Bounds(5, 9), B: Bounds(0, 3)}
    assert resolve_committed("g", {A: 7}, bounds) == {A: 7, B: 0}
    with pytest.raises(ConfigError, match="group g has committed no offset of t@broker-a:0, t@broker-a:1"):
        resolve_committed("g", {}, bounds)


def test_a_time_after_the_last_message_is_an_error_unless_configured() -> None:
    bounds = {A: Bounds(5, 9), B: Bounds(0, 3)}
    found = {A: 6, B: 3}
    assert resolve_times({A: 100, B: 100}, found, bounds, or_latest=True) == found
    with pytest.raises(ConfigError, match="t@broker-a:1: no message was stored at 100 ms since 1970 or later"):
        resolve_times({A: 100, B: 100}, found, bounds, or_latest=False)


def test_a_repeated_first_micro_batch_is_no_recreated_queue() -> None:
    plan = repeated_first_plan({A: 20, B: 1}, {A: 12, B: 4}, {A: 0, B: 0})
    assert plan.ranges == [QueueRange(B, 1, 4)]
    (loss,) = plan.losses
    assert loss.endswith("began in t@broker-a:0 before offset 12 is no longer known: the initial offset is now 20")


ranges = st.lists(
    st.builds(lambda start, size: QueueRange(A, start, start + size), st.integers(0, 50), st.integers(1, 200)),
    max_size=5,
)


@given(ranges, st.none() | st.integers(1, 60), st.none() | st.integers(1, 60))
def test_split_ranges_hold_the_same_messages_evenly(
    whole: list[QueueRange], at_least: int | None, at_most: int | None
) -> None:
    pieces = split(whole, at_least, at_most)
    expected = [(one.queue, i) for one in whole for i in range(one.start, one.stop)]
    assert [(one.queue, i) for one in pieces for i in range(one.start, one.stop)] == expected
    assert all(one.size for one in pieces)
    if at_most is not None:
        assert all(one.size <= at_most for one in pieces)
    if at_least is not None:
        assert len(pieces) >= min(at_least, len(expected))
    if at_least is None and at_most is None:
        assert pieces == whole


def test_the_longest_queue_is_split_first() -> None:
    assert [one.size for one in split([QueueRange(A, 0, 900), QueueRange(B, 0, 10)], 4, None)] == [300, 300, 300, 10]


def test_the_backlog_counts_only_unread_messages() -> None:
    assert backlog({A: 5, B: 9}, {A: 8, B: 2, C: 4}) == 7


def test_a_start_beyond_the_end_of_a_queue_is_reported() -> None:
    bounds = {A: Bounds(0, 9), B: Bounds(2, 3), C: Bounds(0, 0)}
    assert beyond_the_end({A: 9, B: 3, C: 0}, bounds) == [], "the end itself is where new messages come"
    [told] = beyond_the_end({A: 0, B: 4, C: 0}, bounds)
    assert "ends at offset 3, but reading was to begin at 4" in told


def test_errors_name_five_queues() -> None:
    many = [MessageQueue("t", "b", number) for number in range(7)]
    bounds = dict.fromkeys(many, Bounds(0, 9))
    five = ", ".join(f"t@b:{number}" for number in range(5))
    with pytest.raises(ConfigError, match=rf"missing: {five} and 2 more\. Use -2 for earliest, -1 for latest"):
        resolve({}, bounds, "startingOffsets")
    with pytest.raises(ConfigError, match=rf"missing: {five}\. Use"):
        resolve({}, dict.fromkeys(many[:5], Bounds(0, 9)), "startingOffsets")
    assert resolve_committed("g", {}, {}) == {}


def test_numbers_of_boundaries_stand_for_them() -> None:
    assert resolve({A: -2, B: 0}, {A: Bounds(5, 9), B: Bounds(5, 9)}, "startingOffsets") == {A: 5, B: 0}


def test_messages_that_are_removed_or_missing_are_named_to_the_offset() -> None:
    bounds = {A: Bounds(5, 9)}
    for start, stop, read, losses in (
        (5, 9, [(5, 9)], []),
        (4, 9, [(5, 9)], ["offsets 4 to 4 of t@broker-a:0 have been removed by retention"]),
        (1, 3, [], ["offsets 1 to 2 of t@broker-a:0 have been removed by retention"]),
        (1, 5, [], ["offsets 1 to 4 of t@broker-a:0 have been removed by retention"]),
        (6, 10, [(6, 9)], ["t@broker-a:0 ends at offset 9, but 10 was asked for"]),
        (12, 12, [], []),
        (9, 12, [], ["t@broker-a:0 ends at offset 9, but 12 was asked for"]),
        (9, 3, [], []),
    ):
        plan = batch_plan({A: start}, {A: stop}, bounds)
        assert ([(one.start, one.stop) for one in plan.ranges], plan.losses) == (read, losses)


def test_micro_batches_at_their_edges() -> None:
    for start, stop, earliest, read, lost in (
        ({A: 5}, {A: 5}, {A: 9}, [], 0),
        ({A: 5}, {A: 4}, {A: 0}, [(0, 4)], 1),
        ({}, {A: 4}, {A: 0}, [(0, 4)], 0),
        ({}, {A: 4}, {A: 1}, [(1, 4)], 1),
        ({}, {A: 4}, {}, [(0, 4)], 0),
        ({A: 3}, {}, {}, [], 1),
    ):
        plan = stream_plan(start, stop, earliest)
        assert ([(one.start, one.stop) for one in plan.ranges], len(plan.losses)) == (read, lost)
    again = repeated_first_plan({A: 7, B: 5}, {A: 7, B: 9, C: 2}, {A: 0, B: 6, C: 1})
    assert [(one.queue, one.start, one.stop) for one in again.ranges] == [(B, 6, 9), (C, 1, 2)]
    assert len(again.losses) == 2


def test_a_limit_is_shared_by_lag_and_what_is_left_goes_to_the_longest() -> None:
    assert admit({}, {A: 10, B: 5, C: 1}, 2) == {A: 1, B: 1, C: 0}
    assert admit({}, {A: 10, B: 5, C: 1}, 3) == {A: 1, B: 1, C: 1}
    assert admit({}, {A: 10, B: 5, C: 1}, 9) == {A: 6, B: 2, C: 1}
    assert admit({}, {A: 10, B: 5, C: 1}, 16) == admit({}, {A: 10, B: 5, C: 1}, 99) == {A: 10, B: 5, C: 1}
    assert admit({A: 20, B: 3}, {A: 10, B: 13}, 4) == {A: 10, B: 7}, "a queue that was made again has no lag"
    assert admit({}, {A: 1, B: 1}, 1) == {A: 1, B: 0}


def test_ranges_are_cut_as_evenly_as_can_be() -> None:
    def sizes(at_least: int | None, at_most: int | None, *given_: int) -> list[int]:
        return [one.size for one in split([QueueRange(A, 5, 5 + size) for size in given_], at_least, at_most)]

    assert sizes(None, 4, 10) == [3, 3, 4]
    assert sizes(None, 5, 10, 0, 1) == [5, 5, 1]
    assert sizes(3, None, 10, 10) == [5, 5, 10]
    assert sizes(9, None, 2, 1) == [1, 1, 1]
    assert sizes(2, 3, 9) == [3, 3, 3]
    assert QueueRange(A, 9, 5).size == 0
