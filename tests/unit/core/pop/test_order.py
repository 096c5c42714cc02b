from __future__ import annotations

import pytest
from msgspec import UNSET

from rocketmq_py.core.pop.order import OrderInfo, OrderKey, OrderTable
from rocketmq_py.protocol.bodies.base import Body

KEY = OrderKey("T", "g", 0)
NOW = 1_700_000_000_000
MINUTE = 60_000


def popped(*offsets: int, attempt_id: str | None = "a1") -> OrderTable:
    table = OrderTable()
    result = table.pop(KEY, attempt_id, offsets, NOW, MINUTE, NOW)
    assert (result.counts, result.least) == ({}, 0)
    return table


def test_a_queue_is_blocked_until_everything_is_acked() -> None:
    table = popped(5, 6, 8)
    assert table.is_blocked(KEY, "a2", NOW + 1)
    assert table.ack(KEY, 5, NOW) == 6
    assert table.is_blocked(KEY, "a2", NOW + 1)
    assert table.ack(KEY, 8, NOW) == 6
    assert table.ack(KEY, 6, NOW) == 9
    assert not table.is_blocked(KEY, "a2", NOW + 1)
    assert not table.is_blocked(OrderKey("T", "g", 1), None, NOW)


def test_a_queue_is_free_when_its_messages_are_visible_again() -> None:
    table = popped(5, 6)
    assert table.take_free(NOW + MINUTE - 1) == []
    assert table.is_blocked(KEY, None, NOW + MINUTE - 1)
    assert not table.is_blocked(KEY, None, NOW + MINUTE)
    assert table.take_free(NOW + MINUTE) == [KEY]
    assert table.take_free(NOW + 2 * MINUTE) == []


def test_a_queue_that_is_free_earlier_does_not_keep_others_from_being_free() -> None:
    other = OrderKey("T", "g", 1)
    table = popped(5)
    table.set_visible(KEY, 5, NOW, NOW + 10)
    assert table.take_free(NOW + 10) == [KEY]
    table.pop(other, "a1", [5], NOW + 5, MINUTE, NOW + 5)
    assert table.take_free(NOW + 5 + MINUTE) == [other]


def test_the_same_attempt_is_not_blocked_and_not_counted() -> None:
    table = popped(5, 6)
    assert not table.is_blocked(KEY, "a1", NOW + 1)
    again = table.pop(KEY, "a1", [5, 6], NOW + 1, MINUTE, NOW + 1)
    assert (again.counts, again.least) == ({}, 0)


def test_an_empty_attempt_id_matches_no_attempt() -> None:
    assert popped(5, attempt_id=None).is_blocked(KEY, None, NOW + 1)


def test_messages_popped_again_are_counted() -> None:
    table = popped(5, 6)
    table.ack(KEY, 5, NOW)
    second = table.pop(KEY, "a2", [6, 7], NOW + MINUTE, MINUTE, NOW + MINUTE)
    assert (second.counts, second.least) == ({6: 1}, 0)
    third = table.pop(KEY, "a3", [6, 7], NOW + 2 * MINUTE, MINUTE, NOW + 2 * MINUTE)
    assert (third.counts, third.least) == ({6: 2, 7: 1}, 1)


def test_the_counts_of_a_queue_that_was_never_popped_before_are_not_in_the_file() -> None:
    table = popped(5)
    assert table.entries[KEY].counts is UNSET
    table.pop(KEY, "a2", [5], NOW + MINUTE, MINUTE, NOW + MINUTE)
    assert table.entries[KEY].counts == {5: 1}


@pytest.mark.parametrize("recorded", [None, 0, -1])
def test_the_invisible_time_of_a_pop_that_was_recorded_without_one_is_that_of_the_next(recorded: int | None) -> None:
    table = popped(5)
    table.entries[KEY].invisible_ms = recorded
    table.take_changed()
    assert table.is_blocked(KEY, None, NOW + MINUTE - 1, MINUTE)
    assert table.entries[KEY].invisible_ms == MINUTE
    assert table.take_changed() == [KEY]
    assert not table.is_blocked(KEY, None, NOW + MINUTE, 9)
    assert table.take_changed() == []


