"""One consume queue on its own: files of four entries, and what is at their boundaries."""

from __future__ import annotations

from pathlib import Path
from struct import iter_unpack, pack
from zlib import crc32

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.queue import consume_queue
from rocketmq_py.store.queue.consume_queue import BLANK_SIZE, HEAD_BYTES, ConsumeQueue
from tests.unit.store.memoryfs import MemoryFileSystem

ROOT = Path("/store/consumequeue")
FOLDER = ROOT / "T" / "3"
PER_FILE = 4
BLANK = (0, 0x7FFFFFFF, 0)
SIZE = 10
"""Bytes of each message in the log; they are adjacent there, the first one is at 100."""
NAMES = [f"{number * 80:020d}" for number in range(5)]


def entry(number: int) -> tuple[int, int, int]:
    return 100 + SIZE * number, SIZE, 7 * number


def raw(*entries: tuple[int, int, int]) -> bytes:
    return b"".join(pack(">qiq", *one) for one in entries)


def queue(fs: MemoryFileSystem, limit: int = 8) -> ConsumeQueue:
    return ConsumeQueue("T", 3, ROOT, OpenFiles(fs, PER_FILE * 20, limit))


def filled(count: int, *, spilled: bool = True) -> tuple[ConsumeQueue, MemoryFileSystem]:
    fs = MemoryFileSystem()
    one = queue(fs)
    for number in range(count):
        one.add(*entry(number))
    one.commit_pending()
    if spilled:
        one.spill()
    return one, fs


def loaded(fs: MemoryFileSystem, expected_end: int = 0) -> ConsumeQueue:
    one = queue(fs)
    for folder in fs.inner_folders(ROOT, HEAD_BYTES):
        one.load(folder, expected_end)
    return one


def on_disk(fs: MemoryFileSystem) -> bytes:
    return b"".join(fs.read(FOLDER / name) or b"" for name in fs.names(FOLDER))


def ends(one: ConsumeQueue) -> tuple[int, int, int, int, int]:
    return one.min_offset, one.max_offset, one.next_offset, one.tail_start, one.loaded_end


def test_entries_are_pending_then_readable_then_in_files() -> None:
    fs = MemoryFileSystem()
    one = queue(fs)
    assert one.is_empty
    one.add(*entry(0))
    assert (one.next_offset, one.max_offset, one.read(0, 9), one.is_empty) == (1, 0, b"", False)
    one.commit_pending()
    assert (one.next_offset, one.max_offset, one.read(0, 9)) == (1, 1, raw(entry(0)))
    assert fs.names(FOLDER) == []
    assert one.missing_file() == (str(FOLDER / NAMES[0]), 80, 0, b"")
    one.spill()
    assert on_disk(fs) == raw(entry(0)) + bytes(60)
    assert (bytes(one.tail), one.tail_start, one.missing_file()) == (b"", 1, None)
    one.publish([*entry(1), *entry(2)], 3)
    assert (one.max_offset, one.read(0, 9)) == (3, raw(entry(0), entry(1), entry(2)))


def test_the_parts_of_a_tail_are_written_by_somebody_else() -> None:
    """File by file; what is written leaves the tail, and its checksum is that of :meth:`ConsumeQueue.spill`."""
    fs = MemoryFileSystem()
    files = OpenFiles(fs, 80, 1)
    one = ConsumeQueue("T", 3, ROOT, files)
    for begin, end in ((0, 3), (3, 10)):
        one.publish([field for number in range(begin, end) for field in entry(number)], end)
        while one.tail:
            part = one.first_part()
            assert (one.first_part(), one.max_offset) == (part, end), "nothing has changed before it is written"
            assert fs.write_parts([part]) == (1, None)
            one.part_written(part)
    everything = raw(*map(entry, range(10)))
    assert on_disk(fs) == everything + bytes(40)
    assert one.checksums == {start: crc32(everything[20 * start : 20 * start + 80]) for start in (0, 4, 8)}
    assert (one.first_entry, one.tail_start, one.read(0, 10)) == (0, 10, everything)
    assert sorted(files.take_dirty()) == [str(FOLDER / name) for name in NAMES[:3]]


