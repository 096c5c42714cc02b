"""Samples of lags: their cells, their number, and changed owners."""

from rocketmq_py.console.history import KEPT, UNKNOWN, GroupSamples, cell, lag_of
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper, TopicOffset

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_cell_has_the_lag_and_whether_messages_were_lost():
    state = OffsetWrapper(broker_offset=10, consumer_offset=4)
    assert cell(None, None) == UNKNOWN
    assert cell(state, None) == 6
    assert cell(state, TopicOffset(min_offset=4, max_offset=10)) == 6
    assert cell(state, TopicOffset(min_offset=5, max_offset=10)) == -8
    assert [lag_of(one) for one in (UNKNOWN, 6, -8, -2)] == [None, 6, 6, 0]


def test_samples_are_aligned_and_the_oldest_go():
    samples = GroupSamples()
    samples.add(1, {A: 3}, None)
    samples.add(2, {A: 2, B: 5}, None)
    samples.add(3, {B: 4}, None)
    assert [list(one) for one in samples.queues.values()] == [[3, 2, UNKNOWN], [UNKNOWN, 5, 4]]
    assert samples.totals() == [3, 7, 4]
    for at in range(4, KEPT + 3):
        samples.add(at, {}, None)
    assert (len(samples.at), samples.at[0], samples.totals()[-1]) == (KEPT, 3, None)
    assert {len(one) for one in samples.queues.values()} == {KEPT}


def test_queues_are_capped_and_counted(monkeypatch):
    monkeypatch.setattr("rocketmq_py.console.history.MOST_QUEUES", 1)
    samples = GroupSamples()
    samples.add(1, {A: 1, B: 1}, None)
    assert (list(samples.queues), samples.left_out) == ([A], 1)


def test_a_changed_owner_is_noted_after_the_first_sample():
    samples = GroupSamples()
    samples.add(1, {}, {A: "x"})
    samples.add(2, {}, None)
    samples.add(3, {}, {A: "y", B: "y"})
    changes = [(one["at"], one["queue"], one["before"], one["after"]) for one in samples.changes]
    assert changes == [(3, 1, None, "y"), (3, 0, "x", "y")]
