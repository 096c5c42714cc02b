"""The scan of the commit log."""

from __future__ import annotations

from pathlib import Path
from struct import pack, pack_into

import pytest

from rocketmq_py.model import RecordHead
from rocketmq_py.store.log import scan as scan_module
from rocketmq_py.store.log.commit_log import CommitLog
from rocketmq_py.store.log.scan import Found, LogScan, next_after, next_record
from rocketmq_py.wire.record import encode_record
from tests.unit.store.helpers import Stores, record
from tests.unit.store.memoryfs import MemoryFileSystem

FOLDER = Path("/store/commitlog")
FILE = 2048


def test_a_scan_keeps_a_bounded_number_of_topic_names(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave scans what its master sends for as long as it runs, and every record can have another topic."""
    store = stores.open()
    for i in range(40):
        store.append(record(i, topic=f"topic{i % 25}"))
    store.commit_pending()
    monkeypatch.setattr(scan_module, "_MAX_TOPICS", 8)
    scan = LogScan(store._commit_log, 0)
    sizes = []
    topics = [(found.topic, sizes.append(len(scan._topics)))[0] for found in scan]
    assert topics == [f"topic{i % 25}" for i in range(40)]
    assert max(sizes) == 8


def one(
    physical: int, *, topic: str = "T", body: bytes = b"body", properties: bytes = b"a\x01b", flags: int = 0
) -> bytes:
    """The record at an offset of the log, 99 bytes by default: its queue has offset ``physical + 7``."""
    born, stored = (bytes(20 if flags & bit else 8) for bit in (0x10, 0x20))
    head = RecordHead(0, 0, 0, 5, 0, physical + 7, physical, flags, 1, born, physical + 11, stored, 0, 0, 0)
    return encode_record(head, topic, body, properties)


def found(physical: int, *, topic: str = "T", properties: bytes = b"a\x01b", flags: int = 0, **more: bytes) -> Found:
    """What a scan says of :func:`one`."""
    size = len(one(physical, topic=topic, properties=properties, flags=flags, **more))
    return Found(physical, size, topic, 5, physical + 7, flags, physical + 11, properties)


def log_of(*contents: bytes, size: int = FILE) -> CommitLog:
    fs = MemoryFileSystem()
    for number, content in enumerate(contents):
        fs.write(FOLDER / f"{number * size:020d}", content.ljust(size, b"\0"))
    log = CommitLog(fs, FOLDER, size)
    log.load()
    log.end = len(contents) * size
    return log


def blank(size: int) -> bytes:
    return pack(">ii", size, -875286124)


def scanned(scan: LogScan) -> tuple[list[Found], int, str | None]:
    return list(scan), scan.end, scan.reason


SIZE = len(one(0))
FIRST, SECOND = one(0), one(SIZE)


def test_a_scan_finds_the_records_up_to_what_was_not_written() -> None:
    for start, numbers in ((0, [0, 1]), (SIZE, [1]), (2 * SIZE, [])):
        wanted = [found(number * SIZE) for number in numbers]
        assert scanned(LogScan(log_of(FIRST + SECOND), start)) == (wanted, 2 * SIZE, None)
    assert scanned(LogScan(CommitLog(MemoryFileSystem(), FOLDER, FILE), 0)) == ([], 0, None)
    assert SIZE == 88 + 4 + 2 + 2 + 3


def test_every_kind_of_record_is_found() -> None:
    kinds: list[dict[str, object]] = [
        {"topic": "t" * 127}, {"topic": "t" * 128}, {"topic": "\u6f22" * 50}, {"topic": ""}, {"body": b""},
        {"body": b"x" * 1000}, {"properties": b""}, {"properties": b"p" * 300}, {"flags": 0x10}, {"flags": 0x20},
        {"flags": 0x30}, {"flags": 0xC}, {"flags": 0x30, "topic": "t" * 128, "body": b"", "properties": b""},
    ]  # fmt: skip
    wrong = []
    for kind in kinds:
        for check_crc in (True, False):
            content = one(0, **kind) + one(len(one(0, **kind)), **kind)  # type: ignore[arg-type]
            scan = LogScan(log_of(content, size=4096), 0, check_crc=check_crc)
            both = [found(0, **kind), found(len(content) // 2, **kind)]  # type: ignore[arg-type]
            if scanned(scan) != (both, len(content), None):
                wrong.append((kind, scan.reason))
    assert wrong == []


def test_what_is_no_record_ends_a_scan_with_a_reason() -> None:
    def second(at: int, layout: str, value: int, record: bytes = SECOND) -> bytes:
        changed = bytearray(record)
        pack_into(layout, changed, at, value)
        return bytes(changed)

    six = one(SIZE, flags=0x10, body=b"", topic="", properties=b"")
    cases = {
        "magic": (second(4, ">i", 5), "magic 0x00000005 is not that of a record"),
        "a negative magic": (second(4, ">i", -5), "magic 0xfffffffb is not that of a record"),
        "zeros and a magic": (second(0, ">i", 0), "a record of 0 bytes cannot be here"),
        "too small": (second(0, ">i", 90), "a record of 90 bytes cannot be here"),
        "smallest size": (second(0, ">i", 91), "a body of 4 bytes does not fit into a record of 91"),
        "larger than the file": (second(0, ">i", FILE - SIZE + 1), f"a record of {FILE - SIZE + 1} bytes cannot"),
        "as large as the file": (second(0, ">i", FILE - SIZE), "the lengths in a record do not add up to its size"),
        "a byte more": (second(0, ">i", SIZE + 1), "the lengths in a record do not add up to its size"),
        "a byte less": (second(0, ">i", SIZE - 1), "the lengths in a record do not add up to its size"),
        "place": (second(28, ">q", SIZE + 1), f"a record says that it is at {SIZE + 1}"),
        "checksum": (second(8, ">I", 1), "the checksum of a body is wrong"),
        "body": (second(88, ">B", 0), "the checksum of a body is wrong"),
        "negative body": (second(84, ">i", -1), f"a body of -1 bytes does not fit into a record of {SIZE}"),
        "longest body": (second(84, ">i", SIZE - 90), f"a body of {SIZE - 90} bytes does not fit into a record of"),
        "topic": (second(93, ">B", 0xFF), "a topic is not UTF-8"),
        "length of the topic": (second(92, ">B", 2), "the lengths in a record do not add up to its size"),
        "longest topic": (second(92, ">B", 255), "the lengths in a record do not add up to its size"),
        "properties": (second(95, ">B", 2), "the lengths in a record do not add up to its size"),
        "hosts": (second(36, ">i", 0x30), f"a record of {SIZE} bytes is too short for its hosts"),
        "one host": (second(0, ">i", 102, six), "a record of 102 bytes is too short for its hosts"),
        "properties of zeros": (one(SIZE, properties=bytes(5)) + b"x", None),
    }
    assert len(six) == 103
    wrong = {}
    for name, (content, reason) in cases.items():
        said = scanned(LogScan(log_of(FIRST + content), 0))
        if reason is not None and (said[:2] != ([found(0)], SIZE) or not (said[2] or "").startswith(reason)):
            wrong[name] = said
    assert wrong == {}
    for name in ("checksum", "body"):
        assert len(scanned(LogScan(log_of(FIRST + cases[name][0]), 0, check_crc=False))[0]) == 2, name


def test_a_scan_goes_on_in_the_next_file() -> None:
    rest = FILE - 2 * SIZE
    full = one(2 * SIZE, body=b"x" * (rest - 95))
    assert len(full) == rest
    for room, reason in (
        (0, "the file ends without a blank"),
        (7, "the file ends without a blank"),
        (8, None),
        (9, None),
    ):
        third = one(2 * SIZE, body=b"x" * (rest - 95 - room))
        content = FIRST + SECOND + third + (blank(room) if room >= 8 else b"")
        records, end, said = scanned(LogScan(log_of(content, one(FILE)), 0))
        assert said == reason
        assert [record.physical_offset for record in records] == [0, SIZE, 2 * SIZE, FILE][: 3 if reason else 4]
        assert end == (FILE - room if reason else FILE + SIZE), room
    log = log_of(FIRST + blank(FILE - SIZE), b"", one(2 * FILE))
    assert scanned(LogScan(log, 0)) == ([found(0)], FILE, None), "nothing was written to the second file"
    log.remove(FILE)
    assert [record.physical_offset for record in LogScan(log, 0)] == [0, 2 * FILE], "which is missing"
    last = log_of(FIRST + blank(FILE - SIZE))
    assert scanned(LogScan(last, 0)) == ([found(0)], FILE, None), "a last file that is full"


def test_a_scan_of_what_has_arrived_goes_on_with_more() -> None:
    """Where bytes are missing nothing is damaged."""
    log = log_of(FIRST + SECOND + blank(FILE - 2 * SIZE), one(FILE))
    scan = LogScan(log, 0)
    seen = []
    for until in (
        0,
        7,
        8,
        50,
        88,
        SIZE - 1,
        SIZE,
        SIZE + 8,
        2 * SIZE,
        2 * SIZE + 7,
        2 * SIZE + 8,
        FILE,
        FILE + SIZE - 1,
    ):
        scan.until = until
        seen.append((until, len(list(scan)), scan.end))
        assert scan.reason is None
    assert [(until, end) for until, count, end in seen if count] == [(SIZE, SIZE), (2 * SIZE, 2 * SIZE)]
    assert [end for _, _, end in seen[-3:]] == [2 * SIZE, FILE, FILE]
    scan.until = FILE + SIZE
    assert list(scan) == [found(FILE)]
    torn = LogScan(log_of(one(0, properties=bytes(9))), 0)
    torn.until = len(one(0, properties=bytes(9)))
    assert len(list(torn)) == 1, "it has arrived as it is"


def test_properties_whose_end_did_not_reach_the_disk_are_torn() -> None:
    """Zeros from the begin of a sector on, and nothing behind them."""
    reason = "the properties of the last record are torn"

    def said(length: int, zeros: int, behind: bytes = b"", torn_anywhere: bool = False) -> str | None:
        content = one(0, properties=b"p" * (length - zeros) + bytes(zeros)) + behind
        return scanned(LogScan(log_of(content), 0, torn_anywhere=torn_anywhere))[2]

    at = SIZE - 3
    """Where the properties begin."""
    to_sector = 512 - at
    cases = [
        ((to_sector + 10, 10), reason),
        ((to_sector + 10, 11), reason),
        ((to_sector + 10, 9), None),
        ((to_sector, to_sector), None),  # the sector of its first byte cannot be lost
        ((to_sector, 1), None),
        ((to_sector + 1, 1), reason),
        ((to_sector + 512, 512), reason),
        ((to_sector + 512, 511), None),
        ((to_sector + 10, 0), None),
        ((50, 5), None),
    ]
    assert [(given, said(*given)) for given, _ in cases] == cases
    following = one(at + to_sector + 10)
    assert said(to_sector + 10, 10, following) is None, "they are followed by a record"
    assert said(to_sector + 10, 1, torn_anywhere=True) == reason
    assert said(to_sector + 10, 0, torn_anywhere=True) is None


def test_a_record_longer_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "_BLOCK", 150)
    sizes = [1, 40, 56, 57, 58, 400, 3, 3]
    content, wanted = b"", []
    for size in sizes:
        wanted.append(found(len(content), body=b"x" * size))
        content += one(len(content), body=b"x" * size)
    assert scanned(LogScan(log_of(content), 0)) == (wanted, len(content), None)


# -- the next whole record


def test_the_next_whole_record_is_found_behind_damage() -> None:
    damaged = b"?" * SIZE
    magic = pack(">i", -626843481)
    cases: list[tuple[tuple[bytes, ...], int, int | None]] = [
        ((FIRST + SECOND,), 0, SIZE),
        ((FIRST + SECOND,), -1, 0),
        ((FIRST + SECOND,), SIZE - 1, SIZE),
        ((FIRST + SECOND,), SIZE, None),
        ((damaged + SECOND,), 0, SIZE),
        ((damaged + SECOND[:-5],), 0, None),
        ((b"????" + magic + b"?" * (SIZE - 8) + SECOND,), 0, SIZE),
        ((magic * 20 + bytes(SIZE - 80) + SECOND,), 0, SIZE),
        ((bytes(SIZE), one(FILE)), 0, FILE),
        ((bytes(SIZE), b"?" + one(FILE + 1)), 0, FILE + 1),
        ((bytes(SIZE), one(FILE)), FILE, None),
        ((bytes(FILE - SIZE) + one(FILE - SIZE),), 0, FILE - SIZE),
        ((bytes(FILE - SIZE - 8) + one(FILE - SIZE - 8) + blank(8),), 0, FILE - SIZE - 8),
        ((bytes(600) + one(600, topic="t" * 200),), 0, 600),
        ((), 0, None),
    ]
    assert [next_record(log_of(*contents), offset) for contents, offset, _ in cases] == [at for _, _, at in cases]


def test_a_search_is_limited_in_its_file_and_at_the_begin_of_later_ones() -> None:
    log = log_of(bytes(500) + one(500), bytes(100) + one(FILE + 100))
    for offset, most, at in (
        (0, 500, FILE + 100),
        (0, 501, 500),
        (499, 2, 500),
        (0, 100, None),
        (0, 101, FILE + 100),
        (498, 2, None),
        (0, None, 500),
    ):
        assert next_record(log, offset, most) == at, (offset, most)


def test_a_search_reads_block_after_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (8, 9, 50, 500):
        monkeypatch.setattr(scan_module, "_BLOCK", size)
        for at in (1, 8, 49, 50, 51, 400):
            assert next_record(log_of(bytes(at) + one(at)), 0) == at, (size, at)


def test_where_zeros_begin_only_some_bytes_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "_MOST_SEARCHED", 300)
    for gap, byte, is_found in ((300, b"\0", False), (299, b"\0", True), (900, b"?", True)):
        content = FIRST + byte * gap + one(SIZE + gap)
        log = log_of(content)
        scan = LogScan(log, 0)
        list(scan)
        assert next_after(log, scan) == (SIZE + gap if is_found else None), gap
