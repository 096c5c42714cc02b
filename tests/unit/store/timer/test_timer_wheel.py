"""Timer files: the log over several files, recovery, and the wheel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.timer.timer_wheel import UNIT_SIZE, Slot, TimerCheckpoint, TimerLog, TimerUnit, TimerWheel
from tests.unit.store.memoryfs import MemoryFileSystem

ROOT = Path("/store")
FILE_SIZE = 1000
MESSAGES_END = 10**6
PER_FILE = (FILE_SIZE - 16) // UNIT_SIZE
JAVA_BLANK = (0xBBCCDDEE ^ 1880681594).to_bytes(4, "big")


def unit(number: int) -> TimerUnit:
    return TimerUnit(-1, 1, 10_000, number * 1_000, number * 100, 77, 5)


def log_of(fs: MemoryFileSystem, start: int = 0) -> tuple[TimerLog, list[tuple[int, TimerUnit]]]:
    log = TimerLog(fs, ROOT / "timerlog", FILE_SIZE)
    return log, log.recover(start, MESSAGES_END)


def test_entries_are_split_over_files_like_java() -> None:
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


def test_entries_after_a_damaged_one_are_truncated() -> None:
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


def test_an_incomplete_entry_is_ignored() -> None:
    """A disk writes pages, and an entry may lie in two of them; whichever of them is missing reads as zero."""
    whole = fs_bytes(lambda log: log.append(unit(1)))
    for at in range(4, UNIT_SIZE - 12, 4):  # behind it come what tells the topic, and the mark
        for torn in (whole[:at].ljust(UNIT_SIZE, b"\0"), bytes(at) + whole[at:]):
            fs = MemoryFileSystem()
            fs.open(ROOT / "timerlog" / f"{0:020d}", FILE_SIZE).write(0, torn)
            log, found = log_of(fs)
            assert (found, log.end) == ([], 0), at


def fs_bytes(write: Callable[[TimerLog], object]) -> bytes:
    fs = MemoryFileSystem()
    write(log_of(fs)[0])
    return fs.open(ROOT / "timerlog" / f"{0:020d}", FILE_SIZE).read(0, UNIT_SIZE)


@pytest.mark.parametrize("start", [0, 3 * UNIT_SIZE, FILE_SIZE + 7 * UNIT_SIZE])
def test_entries_of_lost_messages_are_truncated(start: int) -> None:
    """Wherever the log was known to end: in another file than the last entry that counts, too."""
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(PER_FILE + 7)]
    again = TimerLog(fs, ROOT / "timerlog", FILE_SIZE)
    again.recover(start, unit(4).physical)
    assert again.end == places[4]
    assert [one for _, one in again.units()] == [unit(number) for number in range(4)]


def test_a_file_truncated_before_the_known_end_is_read_from_its_begin() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(9)]
    log.truncate(places[5])
    again, found = log_of(fs, places[8])
    assert [place for place, _ in found] == places[:5]
    assert again.end == places[5]


def test_delivery_marks_are_kept_and_missing_entries_ignored() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    place = log.append(unit(1))
    log.mark([(place, 4711)])
    assert log.read(place) == unit(1)._replace(mark=4711)
    assert [log.read(wrong) for wrong in (-1, place + UNIT_SIZE, 10**6)] == [None] * 3


def test_delivery_marks_do_not_change_adjacent_entries() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(2 * PER_FILE)]
    marked = [1, 2, 3, 5, *range(PER_FILE - 2, PER_FILE + 2), 8]
    log.mark([(places[number], 1_000 + number) for number in marked])
    log.mark([])
    for number, place in enumerate(places):
        assert log.read(place) == unit(number)._replace(mark=1_000 + number if number in marked else 0)


def test_files_are_removed_when_all_their_messages_have_expired() -> None:
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


def test_slots_of_another_round_are_empty() -> None:
    fs = MemoryFileSystem()
    wheel = TimerWheel(fs, ROOT / "timerwheel", 10, 1_000)
    assert wheel.get(3_000) is None
    wheel.put(3_000, Slot(0, 52, 2))
    assert wheel.get(3_999) == Slot(0, 52, 2)
    assert wheel.get(13_000) is None, "the same place, another time"
    wheel.close()
    with pytest.raises(StoreCorrupt, match="it is not a timer wheel"):
        TimerWheel(fs, ROOT / "timerwheel", 11, 1_000)


def test_slots_that_point_beyond_the_log_are_detected() -> None:
    wheel = TimerWheel(MemoryFileSystem(), ROOT / "timerwheel", 70_000, 1_000)
    for time, last in ((3_000, 52), (69_999_000, 104), (40_000_000, 0)):
        wheel.put(time, Slot(0, last, 1))
    assert wheel.pointing_beyond(52) == {3_000, 69_999_000}
    assert wheel.pointing_beyond(105) == set()
    wheel.clear(3_000)
    assert wheel.get(3_000) is None
    assert wheel.pointing_beyond(0) == {69_999_000, 40_000_000}


def test_the_checkpoint_is_read_unchanged() -> None:
    fs = MemoryFileSystem()
    check = TimerCheckpoint(fs, ROOT / "timercheck")
    assert not check.exists
    check.read_ms, check.log_end, check.queue_offset, check.master_offset, check.counter = 1, 2, 3, 4, 5
    check.write()
    again = TimerCheckpoint(fs, ROOT / "timercheck")
    assert again.exists
    assert again.encode() == check.encode() == b"".join(n.to_bytes(8, "big") for n in (1, 2, 3, 4, 0, 0, 5))
