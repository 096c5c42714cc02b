"""All consume queues are missing, and are rebuilt while the store is open."""

from __future__ import annotations

import pytest

from tests.unit.store.helpers import SMALL, fill, flush, numbers, read_queue
from tests.unit.store.test_rebuild import NOW_OPEN, finish


@pytest.mark.parametrize("crashed", [False, True])
def test_all_queues_are_rebuilt_while_the_store_is_open(stores, small_parts, caplog, crashed):
    store = stores.open(NOW_OPEN)
    fill(store, 40)
    for number in range(12):
        fill(store, 1, topic="U", queue_id=number)
    if crashed:
        flush(store)
        stores.crash()
    else:
        store.close()
    for path in [path for path in stores.fs.nodes if "consumequeue" in path.parts]:
        stores.fs.remove(path)
    caplog.clear()
    store = stores.open(NOW_OPEN)
    said = [one.getMessage() for one in caplog.records if "while the store is open" in one.getMessage()]
    assert len(said) == 11
    assert said[0].endswith("T-0 is rebuilt from the commit log while the store is open: its files are missing")
    assert said[10] == "3 more consume queues are rebuilt from the commit log while the store is open"
    assert store.rebuild.queues_left == 13
    assert fill(store, 1, start=40)[0].queue_offset == 40
    assert fill(store, 1, topic="U", queue_id=3)[0].queue_offset == 1
    finish(store)
    assert numbers(read_queue(store)) == list(range(41))
    assert [store.queue_range("U", number) for number in (2, 3)] == [(0, 1), (0, 2)]


def test_all_queues_are_rebuilt_before_if_that_is_short_or_their_ends_are_lost(stores):
    for config, lost in ((SMALL, "checkpoint"), (NOW_OPEN, "queueends")):
        store = stores.open(config)
        start = store.queue_range("T", 0)[1]
        fill(store, 40, start=start)
        store.close()
        for path in [path for path in stores.fs.nodes if "consumequeue" in path.parts or path.name.startswith(lost)]:
            stores.fs.remove(path)
        store = stores.open(config)
        assert store.rebuild.queues_left == 0
        assert numbers(read_queue(store)) == list(range(start + 40))
        store.close()
