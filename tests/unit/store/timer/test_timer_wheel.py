"""Timer files: the log over several files, recovery, and the wheel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.timer import timer_wheel
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


# -- bytes and boundaries


def test_an_entry_has_the_bytes_of_java() -> None:
    written = fs_bytes(lambda log: log.append(TimerUnit(-1, 1, 10_000, 2_000, 300, 77, 5, 6)))
    assert written == pack(">iqiqiqiiq", 52, -1, 1, 10_000, 2_000, 300, 77, 5, 6)
    assert UNIT_SIZE == 52
    one = TimerUnit(-1, 1, 10_000, 2_000, 300, 77, 5)
    assert (one.slot, one.is_of_no_message, one.mark) == (12_000, False, 0)
    assert one._replace(physical=-1).is_of_no_message


def test_a_slot_has_the_bytes_of_java() -> None:
    fs = MemoryFileSystem()
    wheel = TimerWheel(fs, ROOT / "timerwheel", 10, 1_000)
    wheel.put(13_999, Slot(52, 104, 2))
    assert fs.read(ROOT / "timerwheel") == bytes(96) + pack(">qqqii", 13, 52, 104, 2, 0) + bytes(192)
    wheel.put(13_000, Slot(0, -1, 0))
    assert wheel.get(13_000) is None
    wheel.put(13_000, Slot(0, 0, 1))
    assert wheel.get(13_000) == Slot(0, 0, 1)
    wheel.clear(13_000)
    assert fs.read(ROOT / "timerwheel") == bytes(320)
    wheel.close()
    assert fs.open_files == 0
    fs.write(ROOT / "timerwheel", b"")
    fs.nodes.pop(ROOT / "timerwheel")
    assert TimerWheel(fs, ROOT / "timerwheel", 10, 1_000).get(1_000) is None
    fs.write(ROOT / "timerwheel", bytes(319))
    with pytest.raises(StoreCorrupt, match="has 319 bytes, but 320 are expected"):
        TimerWheel(fs, ROOT / "timerwheel", 10, 1_000)


def parts_of(residency: Residency) -> list[tuple[int, int]]:
    try:
        residency.check()
    except NotInMemory as missing:
        return [(part.position, part.length) for part in missing.parts]
    return []


def test_slots_that_a_read_needs_may_begin_again_at_the_first() -> None:
    fs = MemoryFileSystem()
    wheel = TimerWheel(fs, ROOT / "timerwheel", 10, 1_000)
    fs.resident = set()
    for time, count, parts in (
        (3_000, 1, [(96, 32)]), (3_999, 7, [(96, 224)]), (3_000, 8, [(96, 224), (0, 32)]),
        (13_500, 99, [(96, 224), (0, 96)]), (0, 10, [(0, 320)]), (0, 0, []),
    ):  # fmt: skip
        residency, found = Residency(), []
        try:
            wheel.check(time, count, residency)
        except NotInMemory as missing:
            found = [(part.position, part.length) for part in missing.parts]
        assert found == parts, (time, count)


def test_slots_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (1, 3, 9, 10, 11):
        monkeypatch.setattr(timer_wheel, "_SLOTS_AT_ONCE", block)
        wheel = TimerWheel(MemoryFileSystem(), ROOT / "timerwheel", 10, 1_000)
        for time in range(1_000, 11_000, 1_000):
            wheel.put(time, Slot(0, time, 1))
        assert wheel.pointing_beyond(3_000) == set(range(3_000, 11_000, 1_000))
        assert wheel.pointing_beyond(10_000) == {10_000}


def test_only_entries_before_the_end_are_read() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(4)]
    log.end = places[2]
    assert [log.read(place) is None for place in (*places, -UNIT_SIZE)] == [False, False, True, True, True]


def test_entries_that_cannot_be_are_none() -> None:
    good = TimerUnit(-1, 1, 10_000, 1_000, 300, 77, 5)
    cases = [
        (good, True), (good._replace(magic=15), True), (good._replace(magic=16), False),
        (good._replace(magic=0), False),
        (good._replace(written=1), True), (good._replace(written=0), False), (good._replace(physical=0), True),
        (good._replace(size=1), True), (good._replace(size=0), False), (good._replace(physical=-1), False),
        (good._replace(physical=-1, size=0), True), (good._replace(physical=-2, size=0), False),
        (good._replace(physical=-2), False),
    ]  # fmt: skip
    for one, is_valid in cases:
        raw = pack(">iqiqiqiiq", 52, *one)
        assert (timer_wheel._unit(b"?" + raw, 1) == one) is is_valid, one
        assert timer_wheel._unit(raw, 1) is None
        assert timer_wheel._unit(raw[:-1], 0) is None
        assert timer_wheel._unit(raw.replace(b"\0\0\0\x34", b"\0\0\0\x35", 1), 0) is None


def test_a_read_needs_entries_before_the_one_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains lead to them; they are loaded with it, up to the begin of the file."""
    monkeypatch.setattr(timer_wheel, "_CHECKED_BYTES", 3 * UNIT_SIZE)
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(PER_FILE + 9)]
    log.close()
    log, _ = log_of(fs)
    fs.resident = set()
    for place, first in (
        (places[8], places[5]),
        (places[3], 0),
        (places[2], 0),
        (places[0], 0),
        (places[PER_FILE + 1], FILE_SIZE),
    ):
        residency = Residency()
        assert log.needs(place, residency) == range(first, place + 1)
        assert parts_of(residency) == [(first % FILE_SIZE, place - first + UNIT_SIZE)]
    residency = Residency()
    fresh = log.append(unit(99))
    assert log.needs(fresh, residency) == range(fresh, fresh + 1)
    assert log.needs(10 * FILE_SIZE, residency) == range(10 * FILE_SIZE, 10 * FILE_SIZE + 1)
    assert parts_of(residency) == []


