"""The check of the index of an open store: it finds keys without entries, and entries that are linked wrongly."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import msgspec
import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.store.index.index_file import HEADER_SIZE
from rocketmq_py.store.log import log_parts
from rocketmq_py.store.read import index_scrub as module
from rocketmq_py.store.read.scrub import Scrub
from tests.unit.store.coldfs import ColdFileSystem
from tests.unit.store.helpers import SMALL, Stores, fill, flush
from tests.unit.store.read.test_scrub import one_pass

COUNT = 50
SLOTS, FIRST_ENTRY, ENTRY = SMALL.max_hash_slot_num, HEADER_SIZE + 4 * SMALL.max_hash_slot_num, 20
PLAIN = msgspec.structs.replace(SMALL, max_message_size=700)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and entries are compared for parts of the log of 512 bytes, and read a few at a time."""
    monkeypatch.setattr(log_parts, "PART_BYTES", 700)
    monkeypatch.setattr(module, "_BLOCK", 5)
    monkeypatch.setattr(module, "_A_STEP", 2)
    monkeypatch.setattr(module, "_BUCKET", 9)


def filled(stores: Stores, count: int = COUNT) -> MessageStore:
    """Messages with four keys each, in several index files, all of them flushed."""
    store = stores.open(PLAIN)
    for number in range(count):
        stores.clock.now += 1_000
        fill(store, 1, start=number)
    flush(store)
    return store


