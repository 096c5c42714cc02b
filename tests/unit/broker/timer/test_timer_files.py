"""Wheel, timer log and checkpoint together: what is linked, what a crash leaves of them, and when they are flushed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.timer import timer_files
from rocketmq_py.broker.timer.timer_files import TimerFiles, parse_checkpoint
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.store import StoreConfig
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.timer.timer_wheel import Slot
from tests.unit.store.memoryfs import MemoryFileSystem

UNIT = 52
SECOND = 1_000
T = 1_700_000_000_000
DEFAULT, DELETE = 1, 4


class Thread(Executor):
    """Runs what was submitted when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.is_shut_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append((Future(), lambda: fn(*args, **kwargs)))
        return self.jobs[-1][0]

    def run(self) -> None:
        future, job = self.jobs.pop(0)
        try:
            future.set_result(job())
        except OSError as e:
            future.set_exception(e)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        assert wait
        assert not cancel_futures
        while self.jobs:
            self.run()
        self.is_shut_down = True


class Bench:
    """The files below /store on a disk in memory; ``messages_end`` is where the commit log ends at the next opening."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.layout = StoreLayout(Path("/store"))
        self.config = StoreConfig(mapped_file_size_timer_log=4096)
        self.messages_end = 1_000_000
        self.open()

    def open(self) -> TimerFiles:
        self.thread = Thread()
        self.files = TimerFiles(self.fs, self.layout, self.config, self.messages_end, self.thread)
        return self.files

    def crash(self) -> TimerFiles:
        """The process is killed; what was written stays."""
        self.fs = self.fs.after_kill()
        return self.open()

    def write(self, slot: int, physical: int, magic: int = DEFAULT) -> int:
        return self.files.write(T + slot * SECOND, magic, T, physical, 100, 7)

    def slot(self, number: int) -> Slot | None:
        return self.files.wheel.get(T + number * SECOND)

    def checkpoint(self) -> None:
        """Everything so far is on disk."""
        self.files.flush(5)
        self.thread.run()
        self.files.poll_flush()
        self.files.check.write()

    @property
    def log(self) -> list[tuple[int, int]]:
        """Slots and physical offsets of the entries."""
        return [((unit.slot - T) // SECOND, unit.physical) for _, unit in self.files.log.units()]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(timer_files, "WHEEL_SLOTS", 60)
    return Bench()


def test_a_slot_has_its_first_and_last_entry_and_their_number(bench: Bench) -> None:
    positions = [bench.write(slot, physical) for slot, physical in ((1, 10), (2, 20), (1, 30), (1, 40))]
    assert positions == [0, UNIT, 2 * UNIT, 3 * UNIT]
    assert bench.slot(1) == Slot(0, 3 * UNIT, 3)
    assert bench.slot(2) == Slot(UNIT, UNIT, 1)
    assert bench.slot(3) is None
    units = dict(bench.files.log.units())
    assert [units[at].previous for at in positions] == [-1, -1, 0, 2 * UNIT]
    unit = units[3 * UNIT]
    assert (unit.magic, unit.written, unit.delay, unit.size, unit.topic_hash) == (DEFAULT, T, SECOND, 100, 7)


def test_a_cancellation_counts_one_less(bench: Bench) -> None:
    bench.write(1, 10)
    bench.write(1, 20, DELETE)
    assert bench.slot(1) == Slot(0, UNIT, 0)
    bench.write(2, 30, DELETE)
    assert bench.slot(2) == Slot(2 * UNIT, 2 * UNIT, -1)


def test_new_files_are_new_and_others_are_not(bench: Bench) -> None:
    assert bench.files.is_new
    bench.write(1, 10)
    assert not bench.crash().is_new


@pytest.mark.parametrize("gone", ["timerwheel", "timerlog"])
def test_wheel_and_log_are_removed_if_one_is_missing(bench: Bench, gone: str) -> None:
    bench.write(1, 10)
    bench.checkpoint()
    assert bench.files.check.log_end == UNIT
    bench.fs = bench.fs.after_kill()
    for path in [path for path in bench.fs.nodes if gone in path.parts]:
        bench.fs.remove(path)
    files = bench.open()
    assert files.is_new
    assert (bench.slot(1), bench.log, files.check.log_end, files.newest) == (None, [], 0, [])
    assert bench.write(1, 10) == 0


@pytest.mark.parametrize("content", [b"\xa5" * 28, bytes(60 * 2 * 32 - 1), bytes(60 * 2 * 32 + 1)])
def test_a_wheel_of_another_size_is_written_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    bench.write(1, 10)
    bench.checkpoint()
    bench.fs = bench.fs.after_kill()
    bench.fs.nodes[bench.layout.timer_wheel].content[:] = content
    assert bench.open().is_new
    assert f"its file has {len(content)} bytes instead of 3840" in caplog.text
    assert (bench.slot(1), bench.log) == (None, [])
    assert bench.write(1, 10) == 0


# -- after a crash


def test_entries_behind_the_checkpoint_are_kept(bench: Bench) -> None:
    bench.write(1, 10)
    bench.checkpoint()
    bench.write(1, 20)
    bench.write(2, 30)
    files = bench.crash()
    assert [unit.physical for unit in files.newest] == [20, 30]
    assert (bench.slot(1), bench.slot(2)) == (Slot(0, UNIT, 2), Slot(2 * UNIT, 2 * UNIT, 1))
    assert files.log.end == 3 * UNIT


def test_with_everything_on_disk_the_last_entry_is_the_newest(bench: Bench) -> None:
    bench.write(1, 10)
    bench.write(2, 20)
    bench.checkpoint()
    files = bench.crash()
    assert [unit.physical for unit in files.newest] == [20]
    assert files.check.log_end == 2 * UNIT


def test_entries_the_wheel_lost_are_linked_again(bench: Bench) -> None:
    """The wheel's page was not written, the log's was: slots are those of the log."""
    bench.write(1, 10)
    bench.checkpoint()
    wheel = bytes(bench.fs.nodes[bench.layout.timer_wheel].content)
    bench.write(1, 20)
    bench.write(2, 30)
    bench.fs.nodes[bench.layout.timer_wheel].content[:] = wheel
    bench.crash()
    assert bench.slot(1) == Slot(0, UNIT, 1), "its number is a figure for people"
    assert bench.slot(2) == Slot(2 * UNIT, 2 * UNIT, 1)
    assert bench.write(1, 40) == 3 * UNIT
    assert bench.slot(1) == Slot(0, 3 * UNIT, 2)


def test_a_slot_that_begins_anew_has_its_own_first_entry(bench: Bench) -> None:
    """The wheel still has the slot of its last round, whose entries are delivered."""
    bench.write(1, 10)
    bench.checkpoint()
    files = bench.files
    files.rewrite(T + SECOND, [])
    bench.fs.nodes[bench.layout.timer_wheel].content[:] = bytes(60 * 2 * 32)
    bench.write(1, 20)
    bench.crash()
    found = bench.slot(1)
    assert found is not None
    assert found.first == found.last


def test_slots_that_point_behind_the_log_are_made_from_the_log(bench: Bench) -> None:
    """The log's page was not written, the wheel's was; a slot without entries is empty."""
    bench.write(1, 10)
    bench.write(2, 15)
    bench.write(1, 17)
    bench.write(1, 18, DELETE)
    bench.checkpoint()
    bench.write(1, 20)
    bench.write(2, 30)
    bench.write(3, 40)
    bench.messages_end = 20
    files = bench.crash()
    assert files.log.end == 4 * UNIT
    assert (bench.slot(1), bench.slot(2), bench.slot(3)) == (Slot(0, 3 * UNIT, 1), Slot(UNIT, UNIT, 1), None)
    assert [unit.physical for unit in files.newest] == [18]


def test_a_slot_that_was_rewritten_begins_where_it_was_rewritten(bench: Bench) -> None:
    """Its entries before that are delivered: they are neither linked nor counted."""
    for physical in (10, 11, 12):
        bench.write(1, physical)
    rest = [unit for _, unit in bench.files.log.units()][1:]
    bench.files.rewrite(T + SECOND, rest)
    bench.write(1, 15)
    bench.checkpoint()
    bench.write(1, 30)
    bench.messages_end = 20
    bench.crash()
    assert bench.slot(1) == Slot(3 * UNIT, 5 * UNIT, 3)


def test_a_checkpoint_behind_the_log_is_moved_back(bench: Bench) -> None:
    bench.write(1, 10)
    bench.write(2, 20)
    bench.checkpoint()
    bench.messages_end = 20
    files = bench.crash()
    assert (files.check.log_end, files.log.end, bench.slot(2)) == (UNIT, UNIT, None)


# -- rewritten slots


def test_a_rewritten_slot_has_the_given_entries(bench: Bench) -> None:
    for physical in (10, 20, 30):
        bench.write(1, physical)
    kept = [unit for _, unit in bench.files.log.units()][1:]
    bench.files.rewrite(T + SECOND, kept)
    assert bench.slot(1) == Slot(3 * UNIT, 4 * UNIT, 2)
    units = dict(bench.files.log.units())
    assert (units[3 * UNIT].previous, units[4 * UNIT].previous) == (-1, 3 * UNIT)
    assert [units[at].physical for at in (3 * UNIT, 4 * UNIT)] == [20, 30]
    bench.files.rewrite(T + 2 * SECOND, kept[:1])
    assert dict(bench.files.log.units())[5 * UNIT].delay == 2 * SECOND


def test_an_emptied_slot_has_an_entry_without_a_message(bench: Bench) -> None:
    bench.write(1, 10)
    bench.files.rewrite(T + SECOND, [])
    assert bench.slot(1) == Slot(UNIT, UNIT, 1)
    unit = dict(bench.files.log.units())[UNIT]
    assert (unit.previous, unit.magic, unit.physical, unit.size, unit.delay) == (-1, DEFAULT, -1, 0, 0)
    assert unit.written == T + SECOND


@pytest.mark.parametrize("marks", ["one", "unfinished", "another slot", "both"])
def test_rewritten_slots_count_only_between_two_marks(bench: Bench, marks: str) -> None:
    bench.write(1, 10)
    bench.checkpoint()
    bench.write(2, 20)
    files = bench.files
    files.write_rewrite_mark(T)
    if marks != "one":
        files.rewrite(T + SECOND, [unit for _, unit in files.log.units()][:1])
    if marks == "both":
        files.write_rewrite_mark(T)
    elif marks == "another slot":
        files.write_rewrite_mark(T + SECOND)
    again = bench.crash()
    assert [unit.physical for unit in again.newest] == [20]
    if marks == "both":
        assert again.log.end == 5 * UNIT
        assert bench.slot(1) == Slot(3 * UNIT, 3 * UNIT, 1)
    else:
        assert again.log.end == 2 * UNIT
        assert bench.slot(1) == Slot(0, 0, 1)


# -- flushing


def test_a_flush_moves_the_checkpoint_when_it_is_done(bench: Bench) -> None:
    bench.write(1, 10)
    check = bench.files.check
    bench.files.flush(7)
    bench.write(1, 20)
    bench.files.flush(8)
    assert len(bench.thread.jobs) == 1, "one at a time"
    bench.files.poll_flush()
    assert (check.log_end, check.queue_offset) == (0, 0)
    bench.thread.run()
    bench.files.poll_flush()
    assert (check.log_end, check.queue_offset) == (UNIT, 7)
    bench.files.poll_flush()
    bench.files.flush(9)
    bench.thread.run()
    bench.files.poll_flush()
    assert (check.log_end, check.queue_offset) == (2 * UNIT, 9)


def test_without_new_entries_only_the_offset_moves(bench: Bench) -> None:
    bench.write(1, 10)
    bench.checkpoint()
    bench.files.flush(11)
    assert (bench.thread.jobs, bench.files.check.queue_offset) == ([], 11)
    for write in (lambda: bench.files.rewrite(T, []), lambda: bench.files.write_rewrite_mark(T)):
        write()
        bench.checkpoint()
        assert bench.files.check.log_end == bench.files.log.end


def test_a_flush_that_fails_is_repeated_and_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.checkpoint()
    bench.write(1, 10)
    bench.fs.failing.add("sync")
    for _ in range(3):
        bench.checkpoint()
    assert bench.files.check.log_end == 0
    assert caplog.text.count("the timer log cannot be flushed, trying again") == 1
    bench.fs.failing.clear()
    for _ in range(2):
        bench.files.flush(5)
        if bench.thread.jobs:
            bench.thread.run()
        bench.files.poll_flush()
    assert bench.files.check.log_end == UNIT
    assert caplog.text.count("the timer log can be flushed again") == 1


def test_a_close_writes_the_checkpoint(bench: Bench) -> None:
    bench.write(1, 10)
    bench.files.flush(3)
    bench.files.close(9)
    assert bench.thread.is_shut_down
    assert bench.fs.open_files == 0
    files = bench.open()
    assert (files.check.log_end, files.check.queue_offset) == (UNIT, 9)
    assert files.newest[0].physical == 10


def test_a_close_that_fails_closes_the_files(bench: Bench) -> None:
    bench.fs.failing.add("sync")
    with pytest.raises(OSError, match=r"No space left|failed|Input"):
        bench.files.close(9)
    assert bench.fs.open_files == 0


# -- what a slave is told


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (None, (9, 6, frozenset(), None)),
        ({}, (9, 6, frozenset(), None)),
        ({"delivered_before": 4}, (9, 4, frozenset(), None)),
        ({"delivered_before": 0, "waiting": "3,5", "acted_from": 2}, (9, 0, frozenset({3, 5}), 2)),
    ],
)
def test_a_checkpoint_is_parsed(fields: dict[str, Any] | None, expected: tuple[Any, ...]) -> None:
    check = b"".join(number.to_bytes(8, "big") for number in (6, 7, 8, 9, 0, 0, 0))
    more = None if fields is None else TimerCheckPointResponse(**fields)
    assert parse_checkpoint(check, more) == expected
