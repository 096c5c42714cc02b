"""Reads: the statuses and limits of Java's getMessage, searches by time and by key."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.store import Boundary, GetStatus, StoreConfig
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.read import reader
from rocketmq_py.store.read.reader import MAX_PULL_SIZE, Reader, machine_memory
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import decode_records
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.store.helpers import NOW, SMALL, Stores, fill, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFile, MemoryFileSystem

WIDE = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=40_000, max_hash_slot_num=97,
    max_index_num=5000,
)  # fmt: skip


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


def test_messages_of_the_first_file_are_skipped_when_it_was_removed(stores):
    """Before a clean-up has raised the minimum of the queue: none of them counts as damaged."""
    store = stores.open()
    fill(store, 30, size=400)
    store._commit_log.remove(0)
    first = next(i for i, e in enumerate(store.queue_entries("T", 0, 0, 30)) if e[0] >= 4096)
    for offset in (0, first - 1):
        found = store.get("T", 0, offset, 4)
        assert (numbers(decode_records(found.body)), found.damaged) == (list(range(first, first + 4)), ())
    queue = store._queues.by_key["T", 0]
    right = queue.entry(first + 3)
    queue.replace_entry(first + 3, 7, 100, 0)
    found = store.get("T", 0, first, 9)
    assert (found.count, found.damaged, queue.entry(first + 3)) == (9, (), right), "a wrong entry is rebuilt"


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


def test_lost_messages_do_not_hide_older_ones_from_a_search_by_time(timed, stores):
    """Blank entries stand for them, which have no time."""
    timed.keep_ends({("T", 0): 60})
    for i, at in ((60, 50), (61, 60)):
        stores.clock.now = NOW + at
        timed.commit_pending()
        fill(timed, 1, start=i)
    cases = [
        (0, 0, 0),
        (5, 1, 0),
        (10, 1, 3),
        (20, 4, 4),
        (40, 5, 5),
        (50, 6, 60),
        (55, 61, 60),
        (60, 61, 61),
        (61, 62, 61),
    ]
    found = [
        (at, timed.offset_by_time("T", 0, NOW + at), timed.offset_by_time("T", 0, NOW + at, Boundary.UPPER))
        for at, _, _ in cases
    ]
    assert found == cases
    assert numbers(decode_records(timed.get("T", 0, 6, 32).body)) == [60, 61]
    timed.keep_ends({("T", 0): 99})
    assert timed.offset_by_time("T", 0, NOW + 10) == 1
    assert timed.offset_by_time("T", 0, NOW + 61) == 62


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


# -- limits


def reader_of(store, total_memory=1 << 40, **settings):
    """A reader of the store's files with other settings."""
    config = msgspec.structs.replace(WIDE, **settings)
    return Reader(config, store._commit_log, store._index, total_memory)


