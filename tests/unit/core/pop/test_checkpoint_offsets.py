"""Committable offsets of popped queues: what they follow, and which queues they leave alone."""

import pytest

from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets, GroupQueue

PLACE = GroupQueue("g", "T", 0)
OTHERS = [GroupQueue("g", "T", 1), GroupQueue("g", "U", 0), GroupQueue("h", "T", 0)]


@pytest.fixture
def table():
    return CommittableOffsets()


def popped(table, *offsets, published=0, following=None, place=PLACE):
    table.add_popped(place, offsets, published)
    return table.set_next_offset(place, offsets[-1] + 1 if following is None else following)


def test_a_queue_without_pops_is_unknown(table):
    assert len(table) == 0
    assert table.next_offset(PLACE) is None
    assert table.settle(PLACE, [0]) is None
    assert table.set_next_offset(PLACE, 7) == 7
    assert len(table) == 0


def test_the_committable_offset_is_the_first_unacked_message(table):
    assert popped(table, 5, 6, 7, published=5) == 5
    assert table.next_offset(PLACE) == 8
    assert table.settle(PLACE, [6]) == 5
    assert table.settle(PLACE, [5]) == 7
    assert table.next_offset(PLACE) == 8
    assert table.settle(PLACE, [7]) == 8


def test_a_queue_is_removed_with_its_last_ack(table):
    popped(table, 0, 1)
    assert len(table) == 1
    assert table.settle(PLACE, [1, 0]) == 2
    assert len(table) == 0
    assert table.next_offset(PLACE) is None


def test_a_message_popped_twice_needs_two_acks(table):
    popped(table, 0, 1)
    popped(table, 0, following=2)
    assert table.settle(PLACE, [0]) == 0
    assert table.settle(PLACE, [0]) == 1
    assert table.settle(PLACE, [0]) == 1
    assert table.settle(PLACE, [1]) == 2


def test_acks_of_messages_that_are_not_popped_change_nothing(table):
    popped(table, 3, 4, published=3)
    assert table.settle(PLACE, [2, 5, 99]) == 3
    assert table.settle(PLACE, [4, 4]) == 3
    assert table.settle(PLACE, [3]) == 5


def test_messages_before_the_committed_offset_are_ignored(table):
    table.add_popped(PLACE, [2, 3, 4], 4)
    assert table.next_offset(PLACE) == 4
    assert table.settle(PLACE, [2]) == 4
    assert table.set_next_offset(PLACE, 5) == 4
    assert table.settle(PLACE, [4]) == 5
    table.add_popped(PLACE, [3], 4)
    assert len(table) == 0


def test_a_message_popped_again_later_holds_the_offset_back(table):
    popped(table, 5, 6)
    assert popped(table, 2, following=7) == 2
    assert table.settle(PLACE, [2]) == 5


def test_a_next_pop_before_the_unacked_messages_is_not_committed_over(table):
    popped(table, 5, 6)
    assert table.set_next_offset(PLACE, 3) == 3
    assert table.settle(PLACE, [5, 6]) == 3


def test_queues_are_independent(table):
    for place in (PLACE, *OTHERS):
        popped(table, 0, 1, place=place)
    table.settle(PLACE, [0])
    assert [table.settle(place, []) for place in OTHERS] == [0, 0, 0]
    table.set_next_offset(PLACE, 9)
    assert [table.next_offset(place) for place in OTHERS] == [2, 2, 2]
    table.forget(PLACE)
    assert table.next_offset(PLACE) is None
    assert len(table) == 3
    table.forget(PLACE)
    table.clear()
    assert len(table) == 0
    assert [table.next_offset(place) for place in OTHERS] == [None, None, None]