def content(stores: Stores, number: int = 0) -> bytearray:
    """The content of an index file."""
    assert stores.fs is not None
    paths = sorted(path for path in stores.fs.nodes if path.parent.name == "index")
    return stores.fs.nodes[paths[number]].content


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_whole_index_is_whole(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    assert len(store._index.files) == 3
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 0
    fill(store, 30, start=COUNT)
    assert one_pass(store, subject).damages == 0
    assert warnings(caplog) == []


@pytest.mark.parametrize("at", [0, 3, 4, 11], ids=["hash", "hash", "offset", "offset"])
@pytest.mark.parametrize("file", range(3))
@pytest.mark.parametrize("entry", [2, 20])
def test_a_damaged_entry_is_a_key_that_is_not_found(
    stores: Stores, caplog: pytest.LogCaptureFixture, at: int, file: int, entry: int
) -> None:
    store = filled(stores)
    content(stores, file)[FIRST_ENTRY + entry * ENTRY + at] ^= 1
    subject = store.new_scrub()
    assert one_pass(store, subject).damages in (1, 2)
    [text] = [one for one in warnings(caplog) if "no entry" in one]
    directory = store.layout.index
    assert text.startswith(f"{directory} is damaged: 1 keys of messages from ")
    assert text.endswith(f"stop the broker and remove {directory}: the next start rebuilds it")
    place = int(text.split(" from ")[1].split()[0])
    assert place == [one[0] for one in store.queue_entries("T", 0, 0, COUNT)][(file * 63 + entry - 1) // 3]
    before = subject.counts.damages
    assert one_pass(store, subject).damages == before, "what is known is not counted again"


@pytest.mark.parametrize("most", [10_000, 1])
def test_keys_of_a_record_that_damage_of_the_log_begins_in_are_not_missing(
    stores: Stores, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Its body is whole, and its properties have no checksum."""
    monkeypatch.setattr(module, "_MOST_DOUBTFUL", most)
    store = filled(stores)
    starts = [one[0] for one in store.queue_entries("T", 0, 0, COUNT)]
    assert stores.fs is not None
    log = next(node.content for path, node in sorted(stores.fs.nodes.items()) if path.parent.name == "commitlog")
    for damaged in (11, 15):
        log[starts[damaged] - 17 : starts[damaged] + 8] = b"?" * 25
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 2
    assert [text for text in warnings(caplog) if "have no entry" in text] == []
    content(stores, 0)[FIRST_ENTRY + 2 * ENTRY] ^= 1  # of another record
    content(stores, 2)[FIRST_ENTRY + 24 * ENTRY] ^= 1
    assert one_pass(store, subject).damages == 3
    [text] = [text for text in warnings(caplog) if "have no entry" in text]
    assert "is damaged: 2 keys of messages from " in text


def test_the_keys_of_the_last_message_are_checked(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    content(stores, 2)[FIRST_ENTRY + 24 * ENTRY] ^= 1
    assert one_pass(store, store.new_scrub()).damages == 1
    last = store.queue_entries("T", 0, COUNT - 1, 1)[0][0]
    assert f": 1 keys of messages from {last} to {last} of" in warnings(caplog)[0]


@pytest.mark.parametrize("place", ["previous", "slot"])
@pytest.mark.parametrize("file", range(3))
def test_what_points_elsewhere_is_found(
    stores: Stores, caplog: pytest.LogCaptureFixture, place: str, file: int
) -> None:
    store = filled(stores)
    at = FIRST_ENTRY + 2 * ENTRY + 19 if place == "previous" else HEADER_SIZE + 4 * (SLOTS - 1) + 3
    content(stores, file)[at] ^= 1
    assert one_pass(store, store.new_scrub()).damages == 1
    [text] = warnings(caplog)
    assert f"{store._index.files[file].path} is damaged: 1 of its slots and entries point elsewhere" in text


def test_keys_that_wait_are_not_missing(stores: Stores) -> None:
    store = filled(stores)
    subject = store.new_scrub()
    fill(store, 20, start=COUNT)
    assert store._index.waiting
    assert one_pass(store, subject).damages == 0
    content(stores, 2)[FIRST_ENTRY + 10 * ENTRY] ^= 1
    assert one_pass(store, subject).damages == 1


def during_a_pass(store: MessageStore, subject: Scrub, event: Callable[[], None]) -> None:
    """One pass, with an event after its first part."""
    part = subject.begin()
    assert part is not None
    store.load([part])
    list(subject.records())
    store.load(subject.entries())
    event()
    list(subject.queues())
    assert one_pass(store, subject).damages == 0


def test_keys_that_are_added_meanwhile_are_not_missing(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)

    def add() -> None:
        fill(store, 40, start=COUNT)
        flush(store)

    during_a_pass(store, store.new_scrub(), add)
    assert warnings(caplog) == []


def test_entries_that_are_added_at_the_end_of_a_pass_are_left_to_the_next(stores: Stores) -> None:
    store = filled(stores)
    subject = store.new_scrub()
    while (part := subject.begin()) is not None:
        store.load([part])
        list(subject.records())
        while entries := subject.entries():
            store.load(entries)
            list(subject.queues())
    fill(store, 40, start=COUNT)  # in this file and in new ones
    flush(store)
    rounds = 0
    while entries := subject.entries():
        rounds += 1
        store.load(entries)
        list(subject.queues())
    assert rounds == 1, "the slots of the file that was the newest one"
    assert subject.counts.damages == 0


def test_a_file_that_expires_meanwhile_is_left_out(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    first = store._index.files[1].begin_physical

    def expire() -> None:
        for remove in store._index.detach_before(first):
            remove()

    during_a_pass(store, store.new_scrub(), expire)
    assert warnings(caplog) == []


@pytest.mark.parametrize("state", ["disabled", "rebuilt"])
def test_an_index_that_cannot_be_searched_is_not_checked(stores: Stores, state: str) -> None:
    store = filled(stores)
    content(stores)[FIRST_ENTRY + 5 * ENTRY] ^= 1
    store._index.is_enabled, store._index.is_unfinished = state != "disabled", state == "rebuilt"
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 0
    store._index.is_enabled, store._index.is_unfinished = True, False
    assert one_pass(store, subject).damages == 0, "the pass has begun before"
    assert one_pass(store, subject).damages == 1


def test_keys_of_a_batch_may_be_in_any_order(stores: Stores) -> None:
    store = stores.open(PLAIN)
    fill(store, 20)
    fill(store, 6, start=20)
    waiting = store._index.waiting.fields
    keys = [waiting[at : at + 4] for at in range(0, len(waiting), 4)]
    waiting[:] = [item for key in (*keys[:60], *reversed(keys[60:])) for item in key]
    fill(store, 30, start=26)
    flush(store)
    assert one_pass(store, store.new_scrub()).damages == 0


@pytest.mark.parametrize("place", [11_000, 1 << 56], ids=["later in the log", "behind the log"])
def test_a_damaged_first_entry_hides_no_other(
    stores: Stores, caplog: pytest.LogCaptureFixture, place: int
) -> None:  # fmt: skip
    store = filled(stores)
    at = FIRST_ENTRY + ENTRY + 4
    content(stores)[at : at + 8] = place.to_bytes(8, "big")  # as if the index began there
    content(stores)[FIRST_ENTRY + 20 * ENTRY] ^= 1
    assert one_pass(store, store.new_scrub()).damages == 1
    [text] = warnings(caplog)
    assert " to 1383 of the commit log have no entry" in text


def test_entries_that_no_record_asks_for_are_forgotten(stores: Stores) -> None:
    """Damaged entries of a whole file must not fill the memory."""
    store = stores.open(PLAIN)
    fill(store, 5)
    fill(store, 30, start=5, properties=b"", keys="", uniq_key="")
    fill(store, 30, start=35)
    flush(store)
    entries = content(stores)
    for number, place in ((30, 0), (16, 10 * 231)):  # one that is read already, and one without keys
        at = FIRST_ENTRY + number * ENTRY + 4
        entries[at : at + 8] = place.to_bytes(8, "big")
    subject = store.new_scrub()
    index = subject._index
    assert index is not None
    most = 0
    while (part := subject.begin()) is not None:
        store.load([part])
        list(subject.records())
        while parts := subject.entries():
            store.load(parts)
            list(subject.queues())
            assert all((bucket + 1) << 9 > index._settled for bucket in index._filed)
            most = max(most, index._settled)
    assert most > 11_000


def test_a_file_of_garbage_hides_no_other(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    chance, entries = random.Random(7), content(stores, 1)
    entries[FIRST_ENTRY + ENTRY :] = chance.randbytes(len(entries) - FIRST_ENTRY - ENTRY)
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 2
    missing, wrong = sorted(warnings(caplog), key=len)
    assert f"{store._index.files[1].path} is damaged: " in wrong + missing
    first, last = (store.queue_entries("T", 0, number, 1)[0][0] for number in (21, 41))
    assert f": 63 keys of messages from {first} to {last} of" in wrong + missing


def test_nothing_waits_for_the_disk(stores: Stores) -> None:
    fs = ColdFileSystem()
    stores.fs = fs
    store = filled(stores)
    fs.chill()
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 0
    assert [one for one in fs.cold_reads if one[0].startswith("2023")] == []


def test_bytes_of_the_index_count(stores: Stores) -> None:
    store = filled(stores)
    subject, read = store.new_scrub(), 0
    while True:
        part = subject.begin()
        if part is not None:
            store.load([part])
            list(subject.records())
        while entries := subject.entries():
            store.load(entries)
            list(subject.queues())
        read += subject.index_bytes
        if part is None:
            break
    assert read == 3 * COUNT * ENTRY + 3 * 4 * SLOTS