def test_late_and_wrong_acks_are_refused() -> None:
    table = popped(5, 6)
    assert table.ack(KEY, 5, NOW - 1) is None
    with pytest.raises(KeyError):
        table.ack(KEY, 7, NOW)
    assert table.ack(OrderKey("T", "other", 0), 7, NOW) == 8
    table.load(KEY, OrderInfo(pop_time=NOW))
    with pytest.raises(KeyError):
        table.ack(KEY, 5, NOW)


def test_the_invisible_time_can_be_extended() -> None:
    table = popped(5, 6)
    table.set_visible(KEY, 6, NOW, NOW + 3 * MINUTE)
    table.set_visible(KEY, 5, NOW - 1, NOW + 9 * MINUTE)
    assert table.take_free(NOW + MINUTE) == []
    assert table.is_blocked(KEY, None, NOW + 2 * MINUTE)
    assert table.take_free(NOW + 3 * MINUTE) == [KEY]


def test_the_invisible_time_can_be_shortened() -> None:
    table = popped(5)
    table.set_visible(KEY, 5, NOW, NOW + 1_000)
    assert table.take_free(NOW + 1_000) == [KEY]
    assert not table.is_blocked(KEY, None, NOW + 1_000)


def test_a_new_pop_replaces_the_state_of_its_queue() -> None:
    table = popped(5)
    table.ack(KEY, 5, NOW)
    for turn in range(1, 4):
        now = NOW + turn * MINUTE // 2
        table.pop(KEY, None, [5 + turn], now, MINUTE, now)
        assert table.take_free(now + MINUTE // 2 - 1) == []
        table.ack(KEY, 5 + turn, now)
    last = NOW + 2 * MINUTE
    table.pop(KEY, None, [9], last, MINUTE, last)
    assert table.take_free(last + MINUTE - 1) == []
    assert table.take_free(last + MINUTE) == [KEY]
    assert table.take_free(last + 9 * MINUTE) == []


def test_removed_queues_do_not_block() -> None:
    table = popped(5)
    table.forget(KEY)
    assert not table.is_blocked(KEY, None, NOW)
    assert table.take_free(NOW + MINUTE) == []


def test_changed_queues_are_told_once() -> None:
    table = popped(5, 6)
    changes = [table.take_changed()]
    for change in (
        lambda: table.is_blocked(KEY, None, NOW + 1, 9),
        lambda: table.ack(KEY, 5, NOW),
        lambda: table.set_visible(KEY, 6, NOW, NOW + 9),
        lambda: table.set_visible(KEY, 6, NOW - 1, NOW + 9),
        lambda: table.load(KEY, OrderInfo(distances=[1])),
        lambda: table.is_blocked(KEY, None, NOW + 1, 9),
        lambda: table.forget(KEY),
        lambda: table.forget(KEY),
        table.take_changed,
    ):
        change()
        changes.append(table.take_changed())
    assert [len(one) for one in changes] == [1, 0, 1, 1, 0, 1, 1, 1, 0, 0]


def test_a_pop_without_an_invisible_time_gets_the_default() -> None:
    table = OrderTable()
    table.load(KEY, OrderInfo(distances=[5], pop_time=NOW))
    assert table.is_blocked(KEY, None, NOW + 1, MINUTE)
    assert not table.is_blocked(KEY, None, NOW + MINUTE, MINUTE)


def test_an_entry_equals_that_of_java() -> None:
    text = b'{"a":"a1","cm":2,"i":60000,"l":7,"o":[5,1,3],"oc":{5:1,6:2},"ot":{8:99},"popTime":6}'
    info = OrderInfo.decode(text)
    assert isinstance(info, Body)
    assert (info.offsets, list(info.unacked()), info.visible_at(8), info.visible_at(5)) == (
        [5, 6, 8],
        [5, 8],
        99,
        60_006,
    )
    assert info.counts == {5: 1, 6: 2}


def test_a_new_entry_has_no_pop() -> None:
    info = OrderInfo()
    assert (info.attempt_id, info.acked_bits, info.invisible_ms, info.last_pop_time, info.pop_time, info.offsets) == (
        None, 0, None, 0, 0, [],
    )  # fmt: skip
