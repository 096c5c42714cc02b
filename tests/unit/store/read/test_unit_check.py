"""Wrong units of batch consume queues are found by the check of an open store, and rebuilt from the log."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketmq_py.store.read.scrub import Counts, Scrub
from rocketmq_py.store.read.unit_check import wrong_units
from rocketmq_py.wire.batch import encode_batch
from tests.unit.store.coldfs import ColdFileSystem
from tests.unit.store.helpers import SMALL, Stores, record

CONFIG = msgspec.structs.replace(SMALL, mapper_file_size_batch_consume_queue=46 * 4)
COUNT = 24


def opened(stores: Stores) -> MessageStore:
    return stores.open(CONFIG, is_batched=lambda topic: topic == "T")


def filled(stores: Stores) -> tuple[MessageStore, BatchConsumeQueue]:
    """A queue of batches and single messages in turn, in several files, beside a plain queue."""
    store = opened(stores)
    for i in range(COUNT):
        count = i % 4 + 1
        if count == 1:
            store.append(record(i))
        else:
            body = encode_batch((0, b"%d" % n, b"") for n in range(count))
            batch = record(
                i, body=body, properties=b"UNIQ_KEY\x01B%d\x02" % i, tags_code=0, uniq_key=f"B{i}", keys=None
            )
            store.append_inner_batch(batch, count)
        store.append(record(i, topic="plain"))
    store.commit_pending()
    return store, queue_of(store)


def queue_of(store: MessageStore) -> BatchConsumeQueue:
    queue = store._queue("T", 0)
    assert isinstance(queue, BatchConsumeQueue)
    return queue


def units_of(queue: BatchConsumeQueue) -> list[BatchUnit | None]:
    return [queue.unit_at(number) for number in range(COUNT)]


def check(store: MessageStore, subject: Scrub | None = None) -> tuple[Counts, int]:
    """One pass; what was found, and how often units had to be loaded."""
    subject, loads = subject or store.new_scrub(), 0
    while (part := subject.begin()) is not None:
        store.load([part])
        list(subject.records())
        store.load(subject.entries())
        list(subject.queues())
        while entries := subject.entries():
            loads += 1
            assert loads < 1_000, "no progress"
            store.load(entries)
            list(subject.queues())
    return subject.counts._replace(bytes=0), loads


WRONG = {
    "physical": 1 << 40, "size": 7, "tags_code": -5, "store_timestamp": 1, "base": 3, "messages": 9,
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
@pytest.mark.parametrize("number", [0, 1, 11, COUNT - 1])
def test_a_wrong_field_of_a_unit_is_rebuilt(
    stores: Stores, field: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    store, queue = filled(stores)
    right = units_of(queue)
    unit = right[number]
    assert unit is not None
    queue.replace_unit(number, unit._replace(**{field: WRONG[field]}))
    assert units_of(queue) != right
    assert check(store)[0] == Counts(records=2 * COUNT, entries_rebuilt=1, passes=1)
    assert units_of(queue) == right
    what = f"unit of offset {unit.base} of queue 0 of topic T"
    assert caplog.messages == [f"the batch consume queue {what} was wrong: rebuilt from the commit log"]


def test_units_that_are_right_are_left_alone(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store, _ = filled(stores)
    assert check(store)[0] == Counts(records=2 * COUNT, passes=1)
    assert caplog.text == ""


def test_a_page_of_garbage_is_rebuilt_in_the_files(stores: Stores) -> None:
    filled(stores)[0].close()
    store = opened(stores)
    queue = queue_of(store)
    right = units_of(queue)
    for number in range(5, 14):
        queue.replace_unit(number, BatchUnit(number, 1 << 20, 0, -1, 1 << 40, -7))
    assert check(store)[0].entries_rebuilt == 9
    assert units_of(queue) == right
    store.close()
    assert units_of(queue_of(opened(stores))) == right


@pytest.mark.parametrize(("wrong", "lost"), [((0, 1), 2), ((0, 1, 2), 3), ((22, 23), 21)])
def test_units_beyond_a_lost_record_are_not_counted_across_it(
    stores: Stores, wrong: tuple[int, ...], lost: int
) -> None:
    """Behind it their numbers are not known: a unit must not get the place of its neighbour."""
    _, queue = filled(stores)
    right = [unit for unit in units_of(queue) if unit is not None]
    assert len(right) == COUNT
    for number in wrong:
        queue.replace_unit(number, right[number]._replace(tags_code=-9))
    of_log = right[:lost] + right[lost + 1 :]
    found: list[list[tuple[int, BatchUnit]]] = []

    def steps() -> Iterator[None]:
        found.append((yield from wrong_units(queue, of_log, Residency())))

    list(steps())
    assert found == [[]]


def test_units_of_a_topic_that_was_created_again_are_left_alone(stores: Stores) -> None:
    store, _ = filled(stores)
    store.delete_topic("T")
    for _ in range(3):
        store.tick(stores.clock())
    for i in range(3):
        store.append(record(i))
    store.commit_pending()
    before = [queue_of(store).unit_at(number) for number in range(3)]
    assert check(store)[0] == Counts(records=2 * COUNT + 3, passes=1)
    assert [queue_of(store).unit_at(number) for number in range(3)] == before


def test_no_unit_is_read_cold(stores: Stores) -> None:
    fs = stores.fs = ColdFileSystem()
    filled(stores)[0].close()
    store = opened(stores)
    queue = queue_of(store)
    unit = queue.unit_at(9)
    assert unit is not None
    queue.replace_unit(9, unit._replace(messages=1))
    fs.chill()
    counts, loads = check(store)
    assert (counts.entries_rebuilt, fs.cold_reads) == (1, [])
    assert loads > 0
