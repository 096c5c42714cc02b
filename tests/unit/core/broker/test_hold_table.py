from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from rocketmq_py.core.broker.hold_table import Held, HoldTable, QueueKey

QUEUE, OTHER = QueueKey("t", 0), QueueKey("t", 1)
ONLY_65 = frozenset({65}).__contains__


@pytest.fixture
def table() -> HoldTable[str]:
    return HoldTable()


def hold(table: HoldTable[str], token: str, key: QueueKey = QUEUE, *, offset=5, deadline=100, tags_filter=None) -> None:
    table.add(key, Held(offset, deadline, tags_filter, token))


def taken(tokens: Iterator[str | None]) -> list[str]:
    """The tokens of an iterator, without its pauses."""
    return [token for token in tokens if token is not None]


def test_an_arrival_wakes_the_pulls_of_that_queue(table: HoldTable[str]) -> None:
    hold(table, "a")
    hold(table, "b", OTHER)
    assert taken(table.arrived(QUEUE, 6, [0])) == ["a"]
    assert not table.waiting(QUEUE)
    assert table.waiting(OTHER)
    assert len(table) == 1


def test_a_pull_is_woken_once(table: HoldTable[str]) -> None:
    hold(table, "a")
    assert taken(table.arrived(QUEUE, 6, [0])) == ["a"]
    assert taken(table.arrived(QUEUE, 7, [0])) == []


def test_an_arrival_before_the_wanted_offset_wakes_no_pull(table: HoldTable[str]) -> None:
    hold(table, "a", offset=9)
    assert taken(table.arrived(QUEUE, 9, [0])) == []
    assert taken(table.arrived(QUEUE, 10, [0])) == ["a"]


def test_an_unwanted_tag_wakes_no_pull_before_its_timeout(table: HoldTable[str]) -> None:
    hold(table, "a", tags_filter=ONLY_65)
    hold(table, "all")
    assert taken(table.arrived(QUEUE, 6, [66])) == ["all"]
    assert taken(table.expired(99)) == []
    assert taken(table.expired(100)) == ["a"]
    assert len(table) == 0


def test_a_record_filter_is_applied_until_a_record_matches(table: HoldTable[str]) -> None:
    asked: list[bytes] = []
    table.add(QUEUE, Held(5, 100, None, "a", lambda record: asked.append(record) or record == b"y"))
    assert taken(table.arrived(QUEUE, 6, [0], lambda: iter([b"x"]))) == []
    assert taken(table.arrived(QUEUE, 9, [0, 0, 0], lambda: iter([b"x", b"y", b"z"]))) == ["a"]
    assert asked == [b"x", b"x", b"y"]


def test_records_are_read_only_for_pulls_that_filter_them(table: HoldTable[str]) -> None:
    hold(table, "all")
    hold(table, "tagged", tags_filter=ONLY_65)
    assert taken(table.arrived(QUEUE, 6, [66], lambda: pytest.fail("nobody asked"))) == ["all"]


def test_one_matching_tag_among_many_wakes_the_pull(table: HoldTable[str]) -> None:
    hold(table, "a", tags_filter=ONLY_65)
    assert taken(table.arrived(QUEUE, 8, (code for code in (1, 2, 65)))) == ["a"]


def test_a_sweep_wakes_pulls_whose_queue_has_grown_whatever_the_tags(table: HoldTable[str]) -> None:
    hold(table, "grown", tags_filter=ONLY_65)
    hold(table, "still", OTHER)
    hold(table, "late", OTHER, deadline=50)
    ends = {QUEUE: 6, OTHER: 5}
    assert taken(table.sweep(lambda topic, queue: ends[QueueKey(topic, queue)])) == ["grown"]
    assert sorted(table.drain()) == ["late", "still"]


def test_only_matching_pulls_of_a_queue_are_woken(table: HoldTable[str]) -> None:
    hold(table, "mine")
    hold(table, "yours")
    hold(table, "elsewhere", OTHER)
    assert table.take(QUEUE, lambda token: token != "yours") == ["mine"]
    assert table.take(QueueKey("T", 99), lambda _: True) == []
    assert sorted(table.drain()) == ["elsewhere", "yours"]


def test_the_pulls_of_one_owner_are_removed(table: HoldTable[str]) -> None:
    for token, owner in (("mine", "a"), ("yours", "b"), ("also mine", "a")):
        table.add(QUEUE if token == "mine" else OTHER, Held(5, 100, None, token, None, owner))
    assert taken(table.remove("a")) == ["mine", "also mine"]
    assert taken(table.remove("a")) == []
    assert table.drain() == ["yours"]
    assert table.drain() == []
    assert taken(table.remove("b")) == []


def test_a_wake_of_many_pulls_pauses_and_wakes_each_once(table: HoldTable[str]) -> None:
    for number in range(2_000):
        hold(table, str(number), tags_filter=None if number % 1_000 == 999 else ONLY_65)
    first, second = table.arrived(QUEUE, 6, [66]), table.arrived(QUEUE, 6, [66])
    begin = list(itertools.islice(first, 3))
    assert begin == [None, None, None]
    assert taken(second) == ["999", "1999"]
    assert taken(first) == []
    assert len(table) == 1_998


def test_a_stop_during_a_wake_takes_no_pull_twice(table: HoldTable[str]) -> None:
    for number in range(3):
        hold(table, str(number))
    walk = table.arrived(QUEUE, 6, [0])
    assert next(walk) == "0"
    assert table.drain() == ["1", "2"]
    assert taken(walk) == []
    assert len(table) == 0


def test_removed_pulls_leave_no_entries(table: HoldTable[str]) -> None:
    for number in range(5_000):
        table.add(QUEUE, Held(5, 10**9, None, str(number), None, "owner"))
        assert taken(table.arrived(QUEUE, 6, [0])) == [str(number)]
    assert len(table._deadlines) < 2_000
    assert not table._owned


def test_deadlines_stay_correct_while_other_pulls_change(table: HoldTable[str]) -> None:
    hold(table, "late", deadline=100)
    hold(table, "early", OTHER, deadline=50)
    assert taken(table.arrived(OTHER, 6, [0])) == ["early"]
    assert taken(table.expired(99)) == []
    hold(table, "next", deadline=120)
    assert taken(table.expired(100)) == ["late"]
    assert taken(table.expired(119)) == []
    assert taken(table.expired(120)) == ["next"]
    assert taken(table.expired(10**15)) == []


def test_a_pull_that_ends_while_those_of_its_owner_are_removed_is_not_given_twice(table: HoldTable[str]) -> None:
    for token, key in (("a", QUEUE), ("b", OTHER), ("c", OTHER)):
        table.add(key, Held(5, 100, None, token, owner="me"))
    table.add(QUEUE, Held(5, 100, None, "d", owner="you"))
    removed = table.remove("me")
    assert next(removed) == "a"
    assert table.take(OTHER, lambda token: token == "b") == ["b"]
    assert list(removed) == ["c"]
    assert (len(table), list(table.remove("me")), table.drain()) == (1, [], ["d"])
