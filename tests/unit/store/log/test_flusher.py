"""When bytes reach the disk, and which callers wait for it."""

from __future__ import annotations

import asyncio
from struct import unpack_from

import msgspec
import pytest

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.store import SYNC_FLUSH
from tests.unit.store.helpers import SMALL, fill, numbers, read_queue, record

SYNC = msgspec.structs.replace(SMALL, flush_disk_type=SYNC_FLUSH)


def durable_log(stores):
    files = [node for path, node in stores.fs.nodes.items() if "commitlog" in path.parts]
    return b"".join(node.durable or bytes(4096) for node in files)


async def test_waiters_are_completed_when_the_bytes_are_on_disk(stores):
    store = stores.open(SYNC)
    done = [store.append(record(i)) for i in range(40)]
    ends = [d.physical_offset + d.size for d in done]
    futures = [store.flushed(end) for end in ends]
    assert store.flushed_offset == 0
    store.commit_pending()
    await asyncio.gather(*(f for f in futures if f is not None))
    assert store.flushed_offset >= ends[-1]
    assert (
        durable_log(stores)[: ends[-1]]
        == b"".join(bytes(n.content) for p, n in stores.fs.nodes.items() if "commitlog" in p.parts)[: ends[-1]]
    )
    assert store.flushed(ends[-1]) is None
    await store.wait_flushed(ends[0])


async def test_many_waiters_share_a_sync(stores):
    store = stores.open(SYNC)
    syncs = []
    stores.fs.fails = lambda operation, path: operation == "sync" and syncs.append(path) is not None
    for i in range(30):
        store.append(record(i, size=10))
    futures = [store.flushed(end) for end in range(100, 4000, 100)]
    store.commit_pending()
    await asyncio.gather(*(f for f in futures if f is not None))
    assert len(syncs) < 10


async def test_a_failed_sync_fails_all_waiters_and_stops_the_store(stores):
    store = stores.open(SYNC)
    fill(store, 3)
    stores.fs.failing.add("sync")
    done = store.append(record(3))
    with pytest.raises(StoreNotWritable, match="could not be synced"):
        await store.wait_flushed(done.physical_offset + done.size)
    with pytest.raises(StoreNotWritable):
        await store.wait_flushed(done.physical_offset + done.size)
    store.tick(stores.clock.now)
    assert not store.is_writable
    with pytest.raises(StoreNotWritable, match="the disk failed"):
        store.append(record(4))
    stores.fs.failing.clear()
    store.close()
    assert stores.fs.size(store.layout.abort) is not None
    assert numbers(read_queue(stores.open())) == [0, 1, 2, 3]


async def test_a_cancelled_waiter_is_ignored(stores):
    store = stores.open(SYNC)
    done = [store.append(record(i)) for i in range(2)]
    first = store.flushed(done[0].physical_offset + 1)
    assert first is not None
    first.cancel()
    await store.wait_flushed(done[1].physical_offset + done[1].size)


def wait_idle(store):
    """Let the flush thread finish what it was asked for."""
    import threading

    done = threading.Event()
    store._flusher.request(0, done.set)
    assert done.wait(10)


def test_the_log_is_flushed_when_enough_was_written(stores):
    config = msgspec.structs.replace(SMALL, flush_commit_log_least_pages=1)
    store = stores.open(config)
    fill(store, 5)
    store.tick(stores.clock.now + 600)
    wait_idle(store)
    assert store.flushed_offset == 0
    fill(store, 20)
    store.tick(stores.clock.now + 400)
    wait_idle(store)
    assert store.flushed_offset == 0
    store.tick(stores.clock.now + 600)
    wait_idle(store)
    assert store.flushed_offset == store.max_physical_offset
    fill(store, 1)
    store.tick(stores.clock.now + 10_700)
    wait_idle(store)
    assert store.flushed_offset == store.max_physical_offset


def test_a_thorough_flush_covers_queues_index_and_checkpoint(stores):
    store = stores.open()
    fill(store, 5)
    store.tick(stores.clock.now + 60_000)
    wait_idle(store)
    nodes = {path.name: node for path, node in stores.fs.nodes.items() if "consumequeue" in path.parts}
    assert nodes[f"{0:020d}"].durable[80:100] != bytes(20)
    times = unpack_from(">qqq", stores.fs.nodes[store.layout.checkpoint].durable)
    assert times == (stores.clock.now,) * 3


def test_a_flush_of_many_queues_takes_several_ticks(stores):
    store = stores.open()
    for number in range(225):
        store.append(record(0, topic=f"T{number}", size=9))
    later = stores.clock.now + 60_000
    has_checkpoint = []
    for _ in range(3):
        store.tick(later)
        wait_idle(store)
        has_checkpoint.append(store.layout.checkpoint in stores.fs.nodes)
        fill(store, 1, start=1, topic="another")
    assert has_checkpoint == [False, False, True], "all queues are on disk after the third tick"
    assert len(stores.fs.names(store.layout.consume_queue)) == 225
    times = unpack_from(">qqq", stores.fs.nodes[store.layout.checkpoint].durable)
    assert times == (stores.clock.now,) * 3


def test_an_idle_store_writes_nothing(stores):
    store = stores.open()
    fill(store, 5)
    store.tick(stores.clock.now + 60_000)
    wait_idle(store)
    stores.fs.failing.update({"sync", "write", "allocate", "replace"})
    for later in range(61_000, 300_000, 1000):
        store.tick(stores.clock.now + later)
    wait_idle(store)
    assert store._flusher.failure is None


def test_failed_queue_writes_stop_appends_but_not_reads(stores):
    store = stores.open()
    fill(store, 5)
    stores.fs.failing.add("write")
    store.tick(stores.clock.now + 60_000)
    assert numbers(read_queue(store)) == list(range(5))
    with pytest.raises(StoreNotWritable, match="log, queues or index cannot be written"):
        store.append(record(5))
    stores.fs.failing.clear()
    store.tick(stores.clock.now + 60_100)
    assert store.append(record(5)).queue_offset == 5
    store.close()
    assert numbers(read_queue(stores.open())) == list(range(6))


def test_a_failed_log_write_fails_the_append_and_is_retried(stores):
    store = stores.open()
    fill(store, 5)
    store.append(record(5))
    stores.fs.fails = lambda operation, path: operation == "write" and path.parent.name == "commitlog"
    with pytest.raises(StoreNotWritable, match=r"the commit log cannot be written: .*No space left"):
        store.commit_pending()
    assert numbers(read_queue(store)) == list(range(5))
    with pytest.raises(StoreNotWritable):
        store.append(record(6))
    store.tick(stores.clock.now + 1_000)
    stores.fs.fails = lambda operation, path: False
    store.tick(stores.clock.now + 2_000)
    assert store.append(record(6)).queue_offset == 6
    assert numbers(read_queue(store)) == list(range(7))
    store.close()
    assert numbers(read_queue(stores.open())) == list(range(7))


def test_a_full_disk_at_close_leaves_the_rest_to_recovery(stores, caplog):
    store = stores.open()
    fill(store, 5)
    stores.fs.failing.add("write")
    store.close()
    assert "was not closed cleanly" in caplog.text
    assert stores.fs.size(store.layout.abort) is not None
    stores.fs.failing.clear()
    assert numbers(read_queue(stores.open())) == list(range(5))
