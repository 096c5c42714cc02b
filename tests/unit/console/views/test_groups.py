"""Rows of groups: what is summed, what is unknown, in which order."""

from rocketmq_py.console.views.groups import by_lag, group_row, largest, member_rows, owners_of, queue_rows, topic_rows
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper, TopicOffset
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo, HeldQueue

A, B = MessageQueue("t", "b", 0), MessageQueue("u", "b", 0)


def progress(consumed, end, at=0):
    return OffsetWrapper(consumer_offset=consumed, broker_offset=end, last_timestamp=at)


def test_a_group_without_offsets_has_a_lag_that_nobody_knows():
    none = group_row("g", None, members=None, dead_letters=False)
    assert none == {"group": "g", "lag": None, "topics": None, "queues": None, "members": None, "lastConsumed": None,
                    "deadLetters": False}  # fmt: skip
    assert group_row("g", {}, members=2, dead_letters=True) == none | {
        "topics": 0, "queues": 0, "members": 2, "deadLetters": True,
    }  # fmt: skip
    row = group_row("g", {A: progress(1, 3, 5), B: progress(0, 4, 9)}, members=0, dead_letters=False)
    assert (row["lag"], row["topics"], row["queues"], row["lastConsumed"]) == (6, 2, 2, 9)


def test_the_largest_lag_is_first_and_unknown_ones_are_last():
    rows = [{"group": name, "lag": lag} for name, lag in (("a", None), ("b", 0), ("c", 5), ("d", 5), ("e", 9))]
    assert [row["group"] for row in sorted(rows, key=by_lag)] == ["e", "c", "d", "b", "a"]


def test_messages_that_were_deleted_before_they_were_consumed_are_counted():
    def expired(consumed, end, first):
        extents = {} if first is None else {A: TopicOffset(min_offset=first, max_offset=end)}
        [row] = queue_rows({A: progress(consumed, end)}, extents, {}, {})
        return row["minOffset"], row["expired"]

    assert expired(3, 10, 5) == (5, 2)
    assert expired(5, 10, 5) == expired(9, 10, 5) == (5, 0)
    assert expired(-1, 10, 5) == (5, 5)
    assert expired(3, 4, 9) == (9, 1), "not more than the group's broker has had"
    assert expired(0, 10, -1) == (0, 0)
    assert expired(3, 10, None) == (None, None)


def test_a_queue_is_owned_by_who_holds_it():
    key = '{"topic":"t","brokerName":"b","queueId":0}'
    pops = ConsumerRunningInfo(mq_pop_table={key: {}})
    holds = ConsumerRunningInfo(mq_table={key: HeldQueue(cached_count=3, last_pull_timestamp=0)})
    drops = ConsumerRunningInfo(mq_table={key: HeldQueue(dropped=True)})
    assert owners_of({"a": None, "b": pops}) == {A: ("b", None, None)}
    assert owners_of({"a": pops, "b": holds, "c": drops}) == {A: ("b", 3, None)}
    assert owners_of({"a": drops, "b": None}) == {}


def test_topics_have_the_sums_of_their_queues():
    queues = {
        B: progress(4, 4), A: progress(0, 2), MessageQueue("t", "b", 1): progress(1, 4, 7),
        MessageQueue("t", "c", 0): progress(3, 4, 4),
    }  # fmt: skip
    assert topic_rows(queues) == [
        {"topic": "t", "queues": 3, "lag": 6, "lastConsumed": 7},
        {"topic": "u", "queues": 1, "lag": 0, "lastConsumed": None},
    ]  # fmt: skip


def test_the_rows_with_the_largest_lags_are_kept():
    rows = [{"lag": lag} for lag in (1, 7, 3)]
    assert largest(rows, 3) == (rows, 0)
    assert largest(rows, 2) == ([{"lag": 7}, {"lag": 3}], 1)


def test_nobody_is_connected():
    assert member_rows(None, {}) == []
    connected = ConsumerConnection(connection_set=[ConnectionInfo(client_id="c", client_addr="h:1")])
    [row] = member_rows(connected, {"c": ConsumerRunningInfo()})
    assert (row["queues"], row["held"], row["consumedPerSecond"], row["failedPerSecond"]) == (0, 0, 0, 0)
