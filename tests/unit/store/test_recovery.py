"""Opening a store again: after a clean end, after a kill, and with files damaged or missing."""

from __future__ import annotations

import logging
from struct import pack

import msgspec
import pytest

from rocketmq_py.errors import CorruptRecord, StoreCorrupt, StoreLocked
from rocketmq_py.store import MessageStore, StoreConfig, recovery
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import HOST, NOW, SMALL, fill, flush, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem

ACCEPTING = msgspec.structs.replace(SMALL, accept_loss=True)


def log_file(stores, number=0):
    return stores.root / "commitlog" / f"{number * 4096:020d}"


def contents(stores, *below):
    root = stores.root.joinpath(*below)
    return {path: bytes(node.content) for path, node in stores.fs.nodes.items() if path.is_relative_to(root)}


def check(store, wanted, topic="T"):
    assert numbers(read_queue(store, topic)) == wanted
    for i in wanted:
        assert i in numbers(decode_records(store.query(topic, f"k{i}", 64, 0, 1 << 62).body))


def test_a_closed_store_has_no_abort_file(stores):
    import os

    store = stores.open()
    fill(store, 3)
    assert stores.fs.read(store.layout.abort) == str(os.getpid()).encode()
    assert stores.fs.size(store.layout.checkpoint) is None
    stores.clock.now += 7
    fill(store, 1)
    store.close()
    assert stores.fs.size(store.layout.abort) is None
    times = stores.fs.read(store.layout.checkpoint)
    assert times[:40] == pack(">qqqqq", NOW + 7, NOW + 7, NOW + 7, 0, 0)
    assert len(times) == 4096


def test_a_clean_shutdown_needs_no_scan_and_changes_nothing(stores):
    store = stores.open()
    fill(store, 50)
    store.close()
    before = contents(stores)
    store = stores.open()
    check(store, list(range(50)))
    store.close()
    after = contents(stores)
    checkpoint = stores.root / "checkpoint"
    assert {p: c for p, c in after.items() if p != checkpoint} == {p: c for p, c in before.items() if p != checkpoint}
    store = stores.open()
    fill(store, 10, start=50)
    check(store, list(range(60)))


def test_a_kill_loses_no_written_message(stores):
    store = stores.open()
    fill(store, 70)
    stores.crash()
    store = stores.open()
    check(store, list(range(70)))
    fill(store, 5, start=70)
    stores.crash()
    check(stores.open(), list(range(75)))


def test_queue_files_after_a_kill_equal_those_after_a_clean_end(stores):
    store = stores.open()
    fill(store, 70)
    killed = stores.fs.after_kill()
    store.close()
    clean = contents(stores, "consumequeue")
    stores.crash(killed)
    stores.open().close()
    assert contents(stores, "consumequeue") == clean


def test_only_files_not_covered_by_the_checkpoint_are_scanned(stores, caplog):
    store = stores.open()
    for i in range(40):
        stores.clock.now += 1000
        fill(store, 1, start=i, size=300)
        if i == 25:
            store.close()
            store = stores.open()
    stores.crash()
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    assert walked_from(caplog) == store.queue_entries("T", 0, 26, 1)[0][0]
    check(store, list(range(40)))


@pytest.mark.parametrize("field", ["times", "end"])
def test_the_checkpoint_of_another_program_selects_a_file_only(stores, caplog, field):
    store = stores.open()
    for i in range(40):
        stores.clock.now += 1000
        fill(store, 1, start=i, size=300)
        if i == 25:
            store.close()
            store = stores.open()
    stores.crash()
    checkpoint = stores.fs.nodes[stores.root / "checkpoint"].content
    if field == "times":
        checkpoint[24:32] = pack(">q", 1)
    else:
        checkpoint[-12:] = bytes(12)
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    begin = walked_from(caplog)
    assert 0 < begin <= store.queue_entries("T", 0, 22, 1)[0][0]
    assert begin % SMALL.mapped_file_size_commit_log == 0
    check(store, list(range(40)))


