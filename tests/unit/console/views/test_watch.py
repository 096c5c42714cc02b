"""What is said about a member's queues: limits, pauses, stuck listeners."""

import pytest

from rocketmq_py.console.views.watch import limits_of, queue_rows, shown_settings
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo, HeldQueue

KEY = '{"brokerName":"b","queueId":1,"topic":"t"}'
LIMITS = {"pullThresholdForQueue": "10", "pullThresholdSizeForQueue": "5", "consumeConcurrentlyMaxSpan": "100"}
NOW = 1_000_000


def row(properties=LIMITS, **held):
    return queue_rows(ConsumerRunningInfo(properties=dict(properties), mq_table={KEY: HeldQueue(**held)}), NOW)[0]


@pytest.mark.parametrize(
    ("held", "paused"),
    [({"cached_count": 10}, None), ({"cached_count": 11}, "count"), ({"cached_count": 1, "cached_mib": 6}, "mib"),
     ({"cached_count": 1, "cached_max_offset": 101}, "span"), ({"cached_max_offset": 500}, None)],
)  # fmt: skip
def test_the_limit_that_pauses_a_queue_is_named(held, paused):
    assert row(**held)["paused"] == paused
    assert row({}, **held)["paused"] is None


def test_a_queue_is_stuck_if_its_member_says_so_or_nothing_was_consumed_for_a_minute():
    held = {"cached_count": 1, "last_consume_timestamp": NOW - 61_000}
    assert row(**held)["stuckSeconds"] == 61
    assert row(LIMITS | {"stuckListeners": "t b 1 7 95;broken"}, **held)["stuckSeconds"] == 95
    assert row(cached_count=0, last_consume_timestamp=NOW - 61_000)["stuckSeconds"] is None
    assert row(cached_count=1)["stuckSeconds"] is None


def test_settings_and_limits_that_are_missing_are_unknown():
    assert limits_of({"pullThresholdForQueue": "x"}) == {"count": None, "mib": None, "span": None}
    assert shown_settings({"b": "1", "a": "2", "stuckListeners": ""}) == {"a": "2", "b": "1"}


@pytest.mark.parametrize(
    ("held", "seconds"),
    [({"last_consume_timestamp": NOW - 60_000}, None), ({"last_consume_timestamp": NOW - 60_001}, 60),
     ({"last_consume_timestamp": NOW - 119_999}, 119), ({"last_consume_timestamp": 0}, None),
     ({"last_consume_timestamp": 1}, 999), ({"last_consume_timestamp": -5}, None)],
)  # fmt: skip
def test_a_queue_is_stuck_after_more_than_a_minute(held, seconds):
    assert row(cached_count=1, **held)["stuckSeconds"] == seconds


def test_a_row_has_what_is_known_of_its_queue():
    found = row(cached_count=3, cached_mib=2, cached_min_offset=4, cached_max_offset=9, locked=True,
                last_pull_timestamp=NOW, last_consume_timestamp=NOW - 5)  # fmt: skip
    assert found == {"topic": "t", "broker": "b", "queue": 1, "cached": 3, "cachedMiB": 2, "span": 5, "paused": None,
                     "lastPull": NOW, "lastConsume": NOW - 5, "locked": True, "stuckSeconds": None}  # fmt: skip
    assert (row()["lastPull"], row()["lastConsume"], row(cached_max_offset=9)["span"]) == (None, None, 0)


@pytest.mark.parametrize("told", ["t b 1 7", "t b 1 7 95 1", "t b 1 7 x", "t b 2 7 95", ""])
def test_what_a_member_says_of_other_queues_or_in_another_form_does_not_count(told):
    assert row(LIMITS | {"stuckListeners": told})["stuckSeconds"] is None


def test_limits_are_whole_numbers():
    limits = {"pullThresholdForQueue": "0", "pullThresholdSizeForQueue": "\u0663", "consumeConcurrentlyMaxSpan": "-1"}
    assert limits_of(limits) == {"count": 0, "mib": None, "span": None}
    assert row(limits, cached_count=1)["paused"] == "count"
