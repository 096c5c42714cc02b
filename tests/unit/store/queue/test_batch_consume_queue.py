"""Batch consume queues: a record of several messages has one unit, and offsets count messages."""

from __future__ import annotations

from pathlib import Path
from struct import Struct, iter_unpack

import msgspec
import pytest

from rocketmq_py.errors import MessageIllegal
from rocketmq_py.store import GetStatus, MessageStore, NewBatch
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.store.write.records import Boundary
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.java_hash import tags_code
from rocketmq_py.wire.record import decode_record
from tests.unit.store.helpers import NOW, SMALL, record
from tests.unit.store.memoryfs import MemoryFileSystem

UNIT = Struct(">qiqqqhii")
PER_FILE = 4
CONFIG = msgspec.structs.replace(SMALL, mapper_file_size_batch_consume_queue=UNIT.size * PER_FILE)
SYNC = msgspec.structs.replace(CONFIG, flush_disk_type="SYNC_FLUSH")


def opened(stores, config=CONFIG) -> MessageStore:
    return stores.open(config, is_batched=lambda topic: topic == "T")


def batch(i: int, count: int):
    body = encode_batch((0, b"%d" % n, b"") for n in range(count))
    return record(i, body=body, properties=b"UNIQ_KEY\x01B%d\x02" % i, tags_code=0, uniq_key=f"B{i}", keys=None)


def fill(store: MessageStore) -> list[int]:
    """Messages 0, 1 to 5, 6, 7 to 8: their records' places in the log."""
    placed = [store.append(record(0)), store.append_inner_batch(batch(1, 5), 5), store.append(record(6)),
              store.append_inner_batch(batch(7, 2), 2)]  # fmt: skip
    store.commit_pending()
    assert [one.queue_offset for one in placed] == [0, 1, 6, 7]
    return [one.physical_offset for one in placed]


def bases(store: MessageStore, offset: int, most: int = 32, **how) -> tuple[list[int], int]:
    """Offsets of the records that a read brings, and where it says to go on."""
    result = store.get("T", 0, offset, most, **how)
    records, at = list[int](), 0
    while at < len(result.body):
        records.append(int.from_bytes(result.body[at + 20 : at + 28], "big"))
        at += int.from_bytes(result.body[at : at + 4], "big")
    assert result.count == len(records)
    return records, result.next_offset


def units(stores) -> list[tuple[int, ...]]:
    root = stores.root / "batchconsumequeue" / "T" / "0"
    raw = b"".join(stores.fs.read(root / name) for name in sorted(stores.fs.names(root)))
    return [unit for unit in UNIT.iter_unpack(raw) if unit[1]]


def test_units_and_records_equal_those_of_java(stores):
    store = opened(stores)
    places = fill(store)
    stores.clock.now += 9
    store.append(record(9))
    store.append(record(0, topic="U"))
    store.commit_pending()
    found = decode_record(store.message_at(places[1]) or b"")
    assert found.head.sys_flag == 0xC0
    assert dict(found.properties) == {"UNIQ_KEY": "B1", "INNER_NUM": "5", "INNER_BASE": "1"}
    assert store.query("T", "B1", 9, 0, 1 << 62).body == store.message_at(places[1])
    store.close()
    assert [(u[0], u[2], u[3], u[4], u[5], u[6], u[7]) for u in units(stores)[:4]] == [
        (places[0], tags_code("even"), NOW, 0, 1, -1, 0), (places[1], 0, NOW, 1, 5, -1, 0),
        (places[2], tags_code("even"), NOW, 6, 1, -1, 0), (places[3], 0, NOW, 7, 2, -1, 0),
    ]  # fmt: skip
    assert [u[3:6] for u in units(stores)[4:]] == [(NOW + 9, 9, 1)]
    assert stores.fs.names(stores.root / "consumequeue") == ["U"]


