"""Reads: the statuses and limits of Java's getMessage, searches by time and by key."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.store import Boundary, GetStatus, StoreConfig
from rocketmq_py.store.read.reader import machine_memory
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import decode_records
from tests.examples import examples
from tests.unit.store.helpers import NOW, SMALL, Stores, fill, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem

WIDE = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=1 << 16,
    max_hash_slot_num=97,
    max_index_num=5000,
)


def far_behind(**changes):
    """A configuration by which nothing is in memory."""
    return msgspec.structs.replace(WIDE, access_message_in_memory_max_ratio=0, **changes)


def test_offsets_outside_the_range_have_the_statuses_of_java(stores):
    store = stores.open()
    assert store.get("T", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert store.get("T", 0, 7, 32).next_offset == 0
    fill(store, 30, size=400)
    store.delete_topic("nothing")
    stores.fs.remove(store.layout.commit_log / f"{0:020d}")
    store.close()
    store = stores.open()
    low, high = store.queue_range("T", 0)
    assert 0 < low < high == 30
    cases = {
        low - 1: (GetStatus.OFFSET_TOO_SMALL, low),
        -1: (GetStatus.OFFSET_TOO_SMALL, low),
        high: (GetStatus.OFFSET_OVERFLOW_ONE, high),
        high + 1: (GetStatus.OFFSET_OVERFLOW_BADLY, high),
    }
    for offset, (status, following) in cases.items():
        result = store.get("T", 0, offset, 32)
        assert (result.status, result.next_offset, result.body, result.count) == (status, following, b"", 0)
        assert (result.min_offset, result.max_offset) == (low, high)
    assert numbers(read_queue(store)) == list(range(low, 30))


def test_an_empty_queue_has_no_messages(stores):
    store = stores.open()
    store.append(record(sys_flag=4))
    result = store.get("T", 0, 3, 32)
    assert (result.status, result.next_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_a_view_of_the_log_stays_valid_after_close(disk_stores):
    store = disk_stores.open(WIDE)
    fill(store, 100, size=1000)
    copied, lent = store.get("T", 0, 5, 32), store.get("T", 0, 5, 32, allow_view=True)
    assert type(copied.body) is bytes
    assert type(lent.body) is memoryview
    assert type(store.get("T", 0, 5, 4, allow_view=True).body) is bytes
    store.close()
    assert lent.body == copied.body
    assert numbers(decode_records(bytes(lent.body))) == list(range(5, 37))


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (10, 10), (32, 32), (33, 32), (1000, 32)])
def test_in_memory_a_read_gives_at_most_32(stores, asked, given):
    store = stores.open(WIDE)
    fill(store, 100)
    result = store.get("T", 0, 5, asked)
    assert (result.status, result.count, result.next_offset) == (GetStatus.FOUND, given, 5 + given)
    assert numbers(decode_records(result.body)) == list(range(5, 5 + given))
    assert not result.suggest_slave


@pytest.mark.parametrize("config", [WIDE, far_behind()], ids=["in memory", "far behind"])
def test_a_bulk_read_is_limited_by_bytes_only(stores, config):
    store = stores.open(config)
    fill(store, 900, size=300)
    most = 256 * 1024 if config is WIDE else 64 * 1024
    result = store.get("T", 0, 5, 800, bulk=True)
    assert numbers(decode_records(result.body)) == list(range(5, 5 + result.count))
    assert result.next_offset == 5 + result.count
    assert most - 1000 < len(result.body) <= most
    assert store.get("T", 0, 5, 100, bulk=True).count == 100
    assert store.get("T", 0, 5, 2**31 - 1, bulk=True) == result, "as many as anybody may ask for"


@settings(max_examples=examples(30))
@given(
    sizes=st.lists(st.integers(1, 12_000), min_size=1, max_size=12),
    asked=st.integers(1, 12),
    most=st.integers(1, 60_000),
    bulk=st.booleans(),
    wanted=st.one_of(st.none(), st.sets(st.integers(0, 11), min_size=5)),
    begin=st.integers(0, 3),
)
def test_fast_reads_equal_those_of_one_record_after_the_other(sizes, asked, most, bulk, wanted, begin):
    store = Stores(Path("/store"), MemoryFileSystem()).open(WIDE)
    for number, size in enumerate(sizes):
        store.append(record(queue_id=0, size=size, tags_code=number))
        store.append(record(queue_id=1, size=1))
    store.commit_pending()
    accepts = None if wanted is None else wanted.__contains__
    whole = store.get("T", 0, begin, asked, max_bytes=most, bulk=bulk, accepts=accepts)
    slow = store.get("T", 0, begin, asked, max_bytes=most, bulk=bulk, accepts=accepts, message_filter=lambda _: True)
    assert whole == slow
    store.close()


def test_many_records_that_match_and_lie_apart_are_read_together(stores, monkeypatch):
    store = stores.open(WIDE)
    fill(store, 100, size=1000)
    monkeypatch.setattr(store._reader, "_get_some", None)
    wanted = tags_code("odd")
    result = store.get("T", 0, 0, 20, accepts=lambda code: code == wanted)
    assert (numbers(decode_records(result.body)), result.next_offset) == (list(range(1, 41, 2)), 40)
    result = store.get("T", 0, 90, 20, accepts=lambda code: code == wanted)
    assert (numbers(decode_records(result.body)), result.next_offset) == (list(range(91, 101, 2)), 100)


def test_in_memory_a_read_gives_at_most_256_kib_but_always_one(stores):
    store = stores.open(WIDE)
    fill(store, 4, size=100_000)
    fill(store, 1, size=300_000)
    assert [store.get("T", 0, at, 32).count for at in range(5)] == [2, 2, 2, 1, 1]


def test_out_of_memory_a_read_gives_at_most_8_or_64_kib_and_suggests_a_slave(stores):
    store = stores.open(far_behind())
    fill(store, 20)
    fill(store, 3, size=40_000)
    result = store.get("T", 0, 0, 32)
    assert (result.count, result.suggest_slave) == (8, True)
    assert store.get("T", 0, 20, 32).count == 1
    assert not store.in_memory("T", 0, 0)


def test_a_read_may_ask_for_fewer_bytes(stores):
    store = stores.open(WIDE)
    fill(store, 10, size=1000)
    assert store.get("T", 0, 0, 32, max_bytes=2500).count == 2
    assert store.get("T", 0, 0, 32, max_bytes=1).count == 1


@pytest.mark.parametrize("config", [WIDE, SMALL])
def test_a_tag_filter_gets_tag_codes_and_skips_messages(stores, config):
    store = stores.open(config)
    fill(store, 100, size=30)
    wanted = tags_code("odd")
    result = store.get("T", 0, 0, 10, accepts=lambda code: code == wanted)
    assert numbers(decode_records(result.body)) == list(range(1, 21, 2))
    # As in Java: a full batch ends at the entry that would have been one too many, whether it matches or not.
    assert result.next_offset == 20
    nothing = store.get("T", 0, 0, 10, accepts=lambda code: False)
    assert (nothing.status, nothing.next_offset, nothing.count) == (GetStatus.NO_MATCHED_MESSAGE, 100, 0)


def test_a_filter_scans_800_entries_at_most_or_as_many_as_are_requested(stores):
    store = stores.open(WIDE)
    fill(store, 1200, size=10)
    assert store.get("T", 0, 0, 32, accepts=lambda code: False).next_offset == 800
    assert store.get("T", 0, 0, 1000, accepts=lambda code: False).next_offset == 1000


def test_a_read_scans_a_bounded_number_of_entries(stores):
    """A client may ask for any number of messages; a filter that matches none must not read the whole queue."""
    store = stores.open(WIDE)
    for start in range(0, 20_000, 500):
        fill(store, 500, start=start, size=1)
    codes = []
    found = store.get("T", 0, 0, 1 << 31, accepts=lambda code: codes.append(code) is not None, bulk=True)
    assert (found.status, found.next_offset, len(codes) < 20_000) == (GetStatus.NO_MATCHED_MESSAGE, 16_000, True)
    assert store.get("T", 0, 16_000, 1 << 31, accepts=lambda code: False).next_offset == 20_000


def test_a_message_filter_sees_records(stores):
    store = stores.open(WIDE)
    fill(store, 10)
    result = store.get("T", 0, 0, 32, message_filter=lambda data: numbers(decode_records(data))[0] > 7)
    assert numbers(decode_records(result.body)) == [8, 9]
    nothing = store.get("T", 0, 0, 32, message_filter=lambda data: False)
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)


def test_messages_of_a_removed_file_are_skipped(stores):
    store = stores.open()
    fill(store, 30, size=400)
    store._commit_log.remove(4096)
    low = next(i for i, e in enumerate(store.queue_entries("T", 0, 0, 30)) if e[0] >= 4096)
    high = next(i for i, e in enumerate(store.queue_entries("T", 0, 0, 30)) if e[0] >= 8192)
    beyond = store.get("T", 0, low, 5)
    assert numbers(decode_records(beyond.body)) == list(range(high, high + 5))
    for start in store._commit_log.starts[1:]:
        store._commit_log.remove(start)
    nothing = store.get("T", 0, low, 32)
    assert (nothing.status, nothing.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 30)


def test_reads_over_file_boundaries_of_queue_and_log(stores):
    store = stores.open()
    fill(store, 100, size=200)
    store._queues.spill()
    assert numbers(decode_records(store.get("T", 0, 15, 32).body)) == list(range(15, 47))
    fill(store, 5, start=100)
    assert numbers(decode_records(store.get("T", 0, 90, 32).body)) == list(range(90, 105))


def test_a_single_record_can_be_read(stores):
    store = stores.open()
    done = fill(store, 5)
    assert store.record_at_queue("T", 0, 3) == store.message_at(done[3].physical_offset)
    assert store.record_at_queue("T", 0, 5) is None
    assert store.record_at_queue("X", 0, 0) is None
    for wrong in (-1, done[4].physical_offset + done[4].size, 1 << 40):
        assert store.message_at(wrong) is None
    assert store.message_at(done[4].physical_offset, 1 << 30) is None
    assert store.in_memory("T", 0, 4)
    assert not store.in_memory("T", 0, 5)
    assert not store.in_memory("X", 0, 0)


@pytest.fixture
def timed(stores):
    """Messages stored at +0, +10, +10, +10, +20 and +40 ms."""
    store = stores.open()
    for i, at in enumerate([0, 10, 10, 10, 20, 40]):
        stores.clock.now = NOW + at
        fill(store, 1, start=i)
    return store


@pytest.mark.parametrize(
    ("at", "lower", "upper"),
    [(-5, 0, 0), (0, 0, 0), (5, 1, 0), (10, 1, 3), (15, 4, 3), (20, 4, 4), (40, 5, 5), (41, 6, 5)],
)
def test_offsets_are_found_by_time(timed, at, lower, upper):
    assert timed.offset_by_time("T", 0, NOW + at) == lower
    assert timed.offset_by_time("T", 0, NOW + at, Boundary.UPPER) == upper


def test_store_times_are_found_by_offset(timed):
    assert [timed.store_time("T", 0, i) - NOW for i in (0, 4, 5)] == [0, 20, 40]
    assert timed.store_time("T", 0, 6) == timed.store_time("X", 0, 0) == -1
    assert timed.earliest_store_time("T", 0) == timed.earliest_message_time() == NOW
    assert timed.earliest_store_time("X", 0) == -1
    assert timed.offset_by_time("X", 0, NOW) == 0


def test_an_empty_store_has_no_times(stores):
    store = stores.open()
    assert store.earliest_message_time() == -1
    assert store.offset_by_time("T", 0, NOW) == 0


def test_queries_find_by_key_and_time(timed):
    assert numbers(decode_records(timed.query("T", "k3", 10, 0, NOW + 99).body)) == [3]
    assert numbers(decode_records(timed.query("T", "U000002", 10, 0, NOW + 99).body)) == [2]
    assert numbers(decode_records(timed.query("T", "all", 10, 0, NOW + 99).body)) == [0, 1, 2, 3, 4, 5]
    newest = timed.query("T", "all", 2, 0, NOW + 99)
    assert numbers(decode_records(newest.body)) == [4, 5]
    assert newest.index_last_update_timestamp == NOW + 40
    assert newest.index_last_update_phyoffset == timed.queue_entries("T", 0, 5, 1)[0][0]
    assert timed.query("T", "nobody", 10, 0, NOW + 99).count == 0
    assert timed.query("U", "k3", 10, 0, NOW + 99).count == 0


def test_the_memory_of_the_machine_is_known():
    assert machine_memory() > 1 << 28


def test_a_blank_entry_costs_no_message_of_the_first_log_file(stores):
    store = stores.open()
    fill(store, 3)
    store._queues.by_key["T", 0].skip_to(5)
    store._writer.resume(store.max_physical_offset, NOW)
    fill(store, 5, start=5)
    assert numbers(decode_records(store.get("T", 0, 0, 32).body)) == [0, 1, 2]
    assert numbers(decode_records(store.get("T", 0, 3, 32).body)) == list(range(5, 10))
