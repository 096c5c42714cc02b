"""Under SYNC_FLUSH a message is readable only when it is on disk."""

from __future__ import annotations

import asyncio
import threading
from struct import unpack_from

import msgspec
import pytest

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.store import SYNC_FLUSH, GetStatus
from tests.unit.store.helpers import SMALL, fill, numbers, read_queue, record

SYNC = msgspec.structs.replace(SMALL, flush_disk_type=SYNC_FLUSH)
SECONDS = 120.0


@pytest.fixture
def gate(stores):
    """Syncs of the log wait until this is set."""
    gate = threading.Event()

    def wait(operation, path):
        if operation == "sync" and "commitlog" in path.parts:
            assert gate.wait(SECONDS)
        return False

    stores.fs.fails = wait
    yield gate
    gate.set()


def visible(store):
    """The end of the queue, what a read from its begin finds, and how many an index search does."""
    found = store.get("T", 0, 0, 32)
    return store.queue_range("T", 0)[1], found.count, store.query("T", "all", 64, 0, 1 << 62).count


async def test_a_message_is_readable_only_when_it_is_on_disk(stores, gate):
    arrived = asyncio.Event()
    seen = []
    store = stores.open(SYNC, on_arrival=lambda arrivals: (seen.extend(arrivals), arrived.set()))
    fill(store, 3)
    assert visible(store) == (0, 0, 0)
    assert store.get("T", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.message_at(0) is not None
    store.tick(stores.clock.now + 100)
    assert visible(store) == (0, 0, 0)
    gate.set()
    async with asyncio.timeout(SECONDS):
        await arrived.wait()
    assert [(a.topic, a.queue_offset, a.next_offset, len(a.entries)) for a in seen] == [("T", 0, 3, 9)]
    assert visible(store) == (3, 3, 3)


def test_each_flush_makes_readable_what_it_covers(stores, gate):
    store = stores.open(SYNC)
    fill(store, 2)
    fill(store, 2, start=2, queue_id=1)
    first = store._unconfirmed.take(0)
    assert first == []
    assert store.queue_range("T", 0) == store.queue_range("T", 1) == (0, 0)
    gate.set()
    done = store.append(record(9))
    store.commit_pending()

    async def wait():
        await store.wait_flushed(done.physical_offset + done.size)

    asyncio.run(wait())
    assert numbers(read_queue(store)) == [0, 1, 9]
    assert numbers(read_queue(store, queue_id=1)) == [2, 3]


def test_messages_of_a_failed_flush_are_never_readable(stores):
    async def scenario():
        store = stores.open(SYNC)
        fill(store, 2)
        stores.fs.failing.add("sync")
        done = store.append(record(2))
        with pytest.raises(StoreNotWritable, match="could not be synced"):
            await store.wait_flushed(done.physical_offset + done.size)
        store.tick(stores.clock.now)
        return store

    store = asyncio.run(scenario())
    assert store.queue_range("T", 0)[1] <= 2
    assert store.query("T", "k2", 64, 0, 1 << 62).count == 0


def test_a_close_waits_for_the_flush_and_loses_nothing(stores, gate):
    store = stores.open(SYNC)
    fill(store, 5)
    threading.Timer(0.05, gate.set).start()
    store.close()
    assert stores.fs.size(store.layout.abort) is None
    again = stores.open(SYNC)
    assert numbers(read_queue(again)) == list(range(5))
    assert again.query("T", "all", 64, 0, 1 << 62).count == 5


def test_the_checkpoint_does_not_cover_unconfirmed_messages(stores, gate):
    store = stores.open(SYNC)
    gate.set()
    fill(store, 1)
    store.close()
    before = stores.clock.now
    store = stores.open(SYNC)
    fill(store, 1, start=1)
    store.close()
    store = stores.open(SYNC)
    gate.clear()
    stores.clock.now += 60_000
    fill(store, 1, start=2)
    store.tick(stores.clock.now)
    gate.set()
    drained = threading.Event()
    store._flusher.request(0, drained.set)
    assert drained.wait(SECONDS)
    checkpoint = stores.fs.read(store.layout.checkpoint)
    assert unpack_from(">q", checkpoint, 8)[0] <= before < stores.clock.now


def test_unconfirmed_entries_of_a_deleted_topic_are_dropped(stores, gate):
    store = stores.open(SYNC)
    fill(store, 2)
    fill(store, 2, start=2, topic="other")
    store.delete_topic("T")
    gate.set()
    store.close()
    again = stores.open(SYNC)
    assert again.queue_range("T", 0) == (0, 0)
    assert numbers(read_queue(again, "other")) == [2, 3]


def test_read_un_committed_makes_unflushed_messages_readable(stores, gate):
    store = stores.open(msgspec.structs.replace(SYNC, read_un_committed=True))
    fill(store, 3)
    assert visible(store) == (3, 3, 3)
