"""The files of timers: the log over several files, what a crash leaves of it, and what is no wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.timerwheel import UNIT_SIZE, Slot, TimerCheckpoint, TimerLog, TimerWheel, Unit
from tests.unit.store.memoryfs import MemoryFileSystem

ROOT = Path("/store")
FILE_SIZE = 1000
PER_FILE = (FILE_SIZE - 16) // UNIT_SIZE
JAVA_BLANK = (0xBBCCDDEE ^ 1880681594).to_bytes(4, "big")


def unit(number: int) -> Unit:
    return Unit(-1, 1, 10_000, number * 1_000, number * 100, 77, 5)


def log_of(fs: MemoryFileSystem, start: int = 0) -> tuple[TimerLog, list[tuple[int, Unit]]]:
    log = TimerLog(fs, ROOT / "timerlog", FILE_SIZE)
    return log, log.recover(start)


def test_entries_go_over_several_files_as_java_splits_them() -> None:
    fs = MemoryFileSystem()
    log, found = log_of(fs)
    assert found == []
    places = [log.append(unit(number)) for number in range(50)]
    assert places[PER_FILE - 1 : PER_FILE + 1] == [(PER_FILE - 1) * UNIT_SIZE, FILE_SIZE]
    assert [log.read(place) for place in places] == [unit(number) for number in range(50)]
    first = fs.open(ROOT / "timerlog" / f"{0:020d}", FILE_SIZE)
    end = PER_FILE * UNIT_SIZE
    assert first.read(end, 16) == (FILE_SIZE - end).to_bytes(4, "big") + bytes(8) + JAVA_BLANK
    assert log.newest() == unit(49)
    again, found = log_of(fs)
    assert found == list(zip(places, [unit(number) for number in range(50)], strict=True))
    assert again.end == log.end
    _, found = log_of(fs, places[40])
    assert [place for place, _ in found] == places[40:]


def test_what_lies_behind_a_damaged_entry_is_cut_off() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(50)]
    fs.open(ROOT / "timerlog" / f"{FILE_SIZE:020d}", FILE_SIZE).write(places[25] - FILE_SIZE, bytes(UNIT_SIZE))
    again, found = log_of(fs)
    assert [place for place, _ in found] == places[:25]
    assert again.end == places[25]
    assert again.append(unit(99)) == places[25]
    _, found = log_of(fs)
    assert [one for _, one in found] == [*(unit(number) for number in range(25)), unit(99)]


def test_a_mark_stays_and_nothing_is_read_where_nothing_is() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    place = log.append(unit(1))
    log.mark([(place, 4711)])
    assert log.read(place) == unit(1)._replace(mark=4711)
    assert [log.read(wrong) for wrong in (-1, place + UNIT_SIZE, 10**6)] == [None] * 3


def test_marks_of_entries_side_by_side_leave_the_entries_as_they_are() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(2 * PER_FILE)]
    marked = [1, 2, 3, 5, *range(PER_FILE - 2, PER_FILE + 2), 8]
    log.mark([(places[number], 1_000 + number) for number in marked])
    log.mark([])
    for number, place in enumerate(places):
        assert log.read(place) == unit(number)._replace(mark=1_000 + number if number in marked else 0)


def test_files_go_when_the_messages_of_all_their_entries_are_gone() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(3 * PER_FILE)]
    last = unit(PER_FILE - 1).physical
    assert log.remove_before(last) == 0
    assert log.remove_before(last + 1) == 1
    assert log.read(places[0]) is None
    assert log.read(places[PER_FILE]) == unit(PER_FILE)
    assert log.remove_before(10**9) == 1, "the newest file stays"
    assert fs.names(ROOT / "timerlog") == [f"{2 * FILE_SIZE:020d}"]


def test_slots_and_those_of_another_round() -> None:
    fs = MemoryFileSystem()
    wheel = TimerWheel(fs, ROOT / "timerwheel", 10, 1_000)
    assert wheel.get(3_000) is None
    wheel.put(3_000, Slot(0, 52, 2))
    assert wheel.get(3_999) == Slot(0, 52, 2)
    assert wheel.get(13_000) is None, "the same place, another time"
    wheel.close()
    with pytest.raises(StoreCorrupt, match="it is no timer wheel"):
        TimerWheel(fs, ROOT / "timerwheel", 11, 1_000)


def test_the_checkpoint_is_read_as_it_was_written() -> None:
    fs = MemoryFileSystem()
    check = TimerCheckpoint(fs, ROOT / "timercheck")
    assert not check.exists
    check.read_ms, check.log_end, check.queue_offset, check.master_offset, check.counter = 1, 2, 3, 4, 5
    check.write()
    again = TimerCheckpoint(fs, ROOT / "timercheck")
    assert again.exists
    assert again.encode() == check.encode() == b"".join(n.to_bytes(8, "big") for n in (1, 2, 3, 4, 0, 0, 5))
