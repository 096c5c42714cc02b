import pytest

from rocketmq_py.core.consumer.allocation import Average
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.rebalance import OffsetQuery, initial_offset, plan_rebalance, rebalance_delay
from rocketmq_py.model import ConsumeFromWhere, MessageQueue

QUEUES = [MessageQueue("T", "broker-a", i) for i in range(4)]
LAST, FIRST, TIME = ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.TIMESTAMP


def owned(*queues, at=0.0):
    return {queue: ProcessQueue(queue, at) for queue in queues}


def test_a_plan_contains_added_and_removed_queues():
    change = plan_rebalance(owned(*QUEUES[:2]), QUEUES[1:3], 1.0)
    assert change == ([QUEUES[0]], [QUEUES[2]])
    assert change.changes
    assert not plan_rebalance(owned(*QUEUES), QUEUES, 1.0).changes


def test_a_queue_without_pulls_is_released_and_allocated_again():
    assert plan_rebalance(owned(*QUEUES[:1]), QUEUES[:1], 121.0) == (QUEUES[:1], QUEUES[:1])


@pytest.mark.parametrize(
    ("mode", "stored", "is_retry", "start"),
    [
        (LAST, 7, False, 7), (FIRST, 0, False, 0), (TIME, 9, True, 9),
        (LAST, None, False, OffsetQuery.MAX_OFFSET), (LAST, None, True, 0),
        (FIRST, None, False, 0), (FIRST, None, True, 0),
        (TIME, None, False, OffsetQuery.BY_TIMESTAMP), (TIME, None, True, OffsetQuery.MAX_OFFSET),
    ],
)  # fmt: skip
def test_the_start_offset_of_a_queue_follows_the_rules_of_java(mode, stored, is_retry, start):
    assert initial_offset(mode, stored, is_retry=is_retry) == start


def test_rounds_come_every_20_seconds_every_second_while_uneven_and_never_more_often():
    assert rebalance_delay(0.0, balanced=True, triggered=False) == 20.0
    assert rebalance_delay(5.0, balanced=True, triggered=False) == 15.0
    assert rebalance_delay(0.0, balanced=False, triggered=False) == 1.0
    assert rebalance_delay(0.25, balanced=True, triggered=True) == 0.75
    assert rebalance_delay(3.0, balanced=True, triggered=True) == 0.0


class Group:
    """Members that share what a broker would tell them: who is there, and the committed offsets."""

    def __init__(self):
        self.members: dict[str, dict[MessageQueue, ProcessQueue]] = {}
        self.offsets: dict[MessageQueue, int] = {}

    def rebalance(self, now):
        for name, held in self.members.items():
            change = plan_rebalance(held, Average().allocate(name, QUEUES, sorted(self.members)), now)
            for queue in change.lost:
                held.pop(queue).dropped = True
            for queue in change.gained:
                held[queue] = ProcessQueue(queue, now)

    def owners(self):
        return {queue: name for name, held in self.members.items() for queue in held}


def test_queues_move_when_members_join_crash_and_leave(messages):
    group = Group()
    group.members["a"] = {}
    group.rebalance(0.0)
    assert set(group.owners().values()) == {"a"}

    pulled = messages(0, 1, 2)
    first = group.members["a"][QUEUES[3]]
    first.put(pulled)
    group.offsets[QUEUES[3]] = first.ack(pulled[:1])

    group.members["b"] = {}
    group.rebalance(1.0)
    assert [group.owners()[queue] for queue in QUEUES] == ["a", "a", "b", "b"]
    assert first.dropped, "what the old owner's listeners still return does not count"
    assert initial_offset(LAST, group.offsets.get(QUEUES[3]), is_retry=False) == 1

    del group.members["a"]  # a crash: nobody drops anything, the others take over
    group.rebalance(2.0)
    assert set(group.owners().values()) == {"b"}
    assert len(group.owners()) == 4
