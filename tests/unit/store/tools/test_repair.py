"""Repair of a store on disk: what it says is lost, and what is served afterwards."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from rocketmq_py.errors import StoreLocked
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.tools import repair, scanned_log
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.repair import REPLACED, apply, make_plan
from rocketmq_py.store.tools.scanned_log import Lost
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.store.write.records import Appended
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import Stores, fill, numbers, record
from tests.unit.store.tools.conftest import COUNT

FILE = 4096


def log_file(stores: Stores, number: int) -> Path:
    return stores.root / "commitlog" / f"{number * FILE:020d}"


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


DAMAGES: dict[str, Any] = {
    "garbage": lambda path: overwrite(path, 1000, random.Random(3).randbytes(500)),
    "zeros": lambda path: overwrite(path, 1000, bytes(500)),
    "the end of a file": lambda path: overwrite(path, FILE - 300, bytes(300)),
    "a cut": lambda path: truncate(path, 2000),
    "an empty file": lambda path: truncate(path, 0),
    "a missing file": lambda path: path.unlink(),
    "a longer file": lambda path: truncate(path, FILE + 100),
}


def served(stores: Stores) -> list[int]:
    """Numbers of the messages that the store has, after a start without complaints about the log."""
    store = stores.open()
    found: list[int] = []
    offset, end = store.queue_range("T", 0)
    while offset < end:
        result = store.get("T", 0, offset, 32)
        found += numbers(decode_records(bytes(result.body))) if result.count else []
        offset = max(offset + 1, result.next_offset)
    assert store.append(record(COUNT)).queue_offset == COUNT
    store.close()
    return found


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_everything_whole_is_served_after_a_repair(
    stores: Stores, done: list[Appended], damage: Any, number: int
) -> None:
    damage(log_file(stores, number))
    before = {path: path.read_bytes() for path in stores.root.rglob("*") if path.is_file()}
    plan = make_plan(stores.root)
    assert {path: path.read_bytes() for path in stores.root.rglob("*") if path.is_file()} == before
    lost = {offset for one in plan.lost for offset in range(one.first, one.last + 1)}
    assert {one.topic for one in plan.lost} <= {"T"}
    assert all(number * FILE <= done[offset].physical_offset < (number + 1) * FILE for offset in lost)
    assert plan.records == COUNT - len(lost)
    apply(stores.root, plan)
    with OfflineStore(stores.root) as store:
        findings = [one.what for one in verify(store).findings.listed()]
        assert all(what.startswith("the log has no offsets ") for what in findings), findings
        scan = LogScan(store.log, 0)
        assert sum(found.topic == "T" for found in scan) == COUNT - len(lost)
        assert scan.reason is None  # any broker reads from the first record to the last
    assert not make_plan(stores.root).gaps
    assert served(stores) == [offset for offset in range(COUNT) if offset not in lost]


def test_what_is_replaced_is_kept(stores: Stores, done: list[Appended]) -> None:
    garbage = random.Random(3).randbytes(500)
    overwrite(log_file(stores, 1), 1000, garbage)
    plan = make_plan(stores.root)
    (gap,) = plan.gaps
    folder = apply(stores.root, plan)
    assert folder == stores.root / "replaced-1"
    kept = (folder / "commitlog" / f"{gap.begin}-{gap.end}").read_bytes()
    assert kept[FILE + 1000 - gap.begin :][:500] == garbage
    assert (folder / "consumequeue" / "T" / "0").is_dir()
    assert apply(stores.root, make_plan(stores.root)) == stores.root / "replaced-2"
    assert plan.lost == [Lost("T", 0, *_range(done, gap.begin, gap.end))]


def _range(done: list[Appended], begin: int, end: int) -> tuple[int, int]:
    hit = [i for i, one in enumerate(done) if begin <= one.physical_offset < end]
    return hit[0], hit[-1]


def test_an_interrupted_repair_is_continued(
    stores: Stores, done: list[Appended], monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(log_file(stores, 1), 1000, bytes(500))
    overwrite(log_file(stores, 2), 1000, bytes(500))
    queues = {path.name: path.read_bytes() for path in (stores.root / "consumequeue").rglob("0*") if path.is_file()}

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(repair, "_rebuild", fail)
        with pytest.raises(OSError, match="full"):
            apply(stores.root, make_plan(stores.root))
    assert (stores.root / "abort").read_bytes() == b"repair", "a broker that is started now is to rebuild everything"
    (stores.root / "consumequeue" / "T" / "0").mkdir(parents=True)  # half of a rebuild
    kept = apply(stores.root, make_plan(stores.root)) / "consumequeue"
    assert not (stores.root / "abort").exists()
    assert not (stores.root / REPLACED).exists()
    assert {path.name: path.read_bytes() for path in kept.rglob("0*") if path.is_file()} == queues
    assert len(served(stores)) < COUNT


def test_a_broker_finds_the_mark_of_a_crash_before_a_derived_file_is_gone(
    stores: Stores, done: list[Appended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java broker without it reads only the last three files of the log, however much the queues lack."""
    aside = repair._set_aside
    marked = []

    def note(root: Path, name: str) -> None:
        marked.append((name, (stores.root / "abort").exists()))
        aside(root, name)

    monkeypatch.setattr(repair, "_set_aside", note)
    apply(stores.root, make_plan(stores.root))
    assert marked[0] == ("consumequeue", True)
    assert all(is_marked for _, is_marked in marked)