def test_tails_of_any_length_fill_file_after_file() -> None:
    for steps in (1, 3, 4, 5, 20):
        fs = MemoryFileSystem()
        one = queue(fs)
        for count in range(0, 13, steps):
            for number in range(count, min(13, count + steps)):
                one.add(*entry(number))
            one.commit_pending()
            one.spill()
        everything = raw(*map(entry, range(13)))
        assert fs.names(FOLDER) == NAMES[:4]
        assert on_disk(fs) == everything + bytes(60)
        assert one.checksums == {start: crc32(everything[20 * start : 20 * start + 80]) for start in (0, 4, 8, 12)}
        assert (one.first_entry, one.tail_start, one.max_offset) == (0, 13, 13)


def test_reads_across_files_and_tail() -> None:
    one, _ = filled(10)
    for number in range(10, 13):
        one.add(*entry(number))
    one.commit_pending()
    wrong = [
        (offset, count)
        for offset in range(14)
        for count in range(15)
        if one.read(offset, count) != raw(*map(entry, range(offset, min(13, offset + count))))
    ]
    assert wrong == []
    assert [one.entry(offset) for offset in (-1, 0, 12, 13)] == [None, entry(0), entry(12), None]
    assert one.span(3, 5) == [entry(3), entry(4)]
    assert [one.next_file(offset) for offset in (0, 3, 4, 11)] == [4, 4, 8, 12]


def test_a_part_of_an_entry_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = filled(3)
    content = raw(*map(entry, range(3)))
    for size, count in ((0, 0), (19, 0), (20, 1), (59, 2), (60, 3)):
        monkeypatch.setattr(ConsumeQueue, "read", lambda *_, size=size: content[:size])
        assert list(one.entries(0, 3)) == [entry(number) for number in range(count)]


def test_a_read_ends_at_a_missing_file() -> None:
    one, fs = filled(10)
    one._files.remove(FOLDER / NAMES[1])
    assert one.read(2, 8) == raw(entry(2), entry(3))
    assert one.read(5, 3) == b""
    assert one.entry(5) is None
    assert one.read(8, 9) == raw(entry(8), entry(9))
    assert fs.names(FOLDER) == [NAMES[0], NAMES[2]]


def test_a_disk_that_is_full_leaves_what_was_not_written_in_memory() -> None:
    one, fs = filled(10, spilled=False)
    fs.fails = lambda operation, path: path.name == NAMES[1]
    with pytest.raises(OSError, match="No space"):
        one.spill()
    assert (one.tail_start, bytes(one.tail)) == (4, raw(*map(entry, range(4, 10))))
    assert one.read(0, 99) == raw(*map(entry, range(10)))
    fs.fails = lambda *_: False
    one.spill()
    assert on_disk(fs) == raw(*map(entry, range(10))) + bytes(40)


