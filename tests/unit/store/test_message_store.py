"""A store as a whole: where its log is, what reads see, what it does when disks fail, how it begins and ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rocketmq_py.errors import ClosedError, MessageIllegal, StoreCorrupt, StoreNotWritable
from rocketmq_py.store import Appended, MessageStore, StoreConfig
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.index import index as index_module
from rocketmq_py.store.queue import queue_table
from rocketmq_py.store.queue.runs import Arrival
from tests.unit.store.helpers import HOST, NOW, SMALL, Stores, fill, flush, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem


def test_an_empty_log_directory_is_refused_if_the_default_one_has_a_log(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3)
    store.close()
    elsewhere = msgspec.structs.replace(SMALL, store_path_commit_log="/store/elsewhere")
    with pytest.raises(StoreCorrupt, match="storePathCommitLog names /store/elsewhere, which is empty, but"):
        stores.open(elsewhere)
    store = stores.open()
    assert numbers(read_queue(store)) == [0, 1, 2]
    store.close()
    default = msgspec.structs.replace(SMALL, store_path_commit_log=str(stores.root / "commitlog"))
    assert numbers(read_queue(stores.open(default))) == [0, 1, 2]


def test_a_new_store_may_have_its_log_elsewhere(stores: Stores) -> None:
    elsewhere = msgspec.structs.replace(SMALL, store_path_commit_log="/store/elsewhere")
    for expected in ([0, 1, 2], [0, 1, 2, 3]):
        store = stores.open(elsewhere)
        fill(store, 1 if len(expected) > 3 else 3, expected[-1] if len(expected) > 3 else 0)
        assert numbers(read_queue(store)) == expected
        store.close()
    assert stores.fs is not None
    assert stores.fs.names(stores.root / "commitlog") == []


# -- what reads see


def test_reads_see_what_was_just_appended(stores: Stores) -> None:
    """Most of them; those for the write path do not, because that writes many messages at once."""
    reads: dict[str, tuple[Callable[[MessageStore, Appended], Any], Any]] = {
        "get": (lambda store, _: store.get("T", 0, 0, 9).count, 1),
        "queue_range": (lambda store, _: store.queue_range("T", 0), (0, 1)),
        "min_offset_for_clients": (lambda store, _: store.min_offset_for_clients("T", 0), 0),
        "has_queue": (lambda store, _: store.has_queue("T", 0), True),
        "queue_ids": (lambda store, _: store.queue_ids("T", [0, 1]), {0}),
        "offset_by_time": (lambda store, _: store.offset_by_time("T", 0, NOW + 1), 1),
        "store_time": (lambda store, _: store.store_time("T", 0, 0), NOW),
        "earliest_store_time": (lambda store, _: store.earliest_store_time("T", 0), NOW),
        "earliest_message_time": (lambda store, _: store.earliest_message_time(), NOW),
        "message_at": (lambda store, done: len(store.message_at(done.physical_offset) or b""), SIZE),
        "record_at_queue": (lambda store, _: len(store.record_at_queue("T", 0, 0) or b""), SIZE),
        "queue_entries": (lambda store, _: len(store.queue_entries("T", 0, 0, 9)), 1),
        "in_memory": (lambda store, _: store.in_memory("T", 0, 0), True),
        "query": (lambda store, _: store.query("T", "k0", 9, 0, NOW).count, 1),
        "query_by_tag": (lambda store, _: store.query_by_tag("T", "even", 9, 0, NOW).count, 1),
        "scan": (lambda store, _: len(list(store.scan(0))), 1),
        "max_physical_offset": (lambda store, _: store.max_physical_offset, SIZE),
        "physical_offset": (lambda store, _: store.physical_offset("T", 0, 0), None),
        "log_view": (lambda store, _: store.log_view(0, 9), None),
        "min_physical_offset": (lambda store, _: store.min_physical_offset, 0),
    }
    wrong = []
    for name, (read, wanted) in reads.items():
        store = Stores(stores.root, MemoryFileSystem()).open()
        found = read(store, store.append(record(0)))
        if found != wanted:
            wrong.append((name, found))
        store.close()
    assert wrong == []


SIZE = 88 + 100 + 2 + 2 + len(record(0).properties)
"""Bytes of the first message in the log."""


def test_a_read_of_one_queue_leaves_what_was_appended_to_others_pending(stores: Stores) -> None:
    writes: list[int] = []
    store = stores.open(on_written=lambda: writes.append(1))
    fill(store, 2, queue_id=0)
    for i in range(3):
        store.append(record(i, queue_id=1))
    assert store.queue_range("T", 0) == (0, 2)
    assert store.get("T", 0, 0, 32).count == 2
    assert store.queue_range("T", 2) == (0, 0)
    assert len(writes) == 1
    assert store.queue_range("T", 1) == (0, 3)
    assert len(writes) == 2
    assert store.get("T", 1, 0, 32).count == 3
    assert len(writes) == 2


def test_unknown_queues_have_nothing(stores: Stores) -> None:
    store = stores.open()
    fill(store, 1)
    assert store.queue_range("T", 1) == (0, 0)
    assert store.queue_entries("T", 1, 0, 9) == []
    assert store.store_time("T", 1, 0) == store.earliest_store_time("T", 1) == -1
    assert (store.has_queue("T", 1), store.in_memory("T", 1, 0), store.record_at_queue("T", 1, 0)) == (
        False,
        False,
        None,
    )
    assert store.queue_ids("U", [0, 1]) == set()
    store.checks.entries("T", 1, 0, 9, Residency())
    with pytest.raises(ClosedError, match=r"the store /store is closed"):
        MessageStore(stores.root, store_host=HOST, fs=stores.fs).queue_range("T", 0)


def test_on_a_platform_that_cannot_tell_reads_wait_for_the_disk(stores: Stores) -> None:
    store = stores.open()
    assert isinstance(store.new_residency(), Residency)
    assert stores.fs is not None
    stores.fs.tells_residency = False
    assert store.new_residency() is None
    store.checks.entries("T", 0, 0, 9, None)
    store.checks.records([(0, 9)], None)


# -- disks that fail while messages become readable


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("failing", ["consumequeue", "index"])
def test_messages_are_readable_though_queues_or_index_cannot_be_written(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, failing: str, sync: bool
) -> None:
    """The log has them: only further messages are refused."""
    monkeypatch.setattr(queue_table, "_SPILL_AT", 60)
    monkeypatch.setattr(index_module, "_BUILD_AT", 6)
    arrived: list[Arrival] = []
    config = msgspec.structs.replace(SMALL, flush_disk_type="SYNC_FLUSH") if sync else SMALL
    store = stores.open(config, on_arrival=arrived.extend)
    assert stores.fs is not None
    stores.fs.fails = lambda operation, path: operation in {"create", "write", "allocate"} and failing in path.parts
    fill(store, 3)
    store.flush()
    assert store.queue_range("T", 0) == (0, 3)
    assert [(one.queue_offset, one.next_offset, one.store_timestamp) for one in arrived] == [(0, 3, NOW)]
    with pytest.raises(StoreNotWritable, match=r"log, queues or index cannot be written: .*No space left"):
        store.append(record(3))
    stores.fs.fails = lambda *_: False
    store.tick(NOW)
    assert store.append(record(3)).queue_offset == 3
    assert store.flush()
    assert numbers(read_queue(store)) == [0, 1, 2, 3]


def test_long_tails_are_written_to_their_files(stores: Stores) -> None:
    """From 16 KiB on; 819 entries have less."""
    store = stores.open(StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=9, max_index_num=9999))
    for i in range(819):
        store.append(record(i, size=1, keys=None, uniq_key=None))
    store.commit_pending()
    queue = store._queues.by_key["T", 0]
    assert len(queue.tail) == 16380
    fill(store, 1, size=1)
    assert (len(queue.tail), queue.tail_start) == (0, 820)


def test_a_flush_says_whether_the_log_is_on_disk(stores: Stores) -> None:
    store = stores.open()
    done = store.append(record(0))
    assert store.flush()
    assert store.flushed_offset == done.size
    assert stores.fs is not None
    store.append(record(1))
    stores.fs.fails = lambda operation, path: operation == "write" and "commitlog" in path.parts
    assert not store.flush()
    stores.fs.fails = lambda operation, path: operation == "sync"
    assert not store.flush()
    stores.fs.fails = lambda *_: False
    assert not store.flush(), "the kernel may have dropped what it could not write"


# -- opening and closing


def test_who_has_a_store_open_is_in_its_abort_file(stores: Stores) -> None:
    for is_slave, content in ((False, b"%d" % os.getpid()), (True, b"%d slave" % os.getpid())):
        store = stores.open(is_slave=is_slave)
        assert stores.fs is not None
        assert stores.fs.read(store.layout.abort) == content
        store.close()
        assert stores.fs.read(store.layout.abort) is None


def test_a_store_that_cannot_be_opened_is_unlocked_and_left_as_it_was(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3)
    store.close()
    fs = stores.fs
    assert fs is not None
    larger = msgspec.structs.replace(SMALL, mapped_file_size_commit_log=8192)
    for before in (None, b"17"):
        if before is not None:
            fs.write(store.layout.abort, before)
        with pytest.raises(StoreCorrupt, match="mappedFileSizeCommitLog says 8192"):
            stores.open(larger)
        assert fs.locked == set()
        assert (fs.read(store.layout.abort) is None) is (before is None)
    fs.fails = lambda operation, _: operation == "load"
    fs.open = lambda *_, **__: (_ for _ in ()).throw(OSError("the disk fails"))  # type: ignore[method-assign]
    with pytest.raises(StoreCorrupt, match="/store cannot be recovered: the disk fails"):
        stores.open()


def test_only_a_slave_takes_bytes_of_a_master(stores: Stores) -> None:
    store = stores.open()
    assert store.is_writable
    with pytest.raises(StoreNotWritable, match="the store /store is not that of a slave: it has no master"):
        _ = store.replica
    store.close()
    slave = stores.open(is_slave=True)
    assert slave.replica.end == 0
    assert not slave.is_writable
    with pytest.raises(StoreNotWritable, match="it is that of a slave, which accepts messages from its master only"):
        slave.append(record(0))


def test_a_deleted_topic_is_gone_even_if_that_cannot_be_noted(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = stores.open()
    fill(store, 3)
    fill(store, 2, topic="U")
    flush(store)
    assert stores.fs is not None
    stores.fs.fails = lambda operation, path: path.name.startswith("queueends")
    store.delete_topic("T")
    assert store.queues() == [("U", 0)]
    assert "the ends of the queues still have topics T, which a crash can bring back: " in caplog.text


def test_queues_go_on_behind_lost_messages(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3)
    store.keep_ends({("T", 0): 5, ("T", 1): 4, ("U", 0): 0})
    assert {key: store.queue_range(*key) for key in store.queues()} == {
        ("T", 0): (0, 5), ("T", 1): (4, 4), ("U", 0): (0, 0),
    }  # fmt: skip
    store.keep_ends({("T", 0): 5, ("T", 1): 3})
    assert [store.append(record(9, queue_id=queue_id)).queue_offset for queue_id in (0, 1)] == [5, 4]


def test_changed_limits_apply_when_they_are_reloaded(stores: Stores) -> None:
    store = stores.open(msgspec.structs.replace(SMALL))
    fill(store, 1)
    store.config.max_message_size = 50
    store.reload_limits()
    with pytest.raises(MessageIllegal, match="the limits are 50"):
        store.append(record(1, size=51))
    assert store.append(record(1, size=50)).queue_offset == 1


def test_which_topics_have_batch_queues(stores: Stores) -> None:
    store = stores.open(is_batched=lambda topic: topic == "B")
    for topic in ("B", "T"):
        store.append(record(0, topic=topic))
    assert store.batched_topics() == {"B"}
