"""The place of a record by its consume queue entry, which counts only between its neighbours."""

from __future__ import annotations

import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.consume_queue import BLANK_SIZE, ConsumeQueue
from rocketmq_py.store.read.strays import Place, place_of
from tests.unit.store.helpers import Stores, record

COUNT = 60


def opened(stores: Stores) -> tuple[MessageStore, list[ConsumeQueue]]:
    store = stores.open()
    for number in range(2 * COUNT):
        store.append(record(number, queue_id=number % 2))
    store.commit_pending()
    return store, store._queues.of_topic("T")


def found(physical: int, size: int) -> Found:
    return Found(physical, size, "T", 7, 7, 0, 0, b"")


def search(queues: list[ConsumeQueue], physical: int, size: int) -> tuple[Place | None, int]:
    """What is found, and in how many steps."""
    steps, search = 0, place_of(queues, found(physical, size), Residency())
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value, steps
        steps += 1


@pytest.mark.parametrize("queue_id", [0, 1])
@pytest.mark.parametrize("offset", [0, 1, 30, COUNT - 1])
def test_each_record_is_found_by_its_entry(stores: Stores, queue_id: int, offset: int) -> None:
    _, queues = opened(stores)
    entry = queues[queue_id].entry(offset)
    assert entry is not None
    assert search(queues, *entry[:2]) == (Place(queue_id, offset), queue_id)
    assert search(queues, entry[0], entry[1] + 1) == (None, 2)
    assert search(queues, entry[0] + 1, entry[1]) == (None, 2)


@pytest.mark.parametrize("neighbour", [-1, 1])
@pytest.mark.parametrize("wrong", [True, False])
def test_an_entry_that_overlaps_its_neighbour_does_not_count(stores: Stores, neighbour: int, *, wrong: bool) -> None:
    _, queues = opened(stores)
    queue = queues[0]
    entry, beside = queue.entry(30), queue.entry(30 + neighbour)
    assert entry is not None
    assert beside is not None
    if neighbour < 0:
        queue.replace_entry(29, beside[0], entry[0] - beside[0] + wrong, 0)
    else:
        queue.replace_entry(31, entry[0] + entry[1] - wrong, beside[1], 0)
    assert search(queues, *entry[:2])[0] == (None if wrong else Place(0, 30))


def test_blank_neighbours_say_nothing(stores: Stores) -> None:
    _, queues = opened(stores)
    queue = queues[0]
    entry = queue.entry(30)
    assert entry is not None
    for offset in (*range(20, 30), *range(31, 40)):
        queue.replace_entry(offset, 0, BLANK_SIZE, 0)
    assert search(queues, *entry[:2])[0] == Place(0, 30)


def test_a_queue_that_begins_behind_the_record_or_is_empty_has_no_place_for_it(stores: Stores) -> None:
    _, queues = opened(stores)
    first = queues[1].entry(0)
    assert first is not None
    queues[1].min_offset = 3
    assert search([queues[1]], *first[:2])[0] is None
    queues[1].min_offset = queues[1].max_offset
    assert search([queues[1]], *first[:2])[0] is None
    assert search([], 0, 100) == (None, 0)
