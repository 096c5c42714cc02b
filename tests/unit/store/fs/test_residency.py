"""Reads that must not wait for the disk: they say which parts of files to load, and read when these are there."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rocketmq_py.store import GetResult, GetStatus, MessageStore, OsFileSystem, StoreConfig
from rocketmq_py.store.fs.residency import NotInMemory, Part, Residency
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import decode_records
from tests.examples import examples
from tests.unit.store.helpers import Stores, fill, numbers
from tests.unit.store.memoryfs import PAGE, MemoryFileSystem

FILE = 1 << 16
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE, mapped_file_size_consume_queue=400, max_hash_slot_num=97, max_index_num=5000
)


def get_in_turns(store: MessageStore, offset: int, **more) -> tuple[GetResult, int]:
    """What a read finds, and how often parts had to be loaded for it."""
    residency, turns = Residency(), 0
    while True:
        try:
            return store.get("T", 0, offset, 32, residency=residency, **more), turns
        except NotInMemory as missing:
            turns += 1
            assert turns <= 3, "the entries, and the records"
            store.load(missing.parts)


def old(stores: Stores, count: int = 200, others: int = 0) -> MessageStore:
    """A store with messages that another process wrote, none of which is in memory."""
    store = stores.open(CONFIG)
    for i in range(count):
        fill(store, 1, i)
        if others:
            fill(store, others, topic="O", size=700)
    store.close()
    store = stores.open(CONFIG)
    stores.fs.resident = set()
    return store


def are_resident(fs: MemoryFileSystem, store: MessageStore, found: GetResult) -> bool:
    assert fs.resident is not None
    for message in decode_records(bytes(found.body)):
        start, size = message.commit_log_offset, message.store_size
        path = store.layout.commit_log / f"{start - start % FILE:020d}"
        pages = range(start % FILE // PAGE, (start % FILE + size - 1) // PAGE + 1)
        if not all((path, page) in fs.resident for page in pages):
            return False
    return True


@pytest.mark.parametrize("others", [0, 3], ids=["side by side", "scattered"])
@pytest.mark.parametrize("filtered", ["all", "by tag", "by record"])
def test_a_read_of_old_messages_loads_them_first(stores, others: int, filtered: str) -> None:
    store = old(stores, others=others)
    odd = tags_code("odd")
    more = {
        "all": {},
        "by tag": {"accepts": lambda code: code == odd},
        "by record": {"message_filter": lambda record: b"TAGS\x01odd" in record},
    }[filtered]
    found, turns = get_in_turns(store, 20, **more)
    assert turns >= 1
    assert are_resident(stores.fs, store, found)
    plain = store.get("T", 0, 20, 32, **more)
    assert (found.body, found.next_offset, found.status) == (plain.body, plain.next_offset, plain.status)
    again, turns = get_in_turns(store, 20, **more)
    assert (again.body, turns) == (found.body, 0)


def test_what_this_process_wrote_lately_is_not_looked_for(stores) -> None:
    store = stores.open(CONFIG)
    fill(store, 100)
    store._queues.spill()
    stores.fs.resident = set()
    for offset in (0, 3):
        found, turns = get_in_turns(store, offset)
        assert (turns, found.count) == (0, 32)


def test_of_a_read_over_old_and_new_messages_only_the_old_are_loaded(stores) -> None:
    store = old(stores, 40)
    end = store._commit_log.end
    fill(store, 20, 40)
    residency = Residency()
    loaded: list[Part] = []
    while True:
        try:
            found = store.get("T", 0, 30, 32, residency=residency)
            break
        except NotInMemory as missing:
            loaded += missing.parts
            store.load(missing.parts)
    assert numbers(decode_records(bytes(found.body))) == list(range(30, 60))
    assert all(part.position < end for part in loaded if part.path.parent == store.layout.commit_log)


def test_a_filter_that_refuses_much_reads_a_limited_part_of_the_disk_and_goes_on_later(stores) -> None:
    store = old(stores, 700)
    offset, turns = 0, 0
    while offset < 700:
        found, more = get_in_turns(store, offset, message_filter=lambda record: b"|" not in record)
        assert found.status is GetStatus.NO_MATCHED_MESSAGE
        assert offset < found.next_offset <= offset + 512
        offset, turns = found.next_offset, turns + more
    assert turns >= 2


def test_a_file_that_is_gone_is_as_in_other_reads(stores) -> None:
    store = old(stores, 700)
    residency = Residency()
    with pytest.raises(NotInMemory) as missing:
        store.get("T", 0, 0, 32, residency=residency)
    stores.fs.remove(missing.value.parts[0].path)
    store.load(missing.value.parts)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), others=st.integers(0, 2))
def test_whatever_is_in_memory_the_read_is_the_same(tmp_path_factory, data: st.DataObject, others: int) -> None:
    fs = MemoryFileSystem()
    stores = Stores(tmp_path_factory.mktemp("s") / "store", fs)
    store = old(stores, 60, others)
    pages = [(path, page) for path, node in fs.nodes.items() for page in range(len(node.content) // PAGE + 1)]
    fs.resident = {one for one in pages if data.draw(st.booleans())} if data.draw(st.booleans()) else set()
    offset = data.draw(st.integers(-1, 61))
    most = data.draw(st.sampled_from([1, 5, 32]))
    expected = store.get("T", 0, offset, most)
    residency = Residency()
    while True:
        try:
            found = store.get("T", 0, offset, most, residency=residency)
            break
        except NotInMemory as missing:
            store.load(missing.parts)
    assert found == expected
    stores.close()


# -- the operating system


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the platform does not tell")
@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_system_tells_what_is_in_memory_and_loads_the_rest(tmp_path, is_mapped) -> None:
    fs, path, size = OsFileSystem(), tmp_path / "file", 1 << 20
    file = fs.open(path, size)
    file.write(0, os.urandom(size))
    file.sync()
    if is_mapped:
        assert len(file.buffer) == size
    if not file.is_resident(0, size):
        pytest.skip("the file system does not tell")
    os.posix_fadvise(file._fd, 0, size, os.POSIX_FADV_DONTNEED)
    if file.is_resident(0, size):
        pytest.skip("the file system keeps everything in memory")
    fs.load(path, 0, size)
    assert file.is_resident(0, size)
    assert file.is_resident(size - 10, 4000), "only as far as the file goes"
    file.close()


def test_loading_a_file_that_is_gone_does_nothing(tmp_path) -> None:
    OsFileSystem().load(tmp_path / "gone", 0, 100)


def test_where_nothing_is_known_a_part_counts_as_loaded_after_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("rocketmq_py.store.fs.os_files._CAN_TRY", False)
    file = OsFileSystem().open(tmp_path / "file", 4096)
    residency = Residency()
    residency.need(file, 0, 100)
    with pytest.raises(NotInMemory):
        residency.check()
    residency.need(file, 0, 100)
    residency.check()
    file.close()
