"""Timed messages that are not in memory: a thread loads them before they are due, and later ones are not skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py.broker.timer import timer_files
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.broker.timer.test_timers import delivered, timed
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers

COLD = 450


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots of a quarter of an hour: the wheel of a week has 38 MB, which a file system in memory copies."""
    monkeypatch.setattr(timer_files, "WHEEL_SLOTS", 900)


@contextmanager
def cold_broker(root: Path, due_after_ms: int) -> Iterator[tuple[InProcess, ColdFileSystem, ByHand]]:
    """A broker after a restart of its machine: nothing is in memory, and timed messages were due long ago or soon."""
    fs, workers = ColdFileSystem(), HandWorkers("timer-read")
    before = InProcess(root, fs=fs)
    for number in range(COLD):
        timed(before, str(number), 30_000 + number % 7)
    while before.services.timers.tick(before.now):
        pass
    before.services.close()
    running = InProcess(root, fs=fs, now=before.now + 30_000 - due_after_ms, workers=workers)
    fs.chill()
    try:
        yield running, fs, workers.threads["rocketmq-timer-read"]
    finally:
        running.services.close()


def tick_until_idle(running: InProcess, thread: ByHand, until: int) -> None:
    """Tick, and let the thread work, up to a time."""
    while running.now < until:
        running.now += 50
        while running.services.tick_timers() or thread.work:
            while thread.work:
                thread.finish()


@pytest.mark.parametrize("due_after_ms", [9_000, -60_000], ids=["soon", "long ago"])
def test_cold_messages_are_loaded_in_a_thread_and_delivered_once(tmp_path: Path, due_after_ms: int) -> None:
    with cold_broker(tmp_path, due_after_ms) as (running, fs, thread):
        due = START_MS + 30_000
        if due_after_ms > 0:
            tick_until_idle(running, thread, due - 50)
            assert running.services.store.queue_range("t", 0) == (0, 0)
            assert thread.work == [], "it was read ahead"
        tick_until_idle(running, thread, max(running.now, due) + 2_000)
        assert fs.cold_reads == []
        fs.resident = None
        assert sorted(map(int, delivered(running))) == list(range(COLD))


def test_new_messages_that_left_memory_are_loaded_before_their_entries_are_written(tmp_path: Path) -> None:
    fs, workers = ColdFileSystem(), HandWorkers("timer-read")
    before = InProcess(tmp_path, fs=fs)
    for number in range(COLD):
        timed(before, str(number), 30_000)
    before.services.close()
    running = InProcess(tmp_path, fs=fs, workers=workers)
    fs.chill()
    thread = workers.threads["rocketmq-timer-read"]
    assert running.services.timers.unread == COLD
    assert running.services.tick_timers() is False, "there is nothing to do until they are loaded"
    assert thread.work
    tick_until_idle(running, thread, running.now + 100)
    assert running.services.timers.unread == 0
    log = f"{running.services.store.layout.commit_log.name}/"
    assert [read for read in fs.cold_reads if read[0].startswith(log)] == []
    running.services.close()


def test_a_disk_that_fails_delays_timed_messages_and_skips_none(tmp_path: Path) -> None:
    with cold_broker(tmp_path, -1_000) as (running, fs, thread):
        fs.failing = {"load"}
        for _ in range(10):
            running.services.tick_timers()
            while thread.work:
                thread.finish()
        assert running.services.store.queue_range("t", 0) == (0, 0)
        fs.failing = set()
        tick_until_idle(running, thread, running.now + 2_000)
        assert fs.cold_reads == []
        fs.resident = None
        assert sorted(map(int, delivered(running))) == list(range(COLD))


def test_timed_messages_that_left_memory_while_they_waited_are_loaded_again(tmp_path: Path) -> None:
    with cold_broker(tmp_path, 5_000) as (running, fs, thread):
        tick_until_idle(running, thread, running.now + 100)
        fs.chill()
        running.now = START_MS + 30_000 + 1_000
        running.services.tick_timers()
        assert running.services.store.queue_range("t", 0) == (0, 0)
        assert thread.work
        tick_until_idle(running, thread, running.now + 1_000)
        log = running.services.store.layout
        assert [read for read in fs.cold_reads if read[0].startswith((log.commit_log.name, log.timer_log.name))] == []
        fs.resident = None
        assert sorted(map(int, delivered(running))) == list(range(COLD))


def test_timed_messages_in_memory_need_no_thread(tmp_path: Path) -> None:
    with cold_broker(tmp_path, -1_000) as (running, fs, thread):
        fs.resident = None
        while running.services.tick_timers():
            assert thread.work == []
        assert sorted(map(int, delivered(running))) == list(range(COLD))


def test_a_platform_that_cannot_tell_delivers_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, -1_000) as (running, fs, thread):
        fs.tells_residency = False
        while running.services.tick_timers():
            assert thread.work == []
        assert fs.cold_reads
        fs.resident = None
        assert sorted(map(int, delivered(running))) == list(range(COLD))