@pytest.mark.parametrize("config", [CONFIG, SYNC], ids=["async", "sync"])
@pytest.mark.parametrize("end", ["open", "close", "kill"])
def test_batch_queues_can_be_read_after_every_kind_of_stop(stores, end, config):
    store = opened(stores, config)
    fill(store)
    if end == "close":
        store.close()
    if end == "kill":
        stores.crash()
    if end != "open":
        store = opened(stores, config)
    elif config is SYNC:
        store._flush_everything()
    assert store.queue_range("T", 0) == (0, 9)
    assert bases(store, 0) == ([0, 1, 6, 7], 9)
    assert bases(store, 3) == ([1, 6, 7], 9), "a batch comes as a whole"
    assert bases(store, 8) == ([7], 9)
    assert bases(store, 0, 6) == ([0, 1], 6), "its messages count, unless it is the first"
    assert bases(store, 0, 5) == ([0], 1)
    assert bases(store, 1, 1) == ([1], 6)
    even = tags_code("even")
    assert bases(store, 0, accepts=lambda code: code == even) == ([0, 6], 9)
    nothing = store.get("T", 0, 7, 32, accepts=lambda code: code == even)
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 9)
    assert store.get("T", 0, 9, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert bases(store, 0, message_filter=lambda raw: b"INNER_NUM" in raw) == ([1, 7], 9)


@pytest.mark.parametrize("end", ["close", "kill", "delete"])
def test_appends_continue_over_several_files(stores, end):
    store = opened(stores)
    for _ in range(3):
        base = store.queue_range("T", 0)[1]
        for n in range(PER_FILE):
            assert store.append_inner_batch(batch(base + n, 3), 3).queue_offset == base + 3 * n
        store.commit_pending()
        if end == "kill":
            stores.crash()
        else:
            store.close()
        if end == "delete":  # the log has everything
            for name in stores.fs.names(stores.root / "batchconsumequeue" / "T" / "0"):
                stores.fs.remove(stores.root / "batchconsumequeue" / "T" / "0" / name)
        store = opened(stores)
    assert bases(store, 16, 64) == (list(range(15, 36, 3)), 36)
    store.close()
    assert [(u[4], u[5]) for u in units(stores)] == [(base, 3) for base in range(0, 36, 3)]


def test_a_clean_shutdown_needs_no_scan(stores, monkeypatch):
    store = opened(stores)
    fill(store)
    store.close()
    monkeypatch.setattr(RecordDispatch, "_enqueue", None)
    store = opened(stores)
    assert store.queue_range("T", 0) == (0, 9)
    assert bases(store, 8) == ([7], 9)


def test_units_beyond_the_log_are_truncated(stores):
    store = opened(stores)
    places = fill(store)
    store.close()
    stores.fs.write(store.layout.abort, b"")
    for name in ("checkpoint", "queueends", "queueends.bak"):
        stores.fs.remove(stores.root / name)
    log = stores.root / "commitlog" / f"{0:020d}"
    content = stores.fs.nodes[log].content
    content[places[2] + 4] ^= 0xFF
    store = opened(stores)
    assert store.queue_range("T", 0) == (0, 6)
    assert store.append(record(6)).queue_offset == 6
    assert bases(store, 5) == ([1, 6], 7)


def test_units_expire_with_their_log_files(stores):
    store = opened(stores)
    while store.max_physical_offset < 3 * 4096:
        store.append_inner_batch(batch(0, 7), 7)
    end = store.queue_range("T", 0)[1]
    store.close()
    stores.fs.remove(stores.root / "commitlog" / f"{0:020d}")
    store = opened(stores)
    low, high = store.queue_range("T", 0)
    assert high == end
    assert low % 7 == 0 < low < high
    place = store.physical_offset("T", 0, low)
    assert place is not None
    assert place >= 4096
    assert bases(store, low, 1) == ([low], low + 7)
    assert store.get("T", 0, low - 1, 1).status is GetStatus.OFFSET_TOO_SMALL


def test_units_are_found_by_time_tag_and_offset(stores):
    store = opened(stores)
    places = fill(store)
    stores.clock.now += 10
    assert store.append_inner_batch(batch(9, 4), 4).queue_offset == 9
    store.commit_pending()
    assert store.offset_by_time("T", 0, NOW + 1) == 9
    assert store.offset_by_time("T", 0, NOW) == 0
    assert store.offset_by_time("T", 0, NOW + 11) == 9, "the last record, not the end"
    assert store.offset_by_time("T", 0, NOW, Boundary.UPPER) == 7
    assert store.offset_by_time("T", 0, NOW - 1, Boundary.UPPER) == 0
    assert store.offset_by_time("T", 0, NOW + 10, Boundary.UPPER) == 9, "the first of the batch"
    assert store.store_time("T", 0, 11) == NOW + 10
    assert store.physical_offset("T", 0, 4) == places[1]
    assert [entry[0] for entry in store.queue_entries("T", 0, 4, 2)] == places[1:2]
    assert [entry[0] for entry in store.queue_entries("T", 0, 4, 3)] == places[1:3]
    assert store.query_by_tag("T", "even", 9, 0, 1 << 62).count == 2


def test_a_batch_without_a_key_is_stored_message_by_message(stores):
    store = opened(stores)
    body = encode_batch((0, b"%d" % n, b"") for n in range(5))
    assert store.append_batch(NewBatch("T", 0, body)).queue_offset == 0
    store.commit_pending()
    assert bases(store, 2) == ([2, 3, 4], 5)


def test_only_batch_queues_store_a_batch_as_one_record(stores):
    store = opened(stores)
    with pytest.raises(MessageIllegal, match="needs a topic with batch consume queues"):
        store.append_inner_batch(msgspec.structs.replace(batch(0, 2), topic="U"), 2)
    with pytest.raises(MessageIllegal, match="1 to 32767 messages"):
        store.append_inner_batch(batch(0, 2), 32768)


def test_recovery_recognizes_a_batch_of_a_deleted_topic(stores):
    store = opened(stores)
    store.append_inner_batch(batch(0, 4), 4)
    store.append_inner_batch(batch(4, 2), 2)
    store.commit_pending()
    stores.crash()
    store = stores.open(CONFIG)
    assert bases(store, 1) == ([0, 4], 6)


def test_a_deleted_topic_loses_its_batch_queues(stores):
    store = opened(stores)
    fill(store)
    store.close()
    store = opened(stores)
    store.delete_topic("T")
    assert stores.fs.names(stores.root / "batchconsumequeue") == []
    assert fill(store)


def test_verify_notes_what_it_does_not_check(disk_stores):
    store = opened(disk_stores)
    store.append(record(0))
    fill_from = store.append_inner_batch(batch(1, 3), 3)
    assert fill_from.queue_offset == 1
    store.append(record(4))
    store.close()
    with OfflineStore(disk_stores.root) as offline:
        report = verify(offline)
    assert report.is_valid, report.findings.problems
    assert [one.what for one in report.findings.listed()] == ["is a batch consume queue: its units are not checked"]


def test_clients_see_that_a_batch_queue_has_never_had_a_message(stores) -> None:
    """As BatchConsumeQueue, whose minOffsetInQueue is -1 until then; other queues begin at 0."""
    store = opened(stores)
    assert [store.min_offset_for_clients(topic, 0) for topic in ("T", "U")] == [-1, 0]
    fill(store)
    assert [store.min_offset_for_clients("T", queue) for queue in (0, 1)] == [0, -1]


def test_a_damaged_record_is_left_out_and_named(stores):
    store = opened(stores)
    places = fill(store)
    stores.fs.open(stores.root / "commitlog" / ("0" * 20), 4096).write(places[1] + 4, b"\0\0\0\0")
    result = store.get("T", 0, 0, 32)
    assert (result.status, result.damaged, result.next_offset) == (GetStatus.FOUND, (1, 2, 3, 4, 5), 9)
    assert bases(store, 0) == ([0, 6, 7], 9)
    result = store.get("T", 0, 3, 32)
    assert result.damaged == (3, 4, 5)


def units_of(*counts: int) -> tuple[BatchConsumeQueue, MemoryFileSystem]:
    """A queue with units of so many messages, which are at 100, 200 and so on in the log, 10 bytes each."""
    fs = MemoryFileSystem()
    queue = BatchConsumeQueue("T", 0, ROOT, OpenFiles(fs, UNIT.size * PER_FILE, 8), lambda physical: 7 * physical)
    for number, count in enumerate(counts, 1):
        queue.add(100 * number, 10, number, count)
    queue.commit_pending()
    return queue, fs


ROOT = Path("/store/batchconsumequeue")


def test_units_are_read_from_any_offset_on():
    queue, _ = units_of(1, 5, 1, 2)
    cases = [
        ((0, 9), [100, 200, 300, 400]), ((1, 9), [200, 300, 400]), ((5, 9), [200, 300, 400]), ((6, 9), [300, 400]),
        ((7, 9), [400]), ((8, 9), [400]), ((9, 9), []), ((0, 1), [100]), ((0, 2), [100, 200]), ((0, 0), []),
        ((1, 5), [200]), ((1, 6), [200, 300]), ((3, 1), [200]), ((8, 1), [400]),
    ]  # fmt: skip
    assert [[at for at, _, _ in iter_unpack(">qiq", queue.read(*place))] for place, _ in cases] == [x for _, x in cases]
    spans = [((0, 9), [100, 200, 300, 400]), ((1, 6), [200]), ((1, 7), [200, 300]), ((2, 7), [300]), ((7, 8), [400])]
    assert [[at for at, _, _ in queue.span(*place)] for place, _ in spans] == [x for _, x in spans]
    assert [queue.entry(offset) for offset in (-1, 0, 5, 8, 9)] == [
        None, (100, 10, 1), (200, 10, 2), (400, 10, 4), None,
    ]  # fmt: skip
    unit = queue.unit(8)
    assert unit == (400, 10, 4, 2800, 7, 2)
    assert unit is not None
    assert unit.end == 9
    assert (queue.last_physical_end(), queue.next_file(0), queue.is_empty) == (410, 9, False)


def test_many_units_are_read_in_parts():
    queue, _ = units_of(*[2] * 200)
    for offset, count, numbers in ((0, 63, 63), (0, 64, 64), (0, 65, 65), (1, 64, 64), (2, 999, 199), (300, 128, 50)):
        found = [unit.base for unit in queue.units(offset, count)]
        assert found == list(range(offset // 2 * 2, offset // 2 * 2 + 2 * numbers, 2)), (offset, count)


def test_units_are_loaded_up_to_the_end_of_the_log():
    for physical_end, minimum, left in ((109, 0, 0), (110, 1, 1), (210, 6, 2), (309, 6, 2), (410, 9, 4), (510, 12, 5)):
        queue, fs = units_of(1, 5, 1, 2, 3)
        queue.spill()
        again = BatchConsumeQueue("T", 0, ROOT, OpenFiles(fs, UNIT.size * PER_FILE, 8), lambda _: 0)
        (folder,) = fs.inner_folders(ROOT, 4096)
        again.load(folder)
        assert (again.min_offset, again.max_offset, again.next_offset) == (0, 12, 12)
        again.load_below(physical_end)
        again.loaded()
        assert (again.max_offset, again.next_offset, len(list(again.units(0, 99)))) == (minimum, minimum, left)
        assert again.last_physical_end() == (100 * left + 10 if left else -1)
        queue.truncate(physical_end)
        assert (queue.max_offset, len(list(queue.units(0, 99)))) == (minimum, left)


def test_the_minimum_moves_with_the_log_and_files_go():
    for physical, minimum, files in ((0, 0, 2), (101, 1, 2), (200, 1, 2), (201, 6, 2), (401, 9, 1), (501, 12, 1)):
        queue, fs = units_of(1, 5, 1, 2, 3)
        queue.spill()
        queue.raise_minimum(physical)
        queue.remove_expired_files()
        assert queue.min_offset == minimum, physical
        assert len(fs.names(ROOT / "T" / "0")) == files, physical
        assert queue.unit(minimum - 1) is None


def test_a_batch_queue_can_begin_anywhere_and_skips_lost_messages(caplog):
    queue, fs = units_of()
    assert (queue.is_empty, queue.last_physical_end()) == (True, -1)
    queue.skip_to(7)
    assert (queue.min_offset, queue.max_offset, queue.next_offset, queue.is_empty) == (7, 7, 7, True)
    queue.add(100, 10, 1, 3)
    queue.commit_pending()
    queue.skip_to(15)
    assert "batch consume queue T-0: messages 10 to 14 are missing in the commit log" in caplog.text
    queue.add(200, 10, 1)
    queue.commit_pending()
    assert [(unit.base, unit.messages) for unit in queue.units(0, 99)] == [(7, 3), (15, 1)]
    assert [queue.unit(offset) is None for offset in (6, 7, 9, 10, 14, 15, 16)] == [1, 0, 0, 1, 1, 0, 1]
    queue.spill()
    assert fs.names(ROOT / "T" / "0") == ["0" * 20]
    queue.remove_files()
    assert fs.names(ROOT / "T" / "0") == []
