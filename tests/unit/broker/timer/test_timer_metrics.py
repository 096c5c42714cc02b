"""The numbers of timed messages that wait, by topic, and their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.timer.timer_metrics import TimerMetrics
from rocketmq_py.store.config.config_files import ConfigFile
from tests.unit.store.memoryfs import MemoryFileSystem

FILE = Path("/store/config/timermetrics")


class Bench:
    def __init__(self) -> None:
        self.now = 1_000
        self.fs = MemoryFileSystem()
        self.written: list[Any] = []
        self.metrics = self.open()

    def open(self) -> TimerMetrics:
        def save(file: ConfigFile, tree: Any) -> None:
            self.written.append(tree)
            file.save(tree)

        metrics = TimerMetrics(ConfigFile(FILE, self.fs), lambda: self.now, save)
        metrics.load()
        return metrics

    def counts(self) -> dict[str, tuple[int, int]]:
        tree: Any = self.metrics.tree()["timingCount"]
        return {topic: (metric["count"], metric["timeStamp"]) for topic, metric in tree.items()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_counts_are_kept_by_topic_and_never_negative(bench: Bench) -> None:
    for topic, change, now in (("t", 1, 5), ("t", 1, 6), ("u", 1, 7), ("t", -1, 8), ("u", -1, 9), ("u", -1, 10)):
        bench.metrics.add(topic, change, now)
    assert bench.counts() == {"t": (1, 8), "u": (0, 10)}
    assert bench.metrics.total == 1
    bench.metrics.reset()
    assert (bench.metrics.total, bench.counts()) == (0, {})


def test_they_are_written_after_a_change_with_another_version(bench: Bench) -> None:
    bench.metrics.persist()
    assert bench.written == []
    bench.metrics.add("t", 1, 5)
    bench.now = 2_000
    for _ in range(2):
        bench.metrics.persist()
    [tree] = bench.written
    assert (tree["dataVersion"]["counter"], tree["dataVersion"]["timestamp"]) == (1, 2_000)
    bench.metrics = bench.open()
    assert bench.counts() == {"t": (1, 5)}
    bench.metrics.add("t", 1, 6)
    bench.metrics.persist()
    assert bench.written[-1]["dataVersion"]["counter"] == 2


def test_a_slave_takes_over_another_version_at_once(bench: Bench) -> None:
    tree = {"dataVersion": {"counter": 7, "timestamp": 5, "stateVersion": 0},
            "timingCount": {"t": {"count": 3, "timeStamp": 9}}}  # fmt: skip
    bench.metrics.add("gone", 1, 5)
    bench.metrics.take_over(tree)
    assert (bench.counts(), bench.metrics.total, len(bench.written)) == ({"t": (3, 9)}, 3, 1)
    bench.metrics.take_over(tree | {"timingCount": {}})
    assert (bench.metrics.total, len(bench.written)) == (3, 1), "the same version"
    assert bench.open().total == 3