def test_a_queue_can_begin_anywhere() -> None:
    """Earlier entries of its first file are blank, as in Java's queues."""
    for first in (0, 1, 3, 4, 6):
        fs = MemoryFileSystem()
        one = queue(fs)
        one.skip_to(first)
        assert (one.min_offset, one.max_offset, one.next_offset, one.is_empty) == (first, first, first, True)
        one.add(*entry(first))
        one.commit_pending()
        one.spill()
        blanks = first % PER_FILE
        assert fs.names(FOLDER) == [NAMES[first // PER_FILE]]
        assert on_disk(fs)[: 20 * blanks + 20] == raw(*[BLANK] * blanks, entry(first))
        assert [one.entry(offset) for offset in (first - 1, first, first + 1)] == [None, entry(first), None]


def test_lost_messages_are_blank_entries(caplog: pytest.LogCaptureFixture) -> None:
    one, fs = filled(3)
    one.skip_to(6)
    assert "consume queue T-3: messages 3 to 5 are missing in the commit log" in caplog.text
    one.add(*entry(6))
    one.commit_pending()
    one.spill()
    assert list(iter_unpack(">qiq", on_disk(fs)[60:140])) == [BLANK, BLANK, BLANK, entry(6)]
    assert ends(one)[:4] == (0, 7, 7, 7)
    assert one.last_physical_end() == 170
    one.skip_to(8)
    assert one.last_physical_end() == -1, "a blank entry is of no message"


def test_the_end_of_an_empty_queue_is_nowhere() -> None:
    assert queue(MemoryFileSystem()).last_physical_end() == -1
    assert filled(1)[0].last_physical_end() == 110


def test_a_wrong_entry_is_replaced_in_its_file_and_in_memory() -> None:
    one, fs = filled(6)
    for number in (6, 7):
        one.add(*entry(number))
    one.commit_pending()
    for offset in (0, 3, 4, 5, 6, 7):
        one.replace_entry(offset, 9, 8, offset)
    assert one.span(0, 8) == [(9, 8, 0), entry(1), entry(2), (9, 8, 3), (9, 8, 4), (9, 8, 5), (9, 8, 6), (9, 8, 7)]
    assert on_disk(fs)[:20] == raw((9, 8, 0))
    assert on_disk(fs)[80:120] == raw((9, 8, 4), (9, 8, 5))
    assert len(one.tail) == 40
    assert one.checksums == {0: crc32(raw(*map(entry, range(4)))), 4: crc32(raw(entry(4), entry(5)))}


# -- loading


def test_the_end_is_found_whatever_end_is_expected() -> None:
    for count in (1, 3, 4, 5, 8):
        _, fs = filled(count)
        wrong = [
            expected
            for expected in range(-1, 14)
            if ends(loaded(fs.after_kill(), expected)) != (0, count, count, count, count)
        ]
        assert wrong == []


def test_an_expected_end_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    _, fs = filled(10)
    read: list[int] = []
    reading = ConsumeQueue._read_file
    monkeypatch.setattr(ConsumeQueue, "_read_file", lambda *given: (read.append(given[1]), reading(*given))[1])
    for expected, places in ((10, [9, 10]), (11, [10, 9]), (9, [8, 9, 11]), (0, [10, 9])):
        read.clear()
        assert loaded(fs, expected).max_offset == 10
        assert read[: len(places)] == places, expected


def test_entries_behind_the_end_of_the_log_are_removed() -> None:
    """A message that ends at the end of the log is there as a whole; the next one is not."""
    for physical_end, count, files in (
        (0, 0, 1), (109, 0, 1), (110, 1, 1), (139, 3, 1), (140, 4, 1), (149, 4, 1), (150, 5, 2), (180, 8, 2),
        (189, 8, 2), (190, 9, 3), (200, 10, 3), (1 << 40, 10, 3),
    ):  # fmt: skip
        _, fs = filled(10)
        one = loaded(fs)
        assert ends(one) == (0, 10, 10, 10, 10)
        one.load_below(physical_end)
        one.loaded()
        assert ends(one) == (0, count, count, count, count), physical_end
        assert fs.names(FOLDER) == NAMES[:files], physical_end
        assert on_disk(fs) == raw(*map(entry, range(count))).ljust(80 * files, b"\0"), physical_end
        truncated, memory = filled(10, spilled=False)
        truncated.truncate(physical_end)
        assert ends(truncated)[:4] == ends(one)[:4]
        assert on_disk(memory) == on_disk(fs)


def test_a_truncation_is_logged_if_it_removes_something(caplog: pytest.LogCaptureFixture) -> None:
    one, fs = filled(3)
    fs.operations = 0
    one.truncate(130)
    assert (caplog.text, fs.operations) == ("", 0)
    one.truncate(120)
    assert "consume queue T-3: truncated from offset 3 to 2" in caplog.text


def test_entries_end_at_the_first_that_was_not_written() -> None:
    for wrong in ((-1, 10, 0), (120, 0, 0), (120, -5, 0), (0, 0, 0)):
        _, fs = filled(3)
        fs.nodes[FOLDER / NAMES[0]].content[40:60] = raw(wrong)
        assert loaded(fs).max_offset == 2


def test_blank_entries_count_as_written_whatever_the_log_has() -> None:
    one, fs = filled(0)
    one.skip_to(3)
    one.add(*entry(3))
    one.commit_pending()
    one.spill()
    again = loaded(fs)
    again.load_below(100)
    assert (again.max_offset, again.read(0, 9)) == (3, raw(*[BLANK] * 3))
    fs.nodes[FOLDER / NAMES[0]].content[0:60] = raw(*[(1, BLANK_SIZE, 0)] * 3)
    again = loaded(fs)
    again.load_below(100)
    assert again.max_offset == 0, "only at offset 0 of the log the largest size means that an entry is blank"


def test_empty_files_at_the_end_are_removed_and_the_first_stays() -> None:
    _, fs = filled(4)
    for name in NAMES[1:3]:
        fs.write(FOLDER / name, bytes(80))
    assert loaded(fs).max_offset == 4
    assert fs.names(FOLDER) == NAMES[:1]
    fs.write(FOLDER / NAMES[0], bytes(80))
    assert ends(loaded(fs)) == (0, 0, 0, 0, 0)
    assert fs.names(FOLDER) == NAMES[:1]


def test_a_queue_without_its_first_files_begins_later() -> None:
    _, fs = filled(10)
    fs.remove(FOLDER / NAMES[0])
    one = loaded(fs)
    assert (ends(one), one.first_entry) == ((4, 10, 10, 10, 10), 4)
    one.load_below(100)
    assert ends(one) == (4, 4, 4, 4, 4)
    assert fs.names(FOLDER) == [NAMES[1]]


def test_unknown_names_and_wrong_sizes(caplog: pytest.LogCaptureFixture) -> None:
    _, fs = filled(6)
    fs.write(FOLDER / "zz", b"x")
    assert loaded(fs).max_offset == 6
    assert f"{FOLDER / 'zz'} is not a consume queue file, ignored" in caplog.text
    fs.remove(FOLDER / "zz")
    fs.write(FOLDER / NAMES[2], b"")
    assert loaded(fs).max_offset == 6
    assert fs.names(FOLDER) == NAMES[:2]
    fs.write(FOLDER / NAMES[2], bytes(81))
    with pytest.raises(StoreCorrupt, match=r"has 81 bytes, but mappedFileSizeConsumeQueue says 80"):
        loaded(fs)


def test_what_a_folder_gave_is_read_from_there_until_it_is_released() -> None:
    _, fs = filled(6)
    one = queue(fs)
    (folder,) = fs.inner_folders(ROOT, 20)
    opened: list[Path] = []
    opening = fs.open
    fs.open = lambda path, size, **given: (opened.append(path), opening(path, size, **given))[1]  # type: ignore[method-assign, assignment]
    one.load(folder)
    assert one.max_offset == 6
    assert opened == [FOLDER / NAMES[1]], "to find the end: only the first entry was given"
    fs.nodes[FOLDER / NAMES[1]].content[0:20] = raw(entry(9))
    assert one.read(4, 1) == raw(entry(4))
    assert one.read(4, 2) == raw(entry(9), entry(5)), "not all of it was given"
    one.loaded()
    assert one.read(4, 1) == raw(entry(9))


def test_bytes_behind_the_last_entry_are_erased() -> None:
    """Without opening the file if it has none."""
    for count, at, erased in ((5, 39, 1), (5, 20, 1), (5, 79, 1), (5, 0, 0), (8, 0, 0)):
        _, fs = filled(count)
        content = fs.nodes[FOLDER / NAMES[1]].content
        if at:
            content[at] = 1
        one = loaded(fs)
        fs.operations = 0
        one.load_below(1 << 40)
        assert fs.operations == erased
        assert bytes(content) == raw(*map(entry, range(4, count))).ljust(80, b"\0")


# -- removal of the oldest messages


def test_the_minimum_moves_to_the_first_message_that_is_left() -> None:
    for physical, minimum in ((0, 0), (100, 0), (101, 1), (110, 1), (139, 4), (140, 4), (185, 9), (190, 9), (191, 10)):
        one, _ = filled(10)
        one.raise_minimum(physical)
        assert one.min_offset == minimum, physical
        one.raise_minimum(100)
        assert one.min_offset == minimum, "it never goes back"


def test_the_minimum_moves_over_blank_entries() -> None:
    _, fs = filled(3)
    one = loaded(fs)
    one.skip_to(6)
    one.add(*entry(6))
    one.commit_pending()
    one.raise_minimum(0)
    assert one.min_offset == 0
    one.raise_minimum(130)
    assert one.min_offset == 6
    begun = queue(MemoryFileSystem())
    begun.begin_at(2)
    begun.min_offset = 0  # as after a load, which does not know where the queue began
    begun.add(*entry(2))
    begun.commit_pending()
    begun.raise_minimum(0)
    assert begun.min_offset == 2


def test_lost_messages_do_not_hide_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages 0 to 3, 9 and 15 to 16, with blank entries between and behind them."""
    messages = (0, 1, 2, 3, 9, 15, 16)
    for count, at_once in ((0, 1024), (1, 1024), (40, 1024), (0, 2), (5, 5)):
        monkeypatch.setattr(consume_queue, "_AT_ONCE", at_once)
        for physical in (0, 100, 101, 110, 121, 131, 190, 191, 250, 251, 261, 999):
            one = queue(MemoryFileSystem())
            for number in messages:
                if number != one.next_offset:
                    one.skip_to(number)
                one.add(*entry(number))
                one.commit_pending()
            if count:
                one.skip_to(one.next_offset + count)
            one.raise_minimum(physical)
            left = [number for number in messages if entry(number)[0] >= physical]
            assert one.min_offset == (left[0] if left else one.max_offset), (count, physical)


def test_the_minimum_moves_over_entries_whose_file_is_gone() -> None:
    one, _ = filled(10)
    one._files.remove(FOLDER / NAMES[0])
    one.raise_minimum(50)
    assert one.min_offset == 4


def test_files_are_removed_when_all_of_their_messages_are_gone() -> None:
    for physical, left in ((100, 3), (139, 2), (140, 2), (179, 1), (180, 1), (1 << 40, 1)):
        one, fs = filled(10)
        one.raise_minimum(physical)
        one.remove_expired_files()
        assert fs.names(FOLDER) == NAMES[3 - left : 3], physical
        assert sorted(one.checksums) == [4 * number for number in range(3 - left, 3)]
        assert one.first_entry == 4 * (3 - left)
    one, fs = filled(10)
    one.raise_minimum(130)
    one.remove_expired_files()
    assert fs.names(FOLDER) == NAMES[:3], "the last message of the first file is left"


def test_removed_files_leave_an_empty_queue() -> None:
    one, fs = filled(10)
    one.add(*entry(10))
    one.commit_pending()
    one.remove_files()
    assert fs.names(FOLDER) == []
    assert fs.open_files == 0
    assert (one.checksums, bytes(one.tail), one.missing_file()) == ({}, b"", None)


# -- damage

SUMS = {start: crc32(raw(*map(entry, range(start, min(10, start + 4))))) for start in (0, 4, 8)}


def test_what_is_wrong_with_the_files_is_told() -> None:
    early = {**SUMS, 8: crc32(raw(entry(8)))}
    cases = [
        ((0, 10, SUMS, 200), None, SUMS),
        ((None, 10, SUMS, 200), None, SUMS),
        ((0, 9, early, 200), None, {0: SUMS[0], 4: SUMS[4]}),  # an entry was written after the ends were saved
        ((0, 8, SUMS, 200), None, {0: SUMS[0], 4: SUMS[4]}),
        ((0, 10, {}, 200), None, {}),
        ((0, 11, SUMS, 200), "its files end at 10, 1 entries too early", {}),
        ((0, 25, SUMS, 200), "its files end at 10, 15 entries too early", {}),
        ((0, 10, SUMS | {0: 1}, 200), f"the checksum of the file {NAMES[0]} is wrong", {4: SUMS[4], 8: SUMS[8]}),
        ((0, 10, SUMS | {0: 1}, 199), None, SUMS | {0: 1}),  # more than may be read
        ((0, 10, SUMS | {4: 1}, 120), f"the checksum of the file {NAMES[1]} is wrong", {8: SUMS[8]}),
        ((0, 10, SUMS | {4: 1}, 119), None, SUMS | {4: 1}),
        ((0, 10, SUMS | {8: 1}, 40), f"the checksum of the file {NAMES[2]} is wrong", {}),
        ((0, 10, SUMS | {8: 1}, 39), None, SUMS | {8: 1}),
    ]
    for arguments, said, sums in cases:
        one = loaded(filled(10)[1])
        one.checksums.clear()
        assert one.damage(*arguments) == said, arguments  # type: ignore[arg-type]
        assert one.checksums == sums, arguments


def test_missing_files_are_told() -> None:
    for lost, first, said in (
        (0, 0, "its files begin at 4 instead of 0"), (0, 4, None), (0, None, None),
        (1, 0, f"the file {NAMES[1]} is missing"), (1, None, f"the file {NAMES[1]} is missing"),
    ):  # fmt: skip
        _, fs = filled(10)
        fs.remove(FOLDER / NAMES[lost])
        assert loaded(fs).damage(first, 10, SUMS, 200) == said, (lost, first)


def test_the_checksum_of_the_last_file_is_dropped_when_its_end_moves() -> None:
    one, _ = filled(10)
    one.truncate(190)
    assert one.checksums == {0: SUMS[0], 4: SUMS[4]}
    one.add(*entry(9))
    one.commit_pending()
    one.spill()
    assert one.checksums == {0: SUMS[0], 4: SUMS[4]}, "unknown, until the next file"
    for number in (10, 11, 12):
        one.add(*entry(number))
    one.commit_pending()
    one.spill()
    assert one.checksums == {0: SUMS[0], 4: SUMS[4], 12: crc32(raw(entry(12)))}


# -- without waiting for the disk


def test_entries_of_one_file_in_memory_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, fs = filled(10)
    one.add(*entry(10))
    one.commit_pending()
    assert one.read_if_resident(4, 4) == one.read(4, 4)
    assert one.read_if_resident(9, 1) == one.read(9, 1)
    for offset, count in [(3, 2), (9, 2), (10, 1), (0, 99)]:
        assert one.read_if_resident(offset, count) is None, "in several files, or in none"
    fs.resident = set()
    assert one.read_if_resident(4, 4) is None
    fs.resident = None
    monkeypatch.setattr(one._files, "get", lambda _: (_ for _ in ()).throw(FileNotFoundError))
    assert one.read_if_resident(4, 4) is None


def test_a_read_needs_the_parts_of_its_files() -> None:
    one, fs = filled(10)
    one.add(*entry(10))
    one.commit_pending()
    cases = [
        (0, 1, [(0, 0, 20)]),
        (3, 1, [(0, 60, 20)]),
        (3, 2, [(0, 60, 20), (1, 0, 20)]),
        (1, 99, [(0, 20, 60), (1, 0, 80), (2, 0, 40)]),
        (8, 2, [(2, 0, 40)]),
        (9, 9, [(2, 20, 20)]),
        (10, 1, []),
    ]
    for offset, count, parts in cases:
        fs.resident, residency = set(), Residency()
        one.needs(offset, count, residency)
        needed = []
        try:
            residency.check()
        except NotInMemory as missing:
            needed = [(NAMES.index(part.path.name), part.position, part.length) for part in missing.parts]
        assert needed == parts, (offset, count)
