"""The first files of many new queues are made by a thread, before a flush or a stop needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.store.queue.new_files import AT_ONCE, MOST_AT_ONCE
from tests.unit.store.helpers import Stores, read_queue, record
from tests.unit.store.later import LaterWorkers


@pytest.fixture
def workers() -> LaterWorkers:
    return LaterWorkers()


def queue_files(stores: Stores) -> list[Path]:
    return [path for path in stores.fs.nodes if "consumequeue" in str(path)]


def filled(stores: Stores, workers: LaterWorkers, topics: int, **changes: Any) -> Any:
    store = stores.open(workers=workers, **changes)
    for number in range(topics):
        store.append(record(0, topic=f"T{number}"))
    store.commit_pending()
    return store


@pytest.mark.parametrize("batched", [False, True])
def test_a_flush_and_a_stop_make_no_files_of_many_queues(stores: Stores, workers: LaterWorkers, batched: bool) -> None:
    many = MOST_AT_ONCE + AT_ONCE
    store = filled(stores, workers, many, is_batched=lambda _: batched)
    for made in (MOST_AT_ONCE, many, many):
        store.tick(stores.clock())
        store.tick(stores.clock())
        assert len(workers.thread.jobs) <= 1, "one job at a time"
        workers.thread.run()
        assert len(queue_files(stores)) == made
    stores.fs.fails = lambda operation, path: operation == "create" and "consumequeue" in str(path)
    store.close()
    again = stores.open()
    assert len(read_queue(again, "T7", 0)) == 1


def test_files_of_few_queues_are_made_with_their_entries(stores: Stores, workers: LaterWorkers) -> None:
    store = filled(stores, workers, AT_ONCE - 1)
    store.tick(stores.clock())
    assert workers.thread.jobs == []
    store.close()
    assert len(queue_files(stores)) == AT_ONCE - 1


def test_no_file_of_a_deleted_topic_is_made(stores: Stores, workers: LaterWorkers) -> None:
    store = filled(stores, workers, AT_ONCE)
    store.tick(stores.clock())
    store.delete_topic("T3")
    workers.thread.run()
    assert len(queue_files(stores)) == AT_ONCE - 1
    assert not [path for path in queue_files(stores) if "T3" in path.parts]


def test_queues_whose_empty_files_a_crash_leaves_are_loaded(stores: Stores, workers: LaterWorkers) -> None:
    store = filled(stores, workers, AT_ONCE)
    store.tick(stores.clock())
    workers.thread.run()
    assert store.flush()
    stores.crash()
    again = stores.open()
    assert {again.queue_range(f"T{number}", 0) for number in range(AT_ONCE)} == {(0, 1)}


def test_a_disk_that_is_full_is_a_warning_and_the_flush_tries_again(
    stores: Stores, workers: LaterWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(stores, workers, AT_ONCE)
    store.tick(stores.clock())
    stores.fs.failing.add("create")
    workers.thread.run()
    stores.fs.failing.clear()
    assert "cannot be made" in caplog.text
    store.close()
    assert len(queue_files(stores)) == AT_ONCE


def test_of_a_topic_that_is_deleted_while_the_thread_works_no_file_is_made(
    stores: Stores, workers: LaterWorkers
) -> None:
    """The thread looks again before each group of files."""
    store = filled(stores, workers, AT_ONCE)
    store.tick(stores.clock())
    made = 0

    def delete_after_the_first_group(operation: str, path: Path) -> bool:
        nonlocal made
        made += operation == "create" and "consumequeue" in str(path)
        if made == 1:
            store._queues.by_key.pop((f"T{AT_ONCE - 1}", 0), None)
        return False

    stores.fs.fails = delete_after_the_first_group
    workers.thread.run()
    assert len(queue_files(stores)) == AT_ONCE - 1


@pytest.mark.parametrize("batched", [False, True])
def test_a_stop_makes_the_files_that_the_thread_has_not_made(
    stores: Stores, workers: LaterWorkers, batched: bool
) -> None:
    store = filled(stores, workers, AT_ONCE, is_batched=lambda _: batched)
    store.close()
    assert len(queue_files(stores)) == AT_ONCE
    again = stores.open()
    assert {again.queue_range(f"T{number}", 0) for number in range(AT_ONCE)} == {(0, 1)}
