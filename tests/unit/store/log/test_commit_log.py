"""The files of the commit log on their own: allocation, reads at boundaries, truncation, removal."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.known_blocks import BLOCK, REGION
from tests.unit.store.memoryfs import MemoryFileSystem

FOLDER = Path("/store/commitlog")
MEGABYTE = 1024 * 1024


def names(fs: MemoryFileSystem) -> list[int]:
    return [int(name) for name in fs.names(FOLDER)]


def log_of(*contents: bytes) -> tuple[CommitLog, MemoryFileSystem]:
    """A log of files of 100 bytes with this content, which begins at 200 and ends with its last file."""
    fs = MemoryFileSystem()
    for number, content in enumerate(contents):
        fs.write(FOLDER / f"{200 + 100 * number:020d}", content.ljust(100, b"\0"))
    log = CommitLog(fs, FOLDER, 100)
    assert log.load() == []
    log.end = 200 + 100 * len(contents)
    return log, fs


@pytest.fixture
def log() -> CommitLog:
    return log_of(bytes(range(100)), bytes(range(100, 200)))[0]


def test_an_empty_log(log: CommitLog) -> None:
    empty = CommitLog(MemoryFileSystem(), FOLDER, 100)
    assert empty.load() == []
    assert (empty.min_offset, empty.end, empty.starts) == (0, 0, [])
    assert (log.min_offset, log.starts) == (200, [200, 300])
    assert [log.start_at_or_before(offset) for offset in (199, 200, 299, 300, 999)] == [None, 200, 200, 300, 300]
    assert [log.next_file(offset) for offset in (200, 299, 300)] == [300, 300, 400]


def test_reads_are_within_one_file_and_the_log(log: CommitLog) -> None:
    log.end = 350
    cases = [
        ((200, 4), bytes([0, 1, 2, 3])), ((290, 10), bytes(range(90, 100))), ((290, 11), None),
        ((340, 10), bytes(range(140, 150))),
        ((341, 10), None), ((300, 0), b""), ((300, -1), None), ((199, 1), None), ((400, 1), None), ((-1, 1), None),
    ]  # fmt: skip
    assert [(place, log.read(*place)) for place, _ in cases] == cases
    views = [
        ((200, 4), bytes([0, 1, 2, 3])), ((290, 99), bytes(range(90, 100))), ((340, 99), bytes(range(140, 150))),
        ((349, 1), bytes([149])), ((350, 1), None), ((100, 1), None),
    ]  # fmt: skip
    assert [(place, None if (view := log.view(*place)) is None else bytes(view)) for place, _ in views] == views


def test_a_file_that_is_not_there_is_not_read(log: CommitLog) -> None:
    assert log.buffer(100) is None
    assert log.buffer(300) is log.buffer(300)
    log.end = 500
    assert log.read(400, 1) is None
    assert log.view(400, 1) is None
    with pytest.raises(StoreCorrupt, match=f"{FOLDER / ('0' * 17 + '400')} is missing"):
        log.stored_at(410)


def test_the_store_time_is_behind_the_born_host() -> None:
    """Of 8 bytes, or of 20 for IPv6."""
    log, _ = log_of(pack(">36xi16xq", 0, 77), pack(">36xi28xq", 0x10, 78), pack(">36xi16xq28x", 0x20, 79))
    log.end = 476
    assert [log.store_time(offset) for offset in (200, 300, 400)] == [77, 78, 79]
    log.end = 475
    assert [log.store_time(400), log.store_time(224), log.store_time(225)] == [-1, 0, -1]
    assert log.stored_at(400) == 79


def test_disk_space_is_allocated_in_steps() -> None:
    fs = MemoryFileSystem()
    size = 20 * MEGABYTE
    log = CommitLog(fs, FOLDER, size)
    log.create(size)
    cases = [
        (0, 0, []),
        (1, 16 * MEGABYTE, [(0, 16 * MEGABYTE)]),
        (16 * MEGABYTE, 16 * MEGABYTE, []),
        (16 * MEGABYTE + 1, size, [(16 * MEGABYTE, 4 * MEGABYTE)]),
        (size, size, []),
    ]
    for position, room, parts in cases:
        fs.allocated.clear()
        assert log.allocate(size, position) == room
        assert [part[1:] for part in fs.allocated] == parts
    fs.allocated.clear()
    log.create(2 * size)
    assert log.allocate(2 * size, 17 * MEGABYTE) == 17 * MEGABYTE
    assert [part[1:] for part in fs.allocated] == [(0, 17 * MEGABYTE)], "at once if more is needed"
    assert log.starts == [size, 2 * size]
    log.create(2 * size)
    assert log.starts == [size, 2 * size]


def test_a_failed_allocation_is_repeated() -> None:
    fs = MemoryFileSystem()
    log = CommitLog(fs, FOLDER, 100)
    log.create(0)
    fs.failing.add("allocate")
    with pytest.raises(OSError, match="No space"):
        log.allocate(0, 10)
    fs.failing.clear()
    assert log.allocate(0, 10) == 100
    assert fs.allocated == [(FOLDER / ("0" * 20), 0, 100)]


def test_a_blank_record_closes_a_file(log: CommitLog) -> None:
    log.close_file(300, 92)
    assert log.read(390, 10) == bytes([190, 191]) + pack(">ii", 8, -875286124)
    log.close_file(300, 40)
    assert log.read(340, 9) == pack(">ii", 60, -875286124) + bytes([148])


def test_syncs_touch_the_files_of_the_bytes() -> None:
    log, fs = log_of(b"", b"", b"")
    synced: list[int] = []
    fs.fails = lambda operation, path: operation == "sync" and synced.append(int(path.name)) is not None
    for start in log.starts:
        log.file(start)
    for part, files in (
        ((200, 300), [200]),
        ((200, 301), [200, 300]),
        ((299, 300), [200]),
        ((300, 301), [300]),
        ((250, 500), [200, 300, 400]),
    ):
        synced.clear()
        log.sync(*part)
        assert synced == files, part


def test_a_truncation_removes_files_and_erases_bytes() -> None:
    full = bytes([255] * 100)
    for end, files, erased in (
        (500, 3, 0),
        (450, 3, 50),
        (401, 3, 99),
        (400, 2, 0),
        (350, 2, 50),
        (300, 1, 0),
        (201, 1, 99),
        (200, 1, 100),
    ):
        log, fs = log_of(full, full, full)
        log.buffer(200 + 100 * (files - 1))
        log.truncate(end, erase=True)
        assert (log.end, names(fs)) == (end, [200, 300, 400][:files]), end
        last = FOLDER / f"{200 + 100 * (files - 1):020d}"
        assert fs.read(last) == full[: 100 - erased] + bytes(erased), end
        assert fs.nodes[last].durable == fs.read(last)
        buffer = log.buffer(200 + 100 * (files - 1))
        assert buffer is not None
        assert buffer[0:100] == fs.read(last)
        assert log.allocate(200 + 100 * (files - 1), 1) == 100
        assert fs.allocated == [(last, 0, 100)], "anew"


def test_a_truncation_can_leave_the_bytes() -> None:
    log, fs = log_of(b"a" * 100, b"b" * 100)
    log.truncate(250, erase=False)
    assert (log.end, names(fs), fs.read(FOLDER / f"{200:020d}")) == (250, [200], b"a" * 100)


def test_a_file_is_dropped_at_once_and_removed_later() -> None:
    log, fs = log_of(b"a", b"b")
    log.buffer(200)
    remove = log.detach(200)
    assert (log.min_offset, log.buffer(200), names(fs), fs.open_files) == (300, None, [200, 300], 1)
    remove()
    assert (names(fs), fs.open_files) == ([300], 0)
    log.detach(300)()
    assert (log.min_offset, names(fs)) == (400, [])


def test_files_that_are_cut_or_empty_are_filled_up() -> None:
    fs = MemoryFileSystem()
    for start, size in ((200, 100), (300, 30), (400, 0), (500, 130)):
        fs.write(FOLDER / f"{start:020d}", b"x" * size)
    log = CommitLog(fs, FOLDER, 100)
    assert [part.begin for part in log.load(was_closed=True)] == [330, 400, 600]
    assert (log.starts, log.end) == ([200], 200)
    log.fill_up()
    assert names(fs) == [200, 300, 500]
    assert fs.read(FOLDER / f"{300:020d}") == b"x" * 30 + bytes(70)
    assert fs.read(FOLDER / f"{500:020d}") == b"x" * 100
    log.load()
    assert (log.starts, log.end) == ([200, 300, 500], 500)


def test_files_of_another_size_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    fs.write(FOLDER / "notes", b"")
    for start in (0, 8192):
        fs.write(FOLDER / f"{start:020d}", bytes(8192))
    with pytest.raises(StoreCorrupt, match=r"0{20} was written with mappedFileSizeCommitLog 8192, but .* says 4096"):
        CommitLog(fs, FOLDER, 4096).load()
    assert "notes is not a commit log file, ignored" in caplog.text
    fs.write(FOLDER / f"{12288:020d}", bytes(4096))
    with pytest.raises(StoreCorrupt, match=r"12288 was written with another size, but .* says 8192"):
        CommitLog(fs, FOLDER, 8192).load()


def test_bytes_that_this_process_wrote_last_count_as_in_memory() -> None:
    log, fs = log_of(b"", b"", b"")
    fs.resident = set()
    log.written_from = 310
    cases = [
        (200, 10, [(200, 0, 10)]),
        (290, 20, [(200, 90, 20)]),
        (309, 5, [(300, 9, 5)]),
        (310, 5, []),
        (450, 5, []),
        (100, 5, []),
    ]
    for offset, size, parts in cases:
        residency, needed = Residency(), []
        log.needs(offset, size, residency)
        try:
            residency.check()
        except NotInMemory as missing:
            needed = [(int(part.path.name), part.position, part.length) for part in missing.parts]
        assert needed == parts, offset
    residency = Residency()
    log.needs_store_time(205, residency)
    with pytest.raises(NotInMemory) as missing_time:
        residency.check()
    assert missing_time.value.parts == ((FOLDER / f"{200:020d}", 5, 76),)
    assert log.hot_from == 310
    log.end = 300 * MEGABYTE
    assert log.hot_from == 44 * MEGABYTE


def test_records_of_one_block_are_one_question_to_the_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    for start in (0, BLOCK):
        fs.write(FOLDER / f"{start:020d}", bytes(BLOCK))
    log = CommitLog(fs, FOLDER, BLOCK)
    log.load()
    log.end = log.written_from = 2 * BLOCK
    asked: list[tuple[str, int, int]] = []
    file = type(log.file(0))
    is_resident = file.is_resident

    def counted(self: Any, position: int, length: int) -> bool:
        asked.append((self.path.name, position, length))
        return is_resident(self, position, length)

    monkeypatch.setattr(file, "is_resident", counted)
    residency = Residency()
    offsets = [*range(0, BLOCK, 100), *range(BLOCK, 2 * BLOCK, 1000)]
    log.needs_all(offsets, [50] * len(offsets), residency)
    residency.check()
    assert sorted(asked) == [(f"{start:020d}", 0, BLOCK) for start in (0, BLOCK)]
    log.needs_all([2 * BLOCK - 10, 5 * BLOCK], [10, 10], residency)
    assert len(asked) == 2, "this process wrote it, or there is no file"
    fs.resident = set()
    log.needs_all([10], [50], residency)
    residency.check()
    log._known._until = 0.0  # type: ignore[union-attr]
    log.needs_all([10, 70], [50, 50], residency)
    with pytest.raises(NotInMemory) as missing:
        residency.check()
    assert missing.value.parts == ((log.path(0), 10, 50), (log.path(0), 70, 50))


def test_blocks_do_not_span_two_files() -> None:
    log, fs = log_of(b"", b"", b"")
    fs.resident = set()
    log.written_from = 500
    residency = Residency()
    log.needs_all([210, 310], [10, 20], residency)
    with pytest.raises(NotInMemory) as missing:
        residency.check()
    assert [(part.position, part.length) for part in missing.value.parts] == [(10, 10), (10, 20)]


def test_a_read_within_a_region_that_was_in_memory_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    for start in (0, 2 * REGION):
        fs.write(FOLDER / f"{start:020d}", bytes(2 * REGION))
    log = CommitLog(fs, FOLDER, 2 * REGION)
    log.load()
    log.written_from, log.end = 3 * REGION, 3 * REGION + 100
    asked: list[tuple[str, int, int]] = []
    file = type(log.file(0))

    def resident(self: Any, position: int, length: int) -> bool:
        asked.append((self.path.name, position, length))
        return self.path.name != f"{0:020d}"

    monkeypatch.setattr(file, "is_resident", resident)
    for _ in range(2):
        assert log.was_in_memory(2 * REGION + 5, 3 * REGION + 50)
        assert log.was_in_memory(2 * REGION, 2 * REGION + 1)
        assert not log.was_in_memory(5, 10)
    assert asked == [(f"{2 * REGION:020d}", 0, REGION), (f"{0:020d}", 0, REGION)]
    assert log.was_in_memory(3 * REGION, 4 * REGION), "this process wrote it"
    assert not log.was_in_memory(2 * REGION, 2 * REGION - 5), "entries are wrong"
    assert len(asked) == 2
    log.written_from = 3 * REGION + 10
    assert log.was_in_memory(3 * REGION, 3 * REGION + 5)
    assert asked[2:] == [(f"{2 * REGION:020d}", REGION, 100)], "up to the end of the log"
    log.written_from = log.end = 5 * REGION
    assert not log.was_in_memory(4 * REGION, 4 * REGION + 1), "there is no file"
    assert len(asked) == 3


def test_regions_do_not_span_two_files() -> None:
    log, _ = log_of(b"", b"")
    log.written_from = 150
    assert not log.was_in_memory(10, 20)
    assert log.was_in_memory(150, 160)


def test_a_closed_log_has_no_open_files() -> None:
    log, fs = log_of(b"", b"")
    for start in log.starts:
        log.buffer(start)
    assert fs.open_files == 2
    log.close()
    assert (fs.open_files, log.buffers) == (0, {})


def test_a_second_step_is_as_large_as_the_first_however_much_is_allocated() -> None:
    fs = MemoryFileSystem()
    log = CommitLog(fs, FOLDER, 64 * MEGABYTE)
    log.create(0)
    for step in (1, 2, 3):
        assert log.allocate(0, 16 * (step - 1) * MEGABYTE + 1) == 16 * step * MEGABYTE
