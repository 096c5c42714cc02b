"""When log, queues, index and checkpoint are flushed, and what the checkpoint says afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.store import StoreConfig
from rocketmq_py.store.queue.queue_ends import QueueEnds
from rocketmq_py.store.schedule import FlushSchedule, Readable

PAGE = 4096
MEGABYTE = 1024 * 1024
ROUND = 256 * MEGABYTE


class Queue:
    """Notes that its entries were written; ``failing`` ones cannot be."""

    def __init__(self) -> None:
        self.failing = False
        self.spilled = 0

    def spill(self) -> None:
        if self.failing:
            raise OSError("full")
        self.spilled += 1


class World:
    """A schedule that began at time 0, and what it asks for. The log has 10 bytes that are not flushed."""

    def __init__(self, queues: int = 0, **settings: Any) -> None:
        self.queues = [Queue() for _ in range(queues)]
        self.requests: list[tuple[int, Callable[[], None]]] = []
        self.said: list[str] = []
        self.flusher = SimpleNamespace(
            flushed_offset=0, failure=None, request=lambda end, then: self.requests.append((end, then))
        )
        self.log = SimpleNamespace(end=10, min_offset=3)
        self.checkpoint = SimpleNamespace(
            physic_msg_timestamp=1, logics_msg_timestamp=2, index_msg_timestamp=3, end=4, save=lambda: self.say("point")
        )
        self.failing: set[str] = set()
        self.keys_wait = False
        self.ticks: list[None] = []
        table = SimpleNamespace(
            by_key=dict(enumerate(self.queues)), with_tail=lambda: list(self.queues), take_dirty=lambda: [Path("/q")],
            ends=lambda begin, end: (begin, end), spill=self.spill,
            new_files=SimpleNamespace(tick=lambda: self.ticks.append(None)),
        )  # fmt: skip
        file = SimpleNamespace(save=lambda header: self.say(f"index {header}"))
        self.index = SimpleNamespace(
            take_dirty=lambda: [(file, "a"), (file, "b")], end_timestamp=70, is_unfinished=False, is_being_saved=False,
            build=lambda: not self.keys_wait,
        )  # fmt: skip
        self.schedule = FlushSchedule(
            StoreConfig(**settings),
            SimpleNamespace(sync=lambda paths: self.say(f"sync {paths[0]}")),
            self.log, table,
            self.index,
            self.checkpoint,
            SimpleNamespace(
                snapshot=lambda begin, end: (f"ends from {begin}", QueueEnds(queues=[])),
                save=lambda snapshot: self.say(snapshot[0]),
            ),
            self.flusher, 0,
        )  # type: ignore[arg-type]  # fmt: skip

    def spill(self, queues: list[Queue] | None = None) -> None:
        """Write the given queues that have entries left, or all."""
        if queues is None:
            self.say("spill")
        for queue in queues or ():
            if not queue.spilled:
                queue.spill()

    def say(self, what: str) -> None:
        self.said.append(what)
        if what in self.failing:
            raise OSError("full")

    def tick(self, now: int, end: int = 10, timestamp: int = 50) -> int:
        """Number of requested flushes."""
        before = len(self.requests)
        self.schedule.tick(now, Readable(end, timestamp))
        return len(self.requests) - before

    def flush(self) -> None:
        for _, then in self.requests:
            then()
        self.requests.clear()

    @property
    def times(self) -> tuple[int, int, int, int]:
        point = self.checkpoint
        return point.physic_msg_timestamp, point.logics_msg_timestamp, point.index_msg_timestamp, point.end


def test_the_log_is_flushed_by_time_and_amount() -> None:
    """After half a second if 4 pages wait, after ten seconds anyway."""
    for now, dirty, due in (
        (499, 4 * PAGE, 0), (500, 4 * PAGE, 1), (500, 4 * PAGE - 1, 0), (9_999, 4 * PAGE - 1, 0), (9_999, 1, 0),
        (10_000, 1, 1), (10_000, 0, 0),
    ):  # fmt: skip
        world = World()
        world.log.end = world.flusher.flushed_offset + dirty
        assert world.tick(now, end=-1) == due, (now, dirty)
        assert not due or world.tick(now + 499, end=-1) == 0, "the time counts from the last flush"
    world = World(flush_interval_commit_log=100, flush_commit_log_least_pages=1, flush_commit_log_thorough_interval=300)
    world.flusher.flushed_offset, world.log.end = 100, 100 + PAGE
    assert [world.tick(now, end=-1) for now in (99, 100, 199, 200)] == [0, 1, 0, 1]
    world.log.end = 101
    assert [world.tick(now, end=-1) for now in (499, 500)] == [0, 1]


def test_a_flush_of_the_log_moves_its_time_in_the_checkpoint_only() -> None:
    world = World()
    assert world.tick(10_000, end=-1, timestamp=50) == 1
    assert world.requests[0][0] == 10
    assert world.times == (1, 2, 3, 4), "not before it is on disk"
    world.flush()
    assert (world.times, world.said) == ((50, 2, 3, 4), [])
    world.tick(20_000, end=-1, timestamp=0)
    world.flush()
    assert world.times == (50, 2, 3, 4), "no message is readable yet"
    world.tick(30_000, end=-1, timestamp=60)
    world.flusher.failure = OSError("full")
    world.flush()
    assert world.times == (50, 2, 3, 4)


def test_a_round_flushes_everything_in_order() -> None:
    """What the checkpoint vouches for is on disk before it is."""
    world = World(queues=2)
    assert world.tick(59_999) == 1, "of the log"
    assert world.tick(60_000) == 2
    assert [queue.spilled for queue in world.queues] == [1, 1]
    assert [end for end, _ in world.requests] == [10, 10, 10]
    world.flush()
    assert world.said == ["sync /q", "index a", "index b", "point", "ends from 3"]
    assert world.times == (50, 50, 70, 10)
    assert world.tick(60_499, end=11) == 0, "the log was flushed with it"
    world.flusher.flushed_offset = world.log.end
    assert [world.tick(now, end=10) for now in (120_000, 240_000)] == [0, 0], "nothing new is readable"
    assert [world.tick(now, end=11) for now in (240_001, 300_000, 300_001)] == [2, 0, 0]
    assert world.tick(300_002, end=12) == 2


def test_a_round_without_messages_keeps_the_time_of_the_queues() -> None:
    world = World()
    world.tick(60_000, timestamp=0)
    world.flush()
    assert world.times == (1, 2, 70, 10)


def test_a_round_starts_early_after_many_bytes() -> None:
    for queues, begin, end, due in (
        (0, 10, ROUND + 9, 0), (0, 10, ROUND + 10, 2), (4096, 10, ROUND + 10, 2), (4097, 10, ROUND + 10, 0),
        (4097, 10, ROUND + 9 + 65_536, 0), (4097, 10, ROUND + 10 + 65_536, 2),
    ):  # fmt: skip
        world = World(queues)
        world.schedule._round_end = begin
        world.schedule._queues.with_tail = list
        world.flusher.flushed_offset = world.log.end
        assert world.tick(1, end=end) == due, (queues, end)


def test_a_round_writes_a_hundred_queues_in_a_tick() -> None:
    world = World(queues=201)
    world.flusher.flushed_offset = world.log.end
    counts = []
    for now in range(60_000, 60_004):
        requested = world.tick(now, end=10 + now, timestamp=now)
        counts.append((requested, sum(queue.spilled for queue in world.queues)))
    assert counts == [(0, 100), (0, 200), (2, 201), (0, 201)]
    world.flush()
    assert world.times == (60_000, 60_000, 70, 60_010), "of the tick in which the round began"


def test_a_round_waits_for_keys_that_wait_for_the_disk() -> None:
    world = World(queues=3)
    world.flusher.flushed_offset = world.log.end
    world.keys_wait = True
    assert [world.tick(now, end=70_010, timestamp=now) for now in range(60_000, 60_003)] == [0, 0, 0]
    world.keys_wait = False
    assert world.tick(60_003, end=70_010, timestamp=60_003) == 2


def test_a_queue_that_cannot_be_written_is_tried_again() -> None:
    world = World(queues=3)
    world.queues[1].failing = True
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            world.tick(60_000)
    assert [queue.spilled for queue in world.queues] == [1, 0, 0]
    world.queues[1].failing = False
    assert world.tick(60_001) == 2
    assert [queue.spilled for queue in world.queues] == [1, 1, 1]


def test_after_a_failed_sync_nothing_is_vouched_for() -> None:
    world = World()
    world.tick(60_000)
    world.flusher.failure = OSError("full")
    world.flush()
    assert (world.said, world.times) == ([], (1, 2, 3, 4))


@pytest.mark.parametrize("what", ["point", "ends from 3"])
def test_a_checkpoint_that_cannot_be_written_is_written_with_the_next_round(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.flusher.flushed_offset = world.log.end
    world.failing.add(what)
    world.tick(60_000)
    world.flush()
    assert world.said[-2:] == ["point", "ends from 3"]
    assert caplog.text.count("could not be written, the next flush of the queues tries again") == 1
    world.failing.clear()
    assert world.tick(119_999) == 0
    assert world.tick(120_000) == 2, "though nothing new is readable"
    world.flush()
    assert world.tick(180_000) == 0


@pytest.mark.parametrize("failing", [None, "sync /q", "index b"])
def test_keys_are_kept_from_the_index_until_it_is_saved(failing: str | None) -> None:
    """A write to a page that is being written to the disk waits for it."""
    world = World()
    world.tick(60_000)
    assert world.index.is_being_saved
    said: list[bool] = []
    world.checkpoint.save = lambda: said.append(world.index.is_being_saved)
    if failing is None:
        world.flush()
        assert said == [True]
    else:
        world.failing.add(failing)
        with pytest.raises(OSError, match="full"):
            world.flush()
    assert not world.index.is_being_saved


def test_keys_are_not_kept_from_the_index_when_the_log_has_failed() -> None:
    world = World()
    world.tick(60_000)
    world.flusher.failure = OSError("full")
    world.flush()
    assert world.said == []
    assert not world.index.is_being_saved


@pytest.mark.parametrize(("queues", "early"), [(999, 0), (1000, 250), (4001, 1000)])
def test_the_disk_begins_with_the_first_of_many_queues_while_others_are_written(queues: int, early: int) -> None:
    world = World(queues=queues)
    world.schedule.everything(Readable(9, 50))
    assert [queue.spilled for queue in world.queues] == [1] * early + [0] * (queues - early)
    assert world.said == ["spill"], "all that is left"
    assert len(world.requests) == (3 if early else 2)
    world.flush()
    assert world.said == ["spill", *["sync /q"][: early and 1], "sync /q", "index a", "index b", "point", "ends from 3"]


def test_a_disk_that_has_failed_is_not_asked_for_more() -> None:
    world = World(queues=1000)
    world.flusher.failure = OSError("full")
    world.schedule.everything(Readable(9, 50))
    world.flush()
    assert world.said == ["spill"]


def test_everything_is_flushed_before_the_end() -> None:
    world = World()
    world.schedule.everything(Readable(9, 50))
    assert world.said == ["spill"]
    world.flush()
    assert world.said == ["spill", "sync /q", "index a", "index b", "point", "ends from 3"]
    assert world.times == (50, 50, 70, 9)
