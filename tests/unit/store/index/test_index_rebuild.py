"""A missing index that is rebuilt while the store is open."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import wait
from contextlib import suppress
from random import Random

import msgspec
import pytest

from rocketmq_py.errors import IndexRebuilding
from rocketmq_py.store import rebuild
from rocketmq_py.store.index import index_rebuild
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.log import log_parts
from rocketmq_py.store.settings import SYNC_FLUSH
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import SMALL, fill, flush, numbers, read_queue, record

NOW_OPEN = msgspec.structs.replace(SMALL, rebuild_bytes_before_start=0)
"""Settings with which each rebuild that can be put off is put off."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(log_parts, "PART_BYTES", 1000)
    monkeypatch.setattr(rebuild, "_AT_ONCE", 0)
    monkeypatch.setattr("rocketmq_py.store.index.index._BUILD_AT", 8)


def part(store):
    """Do one part of the rebuild, as the broker does; return False if it has to wait."""
    if store.rebuild.begin() is not None:
        for _ in store.rebuild.records():
            pass
    return store.rebuild.end_part()


def settle(store):
    """Wait for what the threads do for the rebuild now."""
    indexing = store.rebuild._index
    wait([one for one in (indexing._confirmed, indexing._saved, *making_space(indexing)) if one is not None])


def making_space(indexing):
    making = indexing.whole._slot_pages._space._making
    return () if making is None else (making[1],)


def finish(store):
    while store.rebuild.is_needed:
        if not part(store):
            settle(store)
    assert store.rebuild.bytes_left == 0


def until_saved(store, monkeypatch):
    """Go on until the files are complete on disk, but the index does not know that yet; return what tells it."""
    saved, told = threading.Event(), threading.Event()
    save = index_rebuild._save_headers

    def save_and_wait(files):
        save(files)
        saved.set()
        assert told.wait(60)

    monkeypatch.setattr(index_rebuild, "_save_headers", save_and_wait)
    while store.rebuild._index._saved is None:
        if not part(store):
            indexing = store.rebuild._index
            wait([one for one in (indexing._confirmed, *making_space(indexing)) if one is not None])
    assert saved.wait(60)
    return told


def found(store, key, topic="T"):
    return numbers(decode_records(store.query(topic, key, 200, 0, 1 << 62).body))


def check_keys(store, count):
    """Each message is found by its key exactly once, and all of them by the key that they share."""
    for number in range(count):
        assert found(store, f"k{number}") == [number]
        assert found(store, f"U{number:06d}") == [number]
    assert found(store, "all") == list(range(count))[-64:]  # the maximum of a query


def index_files(stores):
    return [path for path in stores.fs.nodes if "index" in path.parts]


def without_index(stores, count=60, config=NOW_OPEN, **changes):
    """Open a store whose index is lost."""
    store = stores.open(config)
    fill(store, count, **changes)
    store.close()
    assert len(index_files(stores)) == 3 * count // 63 + 1
    stores.fs.remove_tree(stores.root / "index")
    return stores.open(config)


@pytest.mark.parametrize("flush_type", ["ASYNC_FLUSH", SYNC_FLUSH])
def test_messages_are_found_after_a_rebuild_with_those_sent_meanwhile(stores, caplog, flush_type):
    store = without_index(stores, config=msgspec.structs.replace(NOW_OPEN, flush_disk_type=flush_type))
    assert "the index is missing: it is rebuilt from the commit log while the store is open" in caplog.text
    assert numbers(read_queue(store)) == list(range(60))
    assert store.rebuild.queues_left == 0
    assert store.rebuild.bytes_left == store.max_physical_offset
    count = 60
    while store.rebuild.is_needed:
        with pytest.raises(IndexRebuilding, match="the index is being rebuilt from the commit log"):
            store.query("T", "k3", 1, 0, 1 << 62)
        if count < 90:
            fill(store, 1, start=count)
            count += 1
        if not part(store):
            settle(store)
    assert count > 70
    assert "the index is rebuilt" in caplog.text
    fill(store, 5, start=count)
    store.flush()
    check_keys(store, count + 5)
    store.close()
    store = stores.open(NOW_OPEN)
    assert not store.rebuild.is_needed
    check_keys(store, count + 5)


@pytest.mark.parametrize("closed", [False, True])
def test_it_begins_again_if_it_has_not_ended(stores, caplog, closed):
    store = without_index(stores)
    for _ in range(4):
        assert part(store)
    fill(store, 3, start=60)
    assert index_files(stores)
    if closed:
        store.close()
        assert index_files(stores) == []
    else:
        flush(store)
        stores.crash()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.is_needed
    assert ("a rebuild has not ended" in caplog.text) is not closed
    assert index_files(stores) == []
    finish(store)
    check_keys(store, 63)


