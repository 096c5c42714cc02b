"""Damaged batch consume queues that are rebuilt while the store is open."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.store import GetStatus
from rocketmq_py.store.settings import SYNC_FLUSH
from tests.unit.store.helpers import record
from tests.unit.store.test_rebuild import NOW_OPEN, finish, parts, run


def batch_units(store, end):
    """Queue offset of the first message of each record of the batch consume queue T-0, and number of its messages."""
    queue = store._queues.by_key["T", 0]
    return [(unit.base, unit.messages) for unit in queue.units(0, end)]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", SYNC_FLUSH])
def test_batch_consume_queues_are_rebuilt_while_sends_go_on(stores, small_parts, flush):
    config = msgspec.structs.replace(NOW_OPEN, flush_disk_type=flush)
    store = stores.open(config, is_batched=lambda topic: topic == "T")
    wanted = []

    def send(count):
        sent = store.append_inner_batch(record(len(wanted)), count) if count > 1 else store.append(record(len(wanted)))
        store.commit_pending()
        assert sent.queue_offset == sum(messages for _, messages in wanted)
        wanted.append((sent.queue_offset, count))

    for count in (1, 3, 2) * 10:
        send(count)
    store.close()
    for name in stores.fs.names(stores.root / "batchconsumequeue" / "T" / "0"):
        stores.fs.remove(stores.root / "batchconsumequeue" / "T" / "0" / name)
    store = stores.open(config, is_batched=lambda topic: topic == "T")
    assert store.rebuild.has("T", 0)
    assert store.queue_range("T", 0) == (0, 60)
    assert store.batched_topics() == {"T"}
    assert store.get("T", 0, 5, 32).status is GetStatus.REBUILDING
    for number, _ in enumerate(parts(store)):
        if number < 4:
            send(2)
            send(1)
    send(4)
    assert store.flush()
    end = sum(messages for _, messages in wanted)
    assert store.queue_range("T", 0) == (0, end)
    assert batch_units(store, end) == wanted
    store.close()
    store = stores.open(config, is_batched=lambda topic: topic == "T")
    assert store.rebuild.queues_left == 0
    assert batch_units(store, end) == wanted
    assert not store._queues.by_key["T", 0]._counts


def test_a_batch_consume_queue_is_rebuilt_again_after_a_stop_in_the_middle(stores, small_parts):
    def open_store():
        return stores.open(NOW_OPEN, is_batched=lambda topic: topic == "T")

    store = open_store()
    for number in range(30):
        store.append_inner_batch(record(number), 2)
    store.close()
    stores.fs.remove(stores.root / "batchconsumequeue" / "T" / "0" / f"{0:020d}")
    store = open_store()
    run(store, 3)
    store.append_inner_batch(record(30), 2)
    store.close()
    assert not any(stores.fs.names(stores.root / "batchconsumequeue" / "T" / "0"))
    store = open_store()
    assert store.queue_range("T", 0) == (0, 62)
    finish(store)
    assert batch_units(store, 62) == [(2 * number, 2) for number in range(31)]