def test_a_file_is_full_when_no_entry_and_blank_fit() -> None:
    """An entry has 52 bytes, the blank behind the last one 16."""
    fs = MemoryFileSystem()
    for size, per_file in ((208, 3), (172, 3), (171, 2), (120, 2), (119, 1)):
        fs = MemoryFileSystem()
        log = TimerLog(fs, ROOT / "timerlog", size)
        log.recover(0, MESSAGES_END)
        places = [log.append(unit(number)) for number in range(2 * per_file)]
        assert places == [start + 52 * number for start in (0, size) for number in range(per_file)], size
        rest = size - 52 * per_file
        assert [log.rest_of_file(at) for at in (0, 52 * per_file)] == [0, rest]
        assert log.rest_of_file(52 * (per_file - 1)) == 0
        assert log.newest() == unit(2 * per_file - 1)
        again = TimerLog(fs, ROOT / "timerlog", size)
        assert [one for _, one in again.recover(0, MESSAGES_END)] == [unit(number) for number in range(2 * per_file)]
        assert again._last_at == 52 * (per_file - 1)
        if per_file > 1:
            assert log.unit_before(places[-1], 1) == places[-2]
        assert log.unit_before(places[-1], 99) == 0
        assert log.unit_before(places[-1] + 7, 0) == places[-1]


def test_entries_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (1, 2, 5):
        monkeypatch.setattr(timer_wheel, "_UNITS_AT_ONCE", block)
        log, _ = log_of(MemoryFileSystem())
        places = [log.append(unit(number)) for number in range(PER_FILE + 3)]
        assert [place for place, _ in log.units()] == places
        assert [place for place, _ in log.units(places[PER_FILE - 1])] == places[PER_FILE - 1 :]


