"""Repair of a store on disk: what it says is lost, and what is served afterwards."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.errors import StoreLocked
from rocketmq_py.store.log.scan import LogScan
from rocketmq_py.store.tools import repair
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.repair import REPLACED, Lost, apply, make_plan
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.store.write.records import Appended
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import Stores, fill, numbers, record

COUNT = 60
FILE = 4096


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path / "store", None)


@pytest.fixture
def done(stores: Stores) -> list[Appended]:
    """A closed store with messages in one queue, several log files long."""
    store = stores.open()
    done = fill(store, COUNT, size=200)
    store.close()
    return done


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
    (stores.root / "consumequeue" / "T" / "0").mkdir(parents=True)  # half of a rebuild
    kept = apply(stores.root, make_plan(stores.root)) / "consumequeue"
    assert not (stores.root / REPLACED).exists()
    assert {path.name: path.read_bytes() for path in kept.rglob("0*") if path.is_file()} == queues
    assert len(served(stores)) < COUNT


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
