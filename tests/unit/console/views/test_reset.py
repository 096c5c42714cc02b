"""What a reset would do."""

import pytest

from rocketmq_py.console.views.reset import EARLIEST, LATEST, OFFSET, SHIFT, TIME, QueueState, planned, totals

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
