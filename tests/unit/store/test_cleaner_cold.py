"""Clean-up of queues whose old entries are not in memory: a thread looks for the first message that is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.layout import segment_name
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers
from tests.unit.store.helpers import NOW, Stores, fill, flush
from tests.unit.store.test_cleaner import NEVER, drain

TOPICS = ("T", "old", "B")


class Bench:
    """A store that was filled, and opened again on a machine that has just started."""

    def __init__(self) -> None:
        self.fs = ColdFileSystem()
        self.stores = Stores(Path("/store"), self.fs)
        store = self.stores.open(NEVER, is_batched=_is_batched)
        fill(store, 3, topic="old")
        for number in range(60):
            fill(store, 1, start=number)
            fill(store, 1, start=number, topic="B")
        flush(store)
        self.places = {topic: [entry[0] for entry in store.queue_entries(topic, 0, 0, 60)] for topic in TOPICS}
        """Where the messages of each topic are in the log."""
        store.close()
        workers = HandWorkers("clean-read")
        self.thread: ByHand = workers.threads["rocketmq-clean-read"]
        self.store: MessageStore = self.stores.open(NEVER, is_batched=_is_batched, workers=workers)
        self.fs.chill()
        self.fs.ratio = 0.86
        self.store.clean(NOW)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.store.tick(NOW)
            drain(self.store)

    def begin(self) -> None:
        """Tick until the thread has work."""
        for _ in range(100):
            self.tick()
            if self.thread.work:
                return
        raise AssertionError("the thread has no work")

    def lows(self) -> list[int]:
        return [self.store.queue_range(topic, 0)[0] for topic in TOPICS]

    def is_trimmed(self) -> bool:
        """True if each queue begins with the first of its messages that the log has."""
        first = self.store.min_physical_offset
        assert first > 0
        return self.lows() == [sum(place < first for place in self.places[topic]) for topic in TOPICS]


def _is_batched(topic: str) -> bool:
    return topic == "B"


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.fs.failing = set()
    while made.thread.work:
        made.thread.finish()
    made.stores.close()


def test_queues_are_trimmed_without_cold_reads_on_the_loop(bench: Bench) -> None:
    bench.begin()
    bench.tick(5)
    assert len(bench.thread.work) == 1, "one load for all of them"
    assert bench.lows() == [0, 0, 0]
    bench.thread.finish()
    bench.tick(5)
    assert bench.thread.work == []
    assert [place for place in bench.fs.cold_reads if not place[0].startswith("index/")] == []
    bench.fs.resident = None
    assert bench.lows()[1] == 3
    assert bench.is_trimmed()
    low = bench.lows()[0]
    assert bench.fs.names(bench.stores.root / "consumequeue" / "T" / "0")[0] == segment_name(low // 20 * 400)


@pytest.mark.parametrize("kind", ["warm", "cannot tell"])
def test_queues_in_memory_need_no_thread(bench: Bench, kind: str) -> None:
    if kind == "warm":
        bench.fs.resident = None
    else:
        bench.fs.tells_residency = False
    bench.tick(60)
    assert bench.thread.work == []
    bench.fs.resident = None
    assert bench.is_trimmed()


def test_the_queues_of_a_step_are_loaded_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.store.cleaner._QUEUES_PER_TICK", 2)
    loads = 0
    for _ in range(100):
        bench.tick()
        loads += len(bench.thread.work)
        while bench.thread.work:
            bench.thread.finish()
    assert loads == 2
    bench.fs.resident = None
    assert bench.is_trimmed()


def test_a_disk_that_fails_is_tried_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.begin()
    bench.fs.failing = {"load"}
    for _ in range(3):
        bench.thread.finish()
        bench.tick()
    assert caplog.text.count("the disk cannot be read for the clean-up of queues") == 1
    assert bench.store.is_writable
    assert bench.lows() == [0, 0, 0]
    bench.fs.failing = set()
    bench.thread.finish()
    bench.tick()
    bench.fs.resident = None
    assert bench.is_trimmed()


def test_what_is_evicted_after_the_search_is_not_searched_again(bench: Bench) -> None:
    bench.begin()
    bench.thread.finish()
    bench.fs.chill()
    bench.tick()
    assert bench.thread.work == []
    bench.fs.resident = None
    assert bench.is_trimmed()


def test_messages_stored_during_the_search_are_kept(bench: Bench) -> None:
    bench.begin()
    fill(bench.store, 2, topic="old", start=3)
    bench.store._queues.spill()
    bench.thread.finish()
    bench.tick()
    assert bench.store.queue_range("old", 0) == (3, 5)
    bench.fs.resident = None
    assert bench.is_trimmed()


def test_a_topic_deleted_during_the_search_is_left_out(bench: Bench) -> None:
    bench.begin()
    bench.store.delete_topic("T")
    bench.thread.finish()
    fill(bench.store, 1)
    bench.tick(3)
    assert bench.thread.work == []
    assert bench.store.queue_range("T", 0) == (0, 1), "it was created again"
    assert bench.lows()[1] == 3


def test_a_store_closes_during_the_search(bench: Bench) -> None:
    bench.begin()
    bench.store.close()
    work: list[Any] = bench.thread.work
    assert all(future.cancelled() for future, _ in work)
