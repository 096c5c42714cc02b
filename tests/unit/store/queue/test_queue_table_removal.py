"""The files of a deleted topic are removed in steps, between which the store is used."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import Stores, fill, flush, numbers, read_queue
from tests.unit.store.later import LaterWorkers

QUEUES = 5


def queue_files(stores: Stores) -> list[str]:
    """Ids of the queues of topic T that have a file."""
    root = stores.root / "consumequeue" / "T"
    return sorted(path.parent.name for path in stores.fs.nodes if path.is_relative_to(root))


def filled(stores: Stores) -> MessageStore:
    store = stores.open()
    for queue_id in range(QUEUES):
        fill(store, 3, queue_id=queue_id)
    flush(store)
    return store


def test_the_queues_go_at_once_and_a_file_with_each_step(stores: Stores) -> None:
    store = filled(stores)
    assert queue_files(stores) == ["0", "1", "2", "3", "4"]
    left = []
    for _ in store.topic_removal("T"):
        assert store.queues() == []
        left.append(len(queue_files(stores)))
    assert left == [4, 3, 2, 1, 0]


def test_a_topic_that_is_created_again_meanwhile_keeps_its_new_messages(stores: Stores) -> None:
    store = filled(stores)
    steps = store.topic_removal("T")
    next(steps)
    for queue_id in range(QUEUES):
        fill(store, 1, queue_id=queue_id)
    flush(store)
    assert list(steps) == [None] * (QUEUES - 1)
    assert queue_files(stores) == ["0", "1", "2", "3", "4"]
    assert {store.queue_range("T", queue_id) for queue_id in range(QUEUES)} == {(0, 1)}


def test_a_close_removes_what_is_left(stores: Stores) -> None:
    store = filled(stores)
    next(store.topic_removal("T"))
    store.close()
    assert queue_files(stores) == []


def test_files_that_cannot_be_removed_are_removed_at_the_end(stores: Stores) -> None:
    store = filled(stores)
    stores.fs.failing = {"remove"}
    with pytest.raises(OSError, match="No space left"):
        store.delete_topic("T")
    assert store.queues() == []
    stores.fs.failing = set()
    store.close()
    assert queue_files(stores) == []


async def test_the_event_loop_does_not_write_the_ends_of_the_queues(stores: Stores) -> None:
    workers = LaterWorkers()
    store = stores.open(workers=workers)
    fill(store, 3)
    fill(store, 1, topic="U")
    flush(store)
    stores.fs.fails = lambda operation, path: operation == "write" and path.name == "queueends"
    removal = asyncio.ensure_future(store.begin_removal("T"))
    await asyncio.sleep(0)
    assert store.queues() == [("U", 0)]
    assert not removal.done(), "it waits for the thread"
    stores.fs.fails = lambda _operation, _path: False
    workers.thread.run()
    for _ in await removal:
        pass
    assert queue_files(stores) == []
    stores.crash()
    assert stores.open().queues() == [("U", 0)]


def test_a_topic_created_again_first_leaves_the_ends(stores: Stores) -> None:
    store = stores.open(workers=LaterWorkers())
    fill(store, 9)
    fill(store, 1, topic="U")
    flush(store)
    removal = store.begin_removal("T")
    with pytest.raises(RuntimeError):
        removal.send(None)  # no event loop runs, so the thread writes nothing
    fill(store, 2)
    flush(store)
    stores.crash()
    assert stores.open().queue_range("T", 0) == (0, 2)


@pytest.mark.parametrize("flushed", [0, 10], ids=["never flushed", "flushed before"])
@pytest.mark.parametrize("deleted", [11, 15], ids=["one message unflushed", "five messages unflushed"])
def test_a_topic_created_again_has_its_new_messages_only_after_a_crash(
    stores: Stores, flushed: int, deleted: int
) -> None:
    """The records of both topics are in the part of the log that the queues on disk do not have."""
    store = stores.open()
    fill(store, flushed)
    flush(store)
    fill(store, deleted - flushed, start=flushed)
    store.delete_topic("T")
    fill(store, 3, start=100)
    stores.crash()
    store = stores.open()
    assert numbers(read_queue(store)) == [100, 101, 102]
    assert fill(store, 1, start=103)[0].queue_offset == 3


def test_offset_0_ends_no_queue_that_has_entries_on_disk(stores: Stores) -> None:
    """No checksum covers the queue offset in a record: one flipped bit makes an 8 a 0."""
    store = stores.open()
    fill(store, 8)
    flush(store)
    place = fill(store, 2, start=8)[0].physical_offset
    stores.crash()
    stores.fs.nodes[stores.root / "commitlog" / f"{0:020d}"].content[place + 27] ^= 8
    store = stores.open()
    found = [store.get("T", 0, offset, 1) for offset in (*range(8), 9)]
    assert [numbers(decode_records(one.body)) for one in found] == [[one] for one in (*range(8), 9)]