@pytest.mark.parametrize("missing", ["consumequeue", "index"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_queues_or_index_are_rebuilt_although_the_checkpoint_covers_them(stores, missing, clean):
    store = stores.open()
    for i in range(40):
        stores.clock.now += 1000
        fill(store, 1, start=i, size=300)
    store.close()
    if not clean:
        fill(stores.open(), 1, start=40)
        stores.crash()
    stores.fs.remove_tree(stores.root / missing)
    stores.open()
    stores.crash()  # before anything of it is vouched for
    check(stores.open(), list(range(40 if clean else 41)))


def walked_from(caplog):
    """Where the newest recovery began."""
    return int(caplog.text.rsplit("is scanned from ", 1)[1].split()[0])


def test_a_thorough_flush_shortens_the_scan(stores, caplog):
    config = msgspec.structs.replace(SMALL, flush_consume_queue_thorough_interval=10)
    store = stores.open(config)
    fill(store, 40, size=300)
    stores.clock.now += 10_000
    fill(store, 1, start=40, size=300)
    store.tick(stores.clock.now)
    store._flusher.stop()
    stores.crash()
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    assert "is scanned from 0" not in caplog.text
    check(store, list(range(41)))


@pytest.mark.parametrize("damage", ["body", "size", "magic", "position", "lengths", "topic"])
def test_a_damaged_record_costs_no_other(stores, caplog, damage):
    store = stores.open()
    done = fill(store, 30)
    at = done[20].physical_offset
    store.close()
    for path in [p for p in stores.fs.nodes if "consumequeue" in p.parts or p.name.startswith("queueends")]:
        stores.fs.remove(path)
    content = stores.fs.nodes[log_file(stores, at // 4096)].content
    at %= 4096
    place = {"body": 90, "size": 2, "magic": 4, "position": 35, "lengths": done[20].size - 62, "topic": 189}[damage]
    content[at + place] ^= 0xFF
    with caplog.at_level(logging.ERROR):
        store = stores.open()
    said = f"the commit log is damaged from {done[20].physical_offset} to {done[21].physical_offset}: "
    assert said in caplog.text
    assert store.max_physical_offset == done[29].physical_offset + done[29].size
    fill(store, 5, start=30)
    wanted = [number for number in range(35) if number != 20]
    assert whole(store) == wanted
    flush(store)
    stores.crash()
    assert whole(stores.open()) == wanted


def whole(store):
    """Numbers of the messages that a consumer gets and finds whole."""
    offset, end = store.queue_range("T", 0)
    found = []
    while offset < end:
        result = store.get("T", 0, offset, 1)
        try:
            found += numbers(decode_records(result.body)) if result.count else []
        except CorruptRecord:
            assert len(result.body) > 0
        offset = max(offset + 1, result.next_offset)
    return found


def test_damage_at_the_end_of_the_log_is_truncated(stores, caplog):
    store = stores.open()
    done = fill(store, 30)
    stores.crash()
    last = done[29].physical_offset
    content = stores.fs.nodes[log_file(stores, last // 4096)].content
    content[last % 4096 + 90] ^= 0xFF
    with caplog.at_level(logging.ERROR):
        store = stores.open()
    assert f"truncated at {last}" in caplog.text
    check(store, list(range(29)))
    assert bytes(content[last % 4096 :]) == bytes(4096 - last % 4096)


def test_a_page_of_zeros_is_damage_if_records_follow(stores, caplog):
    store = stores.open()
    done = fill(store, 12)
    store.close()
    for path in [p for p in stores.fs.nodes if "consumequeue" in p.parts or p.name.startswith("queueends")]:
        stores.fs.remove(path)
    first = done[5].physical_offset
    stores.fs.nodes[log_file(stores)].content[first : done[7].physical_offset] = bytes(done[7].physical_offset - first)
    store = stores.open()
    reason = "nothing is written there"
    assert f"damaged from {first} to {done[7].physical_offset}: {reason}" in caplog.text
    assert whole(store) == [*range(5), *range(7, 12)]


def test_the_log_of_a_slave_ends_at_damage(stores):
    store = stores.open(is_slave=True)
    store.close()
    store = stores.open()
    done = fill(store, 12)
    stores.crash()
    stores.fs.write(store.layout.abort, b"1 slave")
    stores.fs.nodes[log_file(stores)].content[done[5].physical_offset + 90] ^= 0xFF
    assert stores.open(is_slave=True).max_physical_offset == done[5].physical_offset


def test_a_tail_that_is_torn_before_its_properties_loses_one_message(stores):
    store = stores.open()
    done = fill(store, 12)
    stores.crash()
    last = done[11]
    whole = bytes(stores.fs.nodes[log_file(stores)].content)
    for kept in range(0, last.size - len(record(11).properties), 7):
        fs = stores.fs.after_kill()
        end = last.physical_offset + kept
        fs.nodes[log_file(stores)].content[end:] = bytes(4096 - end)
        stores.crash(fs)
        store = stores.open()
        assert numbers(read_queue(store)) == list(range(11))
        assert store.append(record(11)).physical_offset == last.physical_offset
        store.commit_pending()
        assert stores.fs.nodes[log_file(stores)].content[: last.physical_offset + last.size] != b""
        stores.crash()
        assert numbers(read_queue(stores.open())) == list(range(12))
    assert whole[last.physical_offset :] != bytes(4096 - last.physical_offset)


def test_properties_torn_at_a_sector_are_noticed_but_a_zero_in_them_is_not_damage(stores, caplog):
    store = stores.open()
    store.append(record(0, properties=b"TAGS\x01a\0"))
    torn = store.append(record(1, size=200, properties=b"x" * 300))
    store.commit_pending()
    stores.crash()
    assert torn.physical_offset < 512 < torn.physical_offset + torn.size - 100
    stores.fs.nodes[log_file(stores)].content[512:] = bytes(4096 - 512)
    with caplog.at_level(logging.ERROR):
        store = stores.open()
    assert "torn" in caplog.text
    assert numbers(read_queue(store)) == [0]


@pytest.mark.parametrize("clean", [True, False])
def test_queues_and_index_are_rebuilt_from_the_log(stores, clean):
    store = stores.open()
    fill(store, 45)
    fill(store, 5, topic="other")
    store.close()
    wanted = contents(stores, "consumequeue")
    if not clean:
        store = stores.open()
        stores.crash()
    for directory in ("consumequeue", "index"):
        stores.fs.remove_tree(stores.root / directory)
    store = stores.open()
    check(store, list(range(45)))
    check(store, list(range(5)), "other")
    store.close()
    assert contents(stores, "consumequeue") == wanted


def test_a_half_written_queue_is_completed(stores):
    store = stores.open()
    fill(store, 45)
    store.close()
    wanted = contents(stores, "consumequeue")
    stores.open()
    stores.crash()
    directory = stores.root / "consumequeue" / "T" / "0"
    stores.fs.nodes[directory / f"{400:020d}"].content[100:300] = bytes(200)
    stores.fs.remove(directory / f"{800:020d}")
    stores.fs.nodes[stores.root / "checkpoint"].content[0:24] = bytes(24)
    stores.open().close()
    assert contents(stores, "consumequeue") == wanted


def test_offsets_beyond_a_shortened_log_are_not_assigned_again(stores):
    store = stores.open()
    done = fill(store, 45, size=300)
    store.close()
    for number in range(2, 9):
        stores.fs.remove(log_file(stores, number))
    kept = [i for i, d in enumerate(done) if d.physical_offset < 8192]
    with pytest.raises(StoreCorrupt) as refusal:
        stores.open()
    assert f"missing from 8192 to {done[-1].physical_offset + done[-1].size};" in str(refusal.value)
    assert f"messages by queue and offsets: T-0 {len(kept)} to 44; stored after 2023-11-14 22:13:20 UTC. " in str(
        refusal.value
    )
    store = stores.open(ACCEPTING)
    assert store.queue_range("T", 0) == (0, 45)
    assert store.get("T", 0, len(kept) - 1, 1).count == 1
    again = fill(store, 3, start=45)
    assert again[0].queue_offset == 45
    assert again[0].physical_offset == done[len(kept)].physical_offset
    store.close()
    assert numbers(decode_records(stores.open().get("T", 0, 45, 32).body)) == [45, 46, 47]


def test_the_smallest_offset_follows_the_oldest_file(stores):
    store = stores.open()
    done = fill(store, 45, size=300)
    fill(store, 2, topic="new")
    store.close()
    stores.fs.remove(log_file(stores, 0))
    store = stores.open()
    first = next(i for i, d in enumerate(done) if d.physical_offset >= 4096)
    assert store.queue_range("T", 0) == (first, 45)
    assert store.queue_range("new", 0) == (0, 2)
    assert store.min_physical_offset == 4096
    assert store.earliest_store_time("T", 0) == NOW


def test_an_expired_queue_keeps_its_end(stores):
    store = stores.open()
    fill(store, 3, topic="old")
    fill(store, 45, size=300)
    store.close()
    stores.fs.remove(log_file(stores, 0))
    store = stores.open()
    assert store.queue_range("old", 0) == (3, 3)
    assert fill(store, 1, topic="old")[0].queue_offset == 3
    assert numbers(read_queue(store, "old")) == [0]


def test_a_queue_is_rebuilt_from_a_log_without_its_beginning(stores):
    store = stores.open()
    done = fill(store, 45, size=300)
    store.close()
    first = next(i for i, d in enumerate(done) if d.physical_offset >= 4096)
    stores.fs.remove(log_file(stores, 0))
    stores.fs.remove_tree(stores.root / "consumequeue")
    for _ in range(2):
        store = stores.open()
        assert store.queue_range("T", 0) == (first, 45)
        assert numbers(read_queue(store)) == list(range(first, 45))
        store.close()
    data = stores.fs.read(stores.root / "consumequeue" / "T" / "0" / f"{0:020d}")
    assert data[: 20 * first] == pack(">qiq", 0, 0x7FFFFFFF, 0) * first


def test_without_a_log_queues_are_removed_if_that_is_accepted(stores, caplog):
    store = stores.open()
    fill(store, 10)
    store.close()
    stores.fs.remove_tree(stores.root / "commitlog")
    with pytest.raises(StoreCorrupt, match="missing from 0 to 2"):
        stores.open()
    store = stores.open(ACCEPTING)
    assert "the consume queues are removed" in caplog.text
    assert store.queue_range("T", 0) == (10, 10)
    again = fill(store, 1)[0]
    assert (again.physical_offset, again.queue_offset) == (0, 10)


def cut(stores, number, size):
    del stores.fs.nodes[log_file(stores, number)].content[size:]


LOSSES = {
    "a file": (lambda stores: stores.fs.remove(log_file(stores, 1)), "missing from 4096 to 8192"),
    "the content": (lambda stores: cut(stores, 1, 0), "the file at 4096 is empty"),
    "the end of a file": (lambda stores: cut(stores, 1, 100), "the file at 4096 is cut short at 4196"),
}


@pytest.mark.parametrize(("lose", "what"), LOSSES.values(), ids=LOSSES)
def test_a_log_that_lacks_a_part_is_refused_unless_the_loss_is_accepted(stores, caplog, lose, what):
    store = stores.open()
    done = fill(store, 45, size=300)
    store.close()
    lose(stores)
    before = contents(stores)
    lost = [i for i, one in enumerate(done) if 4096 <= one.physical_offset < 8192]
    with pytest.raises(StoreCorrupt) as refusal:
        stores.open()
    assert str(refusal.value) == (
        f"the commit log has lost messages: {what}; messages by queue and offsets: T-0 {lost[0]} to {lost[-1]}; stored "
        "after 2023-11-14 22:13:20 UTC and before 2023-11-14 22:13:20 UTC. Put the files back from a copy; or run "
        "'rocketmq store repair', or start with --accept-loss, to go on without them"
    )
    assert contents(stores) == before
    store = stores.open(ACCEPTING)
    assert what in caplog.text
    assert fill(store, 1, start=45)[0].queue_offset == 45
    result = store.get("T", 0, 40, 32)
    assert numbers(decode_records(result.body)) == list(range(40, 46))
    assert store.get("T", 0, 0, 32).count > 0


def test_an_empty_last_file_is_removed(stores):
    store = stores.open()
    fill(store, 3)
    store.close()
    stores.fs.write(log_file(stores, 1), b"")
    stores.fs.write(stores.root / "consumequeue" / "T" / "0" / f"{400:020d}", b"")
    store = stores.open()
    fill(store, 42, start=3)
    check(store, list(range(45)))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"mapped_file_size_commit_log": 8192}, "mappedFileSizeCommitLog"),
        ({"mapped_file_size_consume_queue": 600}, "mappedFileSizeConsumeQueue"),
    ],
)
def test_another_file_size_is_refused_before_anything_is_touched(stores, change, key):
    store = stores.open()
    fill(store, 3)
    store.close()
    before = contents(stores)
    with pytest.raises(StoreCorrupt, match=key):
        stores.open(msgspec.structs.replace(SMALL, **change))
    assert contents(stores) == before
    check(stores.open(), [0, 1, 2])


def test_unknown_files_are_not_touched(stores):
    store = stores.open()
    fill(store, 3)
    store.close()
    for name in ("commitlog/notes.txt", "consumequeue/T/0/x", "consumequeue/T/readme/y", "consumequeue/z", "index/no"):
        stores.fs.write(stores.root / name, b"hello")
    check(stores.open(), [0, 1, 2])
    assert stores.fs.read(stores.root / "index" / "no") == b"hello"


def test_a_store_cannot_be_opened_twice(stores):
    store = stores.open()
    other = MessageStore(stores.root, SMALL, store_host=HOST, fs=stores.fs)
    with pytest.raises(StoreLocked, match="in use by another broker"):
        other.open()
    store.close()
    other.open()
    other.close()


def test_deliver_times_of_delayed_messages_are_computed_again(stores):
    store = stores.open()
    properties = b"DELAY\x014\x02TAGS\x01x\x02"
    for level in (b"4", b"99", b"0"):
        own = properties.replace(b"\x014", b"\x01" + level)
        store.append(record(0, topic="SCHEDULE_TOPIC_XXXX", properties=own, tags_code=NOW + 30_000))
    store.commit_pending()
    stores.crash()
    stores.fs.remove_tree(stores.root / "consumequeue")
    store = stores.open()
    codes = [code for _, _, code in store.queue_entries("SCHEDULE_TOPIC_XXXX", 0, 0, 9)]
    assert codes == [NOW + 30_000, NOW + 7_200_000, ord("x")]


def test_index_entries_beyond_the_header_are_rebuilt(stores):
    config = StoreConfig(
        mapped_file_size_commit_log=8192, mapped_file_size_consume_queue=400, max_hash_slot_num=4, max_index_num=500,
        flush_consume_queue_thorough_interval=1,
    )  # fmt: skip
    store = stores.open(config)
    fill(store, 10)
    store.tick(stores.clock.now + 5)
    store._flusher.stop()
    fill(store, 10, start=10)
    store._index.build()
    stores.crash()
    store = stores.open(config)
    check(store, list(range(20)))
    for i in range(20):
        assert numbers(decode_records(store.query("T", f"U{i:06d}", 64, 0, NOW).body)) == [i]
    assert numbers(decode_records(store.query("T", "all", 64, 0, NOW).body)) == list(range(20))


def test_an_index_newer_than_the_checkpoint_is_removed(stores, caplog, monkeypatch):
    store = stores.open()
    fill(store, 5)
    store.close()
    stores.open()
    stores.crash()
    stores.fs.nodes[stores.root / "checkpoint"].content[16:24] = pack(">q", NOW - 1)
    removed, remove = [], stores.fs.remove
    monkeypatch.setattr(stores.fs, "remove", lambda path: (removed.append(path.parent.name), remove(path)))
    store = stores.open()
    assert "may be damaged and is removed" in caplog.text
    assert "index" in removed
    check(store, list(range(5)))


@pytest.mark.parametrize("size", [100, 700])
def test_the_first_message_after_a_crash_may_need_a_new_file(stores, size):
    store = stores.open()
    while store.max_physical_offset + 400 < SMALL.mapped_file_size_commit_log:
        fill(store, 1, size=100)
    count = store.queue_range("T", 0)[1]
    stores.crash()
    store = stores.open()
    fill(store, 3, size=size)
    assert len(read_queue(store)) == count + 3


# -- what is said, and what is left


def logged(caplog, level=logging.INFO):
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_what_is_whole_in_a_cut_file_is_served_if_the_loss_is_accepted(stores):
    store = stores.open()
    done = fill(store, 45, size=300)
    store.close()
    cut(stores, 1, 2000)
    store = stores.open(ACCEPTING)
    left = [i for i, one in enumerate(done) if one.physical_offset + one.size <= 6096 or one.physical_offset >= 8192]
    assert any(4096 <= done[i].physical_offset < 6096 for i in left)
    assert whole(store) == left
    assert stores.fs.size(log_file(stores, 1)) == 4096


def test_store_times_do_not_go_back_after_a_crash(stores):
    store = stores.open()
    stores.clock.now = NOW + 7_000
    fill(store, 3)
    stores.crash()
    stores.clock.now = NOW
    store = stores.open()
    assert store.append(record(3)).store_timestamp == NOW + 7_000


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_queue_is_rebuilt_with_messages_whose_body_is_damaged(stores, caplog, clean):
    """Consumers find that; the queue has no gap."""
    store = stores.open()
    done = fill(store, 30)
    fill(store, 1, topic="U")
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    stores.fs.nodes[log_file(stores)].content[done[5].physical_offset + 90] ^= 0xFF
    stores.fs.remove_tree(stores.root / "consumequeue" / "T")
    with caplog.at_level(logging.INFO):
        store = stores.open()
    assert store.queue_range("T", 0) == (0, 30)
    assert store.get("T", 0, 5, 1).count == 1
    said = logged(caplog, logging.WARNING)
    assert "consume queue T-0 is rebuilt from the commit log: its files are missing" in said
    assert "1 consume queues were rebuilt with 30 records" in said
    assert not [one for one in said if "is damaged" in one]


@pytest.mark.parametrize("count", [9, 10, 11])
def test_entries_are_committed_every_so_many_records(stores, monkeypatch, count):
    """Otherwise a rebuild of a large log would need memory for all of it."""
    store = stores.open()
    fill(store, count, size=10)
    stores.crash()
    monkeypatch.setattr(recovery, "_COMMIT_EVERY", 5)
    pending = []
    commit = QueueTable.commit_pending

    def note(table, touched):
        pending.append(sum(len(queue.pending) // 3 for queue in touched))
        commit(table, touched)

    monkeypatch.setattr(QueueTable, "commit_pending", note)
    indexed = []
    monkeypatch.setattr(MessageIndex, "commit_pending", lambda index: indexed.append(len(index.waiting) // 3))
    check(stores.open(), list(range(count)))
    parts = [5, 4] if count == 9 else [5, 5, count - 10]
    assert pending == parts
    assert indexed == [sum(parts[: number + 1]) for number in range(len(parts))]


def test_a_rebuild_commits_every_so_many_records_too(stores, monkeypatch):
    store = stores.open()
    fill(store, 12, size=10)
    fill(store, 3, topic="U")
    store.close()
    for path in [path for path in stores.fs.nodes if {"consumequeue", "T"} <= set(path.parts)]:
        stores.fs.remove(path)
    monkeypatch.setattr(recovery, "_COMMIT_EVERY", 5)
    pending = []
    commit = QueueTable.commit_pending
    monkeypatch.setattr(
        QueueTable,
        "commit_pending",
        lambda table, touched: (
            pending.append(sum(len(queue.pending) // 3 for queue in touched)),
            commit(table, touched),
        ),
    )
    assert stores.open().queue_range("T", 0) == (0, 12)
    assert pending == [5, 5, 2, 0]


def test_recovery_says_what_it_does(stores, caplog, monkeypatch):
    monkeypatch.setattr(recovery, "_REPORT_EVERY", 1000)
    caplog.set_level(logging.INFO)
    store = stores.open()
    done = fill(store, 30)
    fill(store, 1, topic="U")
    store.close()
    for path in [path for path in stores.fs.nodes if {"consumequeue", "T"} <= set(path.parts)]:
        stores.fs.remove(path)
    caplog.clear()
    store = stores.open()
    end = store.max_physical_offset
    progress = [one for one in logged(caplog) if one.startswith("rebuilding")]
    reached, places = 0, []
    for one in done:
        if one.physical_offset - reached >= 1000:
            reached = one.physical_offset
            places.append(reached)
    assert progress == [f"rebuilding consume queues: the commit log is scanned up to {at} of {end}" for at in places]
    assert not [one for one in logged(caplog) if "were dispatched" in one]
    assert f"store /store is open, the commit log has 0 to {end}" in logged(caplog)
    stores.crash()
    caplog.clear()
    stores.open()
    said = logged(caplog)
    assert f"the store was not closed cleanly: the commit log is scanned from {end}" in said
    stores.crash()
    stores.fs.remove(stores.root / "checkpoint")
    caplog.clear()
    stores.open()
    assert "31 records of the commit log were dispatched to queues and index" in logged(caplog)


def test_at_most_ten_queues_with_lost_messages_are_named(stores):
    for count, said in (
        (10, "T-8 0 to 0, T-9 0 to 0; stored"),
        (11, "T-7 0 to 0, T-8 0 to 0 and those of 1 more queues"),
    ):
        fresh = type(stores)(stores.root, MemoryFileSystem())
        store = fresh.open()
        for queue_id in range(count):
            fill(store, 1, queue_id=queue_id, size=5)
        while store.max_physical_offset < 4096:
            fill(store, 1, size=1500)
        store.close()
        fresh.fs.write(log_file(fresh), b"")
        fresh.fs.write(log_file(fresh, 2), bytes(4096))
        with pytest.raises(StoreCorrupt) as refusal:
            fresh.open()
        assert said in str(refusal.value), str(refusal.value)


def test_the_times_of_lost_messages_are_those_of_the_files_around(stores):
    """Days apart: after the begin of the file before, before that of the file behind."""
    day = 86_400_000
    store = stores.open()
    for number in range(5):
        stores.clock.now = NOW + number * day
        while store.max_physical_offset < (number + 1) * 4096 - 1000:
            fill(store, 1, size=900)
        store.append_many([record(0, size=900), record(0, size=900)])
    store.close()
    starts = store._commit_log.starts
    sound = stores.fs
    text = {}
    for lost in ([0], [1], [2, 3], [len(starts) - 1]):
        stores.fs = sound.after_kill()
        for number in lost:
            stores.fs.remove(log_file(stores, number))
        try:
            stores.open()
        except StoreCorrupt as e:
            text[tuple(lost)] = str(e).partition("; stored ")[2].partition(". Put")[0]
    assert text == {
        (1,): "after 2023-11-14 22:13:20 UTC and before 2023-11-15 22:13:20 UTC",
        (2, 3): "after 2023-11-14 22:13:20 UTC and before 2023-11-17 22:13:20 UTC",
        (5,): "after 2023-11-17 22:13:20 UTC",
    }
    assert len(starts) == 6


def test_after_a_crash_without_queues_the_whole_log_is_read(stores, caplog):
    store = stores.open()
    fill(store, 40, size=300)
    flush(store)
    stores.crash()
    stores.fs.remove_tree(stores.root / "consumequeue")
    caplog.set_level(logging.WARNING)
    store = stores.open()
    said = logged(caplog)
    assert "the consume queues are missing: they are rebuilt from the whole commit log" in said
    assert "the store was not closed cleanly: the commit log is scanned from 0" in said
    check(store, list(range(40)))
    assert stores.fs.read(store.layout.checkpoint)[:24] == bytes(24), "nothing is vouched for until it is on disk again"


def test_a_missing_index_is_rebuilt_unless_it_is_disabled(stores, caplog):
    caplog.set_level(logging.WARNING)
    for enabled in (True, False):
        store = stores.open()
        if not store.queues():
            fill(store, 10)
        store.close()
        stores.fs.remove_tree(stores.root / "index")
        caplog.clear()
        stores.open(msgspec.structs.replace(SMALL, message_index_enable=enabled)).close()
        assert ("the index is missing: it is rebuilt from the whole commit log" in logged(caplog)) is enabled


BATCHES = msgspec.structs.replace(SMALL, mapper_file_size_batch_consume_queue=460)


def test_a_store_without_a_log_begins_anew(stores, caplog):
    store = stores.open(BATCHES, is_batched=lambda topic: topic == "B")
    fill(store, 10)
    fill(store, 3, topic="B")
    store.close()
    stores.fs.remove_tree(stores.root / "commitlog")
    stores.fs.remove(stores.root / "queueends")
    stores.fs.remove(stores.root / "queueends.bak")
    store = stores.open(BATCHES)
    assert store.queues() == []
    assert stores.fs.names(stores.root / "consumequeue") == []
    store.close()
    fresh = type(stores)(stores.root, MemoryFileSystem())
    store = fresh.open(BATCHES, is_batched=lambda topic: topic == "B")
    fill(store, 10)
    fill(store, 3, topic="B")
    store.close()
    fresh.fs.remove_tree(stores.root / "commitlog")
    store = fresh.open(msgspec.structs.replace(BATCHES, accept_loss=True))
    assert {key: store.queue_range(*key) for key in store.queues()} == {("T", 0): (10, 10), ("B", 0): (3, 3)}
    assert store.batched_topics() == {"B"}
    fresh.close()


def test_times_are_told_to_the_second():
    assert recovery.time_text(NOW + 999) == "2023-11-14 22:13:20 UTC"
