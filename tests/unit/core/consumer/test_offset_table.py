from rocketmq_py.core.consumer.offset_table import OffsetTable
from rocketmq_py.model import MessageQueue

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def test_offsets_only_grow_unless_told_otherwise():
    table = OffsetTable()
    assert table.get(A) is None
    table.update(A, 0)
    assert table.get(A) == 0
    table.update(A, 5)
    table.update(A, 3)
    assert table.get(A) == 5
    table.update(A, 3, increase_only=False)
    assert table.get(A) == 3


def test_a_frozen_offset_does_not_change_until_its_queue_is_removed():
    table = OffsetTable()
    table.update(A, 10)
    table.freeze(A, 4)
    table.update(A, 11)
    table.update(A, 2, increase_only=False)
    assert table.get(A) == 4
    table.remove(A)
    table.update(A, 1)
    assert table.get(A) == 1


def test_offsets_of_lost_queues_are_removed():
    table = OffsetTable()
    table.update(A, 1)
    table.freeze(B, 2)
    table.retain({A})
    assert list(table) == [(A, 1)]
    assert len(table) == 1
    table.update(B, 1)
    assert table.get(B) == 1
