"""Messages with delay levels whose bytes are not in memory: a thread loads them, then they are delivered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.broker.harness import WITHOUT_TIMERS, InProcess
from tests.unit.broker.requests import send
from tests.unit.broker.timer.test_timers import SEND, delivered
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers

COUNT = 150
LEVELS = (1, 2, 3)


@contextmanager
def cold_broker(root: Path) -> Iterator[tuple[InProcess, ColdFileSystem, ByHand]]:
    """A broker after a restart of its machine: messages of three levels are due, and none is in memory."""
    fs, workers = ColdFileSystem(), HandWorkers("delay-read")
    before = InProcess(root, WITHOUT_TIMERS, fs=fs)
    client = before.connect()
    for number in range(COUNT):
        for level in LEVELS:
            assert client.ask(SEND, send("t", 0, {"DELAY": str(level)}), b"%d %d" % (level, number)).code == 0
    before.services.close()
    running = InProcess(root, WITHOUT_TIMERS, fs=fs, now=before.now + 60_000, workers=workers)
    fs.chill()
    try:
        yield running, fs, workers.threads["rocketmq-delay-read"]
    finally:
        running.services.close()


def in_order(bodies: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for body in bodies:
        level, number = body.split()
        found.setdefault(level, []).append(int(number))
    return found


ALL = {str(level): list(range(COUNT)) for level in LEVELS}


def test_cold_messages_are_loaded_in_a_thread_and_delivered_once_in_order(tmp_path: Path) -> None:
    with cold_broker(tmp_path) as (running, fs, thread):
        loads = 0
        while running.services.tick_delays() or thread.work:
            if thread.work:
                thread.finish()
                loads += 1
        assert fs.cold_reads == []
        assert loads >= len(LEVELS)
        fs.resident = None
        assert in_order(delivered(running)) == ALL


def test_a_level_that_is_loaded_does_not_wait_for_others(tmp_path: Path) -> None:
    with cold_broker(tmp_path) as (running, fs, thread):
        ends = running.services.delay.offsets
        running.services.tick_delays()
        others, thread.work = thread.work[1:], thread.work[:1]
        while not ends.get(LEVELS[0]):
            thread.finish()
            running.services.tick_delays()
        assert [ends.get(level, 0) for level in LEVELS[1:]] == [0, 0]
        assert fs.cold_reads == []
        thread.work = others


def test_a_disk_that_fails_delays_messages_and_skips_none(tmp_path: Path) -> None:
    with cold_broker(tmp_path) as (running, fs, thread):
        fs.failing = {"load"}
        for _ in range(5):
            assert not running.services.tick_delays()
            while thread.work:
                thread.finish()
        assert running.services.store.queue_range("t", 0) == (0, 0)
        fs.failing = set()
        while running.services.tick_delays() or thread.work:
            while thread.work:
                thread.finish()
        assert fs.cold_reads == []
        fs.resident = None
        assert in_order(delivered(running)) == ALL


def test_messages_in_memory_need_no_thread(tmp_path: Path) -> None:
    with cold_broker(tmp_path) as (running, fs, thread):
        fs.resident = None
        while running.services.tick_delays():
            assert thread.work == []
        assert in_order(delivered(running)) == ALL


def test_a_platform_that_cannot_tell_delivers_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path) as (running, fs, thread):
        fs.tells_residency = False
        while running.services.tick_delays():
            assert thread.work == []
        assert fs.cold_reads
        fs.resident = None
        assert in_order(delivered(running)) == ALL
