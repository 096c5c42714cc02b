"""Topics that would lead out of the store: appends refuse them, recovery passes over them, nothing is removed."""

from __future__ import annotations

import logging
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py.core.paths import component_fault
from rocketmq_py.errors import MessageIllegal, StoreError
from rocketmq_py.store import OsFileSystem, StoreConfig
from rocketmq_py.store.fs import layout
from rocketmq_py.store.queue import consume_queue, queue_table as store_queues
from rocketmq_py.store.tools.inspect import queues
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from tests.unit.store.helpers import Stores, fill, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem
from tests.unit.store.test_replication import replicate

HOSTILE = ["../../victim", "..", ".", "../commitlog", "a/b", "a\\b", "C:x", "a\nb", "/outside/victim", "x" * 256]
ODD = ["%RETRY%g", "a|b", "%DLQ%g", "broker.a", "%"]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _tame(name: str) -> str:
    return f"hostile-{len(name)}" if component_fault(name) else name


@contextmanager
def unchecked():
    """Lets a store write into its log what only another program would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_queues, "component_fault", lambda _: None)
        for module in (layout, consume_queue):
            patch.setattr(module, "below", lambda root, name: root / _tame(name))
        patch.setattr(consume_queue, "component", _tame)
        yield


@pytest.mark.parametrize("topic", HOSTILE)
def test_a_message_of_a_hostile_topic_is_refused(stores, topic):
    store = stores.open()
    with pytest.raises(MessageIllegal, match="cannot have a consume queue"):
        store.append(record(topic=topic))
    fill(store, 3)
    assert numbers(read_queue(store)) == [0, 1, 2]


@pytest.mark.parametrize("topic", [*HOSTILE, "", "{outside}", "unknown"])
def test_deleting_a_topic_without_queues_removes_nothing(disk_stores, tmp_path, topic):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    store = disk_stores.open()
    fill(store, 20)
    store._queues.spill()
    before = tree(tmp_path)
    store.delete_topic(topic.format(outside=victim))
    assert tree(tmp_path) == before
    assert len(read_queue(store)) == 20


@pytest.mark.parametrize("topic", ODD)
def test_deleting_an_oddly_named_topic_removes_only_its_folder(disk_stores, topic):
    store = disk_stores.open()
    fill(store, 30, topic=topic)
    fill(store, 30, topic=topic, queue_id=7)
    fill(store, 5)
    store._queues.spill()
    folder = store.layout.consume_queue
    assert (folder / topic / "7").is_dir()
    store.delete_topic(topic)
    assert [path.name for path in folder.iterdir()] == ["T"]
    assert len(read_queue(store)) == 5
    fill(store, 2, topic=topic)
    assert numbers(read_queue(store, topic)) == [0, 1]


def test_files_that_are_not_queue_files_stay(disk_stores, caplog):
    store = disk_stores.open()
    fill(store, 5)
    store._queues.spill()
    notes = store.layout.consume_queue / "T" / "0" / "notes.txt"
    notes.write_text("mine")
    with caplog.at_level(logging.WARNING):
        store.delete_topic("T")
    assert [path.name for path in notes.parent.iterdir()] == ["notes.txt"]
    assert "notes.txt is not a consume queue file and stays" in caplog.text


def test_batch_queues_of_a_deleted_topic_are_removed(disk_stores):
    store = disk_stores.open(StoreConfig(mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=400))
    fill(store, 5)
    store._queues.spill()
    other = store.layout.batch_queue_directory("T", 0)
    other.mkdir(parents=True)
    (other / f"{0:020d}").write_bytes(b"")
    store.delete_topic("T")
    assert not other.parent.exists()
    assert not (store.layout.consume_queue / "T").exists()


def test_only_empty_folders_are_removed(tmp_path):
    fs = OsFileSystem()
    (tmp_path / "a" / "b").mkdir(parents=True)
    fs.remove_empty(tmp_path / "a")
    assert (tmp_path / "a" / "b").is_dir()
    fs.remove_empty(tmp_path / "a" / "b")
    fs.remove_empty(tmp_path / "a" / "b")
    assert list((tmp_path / "a").iterdir()) == []


def written_elsewhere(stores: Stores, topics: list[str]) -> None:
    """A log with messages of hostile topics between others; nothing but the log and the abort file is left."""
    with unchecked():
        store = stores.open()
        fill(store, 2)
        for topic in topics:
            fill(store, 2, topic=topic)
        fill(store, 2, start=2)
        stores.crash()
    for name in [path for path in stores.fs.nodes if path.parts[2] not in ("commitlog", "abort")]:
        del stores.fs.nodes[name]


def test_recovery_skips_records_of_invalid_topics(stores, caplog):
    topics = HOSTILE[:-1]
    written_elsewhere(stores, topics)
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    assert numbers(read_queue(store)) == [0, 1, 2, 3]
    assert sorted(store.queues()) == [("T", 0)]
    for topic in topics:
        assert caplog.text.count(f"topic {topic!r} cannot have a consume queue") == 1
    fill(store, 2, start=4)
    store.close()
    again = stores.open()
    assert numbers(read_queue(again)) == [0, 1, 2, 3, 4, 5]


def test_a_slave_skips_records_of_invalid_topics_and_keeps_the_bytes(stores, caplog):
    topics = HOSTILE[:-1]
    written_elsewhere(stores, topics)
    master = stores.open()
    slaves = Stores(Path("/slave"), MemoryFileSystem())
    slave = slaves.open(is_slave=True)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        slave.replica.append(0, master.log_view(0, 1000))
        slave.replica.dispatch()
        replicate(master, slave)
    assert slave.max_physical_offset == master.max_physical_offset
    assert sorted(slave.queues()) == [("T", 0)]
    assert numbers(read_queue(slave)) == [0, 1, 2, 3]
    assert caplog.text.count("have no consume queue") == len(topics)
    slaves.close()


def test_only_some_of_many_invalid_topics_are_named(stores, caplog):
    written_elsewhere(stores, [f"../{number}" for number in range(40)])
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    assert caplog.text.count("have no consume queue") == 16
    assert caplog.text.count("are not named") == 1
    assert numbers(read_queue(store)) == [0, 1, 2, 3]


@pytest.mark.parametrize("folder", ["a\\b", "a\nb", "...", "C:x"])
def test_folders_that_cannot_belong_to_a_topic_are_skipped(disk_stores, caplog, folder):
    store = disk_stores.open()
    fill(store, 3)
    store.close()
    odd = store.layout.consume_queue / folder / "0"
    odd.mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        again = disk_stores.open()
    assert again.queues() == [("T", 0)]
    assert "cannot belong to a topic, ignored" in caplog.text
    again.close()
    assert odd.is_dir()
    with OfflineStore(disk_stores.root) as offline:
        assert [str(one.path) for one in offline.odd] == [str(odd.parent)]


def test_inspection_reads_nothing_outside_the_store(disk_stores, tmp_path):
    store = disk_stores.open()
    fill(store, 3)
    store.close()
    with OfflineStore(disk_stores.root) as offline:
        assert not offline.has_batch_queues("../../store")
        assert not offline.has_batch_queues(str(tmp_path))
        with pytest.raises(StoreError, match="no consume queue of topic"):
            queues(offline, str(tmp_path))


def test_verify_notes_records_of_invalid_topics(disk_stores):
    with unchecked():
        store = disk_stores.open()
        fill(store, 2)
        fill(store, 2, topic="../victim")
        store.close()
    shutil.rmtree(store.layout.consume_queue / f"hostile-{len('../victim')}")
    with OfflineStore(disk_stores.root) as offline:
        findings = verify(offline).findings
    assert not findings.problems, findings.listed()
    assert any("is not a valid folder name" in found.what for found in findings.listed())