def alike(stores, count):
    """A store with messages of equal size, in two queues whose messages alternate, and that size."""
    store = stores.open(WIDE)
    done = [store.append(record(1, queue_id=i % 2, size=100, tags_code=i // 2)) for i in range(2 * count)]
    store.commit_pending()
    return store, done[0].size


def test_the_limits_of_a_read_hold_to_the_byte(stores):
    store, size = alike(stores, 40)
    queue = store._queues.by_key["T", 0]
    in_memory = {"max_transfer_count_on_message_in_memory": 12, "max_transfer_bytes_on_message_in_memory": 9 * size}
    on_disk = {"max_transfer_count_on_message_in_disk": 7, "max_transfer_bytes_on_message_in_disk": 5 * size}
    wrong = []
    for is_near in (True, False):
        reader = reader_of(store, 1 << 40 if is_near else 0, **in_memory, **on_disk)
        most, most_bytes = (12, 9 * size) if is_near else (7, 5 * size)
        for asked in (1, 4, 5, 6, 8, 9, 10, 40):
            for limit in (None, 1, 100, size, 2 * size - 1, 2 * size, 4 * size - 1, 4 * size, 100 * size):
                for bulk in (False, True):
                    count = min(asked, most_bytes // size, 99 if bulk else most)
                    count = count if limit is None else max(1, min(count, limit // size))
                    for how in ({}, {"accepts": lambda _: True}, {"message_filter": lambda _: True}):
                        arguments = {"accepts": None, "message_filter": None} | how
                        found = reader.get(queue, 3, asked, limit, **arguments, bulk=bulk)
                        is_far = not is_near or found.suggest_slave
                        if (found.count, found.next_offset, is_far) != (count, 3 + count, not is_near):
                            wrong.append((is_near, asked, limit, bulk, sorted(how), found.count, found.suggest_slave))
    assert wrong == []
    usual = reader_of(store).get(queue, 0, 40, None, None, None)
    assert (usual.count, type(usual.body)) == (32, bytes), "neither in bulk nor as a view"


def test_a_read_has_at_most_128_mib():
    assert MAX_PULL_SIZE == 134_217_728


def test_what_counts_as_in_memory_is_a_part_of_the_memory_before_the_end_of_the_log(stores):
    store, size = alike(stores, 10)
    queue = store._queues.by_key["T", 0]
    end = store.max_physical_offset
    for ratio, memory in ((100, 6 * size), (40, 15 * size), (50, 12 * size)):
        reader = reader_of(store, memory, access_message_in_memory_max_ratio=ratio)
        assert end == 20 * size
        assert [reader.in_memory(queue, offset) for offset in (6, 7, 9, 10)] == [False, True, True, False]
        assert [reader.get(queue, offset, 1, None, None, None).suggest_slave for offset in (6, 7)] == [True, False]
    reader = reader_of(store, 6 * size - 1, access_message_in_memory_max_ratio=100)
    assert not reader.in_memory(queue, 7)
    found = reader.get(queue, 6, 3, None, None, lambda _: True)
    assert (found.count, found.suggest_slave) == (3, False), "the last message that was read counts"


def test_a_scan_ends_after_so_many_entries(stores):
    store, _ = alike(stores, 60)
    queue = store._queues.by_key["T", 0]
    few = reader_of(store, max_filter_message_size=20 * 20)
    for asked, seen in ((1, 20), (20, 20), (25, 25), (99, 60)):
        for how in (
            {"accepts": lambda _: False, "message_filter": None},
            {"accepts": None, "message_filter": lambda _: False},
        ):
            found = few.get(queue, 0, asked, None, **how)
            assert (found.status, found.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, seen), asked

    def costly(_):
        return False

    costly.most_records = 7
    assert few.get(queue, 0, 99, None, None, costly).next_offset == 7
    assert reader_of(store, max_filter_message_size=19).get(queue, 0, 0, None, lambda _: False, None).next_offset == 1


def test_records_that_match_are_chosen_together_or_in_turn(stores, monkeypatch):
    """Together if at least a fourth of what is looked at matches."""
    store, _ = alike(stores, 64)
    queue = store._queues.by_key["T", 0]
    reader = reader_of(store)
    in_turn = []
    some = reader._get_some
    monkeypatch.setattr(reader, "_get_some", lambda *given: (in_turn.append(1), some(*given))[1])
    for every, asked, begin, count, following, is_in_turn in (
        (1, 8, 0, 8, 8, False), (2, 8, 0, 8, 15, False), (4, 8, 0, 8, 29, False), (5, 8, 0, 8, 36, True),
        (4, 8, 40, 6, 64, False), (4, 16, 0, 16, 61, False), (3, 32, 0, 22, 64, False),
    ):  # fmt: skip
        in_turn.clear()
        found = reader.get(queue, begin, asked, None, lambda code, every=every: code % every == 0, None)
        offsets = [message.queue_offset for message in decode_records(bytes(found.body))]
        assert offsets == list(range(begin, 64, every))[:count]
        assert (bool(in_turn), found.count) == (is_in_turn, count), (every, asked)
        assert found.next_offset in {following, offsets[-1] + every}, (every, asked)


def test_records_apart_are_gathered_and_large_ones_without_a_copy_of_each(stores):
    store = stores.open(WIDE)
    for size in (100, 16_000, 17_000):
        for i in range(6):
            store.append(record(i, queue_id=size, size=size // 3, tags_code=i))
            store.append(record(i, queue_id=1, size=5))
        found = store.get("T", size, 0, 3)
        assert numbers(decode_records(found.body)) == [0, 1, 2]
        assert type(found.body) is bytes
        odd = store.get("T", size, 0, 3, accepts=lambda code: code % 2 == 1)
        assert numbers(decode_records(odd.body)) == [1, 3, 5]


def test_views_are_lent_from_16_kib_on(stores):
    store = stores.open(WIDE)
    overhead = store.append(record(0, size=10)).size - 10
    for queue_id, total, kind in ((1, 16_383, bytes), (2, 16_384, memoryview)):
        store.append(record(0, queue_id=queue_id, size=total - overhead))
        found = store.get("T", queue_id, 0, 1, allow_view=True)
        assert (len(found.body), type(found.body)) == (total, kind)
        assert type(store.get("T", queue_id, 0, 1).body) is bytes


def test_a_single_record_has_at_least_48_bytes(stores):
    store = stores.open(WIDE)
    done = store.append(record(0))
    for size, is_read in ((47, False), (48, True), (done.size, True), (done.size + 1, False), (0, False), (-1, False)):
        assert (store.message_at(0, size) is not None) is is_read, size
    assert store.message_at(-1, 48) is None
    log = store._commit_log.buffer(0)
    for size, is_read in ((47, False), (48, True)):
        log[0:4] = size.to_bytes(4, "big")
        assert (store.message_at(0) is not None) is is_read


def test_a_search_by_time_can_end_before_the_end_of_the_queue(timed):
    cases = [((40, 6), 5), ((41, 6), 6), ((41, 99), 6), ((41, 3), 3), ((10, 1), 1), ((-1, 0), 0), ((0, None), 0)]
    assert [((at, end), timed.offset_by_time("T", 0, NOW + at, end=end)) for (at, end), _ in cases] == cases
    assert timed.offset_by_time("T", 0, NOW + 99, Boundary.UPPER, end=2) == 1
    assert timed.offset_by_time("T", 0, NOW + 99, Boundary.UPPER, end=0) == 0


def test_a_query_goes_on_before_messages_that_are_gone(stores):
    """The index has keys of removed files: a query tries up to three times, each time before the oldest it found."""
    store = stores.open()
    for i in range(40):
        stores.clock.now = NOW + 1000 * i
        fill(store, 1, start=i, size=700)
    places = [entry[0] for entry in store.queue_entries("T", 0, 0, 40)]
    gone = [i for i, at in enumerate(places) if at // 4096 >= 6]
    asked = []
    search = store._index.search
    store._index.search = lambda *given: (asked.append(given[2:5]), search(*given))[1]
    reading = store._reader.message_at
    store._reader.message_at = lambda physical, size=None: None if physical // 4096 >= 6 else reading(physical, size)
    assert gone[0] < 36
    found = store.query("T", "all", 3, 0, NOW + 99_000)
    assert (found.count, len(asked)) == (0, 3)
    assert [end for _, _, end in asked] == [NOW + 99_000, NOW + 37_000, NOW + 35_000]
    asked.clear()
    found = store.query("T", "all", 40, 0, NOW + 99_000)
    assert numbers(decode_records(found.body)) == list(range(gone[0]))
    asked.clear()
    assert store.query("T", "all", 1, NOW + 39_500, NOW + 99_000).count == 0
    assert len(asked) == 1, "nothing is found"
    asked.clear()
    assert store.query("T", "all", 3, NOW + 38_000, NOW + 99_000).count == 0
    assert len(asked) == 3, "the oldest was stored at the begin"
    asked.clear()
    store._commit_log.store_time = lambda _: -1
    assert store.query("T", "all", 3, 0, NOW + 99_000).count == 0
    assert len(asked) == 1, "the time of the oldest is not known"


def test_the_memory_of_an_unknown_machine_is_4_gib(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}[name])
    assert machine_memory() == 40_960
    monkeypatch.delattr(os, "sysconf")
    assert machine_memory() == 4_294_967_296


# -- without waiting for the disk


def needed(read):
    """Begin and length of the parts of files that a read needs first: of queue files, and of the log."""
    residency = Residency()
    try:
        read(residency)
    except NotInMemory as missing:
        return [
            ("log" if "commitlog" in part.path.parts else "queue", part.position, part.length) for part in missing.parts
        ]
    return []


def test_the_parts_that_a_read_needs(stores):
    store, size = alike(stores, 60)
    store.close()
    store = stores.open(WIDE)
    queue, reader = store._queues.by_key["T", 0], reader_of(store, max_transfer_bytes_on_message_in_memory=4 * size)
    stores.fs.resident = set()

    def get(residency, count=3, **how):
        arguments = {"accepts": None, "message_filter": None} | how
        return reader.get(queue, 5, count, None, **arguments, residency=residency)

    assert needed(lambda residency: reader.check_entries(queue, 5, 3, residency)) == [("queue", 100, 60)]
    assert needed(get) == [("queue", 100, 1100)]
    queue_path = next(path for path in stores.fs.nodes if "consumequeue" in path.parts and "0" in path.parts)
    for page in range(100):
        stores.fs.resident.add((queue_path, page))
    assert needed(get) == [("log", 10 * size, 5 * size)], "with what is between them"
    assert needed(lambda residency: get(residency, 9)) == [("log", 10 * size, 7 * size)], "bytes"
    odd = {"accepts": lambda code: code % 8 == 1}
    assert needed(lambda residency: get(residency, 2, **odd)) == [("log", 2 * size * n, size) for n in (9, 17)]
    filtered = {"message_filter": lambda _: True}
    assert len(needed(lambda residency: get(residency, 1, **filtered))) == 55, "any number may be refused"
    assert needed(lambda residency: reader.check_records([(7, 9), (size, 5)], residency)) == [
        ("log", 7, 9),
        ("log", size, 5),
    ]
    assert needed(lambda residency: reader.store_time(queue, 7, residency)) == [("log", 14 * size, 76)]


def test_records_are_asked_for_together_if_they_are_not_far_apart(stores, monkeypatch):
    store, size = alike(stores, 60)
    store.close()
    store = stores.open(WIDE)
    stores.fs.resident = set()
    store._commit_log.written_from = 100 * size
    made = reader_of(store)

    def parts(*numbers, sizes=None):
        starts = [number * size for number in numbers]
        return needed(lambda residency: made._check(starts, sizes or [size] * len(starts), residency))

    def apart(*numbers):
        return [("log", number * size, size) for number in numbers]

    monkeypatch.setattr(reader, "_GAP", 3 * size)
    assert parts(1, 2, 12) == [("log", size, 12 * size)], "three gaps of three on average"
    assert parts(1, 2, 13) == apart(1, 2, 13)
    assert parts(1, 5, 3) == apart(1, 5, 3), "an entry is wrong"
    assert parts(3, 1, 5) == apart(3, 1, 5), "an entry is wrong"
    monkeypatch.setattr(reader, "_MOST_TOGETHER", 5 * size)
    assert parts(1, 5) == [("log", size, 5 * size)]
    assert parts(1, 6) == apart(1, 6)
    store._commit_log.written_from = 3 * size
    assert parts(1, 4) == [("log", size, 2 * size)], "this process wrote the rest"
    assert parts(1, 9) == apart(1), "this process wrote the other"


@needs_accelerator
def test_the_accelerator_reads_old_records_and_checks_that_they_fit(stores, monkeypatch):
    store, size = alike(stores, 60)
    store.close()
    store = stores.open(WIDE)
    queue, log = store._queues.by_key["T", 0], store._commit_log
    log.buffer(0)
    expected = reader_of(store).get(queue, 5, 4, None, None, None)
    made = Reader(WIDE, log, store._index, 1 << 40, accelerator())
    monkeypatch.setattr(made, "_get_chosen", None)  # the way of Python
    assert made.get(queue, 5, 4, None, None, None) == expected
    stores.fs.resident = set()
    raw = queue.read(5, 4)
    assert needed(lambda residency: made._gathered(queue, 5, raw, 4 * size, None, False, residency)) == [
        ("log", 10 * size, 7 * size)
    ]
    for most, count in [(3 * size, 3), (3 * size - 1, 2), (1, 1)]:
        needs = needed(lambda residency, most=most: made._gathered(queue, 5, raw, most, None, False, residency))
        assert needs == [("log", 10 * size, (2 * count - 1) * size)]
    assert made._gathered(queue, 6, raw, 4 * size, None, False, None) is None, "of other offsets"


@needs_accelerator
def test_an_old_read_in_memory_asks_the_system_once(stores, monkeypatch):
    """A job that reads thousands of queues pays it for each."""
    store, size = alike(stores, 60)
    store.close()
    store = stores.open(WIDE)
    queue, log = store._queues.by_key["T", 0], store._commit_log
    log.buffer(0)
    expected = reader_of(store).get(queue, 5, 4, None, None, None)
    made = Reader(WIDE, log, store._index, 1 << 40, accelerator())
    asked, regions, is_known = [], [], True

    def note(self, position, length, ask=MemoryFile.is_resident):
        asked.append((position, length))
        return ask(self, position, length)

    def was_in_memory(begin, end):
        regions.append((begin, end))
        return is_known

    monkeypatch.setattr(MemoryFile, "is_resident", note)
    monkeypatch.setattr(log, "was_in_memory", was_in_memory)

    def get(count=4, **how):
        asked.clear()
        return made.get(queue, 5, count, None, *[how.get(name) for name in ("accepts", "message_filter")],
                        residency=Residency())  # fmt: skip

    assert get() == expected
    assert asked == [(100, 80)]
    assert regions == [(10 * size, 17 * size)]
    is_known = False
    assert get() == expected
    assert asked == [(100, 80), (10 * size, 7 * size)]
    is_known = True
    assert get(accepts=lambda _: True) == expected
    assert asked[0] == (100, 1100), "a filter may need further entries"
    for count in (0, -1):
        assert get(count) == reader_of(store).get(queue, 5, count, None, None, None)
    stores.fs.resident = set()
    assert needed(lambda residency: made.get(queue, 5, 4, None, None, None, residency=residency)) == [
        ("queue", 100, 1100)
    ]


def test_a_read_with_a_filter_asks_once_for_each_block(stores, monkeypatch):
    """A question for each record takes longer than the rest of the read."""
    store, size = alike(stores, 200)
    store.close()
    store = stores.open(WIDE)
    queue, asked = store._queues.by_key["T", 0], []
    is_resident = MemoryFile.is_resident

    def counted(self, position, length):
        asked.extend([position] if "commitlog" in self.path.parts else [])
        return is_resident(self, position, length)

    monkeypatch.setattr(MemoryFile, "is_resident", counted)
    found = reader_of(store).get(queue, 0, 64, None, None, lambda record: b"1|" in record, residency=Residency())
    assert found.count == 32
    last = 2 * 200 * size
    assert asked
    assert len(asked) == len(set(asked)) <= last // (1 << 14) + 1


def test_adjacent_records_are_one_part(stores):
    store = stores.open(WIDE)
    fill(store, 60)
    store.close()
    store = stores.open(WIDE)
    queue = store._queues.by_key["T", 0]
    done = store.queue_entries("T", 0, 0, 60)
    stores.fs.resident = {
        (path, page) for path in stores.fs.nodes if "consumequeue" in path.parts for page in range(100)
    }
    parts = needed(lambda residency: store._reader.get(queue, 20, 3, None, None, None, residency=residency))
    assert parts == [("log", done[20][0], done[23][0] - done[20][0])]
    fill(store, 40, start=60)
    residency = needed(
        lambda residency: store._reader.get(queue, 58, 9, None, None, lambda _: True, residency=residency)
    )
    assert residency == [("log", at, size) for at, size, _ in done[58:60]], "this process wrote the others"


def test_bytes_that_claim_a_very_large_record_are_not_copied(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may name an offset inside a body, whose bytes look like the size of a record of a whole file."""
    monkeypatch.setattr(reader, "_LARGEST_RECORD", 500)
    store = stores.open(WIDE)
    sizes = {claimed: store.append(record(0, body=claimed.to_bytes(4, "big") + bytes(600))) for claimed in (500, 501)}
    store.commit_pending()
    for claimed, appended in sizes.items():
        found = store.message_at(appended.physical_offset + 88)
        assert (found is None) is (claimed > 500)
        assert store.message_at(appended.physical_offset + 88, 501) is not None, "the size is that of a queue's entry"