def test_a_store_in_use_is_not_repaired(stores: Stores, done: list[Appended]) -> None:
    store = stores.open()
    plan = make_plan(stores.root)
    with pytest.raises(StoreLocked):
        apply(stores.root, plan)
    store.close()


def test_deleted_topics_stay_deleted(stores: Stores, done: list[Appended]) -> None:
    store = stores.open()
    fill(store, 3, topic="gone")
    store.delete_topic("gone")
    fill(store, 1, start=COUNT)
    store.close()
    shutil.rmtree(stores.root / "consumequeue" / "T")
    apply(stores.root, make_plan(stores.root))
    store = stores.open()
    assert {topic for topic, _ in store.queues()} == {"T"}
    store.close()


def test_what_a_repair_sets_aside_is_kept_once(tmp_path: Path) -> None:
    """The original; what a repair has made since is removed."""
    root = tmp_path / "root"
    (root / "index").mkdir(parents=True)
    (root / "index" / "1").write_bytes(b"original")
    (root / "checkpoint").write_bytes(b"original")
    for content in (b"of a repair", b"of another one"):
        for name in ("index", "checkpoint", "missing"):
            repair._set_aside(root, name)
        assert sorted(path.name for path in root.iterdir()) == ["replaced"]
        (root / "index").mkdir()
        (root / "index" / "1").write_bytes(content)
        (root / "checkpoint").write_bytes(content)
    assert (root / REPLACED / "index" / "1").read_bytes() == b"original"
    assert (root / REPLACED / "checkpoint").read_bytes() == b"original"


def test_fillers_are_records_without_a_queue() -> None:
    assert repair.filler(4000, 4096, 4096) == pack(">ii", 96, -875286124)
    filled = repair.filler(100, 300, 4096)
    assert len(filled) == 200
    (message,) = decode_records(filled)
    assert (message.topic, message.commit_log_offset, message.sys_flag) == ("RMQ_SYS_DAMAGED", 100, 0xC)
    assert message.body == bytes(200 - 91 - 15)
    assert len(repair.filler(100, 206, 4096)) == 106, "the smallest one with the whole topic"
    assert [len(repair.filler(100, 100 + size, 4096)) for size in (92, 99, 105)] == [92, 99, 105]


def test_offsets_that_the_log_does_not_have() -> None:
    cases = [
        (([5, 6, 7], 8), []), (([5, 7], 8), [(6, 6)]), (([7, 5, 5], 8), [(6, 6)]), (([5], 9), [(6, 8)]),
        (([5, 9], 3), [(6, 8)]), (([0, 3, 8], 11), [(1, 2), (4, 7), (9, 10)]),
    ]  # fmt: skip
    for (offsets, end), missing in cases:
        assert list(scanned_log.missing(("T", 3), offsets, end)) == [Lost("T", 3, *one) for one in missing], offsets


def test_a_gap_is_told_for_each_of_its_files() -> None:
    cases = [
        ((10, 50), [(10, 50)]), ((10, 100), [(10, 100)]), ((90, 110), [(90, 100), (100, 110)]),
        ((150, 350), [(150, 200), (300, 350)]), ((100, 100), []),
    ]  # fmt: skip
    for (begin, end), parts in cases:
        found = list(scanned_log.by_file(begin, end, "x", [0, 100, 300], 100))
        assert found == [scanned_log.Gap(*part, "x") for part in parts]


def test_the_sizes_of_a_store_are_those_of_its_files(stores: Stores, done: list[Appended]) -> None:
    plan = make_plan(stores.root)
    config = plan.config
    assert (config.mapped_file_size_commit_log, config.mapped_file_size_consume_queue) == (4096, 400)
    assert (config.message_index_enable, config.max_hash_slot_num, config.max_index_num) == (True, 16, 64)
    assert (config.store_path_commit_log, plan.records, plan.gaps, plan.lost) == ("", COUNT, [], [])
    assert (plan.ends, plan.deleted) == ({("T", 0): COUNT}, set())
    (stores.root / "queueends").unlink()
    (stores.root / "queueends.bak").unlink()
    shutil.rmtree(stores.root / "index")
    elsewhere = stores.root.parent / "log"
    (stores.root / "commitlog").rename(elsewhere)
    plan = make_plan(stores.root, elsewhere)
    assert plan.config.mapped_file_size_consume_queue == 400
    assert (plan.config.message_index_enable, plan.config.max_hash_slot_num) == (False, 5_000_000)
    assert plan.config.max_index_num == 20_000_000
    assert plan.config.store_path_commit_log == str(elsewhere)
    shutil.rmtree(stores.root / "consumequeue")
    assert make_plan(stores.root, elsewhere).config.mapped_file_size_consume_queue == 6_000_000


def test_progress_of_a_plan_is_told(stores: Stores, done: list[Appended]) -> None:
    told: list[tuple[int, int]] = []
    make_plan(stores.root, progress=lambda reached, total: told.append((reached, total)))
    assert len(told) == COUNT
    assert [reached for reached, _ in told] == [one.physical_offset + one.size for one in done]
    assert {total for _, total in told} == {-(-told[-1][0] // FILE) * FILE}