@pytest.mark.parametrize("closed", [False, True])
def test_no_key_is_lost_between_the_last_part_and_the_end(stores, monkeypatch, closed):
    """Keys that come while the files are saved are not in them: a crash must not leave a checkpoint that says so."""
    store = without_index(stores)
    told = until_saved(store, monkeypatch)
    fill(store, 2, start=60)
    stores.clock.now += 3_600_000
    store.tick(stores.clock.now)
    store.tick(stores.clock.now)
    if closed:
        told.set()
        store.close()
    else:
        stores.crash()
        told.set()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.is_needed is closed
    finish(store)
    check_keys(store, 62)


@pytest.mark.parametrize("saved", [0, 1, 2, 3])
def test_a_crash_while_headers_are_written_begins_it_again(stores, monkeypatch, saved):
    """There are three files; that of the oldest is written last."""
    store = without_index(stores)
    left = iter(range(saved))
    real = IndexFile.save

    def some(file, header):
        if next(left, None) is None:
            raise OSError("killed")
        real(file, header)

    monkeypatch.setattr(IndexFile, "save", some)
    while store.rebuild._index.takes_keys:
        part(store)
    with suppress(OSError):
        while store.rebuild.is_needed:
            settle(store)
            part(store)
    monkeypatch.setattr(IndexFile, "save", real)
    stores.crash(stores.fs.after_power_loss(Random(1)))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.is_needed is (saved < 3)
    finish(store)
    check_keys(store, 60)


def test_a_full_disk_interrupts_it(stores):
    store = without_index(stores)
    assert part(store)
    stores.fs.failing.add("write")
    with pytest.raises(OSError, match="No space"):
        finish(store)
    stores.fs.failing.clear()
    finish(store)
    check_keys(store, 60)


def test_records_get_keys_by_their_kind(stores):
    """Prepared messages have no consume queue entry, but keys; those rolled back have neither."""
    store = stores.open(NOW_OPEN)
    fill(store, 20)
    fill(store, 1, start=20, sys_flag=4)
    fill(store, 1, start=21, sys_flag=12)
    store.close()
    stores.fs.remove_tree(stores.root / "index")
    store = stores.open(NOW_OPEN)
    finish(store)
    assert [found(store, f"k{number}") for number in (19, 20, 21)] == [[19], [20], []]


def test_an_index_without_keys_is_not_rebuilt_for_ever(stores):
    store = stores.open(NOW_OPEN)
    fill(store, 1)
    fill(store, 30, topic="U", properties=b"", keys="", uniq_key="")
    store.close()
    for path in index_files(stores):
        stores.fs.remove(path)
    # The only message with a key has expired.
    start = 4096 * (store._commit_log.starts[1] // 4096)
    stores.fs.remove(stores.root / "commitlog" / f"{0:020d}")
    store = stores.open(NOW_OPEN)
    assert store.min_physical_offset == start
    finish(store)
    store.close()
    assert not stores.open(NOW_OPEN).rebuild.is_needed


def test_a_damaged_oldest_file_is_noticed(stores, caplog):
    store = stores.open(NOW_OPEN)
    fill(store, 60)
    store.close()
    stores.fs.nodes[index_files(stores)[0]].content[:40] = bytes(40)
    store = stores.open(SMALL)
    assert "the oldest file of the index has no entries" in caplog.text
    check_keys(store, 60)


def test_a_crash_before_the_first_flush_is_no_damage(stores, caplog):
    store = stores.open(NOW_OPEN)
    fill(store, 3)
    store.query("T", "k1", 1, 0, 1 << 62)
    assert len(index_files(stores)) == 1
    stores.crash()
    store = stores.open(NOW_OPEN)
    assert "the oldest file of the index has no entries" not in caplog.text
    check_keys(store, 3)


def test_queues_and_index_are_rebuilt_in_one_pass(stores, caplog, monkeypatch):
    monkeypatch.setattr(rebuild, "_REPORT_EVERY", 3000)
    store = stores.open(NOW_OPEN)
    fill(store, 60)
    store.close()
    stores.fs.remove_tree(stores.root / "index")
    stores.fs.remove(stores.root / "consumequeue" / "T" / "0" / f"{400:020d}")
    with caplog.at_level(logging.INFO):
        store = stores.open(NOW_OPEN)
        assert store.rebuild.queues_left == 1
        finish(store)
    assert "rebuilding 1 consume queues and the index: the commit log is scanned up to" in caplog.text
    assert numbers(read_queue(store)) == list(range(60))
    check_keys(store, 60)


def test_keys_wait_while_the_log_cannot_be_written(stores):
    """Their records are behind what the rebuild has read."""
    store = without_index(stores)
    index = store._index
    store.append(record(60))
    index.build()
    position = store.max_physical_offset
    assert not index.can_resume(store.queue_entries("T", 0, 60, 1)[0][0])
    assert index.can_resume(position)
    finish(store)
    check_keys(store, 61)
