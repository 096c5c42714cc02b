"""A store on disk as the tools see it: its queues, its files, and what is odd about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from rocketmq_py.errors import StoreError
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.readonly import ReadOnlyFileSystem
from rocketmq_py.store.queue.consume_queue import is_blank
from rocketmq_py.store.tools import inspect, offline
from rocketmq_py.store.tools.offline import OfflineStore, QueueView, has_messages
from tests.unit.store.helpers import Stores, fill

PER_FILE = 4
BLANK = (0, 0x7FFFFFFF, 0)


def entry(number: int) -> tuple[int, int, int]:
    return 100 + 10 * number, 10, number


def view_of(folder: Path, files: dict[int, list[tuple[int, int, int]]]) -> QueueView:
    """A queue with these entries in its files of four, by the number of the first."""
    for start, entries in files.items():
        content = b"".join(pack(">qiq", *one) for one in entries)
        (folder / f"{20 * start:020d}").write_bytes(content.ljust(20 * PER_FILE, b"\0"))
    return QueueView("T", 0, folder, sorted(files), OpenFiles(ReadOnlyFileSystem(), 20 * PER_FILE, 4))


def entries(first: int, end: int) -> list[tuple[int, int, int]]:
    return [entry(number) for number in range(first, end)]


def test_the_extent_of_a_queue(tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[int, list[tuple[int, int, int]]], tuple[int, int]]] = {
        "no file": ({}, (0, 0)), "an empty file": ({0: []}, (0, 0)), "one entry": ({0: entries(0, 1)}, (0, 1)),
        "three": ({0: entries(0, 3)}, (0, 3)), "a full file": ({0: entries(0, 4)}, (0, 4)),
        "a preallocated file": ({0: entries(0, 4), 4: []}, (0, 4)),
        "two": ({0: entries(0, 4), 4: entries(4, 6)}, (0, 6)),
        "a later begin": ({8: entries(8, 11)}, (8, 11)), "a later begin without entries": ({8: []}, (8, 8)),
        "negative places": ({0: [entry(0), (-1, 10, 0)]}, (0, 1)), "no size": ({0: [entry(0), (9, 0, 0)]}, (0, 1)),
        "blank entries": ({0: [BLANK, entry(1)]}, (0, 2)),
    }  # fmt: skip
    wrong = {}
    for number, (name, (files, extent)) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        view = view_of(folder, files)
        if (view.begin, view.end) != extent or view.min != view.begin:
            wrong[name] = (view.begin, view.end, view.min)
    assert wrong == {}


def test_entries_are_read_over_files_and_up_to_a_missing_one(tmp_path: Path) -> None:
    view = view_of(tmp_path, {4: entries(4, 8), 8: entries(8, 12), 12: entries(12, 14)})
    wrong = [
        (offset, count)
        for offset in range(4, 16)
        for count in range(12)
        if view.read(offset, count) != entries(offset, min(offset + count, 14))
    ]
    assert wrong == []
    assert view.read(2, 5) == [], "no file has it"
    (tmp_path / f"{160:020d}").unlink()
    fresh = view_of(tmp_path, {4: entries(4, 8), 12: entries(12, 14)})
    assert fresh.read(6, 9) == entries(6, 8)
    assert fresh.read(12, 9) == entries(12, 14)
    assert str(fresh) == "consume queue T-0"


def test_the_oldest_message_that_the_log_has(tmp_path: Path) -> None:
    files = {0: [BLANK, BLANK, entry(2), entry(3)], 4: entries(4, 7)}
    view = view_of(tmp_path, files)
    for physical, oldest in ((0, 2), (120, 2), (121, 3), (160, 6), (161, 7), (999, 7)):
        view.raise_minimum(physical)
        assert view.min == oldest, physical
    lost = view_of(tmp_path, {0: [entry(0), entry(1), BLANK, BLANK], 4: [BLANK, entry(5), BLANK]})
    for physical, oldest in ((0, 0), (101, 1), (110, 1), (111, 5), (150, 5), (151, 7)):
        lost.raise_minimum(physical)
        assert lost.min == oldest, physical
    assert [is_blank(one) for one in (BLANK, (1, 0x7FFFFFFF, 0), (0, 5, 0), (0, 0x7FFFFFFF, 9))] == [
        True, False, False, True,
    ]  # fmt: skip


def test_a_store_has_messages_if_a_log_file_begins_with_one(tmp_path: Path) -> None:
    assert not has_messages(tmp_path)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(100))
    assert not has_messages(tmp_path)
    (tmp_path / "commitlog" / f"{100:020d}").write_bytes(b"\0\0\0\x01")
    assert has_messages(tmp_path)
    (tmp_path / "commitlog" / f"{100:020d}").write_bytes(b"\0\0\0\0\x01")
    assert not has_messages(tmp_path)


@pytest.fixture
def root(disk_stores: Stores) -> Path:
    """A closed store of three log files, two of a queue, and one of the index."""
    store = disk_stores.open()
    fill(store, 30, size=250)
    fill(store, 1, topic="U")
    store.close()
    return disk_stores.root


def test_what_is_odd_about_files(root: Path) -> None:
    log, queue, index = root / "commitlog", root / "consumequeue" / "T" / "0", root / "index"

    def write(path: Path, size: int) -> None:
        path.write_bytes(bytes(size))

    def rename(path: Path, name: str) -> None:
        path.rename(path.with_name(name))

    first = next(index.iterdir())
    cases: list[tuple[Callable[[], object], list[tuple[Path, str]]]] = [
        (lambda: write(log / "notes", 5), [(log / "notes", "is not a segment file")]),
        (lambda: write(log / f"{12288:020d}", 0), []),
        (lambda: write(log / f"{12288:020d}", 50), [(log / f"{12288:020d}", "has 50 bytes, others 4096")]),
        (lambda: rename(log / f"{4096:020d}", f"{4097:020d}"), [
            (log / f"{4097:020d}", "does not begin at a multiple of 4096"),
            (log / f"{4096:020d}", "is missing, and what follows before 8192"),
        ]),
        (lambda: rename(log / f"{8192:020d}", f"{16384:020d}"), [
            (log / f"{8192:020d}", "is missing, and what follows before 16384"),
        ]),
        (lambda: write(queue / "x", 400), [(queue / "x", "is not a segment file")]),
        (lambda: write(queue / f"{400:020d}", 20), [(queue / f"{400:020d}", "has 20 bytes, others 400")]),
        ((root / "consumequeue" / "a:b").mkdir, [
            (root / "consumequeue" / "a:b", "cannot be the folder of a topic: "),
        ]),
        (lambda: write(root / "consumequeue" / "stray", 1), []),
        ((root / "consumequeue" / "T" / "x").mkdir, []),
        (lambda: write(index / "notes", first.stat().st_size), [(index / "notes", "is not an index file")]),
        (lambda: write(index / ("2" * 17), 39), [(index / ("2" * 17), "has 39 bytes: pass maxHashSlotNum as")]),
        (lambda: write(index / ("2" * 17), 123), [(index / ("2" * 17), "has 123 bytes: pass maxHashSlotNum as")]),
        (lambda: write(index / ("2" * 17), 124), []),
        (lambda: write(index / ("2" * 17), 125), [(index / ("2" * 17), "has 125 bytes: pass maxHashSlotNum as")]),
    ]  # fmt: skip
    sound = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for number, (change, odd) in enumerate(cases):
        change()
        with OfflineStore(root) as store:
            assert [one.path for one in store.odd] == [path for path, _ in odd], number
            for one, (_, what) in zip(store.odd, odd, strict=True):
                assert one.what.startswith(what), number
        for path in sorted(root.rglob("*"), reverse=True):
            if path not in sound and path.is_dir() and not any(path.iterdir()):
                path.rmdir()
            elif path not in sound and path.is_file():
                path.unlink()
        for path, content in sound.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


def test_the_files_of_a_store(root: Path) -> None:
    with OfflineStore(root) as store:
        assert (store.log.starts, store.log.end, store.log.file_size) == ([0, 4096, 8192], 12288, 4096)
        assert {key: (view.begin, view.min, view.end) for key, view in store.queues.items()} == {
            ("T", 0): (0, 0, 30), ("U", 0): (0, 0, 1),
        }  # fmt: skip
        assert (store.state, store.must_be_complete, store.is_held, store.was_closed) == ("closed", True, False, True)
        assert [file.count for file in store.indexes] == [64, 31]
    (root / "commitlog" / f"{0:020d}").unlink()
    with OfflineStore(root) as store:
        assert (store.log.min_offset, store.queues["T", 0].begin) == (4096, 0)
        assert 0 < store.queues["T", 0].min < 20
        assert store.queues["U", 0].min == 0


def test_the_states_of_a_store(disk_stores: Stores, root: Path) -> None:
    (root / "abort").write_bytes(b"1")
    with OfflineStore(root) as store:
        assert (store.state, store.must_be_complete) == ("not closed cleanly: the next start recovers it", False)
    opened = disk_stores.open()
    with OfflineStore(root) as store:
        assert (store.state, store.must_be_complete, store.is_held) == ("a broker runs on it", False, True)
    opened.close()
    (root / "lock").unlink()
    with OfflineStore(root) as store:
        assert (store.state, store.must_be_complete) == ("closed", True), "no broker has ever used it"


def test_a_store_that_cannot_be_read_is_released(
    root: Path, disk_stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk fails")

    monkeypatch.setattr(offline, "IndexFile", fail)
    with pytest.raises(OSError, match="the disk fails"):
        OfflineStore(root)
    monkeypatch.undo()
    disk_stores.open().close()
    with pytest.raises(StoreError, match="is no store: it has no directory commitlog; storePathCommitLog can be"):
        OfflineStore(root / "config")
    with pytest.raises(StoreError, match=f"is no store: it has no directory {root / 'nowhere'}; "):
        OfflineStore(root, commit_log=root / "nowhere")


def test_records_by_their_offset(root: Path) -> None:
    with OfflineStore(root) as store:
        places = [row["physical"] for row in inspect.messages(store, "T", 0, None, 99)]
        last = max(place for place in places if place < 4096)
        blank = last + len(store.record(last) or b"")
        second = next(place for place in places if place >= 4096)
        for place in places:
            record = store.record(place)
            assert record is not None
            assert int.from_bytes(record[28:36], "big") == place
        assert [store.record(at) for at in (-1, 1, blank, 12287, 12288, 99999)] == [None] * 6
        assert inspect.record(store, blank)["error"] == (
            f"the file ends before this offset: the next record is at {second}"
        )
        end = inspect.overview(store)["logEnd"]
        assert inspect.record(store, end)["error"] == "nothing was written there"
        assert inspect.record(store, 12288)["error"] == "the log has no such offset"
        assert inspect.record(store, places[0] + 1)["error"] == "magic 0xa320a72a is not that of a record"
    (root / "commitlog" / f"{0:020d}").unlink()
    with OfflineStore(root) as store:
        assert inspect.record(store, 4095)["error"] == "it has expired: the log begins at 4096"


def test_topics_with_batch_queues(root: Path) -> None:
    (root / "batchconsumequeue" / "B" / "3").mkdir(parents=True)
    with OfflineStore(root) as store:
        found = [
            store.has_batch_queues(*key) for key in (("B",), ("B", 3), ("B", 0), ("T",), ("T", 3), ("a/b",), ("..", 0))
        ]
        assert found == [True, True, False, False, False, False, False]
        with pytest.raises(StoreError, match="topic 'B' has batch consume queues, which cannot be shown yet"):
            inspect.queues(store, "B")


def test_lost_messages_are_shown_as_fillers(disk_stores: Stores) -> None:
    store = disk_stores.open()
    fill(store, 2)
    store.keep_ends({("T", 0): 4})
    store.close()
    with OfflineStore(disk_stores.root) as offline_store:
        rows = list(inspect.messages(offline_store, "T", 0, None, 9))
    assert [row.get("error") for row in rows] == [None, None, *["no message: a filler entry"] * 2]
    assert rows[2] == {
        "offset": 2, "physical": 0, "size": 0x7FFFFFFF, "tagsCode": 0, "error": "no message: a filler entry",
    }  # fmt: skip
