"""Which brokers are asked for the offsets of a position, and for which queues."""

from rocketmq_py.arrow.options.offsets import Bounds, FromGroup, Times
from rocketmq_py.arrow.source import positions
from rocketmq_py.arrow.source.positions import locate
from rocketmq_py.model import MessageQueue

FIRST, SECOND = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
BOUNDS = {FIRST: Bounds(2, 10), SECOND: Bounds(0, 5)}


class Cluster:
    def __init__(self, answer=None):
        self.answer, self.asked = answer, []

    def committed(self, group, queues):
        self.asked.append((group, queues))
        return self.answer

    def since(self, queues, wanted):
        self.asked.append((queues, dict(wanted)))
        return self.answer


def test_offsets_are_resolved_without_a_question():
    cluster = Cluster()
    assert locate({FIRST: 4, SECOND: 5}, "startingOffsets", cluster, "routes", BOUNDS) == {FIRST: 4, SECOND: 5}
    assert cluster.asked == []


def test_committed_offsets_are_those_of_the_group():
    cluster = Cluster({FIRST: 4, SECOND: 3})
    assert locate(FromGroup("g"), "startingOffsets", cluster, "routes", BOUNDS) == {FIRST: 4, SECOND: 3}
    assert cluster.asked == [("g", "routes")]


def test_a_time_is_asked_of_every_queue():
    cluster = Cluster({FIRST: 4, SECOND: 1})
    assert locate(Times(99, None, or_latest=False), "starting", cluster, "routes", BOUNDS) == {FIRST: 4, SECOND: 1}
    assert cluster.asked == [("routes", {FIRST: 99, SECOND: 99})]


def test_times_by_queue_are_asked_of_each():
    cluster = Cluster({FIRST: 4, SECOND: 1})
    times = Times(0, {FIRST: 7, SECOND: 8}, or_latest=True)
    assert locate(times, "starting", cluster, "routes", BOUNDS) == {FIRST: 4, SECOND: 1}
    assert cluster.asked == [("routes", {FIRST: 7, SECOND: 8})]


def test_relative_times_count_back_from_now(monkeypatch):
    monkeypatch.setattr(positions.time, "time", lambda: 1000.0)
    cluster = Cluster({FIRST: 4, SECOND: 1})
    locate(Times(0, {FIRST: -400_000, SECOND: -2_000_000}, or_latest=True), "starting", cluster, "routes", BOUNDS)
    locate(Times(-1000, None, or_latest=True), "starting", cluster, "routes", BOUNDS)
    assert [asked for _, asked in cluster.asked] == [{FIRST: 600_000, SECOND: 0}, {FIRST: 999_000, SECOND: 999_000}]
