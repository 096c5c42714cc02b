"""What a reset would do."""

import pytest

from rocketmq_py.console.views.reset import EARLIEST, GROUP, LATEST, OFFSET, SHIFT, TIME, QueueState, planned, totals

STATE = QueueState("a", 0, 10, 100, 60, at_time=40)


@pytest.mark.parametrize(
    ("target", "value", "to", "again", "skipped", "gone"),
    [
        (EARLIEST, 0, 10, 50, 0, 0), (LATEST, 0, 100, 0, 40, 0), (TIME, 0, 40, 20, 0, 0), (OFFSET, 4, 10, 50, 0, 6),
        (OFFSET, 999, 100, 0, 40, 0), (SHIFT, -5, 55, 5, 0, 0), (SHIFT, -55, 10, 50, 0, 5), (SHIFT, 0, 60, 0, 0, 0),
    ],
)  # fmt: skip
def test_messages_come_again_are_skipped_or_are_gone(target, value, to, again, skipped, gone):
    row = planned(STATE, target, value)
    assert (row["to"], row["again"], row["skipped"], row["gone"]) == (to, again, skipped, gone)


def test_a_group_without_an_offset_begins_at_the_oldest_message():
    row = planned(STATE._replace(committed=None), LATEST, 0)
    assert (row["from"], row["again"], row["skipped"]) == (None, 0, 90)
    assert totals([row])["changed"] == 1


def test_a_time_after_all_messages_is_the_end_and_offsets_begin_at_zero():
    assert planned(STATE._replace(at_time=None), TIME, 0)["to"] == 100
    assert QueueState("a", 0, 0, 0, None).at_time is None
    fresh = QueueState("a", 3, 0, 9, 5)
    assert planned(fresh, OFFSET, -4) == {
        "broker": "a", "queue": 3, "minOffset": 0, "maxOffset": 9, "from": 5, "to": 0, "again": 5, "skipped": 0,
        "gone": 0,
    }  # fmt: skip
    assert planned(fresh, OFFSET, 1)["to"] == planned(fresh, SHIFT, -4)["to"] == 1
    assert planned(fresh, SHIFT, -9)["to"] == planned(fresh, SHIFT, -5)["to"] == 0
    without = STATE._replace(committed=None)
    assert [planned(without, SHIFT, by)["to"] for by in (-1, 0, 5)] == [10, 10, 15]
    assert [planned(without, target, 0)["gone"] for target in (EARLIEST, LATEST, TIME)] == [0, 0, 0]


def test_offsets_before_the_first_message_lose_nothing_more():
    behind = STATE._replace(committed=4)
    row = planned(behind, LATEST, 0)
    assert (row["again"], row["skipped"], row["gone"]) == (0, 90, 0)
    row = planned(behind, OFFSET, 1)
    assert (row["to"], row["again"], row["skipped"], row["gone"]) == (10, 0, 0, 3)
    row = planned(behind, EARLIEST, 0)
    assert (row["again"], row["skipped"], row["gone"]) == (0, 0, 0)


def test_totals_are_sums():
    rows = [planned(STATE, OFFSET, 4), planned(STATE, LATEST, 0), planned(STATE, SHIFT, 0)]
    assert totals(rows) == {"again": 50, "skipped": 40, "gone": 6, "changed": 2, "queues": 3}
    assert totals([]) == {"again": 0, "skipped": 0, "gone": 0, "changed": 0, "queues": 0}


def test_offsets_of_another_group_are_copied_within_the_queue() -> None:
    state = QueueState("a", 0, 10, 100, 50, of_other=80)
    assert [planned(state, GROUP, 0)[name] for name in ("from", "to", "again", "skipped", "gone")] == [50, 80, 0, 30, 0]
    back = planned(state._replace(of_other=4), GROUP, 0)
    assert (back["to"], back["again"], back["gone"]) == (10, 40, 6)
    zero = planned(QueueState("a", 0, 0, 9, 5, of_other=0), GROUP, 0)
    assert (zero["to"], zero["again"]) == (0, 5)


def test_a_queue_in_which_the_other_group_has_no_offset_stays() -> None:
    row = planned(QueueState("a", 0, 10, 100, 50), GROUP, 0)
    assert (row["from"], row["to"], row["again"], row["skipped"], row["gone"]) == (50, 50, 0, 0, 0)
    assert planned(QueueState("a", 0, 10, 100, None), GROUP, 0)["to"] is None
