"""Disk space for the log is allocated in a thread before it is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.log_space import LogSpace
from tests.unit.store.coldfs import ByHand
from tests.unit.store.later import Later
from tests.unit.store.memoryfs import MemoryFileSystem

MEGABYTE = 1024 * 1024
FOLDER = Path("/store/commitlog")
SIZE = 40 * MEGABYTE


def a_log() -> tuple[CommitLog, MemoryFileSystem, ByHand]:
    fs, thread = MemoryFileSystem(), ByHand()
    log = CommitLog(fs, FOLDER, SIZE)
    log.allocate_ahead(thread)
    log.create(SIZE)
    assert log.allocate(SIZE, 1) == 16 * MEGABYTE
    return log, fs, thread


def write_to(log: CommitLog, position: int) -> None:
    """Write so that the file is written to ``position``."""
    log.write(SIZE, position - 1, b"x")


def allocated(fs: MemoryFileSystem) -> list[tuple[int, int]]:
    found = [(at // MEGABYTE, length // MEGABYTE) for _, at, length in fs.allocated]
    fs.allocated.clear()
    return found


def test_the_next_step_is_allocated_when_half_of_the_last_one_is_used() -> None:
    log, fs, thread = a_log()
    assert allocated(fs) == [(0, 16)]
    write_to(log, 8 * MEGABYTE)
    assert not thread.work
    write_to(log, 8 * MEGABYTE + 1)
    write_to(log, 8 * MEGABYTE + 2)
    assert len(thread.work) == 1, "one at a time"
    opened = fs.open_files
    thread.finish()
    assert fs.open_files == opened
    assert allocated(fs) == [(16, 16)]
    assert log.allocate(SIZE, 16 * MEGABYTE + 1) == 32 * MEGABYTE
    write_to(log, 24 * MEGABYTE)
    assert not thread.work
    write_to(log, 24 * MEGABYTE + 1)
    thread.finish()
    assert allocated(fs) == [(32, 8)]
    assert log.allocate(SIZE, 32 * MEGABYTE + 1) == SIZE
    write_to(log, SIZE)
    assert not thread.work, "all of it is allocated"
    assert allocated(fs) == []


def test_steps_follow_each_other_if_nobody_asks_meanwhile() -> None:
    log, fs, thread = a_log()
    write_to(log, 16 * MEGABYTE)
    thread.finish()
    write_to(log, 32 * MEGABYTE)
    thread.finish()
    assert allocated(fs) == [(0, 16), (16, 16), (32, 8)]


def test_a_log_that_needs_more_does_not_wait_for_the_thread() -> None:
    log, fs, thread = a_log()
    write_to(log, 16 * MEGABYTE)
    assert log.allocate(SIZE, 16 * MEGABYTE + 1) == 32 * MEGABYTE
    thread.finish()
    assert allocated(fs) == [(0, 16), (16, 16), (16, 16)]
    assert log.allocate(SIZE, 20 * MEGABYTE) == 32 * MEGABYTE
    write_to(log, 32 * MEGABYTE)
    log.create(2 * SIZE)
    thread.finish()
    assert log.allocate(2 * SIZE, 1) == 16 * MEGABYTE, "what was made behind another place does not count"


def test_an_allocation_that_failed_is_repeated_when_it_is_needed() -> None:
    log, fs, thread = a_log()
    fs.failing.add("allocate")
    write_to(log, 9 * MEGABYTE)
    thread.finish()
    write_to(log, 10 * MEGABYTE)
    write_to(log, 11 * MEGABYTE)
    assert not thread.work, "the thread does not try again and again"
    with pytest.raises(OSError, match="No space"):
        log.allocate(SIZE, 16 * MEGABYTE + 1)
    fs.failing.clear()
    assert log.allocate(SIZE, 16 * MEGABYTE + 1) == 32 * MEGABYTE
    write_to(log, 25 * MEGABYTE)
    thread.finish()
    assert log.allocate(SIZE, 32 * MEGABYTE + 1) == SIZE


def test_a_step_before_a_truncation_does_not_count_behind_it() -> None:
    fs, thread = MemoryFileSystem(), ByHand()
    log = CommitLog(fs, FOLDER, SIZE)
    log.allocate_ahead(thread)
    log.create(0)
    log.write(0, 9 * MEGABYTE, b"x")
    log.truncate(MEGABYTE, erase=True)
    thread.finish()
    fs.allocated.clear()
    assert log.allocate(0, MEGABYTE) == 16 * MEGABYTE
    assert allocated(fs) == [(0, 16)]


def test_a_file_that_is_gone_is_not_made_again() -> None:
    fs, thread = MemoryFileSystem(), ByHand()
    space = LogSpace(fs, SIZE, thread)
    space.begin(FOLDER / "0", 0, 0, 10)
    thread.finish()
    assert space.take(0) == 0
    assert fs.names(FOLDER) == []


def test_a_closed_log_has_waited_for_the_thread() -> None:
    fs, thread = MemoryFileSystem(), Later()
    log = CommitLog(fs, FOLDER, SIZE)
    log.allocate_ahead(thread)
    log.create(0)
    log.write(0, 0, b"x")
    assert allocated(fs) == []
    log.close()
    assert allocated(fs) == [(0, 16)]