def test_files_to_sync_are_those_written_since() -> None:
    log, _ = log_of(MemoryFileSystem())
    assert log.is_empty
    assert log.read(0) is None
    for number in range(2 * PER_FILE + 1):
        log.append(unit(number))
    assert not log.is_empty
    for since, files in ((0, [0, 1, 2]), (999, [0, 1, 2]), (1000, [1, 2]), (1999, [1, 2]), (2000, [2])):
        assert [int(path.name) // FILE_SIZE for path in log.dirty(since)] == files


def test_a_truncation_removes_files_and_erases_bytes() -> None:
    for kept, files in ((PER_FILE + 2, 2), (PER_FILE, 2), (PER_FILE - 1, 1), (0, 1)):
        fs = MemoryFileSystem()
        log, _ = log_of(fs)
        places = [log.append(unit(number)) for number in range(2 * PER_FILE + 1)]
        log.truncate(places[kept])
        assert fs.names(ROOT / "timerlog") == [f"{FILE_SIZE * number:020d}" for number in range(files)], kept
        assert log.end == places[kept]
        left = fs.read(ROOT / "timerlog" / f"{FILE_SIZE * (files - 1):020d}") or b""
        assert not any(left[places[kept] % FILE_SIZE :])
        assert log.append(unit(99)) == places[kept]
        log.close()
        assert fs.open_files == 0


def test_the_checkpoint_file_is_a_page_and_is_written_when_something_changed() -> None:
    fs = MemoryFileSystem()
    check = TimerCheckpoint(fs, ROOT / "timercheck")
    check.write()
    assert fs.size(ROOT / "timercheck") == 4096
    assert fs.open_files == 0
    fs.failing.add("write")
    check.write()
    check.read_ms = 1
    with pytest.raises(OSError, match="No space"):
        check.write()
    assert fs.open_files == 0
    fs.failing.clear()
    check.write()
    assert (fs.read(ROOT / "timercheck") or b"")[:8] == pack(">q", 1)
    check.reset()
    assert (check.exists, check.encode()) == (False, bytes(56))


def test_a_checkpoint_of_an_older_format_and_that_of_a_master() -> None:
    fs = MemoryFileSystem()
    for size, exists in ((31, False), (32, True), (56, True), (4096, True)):
        fs.write(ROOT / "timercheck", pack(">4q", 1, 2, 3, 4).ljust(size, b"\0")[:size])
        check = TimerCheckpoint(fs, ROOT / "timercheck")
        assert check.exists is exists
    assert (check.read_ms, check.log_end, check.queue_offset, check.master_offset) == (1, 2, 3, 4)
    check.take_master_state(pack(">7q", 11, 12, 13, 14, 15, 16, 17))
    assert check.encode() == pack(">7q", 11, 2, 3, 14, 15, 16, 17)
    assert timer_wheel.progress(pack(">4q", 11, 12, 13, 14)) == (11, 14)


def test_one_mark_is_written_without_reading() -> None:
    fs = MemoryFileSystem()
    log, _ = log_of(fs)
    places = [log.append(unit(number)) for number in range(4)]
    fs.operations = 0
    log.mark([(places[0], 7)])
    log.mark([(places[2], 8), (places[3], 9)])
    assert fs.operations == 2, "adjacent entries are written together"
    assert [log.read(place).mark for place in places] == [7, 0, 8, 9]  # type: ignore[union-attr]


@pytest.mark.parametrize("at_once", [1, 3, 4096])
def test_entries_of_a_wheel_are_counted_by_how_far_they_are_ahead(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(timer_wheel, "_COUNTED_AT_ONCE", at_once)
    wheel = TimerWheel(MemoryFileSystem(), ROOT / "timerwheel", 10, 1_000)
    for time, number in ((27_000, 1), (29_000, 2), (30_000, 4), (32_000, 8), (33_000, 16), (34_000, 32)):
        wheel.put(time, Slot(0, 0, number))
    wheel.put(31_000, Slot(-1, -1, 64))
    steps = list(wheel.counts(28_500, [2, 3, 6]))
    assert steps[-1] == [2, 4, 24], "27 is over, 31 has no entry, 34 is too far ahead"
    assert len(steps) == {1: 6, 3: 3, 4096: 3}[at_once]
    wheel.put(23_000, Slot(0, 0, 128))
    assert list(wheel.counts(33_000, [1])) == [[0]], "a slot that has another time counts nothing"
