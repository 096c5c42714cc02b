"""How many timed messages wait, by topic."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.broker.timer.timer_metrics import TimerMetrics


class File:
    """Keeps what is saved."""

    def __init__(self, tree: Any = None) -> None:
        self.tree = tree

    def load(self) -> Any:
        return self.tree


class Bench:
    def __init__(self, tree: Any = None) -> None:
        self.saved: list[Any] = []
        self.file: Any = File(tree)
        self.metrics = TimerMetrics(self.file, lambda: 5, lambda file, saved: self.saved.append(saved))

    def counts(self) -> dict[str, tuple[int, int]]:
        counts: Any = self.metrics.tree()["timingCount"]
        return {topic: (metric["count"], metric["timeStamp"]) for topic, metric in counts.items()}


def test_messages_are_counted_by_topic() -> None:
    bench = Bench()
    for topic, change, now in (("u", 1, 10), ("t", 1, 11), ("t", 1, 12), ("t", -1, 13)):
        bench.metrics.add(topic, change, now)
    assert bench.counts() == {"t": (1, 13), "u": (1, 10)}
    assert list(bench.counts()) == ["t", "u"]
    assert bench.metrics.total == 2


@pytest.mark.parametrize("before", [0, 1])
def test_a_count_is_not_negative(before: int) -> None:
    bench = Bench()
    bench.metrics.add("t", before, 1)
    for _ in range(3):
        bench.metrics.add("t", -1, 2)
    assert bench.counts() == {"t": (0, 2)}
    bench.metrics.add("t", 1, 3)
    assert bench.metrics.total == 1


def test_the_file_is_written_after_changes_only() -> None:
    bench = Bench()
    bench.metrics.persist()
    assert bench.saved == []
    bench.metrics.add("t", 1, 10)
    for _ in range(2):
        bench.metrics.persist()
    [saved] = bench.saved
    assert saved["timingCount"] == {"t": {"count": 1, "timeStamp": 10}}
    assert (saved["dataVersion"]["counter"], saved["dataVersion"]["timestamp"]) == (1, 5)


def test_a_file_is_read_again() -> None:
    first = Bench()
    first.metrics.add("t", 1, 10)
    again = Bench(first.metrics.tree())
    again.metrics.load()
    assert again.counts() == {"t": (1, 10)}
    again.metrics.reset()
    assert (again.counts(), again.metrics.total) == ({}, 0)
    empty = Bench()
    empty.metrics.load()
    assert empty.counts() == {}


def test_the_counts_of_a_master_are_taken_over_once() -> None:
    bench = Bench()
    bench.metrics.add("mine", 1, 10)
    master = {
        "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 9},
        "timingCount": {"t": {"count": 2, "timeStamp": 8}},
    }
    for _ in range(2):
        bench.metrics.take_over(master)
    assert bench.counts() == {"t": (2, 8)}
    assert len(bench.saved) == 1
    bench.metrics.take_over({"dataVersion": {"counter": 4, "stateVersion": 0, "timestamp": 9}, "timingCount": None})
    assert bench.counts() == {}
