"""Logical queues: offsets, lookups, checks of mappings, routes and translated pulls."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.static_topic import (
    PullOutcome,
    as_info,
    earliest_items,
    end_of,
    find_item,
    items_fault,
    leader_map,
    led_elsewhere,
    logical_offset,
    logical_offset_of_send,
    mapping_fault,
    merge,
    next_item,
    outdated_queues,
    physical_offset,
    translate_pull,
    without_expired,
)
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingInfo, MappingItem


def item(gen: int = 0, logic: int = 0, end: int = -1, bname: str = "a", queue_id: int = 0) -> MappingItem:
    return MappingItem(gen=gen, queue_id=queue_id, bname=bname, logic_offset=logic, end_offset=end)


FIRST, SECOND, THIRD = item(0, 0, 100), item(1, 10_000, 50, "b", 3), item(2, 20_000, -1, "c", 1)
ITEMS = [FIRST, SECOND, THIRD]


def detail(*items: MappingItem, epoch: int = 1, number: int = 0, **more: object) -> MappingDetail:
    fields = {"topic": "t", "bname": "a", "total_queues": 1, "epoch": epoch, "hosted_queues": {number: list(items)}}
    return MappingDetail(**{**fields, **more})  # type: ignore[arg-type]


def test_offsets_are_converted_both_ways() -> None:
    assert [logical_offset(SECOND, physical) for physical in (0, 7, 50)] == [10_000, 10_007, 10_050]
    assert [physical_offset(SECOND, logical) for logical in (10_000, 10_007)] == [0, 7]
    assert (end_of(FIRST), end_of(THIRD)) == (100, 20_000)


def test_a_physical_queue_may_begin_behind_its_first_message() -> None:
    """The first 30 messages of the physical queue belong to something else, and 31 to 50 to the logical queue."""
    there = MappingItem(gen=1, queue_id=3, bname="b", logic_offset=100, start_offset=30, end_offset=50)
    assert [logical_offset(there, physical) for physical in (29, 30, 37)] == [100, 100, 107]
    assert [physical_offset(there, logical) for logical in (100, 107)] == [30, 37]
    assert end_of(there) == 120
    found, delta = translate_pull([FIRST, there, THIRD], there, 30, PullOutcome(0, 62, 10, 62))
    assert (found, delta) == (PullOutcome(0, 120, 100, 20_000), 70)
    assert translate_pull([there], there, 30, PullOutcome(0, 40, 35, 62))[0] == PullOutcome(0, 110, 105, 132)


def test_a_physical_queue_that_ended_empty_stores_nothing_behind_its_end() -> None:
    assert logical_offset_of_send(item(1, 10_000, 0), 5) == 10_000


def test_the_offset_of_a_send_is_unknown_until_the_logical_offset_is_decided() -> None:
    assert logical_offset_of_send(item(1, -1), 5) == -1
    assert logical_offset_of_send(FIRST, 5) == 5
    assert logical_offset_of_send(SECOND, 51) == 10_050, "not behind its end"
    assert logical_offset_of_send(THIRD, 51) == 20_051


@pytest.mark.parametrize(
    ("logical", "gen"), [(0, 0), (99, 0), (100, 0), (9_999, 0), (10_000, 1), (19_999, 1), (20_000, 2), (-5, 0)]
)
def test_an_offset_selects_its_item(logical: int, gen: int) -> None:
    found = find_item(ITEMS, logical)
    assert found is not None
    assert found.gen == gen


def test_items_without_a_logical_offset_are_skipped() -> None:
    assert find_item([FIRST, item(1, -1)], 1 << 62) is FIRST
    assert find_item([item(0, -1)], 0) is None
    assert next_item([FIRST, item(1, -1)], FIRST) is None
    assert next_item(ITEMS, FIRST) is SECOND
    assert next_item(ITEMS, THIRD) is None


def test_the_leader_of_a_queue_is_the_broker_of_its_last_item() -> None:
    mine = detail(FIRST, item(1, 10_000, bname="a", queue_id=7))
    mine.hosted_queues[1] = ITEMS
    assert leader_map(mine) == {0: 7}
    assert as_info(mine) == MappingInfo(topic="t", bname="a", total_queues=1, epoch=1, curr_id_map={0: 7})


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([item(0), item(0, 10)], "gen does not increase"),
        ([item(0, 10), item(1, 5)], "base logic offset"),
        ([item(0, 10), item(1, 10)], "base logic offset"),
        ([item(0, 0, 100), item(1, 100)], "max logic offset"),
        ([item(0, -1), item(1, 5)], "non-latest item has negative"),
        ([item(-1)], "should not be negative"),
        ([item(0, queue_id=8_192)], "should not be negative"),
        ([item(0, queue_id=-1)], "should not be negative"),
        ([MappingItem(gen=0, queue_id=0, bname="a", logic_offset=0, start_offset=-1)], "should not be negative"),
        ([item(0, (1 << 62) + 1)], "too large"),
        ([MappingItem(gen=0, queue_id=0, bname="a", logic_offset=0, start_offset=5, end_offset=4)], "smaller than"),
    ],
)
def test_contradictions_between_items_are_named(items: list[MappingItem], words: str) -> None:
    assert words in (items_fault(items) or "")
    assert "logical queue 0" in (mapping_fault(detail(*items), "t", "a") or "")


def test_valid_items_are_accepted() -> None:
    assert items_fault([*ITEMS, item(3, -1)]) is None
    assert mapping_fault(detail(*ITEMS), "t", "a") is None
    assert items_fault([item(0, 1 << 62, queue_id=8_191)]) is None
    empty = MappingItem(gen=0, queue_id=0, bname="a", logic_offset=0, start_offset=5, end_offset=5)
    assert items_fault([empty, item(1, 1)]) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"total_queues": 8_192}, {"total_queues": 0}, {"hosted_queues": {8_191: [FIRST]}},
        {"hosted_queues": {0: [item(n, n * 10) for n in range(1_000)]}},
        {"hosted_queues": {n: [FIRST] for n in range(8_192)}},
    ],
)  # fmt: skip
def test_mappings_may_be_as_large_as_the_limits(fields: dict[str, object]) -> None:
    assert mapping_fault(detail(**fields), "t", "a") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "other"}, {"bname": "b"}, {"total_queues": 8_193}, {"total_queues": -1},
        {"hosted_queues": {8_192: [FIRST]}}, {"hosted_queues": {-1: [FIRST]}},
        {"hosted_queues": {0: [item(n, n * 10) for n in range(1_001)]}},
        {"hosted_queues": {n: [FIRST] for n in range(8_193)}},
    ],
)  # fmt: skip
def test_mappings_are_bounded_and_must_match_topic_and_broker(fields: dict[str, object]) -> None:
    assert mapping_fault(detail(**fields), "t", "a") is not None


def test_a_new_mapping_keeps_unnamed_queues() -> None:
    old, new = detail(FIRST), detail(FIRST, epoch=2, number=1)
    assert merge(old, new, force=False) is None
    assert new.hosted_queues == {1: [FIRST], 0: [FIRST]}


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (detail(FIRST, epoch=0), "small epoch"),
        (detail(FIRST, epoch=2, scope="s"), "unmatched scope"),
        (detail(FIRST, epoch=1, number=1), "equal epoch with null data"),
        (detail(item(0, 0, bname="x"), epoch=2), "generation 0"),
        (detail(item(0, 7), epoch=2), "generation 0"),
        (detail(FIRST, SECOND, epoch=1), "leader is different"),
        (detail(epoch=2), "null or empty"),
    ],
)
def test_a_mapping_that_contradicts_the_one_before_is_refused(new: MappingDetail, words: str) -> None:
    assert words in (merge(detail(FIRST), new, force=False) or "")
    assert merge(detail(FIRST), new, force=True) is None


def test_a_missing_logical_offset_can_be_set_later() -> None:
    assert merge(detail(FIRST, item(1, -1)), detail(FIRST, item(1, 10_000), epoch=1), force=False) is None
    assert merge(detail(FIRST, item(1, 10_000)), detail(FIRST, item(1, -1), epoch=2), force=False) is not None


# -- pulls: asked is a physical offset


@pytest.mark.parametrize(
    ("current", "asked", "found", "expected", "delta"),
    [
        (FIRST, 5, (0, 37, 0, 100), (0, 37, 0, 20_000), 0),
        (SECOND, 0, (0, 32, 0, 50), (0, 10_032, 10_000, 20_000), 10_000),
        (SECOND, 40, (0, 60, 0, 60), (0, 10_050, 10_000, 20_000), 10_000),
        (THIRD, 3, (0, 5, 0, 5), (0, 20_005, 20_000, 20_005), 20_000),
        (THIRD, 5, (19, 5, 0, 5), (19, 20_005, 20_000, 20_005), 20_000),
        (THIRD, 5, (19, 5, 5, 5), (19, 20_005, 20_005, 20_005), 20_000),
        (FIRST, 100, (19, 100, 0, 100), (20, 10_000, 10_000, 20_000), 10_000),
        (SECOND, 50, (19, 50, 0, 50), (20, 20_000, 20_000, 20_000), 20_000),
        (FIRST, 3, (21, 10, 10, 100), (21, 10, 10, 20_000), 0),
        (SECOND, 3, (21, 10, 10, 50), (20, 10_010, 10_010, 20_000), 10_000),
        (THIRD, 9, (21, 5, 0, 5), (21, 20_005, 20_000, 20_005), 20_000),
    ],
)
def test_a_pull_is_translated(
    current: MappingItem, asked: int, found: tuple[int, ...], expected: tuple[int, ...], delta: int
) -> None:
    """FOUND 0, NOT_FOUND 19, RETRY_IMMEDIATELY 20 and OFFSET_MOVED 21, with next, smallest and largest offset."""
    assert translate_pull(ITEMS, current, asked, PullOutcome(*found)) == (PullOutcome(*expected), delta)


def test_a_reader_at_the_end_waits_until_the_next_logical_offset_is_set() -> None:
    items = [item(0), item(1, -1, bname="b")]
    found, _ = translate_pull(items, items[0], 9, PullOutcome(21, 8, 0, 9))
    assert (found.code, found.next_offset) == (19, 9)


# -- clean-up: broker "c" leads the logical queue of ITEMS


def mine(*items: MappingItem, **more: object) -> MappingDetail:
    return detail(*items, bname="c", **more)


def test_the_first_physical_queue_goes_when_its_messages_have_expired() -> None:
    there = mine(*ITEMS)
    assert earliest_items(there) == {0: FIRST}
    assert without_expired(there, {("a", 0): (40, 100)}) is None, "it has messages"
    assert without_expired(there, {}) is None, "its broker did not answer"
    for extent in ((100, 100), (0, 0)):
        cleaned = without_expired(there, {("a", 0): extent})
        assert cleaned is not None
        assert cleaned.hosted_queues == {0: [SECOND, THIRD]}
        assert there.hosted_queues == {0: ITEMS}, "the mapping of before is left as it was"


def test_physical_queues_that_are_in_use_stay() -> None:
    assert earliest_items(mine(THIRD)) == {}, "the only one"
    assert earliest_items(detail(*ITEMS)) == {}, "another broker leads the logical queue"
    remapping = mine(item(0, 0), item(1, -1, bname="c"))
    assert earliest_items(remapping) == {}, "the first one may still be written to"


def test_a_logical_queue_goes_that_has_moved_on_from_its_next_broker() -> None:
    """a, then b, then c: a needs it no more; b does, as the one that c took it over from."""
    first, second = detail(FIRST, SECOND), detail(FIRST, SECOND, THIRD, bname="b")
    others = {"c": mine(*ITEMS)}
    assert led_elsewhere(first) == {0: "b"}
    assert outdated_queues(first, {0: "c"}, others) == {0}
    assert outdated_queues(second, {0: "c"}, others) == set()
    assert outdated_queues(mine(*ITEMS), {0: "c"}, others) == set()


@pytest.mark.parametrize(
    "other",
    [
        None,
        mine(*ITEMS, epoch=2),
        mine(*ITEMS, total_queues=2),
        mine(FIRST, SECOND),
        mine(*ITEMS, number=1),
        detail(*ITEMS, bname="b"),
    ],
    ids=["no answer", "epoch", "queues", "does not lead", "does not know", "another broker's"],
)
def test_a_logical_queue_stays_if_the_brokers_do_not_agree(other: MappingDetail | None) -> None:
    others = {} if other is None else {"c": other}
    assert outdated_queues(detail(FIRST, SECOND), {0: "c"}, others) == set()
    assert outdated_queues(detail(FIRST, SECOND), {}, {"c": mine(*ITEMS)}) == set(), "no route"
