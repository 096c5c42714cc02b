"""Lag of groups, from ranges of queues, offsets and pops."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.metrics.lag import GroupLag, QueueLag, _lag, _Popped


@pytest.mark.parametrize(
    ("ranges", "committed", "pulled", "popped", "expected"),
    [
        ([(0, 10)], {0: 4}, {}, ({}, {}), (0, 6, [QueueLag(0, 6)], [4], [4])),
        ([(0, 10)], {0: 4}, {0: 7}, ({}, {}), (3, 3, [QueueLag(0, 6)], [4], [7])),
        ([(0, 10)], {0: 4}, {0: 12}, ({}, {}), (6, 0, [QueueLag(0, 6)], [4], [])),
        ([(0, 10)], {0: 4}, {0: 2}, ({}, {}), (0, 6, [QueueLag(0, 6)], [4], [4])),
        ([(5, 10)], {0: 2}, {}, ({}, {}), (0, 5, [QueueLag(0, 5)], [5], [5])),
        ([(0, 10)], {0: 30}, {}, ({}, {}), (0, 0, [QueueLag(0, 0)], [], [])),
        ([(0, 10)], {}, {}, ({}, {}), (0, 0, [], [], [])),
        ([(0, 10)], {0: 8}, {}, ({0: 3}, {0: 5}), (3, 2, [QueueLag(0, 5)], [5], [8])),
        ([(0, 3), (0, 4)], {0: 1, 1: 0}, {1: 1}, ({}, {}), (1, 5, [QueueLag(0, 2), QueueLag(1, 4)], [1, 0], [1, 1])),
    ],
    ids=["ready", "pulled", "all pulled", "old pull", "expired", "ahead", "no offset", "popped", "two queues"],
)  # fmt: skip
def test_lag_of_a_group(ranges, committed, pulled, popped, expected) -> None:
    found = _lag("t", "g", ranges, committed, pulled, _Popped(*popped))
    inflight, ready, queues, unconsumed, undelivered = expected
    at = [(place[0], place[2]) for place in found.unconsumed], [(place[0], place[2]) for place in found.undelivered]
    assert at == ([("t", offset) for offset in unconsumed], [("t", offset) for offset in undelivered])
    assert found == GroupLag("t", "g", inflight, ready, queues, found.unconsumed, found.undelivered)
