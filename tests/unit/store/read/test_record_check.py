"""Reads of a damaged log: what is no record of the queue is left out, and wrong entries are rebuilt."""

from __future__ import annotations

import logging
import struct

import pytest

from rocketmq_py.store import GetStatus, StoreConfig
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.record import FIXED_SIZE, QUEUE_ID_AT, QUEUE_OFFSET_AT, decode_records
from tests.unit.store.helpers import fill, record

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000, max_hash_slot_num=97,
    max_index_num=5000,
)  # fmt: skip
COUNT = 60


class Damaged:
    """A store of two queues whose log is damaged after it was opened again."""

    def __init__(self, stores):
        store = stores.open(CONFIG)
        self.places = [store.append(one) for one in interleaved()]
        store.commit_pending()
        store.close()
        self.store = stores.open(CONFIG)
        (start,) = self.store._commit_log.starts
        self.log = self.store._commit_log.buffer(start)
        self.queue = self.store._queues.by_key["T", 0]

    def place(self, offset):
        """Physical offset and size of a record of queue 0."""
        physical, size, _ = self.queue.entry(offset)
        return physical, size

    def write(self, at, data):
        self.log[at : at + len(data)] = data

    def entry(self, offset, physical, size):
        """Damages a consume queue entry."""
        self.queue.replace_entry(offset, physical, size, 7)

    def read(self, offset=0, **options):
        """Offsets that are served and left out, by pulls of 32 from ``offset`` on."""
        served, left_out = [], []
        while offset < COUNT:
            found = self.store.get("T", 0, offset, 32, **options)
            assert found.next_offset > offset
            messages = decode_records(bytes(found.body))
            assert len(messages) == found.count
            assert all(message.queue_id == 0 for message in messages)
            assert found.status is (GetStatus.FOUND if messages else GetStatus.NO_MATCHED_MESSAGE)
            served += [message.queue_offset for message in messages]
            left_out += found.damaged
            offset = found.next_offset
        return served, left_out


def interleaved():
    for i in range(COUNT):
        yield record(i, size=100 + i)
        yield record(1000 + i, queue_id=1, size=100)


@pytest.fixture
def damaged(stores):
    return Damaged(stores)


def whole(*bad):
    return [offset for offset in range(COUNT) if offset not in bad]


@pytest.mark.parametrize("at", [0, 4, QUEUE_ID_AT, QUEUE_OFFSET_AT])
def test_a_record_with_a_wrong_head_is_left_out_and_told_once(damaged, at, caplog):
    physical, _ = damaged.place(20)
    damaged.log[physical + at + 3 : physical + at + 4] = bytes([damaged.log[physical + at + 3] ^ 64])
    for _ in range(2):
        assert damaged.read() == (whole(20), [20])
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["offset 20 of queue 0 of topic T is damaged in the commit log and is not served"]
    assert damaged.read(20) == (list(range(21, COUNT)), [20])


@pytest.mark.parametrize("at", [QUEUE_ID_AT, QUEUE_OFFSET_AT])
@pytest.mark.parametrize("offset", [0, 20, COUNT - 1])
def test_a_record_with_another_place_is_a_suspect(damaged, at, offset):
    physical, _ = damaged.place(offset)
    damaged.log[physical + at + 3 : physical + at + 4] = b"\x40"
    assert damaged.read()[1] == [offset]
    assert damaged.store.new_scrub().take_suspects() == [(physical, physical)]


def test_an_entry_to_nothing_whose_record_is_damaged_is_no_suspect_of_its_own(damaged):
    physical, _ = damaged.place(20)
    before = sum(damaged.place(19))
    damaged.write(physical, bytes(4))
    damaged.entry(20, 1 << 50, 100)
    assert damaged.read()[1] == [20]
    [suspect] = damaged.store.new_scrub().take_suspects()
    assert (suspect.start, suspect.damage) == (before, physical)


@pytest.mark.parametrize("filler", [0, 0xA7])
def test_damage_over_several_records_leaves_out_those(damaged, filler):
    first, last = damaged.place(30)[0], damaged.place(33)[0] + 40
    damaged.write(first, bytes([filler]) * (last - first))
    assert damaged.read() == (whole(30, 31, 32, 33), [30, 31, 32, 33])


def test_a_filter_is_asked_of_whole_records_only(damaged):
    damaged.write(damaged.place(30)[0], bytes(200))
    asked = []
    damaged.read(message_filter=lambda record: asked.append(len(record)) or True)
    assert len(asked) == COUNT - 1


@pytest.mark.parametrize(
    "entry", [(0, 150), (400, 0), (-5, -5), (1 << 40, 200), (1 << 62, 0x7FFFFF00), (None, 17), (None, 1 << 20)]
)
@pytest.mark.parametrize("residency", [None, Residency])
def test_an_entry_that_points_elsewhere_is_rebuilt_from_the_log(damaged, entry, residency, caplog):
    right = damaged.queue.entry(25)
    damaged.entry(25, right[0] if entry[0] is None else entry[0], entry[1])
    assert damaged.read(residency=residency and residency()) == (whole(), [])
    assert damaged.queue.entry(25) == right
    assert "the consume queue entry of offset 25 of queue 0 of topic T was wrong: rebuilt" in caplog.text


def test_a_page_of_wrong_entries_is_rebuilt(damaged):
    right = [damaged.queue.entry(offset) for offset in range(10, 50)]
    for offset in range(10, 50):
        damaged.entry(offset, *struct.unpack(">qi", bytes([offset]) * 12))
    assert damaged.read(40)[0] == list(range(40, COUNT))
    assert damaged.read() == (whole(), [])
    assert [damaged.queue.entry(offset) for offset in range(10, 50)] == right


@pytest.mark.parametrize(("correct", "found"), [(44, True), (43, False)])
def test_the_search_begins_at_a_correct_entry_at_most_256_before(stores, correct, found):
    store = stores.open(CONFIG)
    fill(store, 301, size=20)
    store.close()
    store = stores.open(CONFIG)
    queue = store._queues.by_key["T", 0]
    right = queue.entry(300)
    for offset in range(correct + 1, 301):
        queue.replace_entry(offset, 1 << 40, 100, 7)
    assert store.get("T", 0, 300, 1).damaged == (() if found else (300,))
    assert (queue.entry(300) == right) is found


def test_the_first_entry_and_one_of_another_queue_are_rebuilt(damaged):
    damaged.entry(0, *damaged.place(7))
    other = damaged.store._queues.by_key["T", 1].entry(9)
    damaged.entry(9, other[0], other[1])
    assert damaged.read() == (whole(), [])


def test_a_bad_body_is_found_by_consumers(damaged):
    physical, _ = damaged.place(20)
    damaged.write(physical + FIXED_SIZE, b"~")
    assert damaged.read() == (whole(), [])


def test_bytes_that_this_process_wrote_are_not_looked_at(stores):
    """They are in memory as they were written; the fast path must not cost more."""
    store = stores.open(CONFIG)
    fill(store, 40)
    (start,) = store._commit_log.starts
    physical, _, _ = store._queues.by_key["T", 0].entry(5)
    store._commit_log.buffer(start)[physical : physical + 4] = bytes(4)
    assert store.get("T", 0, 0, 32).count == 32
    store.close()
    store = stores.open(CONFIG)
    found = store.get("T", 0, 0, 32)
    assert (found.count, found.damaged) == (32, (5,))
