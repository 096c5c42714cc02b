"""Damaged consume queues that are rebuilt while the store is open."""

from __future__ import annotations

import logging
from itertools import pairwise

import msgspec
import pytest

from rocketmq_py.errors import QueueRebuilding, StoreCorrupt
from rocketmq_py.store import Boundary, GetStatus, rebuild, schedule
from rocketmq_py.store.settings import SYNC_FLUSH
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import SMALL, Stores, fill, flush, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem

NOW_OPEN = msgspec.structs.replace(SMALL, rebuild_bytes_before_start=0)
"""Settings with which each rebuild that can be put off is put off."""


def queue_file(stores, number=0, topic="T"):
    return stores.root / "consumequeue" / topic / "0" / f"{number * 400:020d}"


def parts(store):
    """Run the rebuild part by part, as the broker does."""
    while store.rebuild.queues_left:
        if store.rebuild.begin() is not None:
            for _ in store.rebuild.records():
                pass
        if not store.rebuild.end_part():
            return
        yield


def run(store, most=1 << 30):
    """Run at most so many parts; return their number."""
    return sum(1 for _ in zip(range(most), parts(store), strict=False))


def finish(store):
    run(store)
    assert store.rebuild.queues_left == 0
    assert store.rebuild.bytes_left == 0
    assert not store.rebuild.has("T", 0)


def damaged(stores, count=50, config=NOW_OPEN, others=5, **changes):
    """Open a store of which a file of queue T-0 is lost; topic U has some messages as well."""
    store = stores.open(config, **changes)
    fill(store, count)
    fill(store, others, topic="U")
    store.close()
    stores.fs.remove(queue_file(stores, 1))
    return stores.open(config, **changes)


def check_again(stores, wanted, config=NOW_OPEN):
    """Close and open the store: there is nothing to rebuild any more."""
    stores._open[-1].close()
    store = stores.open(config)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == wanted
    return store


def test_sends_go_on_while_a_queue_is_rebuilt(stores, small_parts):
    store = damaged(stores)
    assert store.rebuild.has("T", 0)
    assert not store.rebuild.has("U", 0)
    assert numbers(read_queue(store, "U")) == list(range(5))
    sent = []
    for number, _ in enumerate(parts(store)):
        if store.rebuild.queues_left and number < 12:
            sent += fill(store, 1, start=50 + number)
            assert store.queue_range("T", 0) == (0, 51 + number)
    assert [one.queue_offset for one in sent] == list(range(50, 50 + len(sent)))
    assert len(sent) > 5
    assert store.rebuild.queues_left == 0
    assert store.rebuild.bytes_left == 0
    fill(store, 1, start=50 + len(sent))
    wanted = list(range(51 + len(sent)))
    assert numbers(read_queue(store)) == wanted
    check_again(stores, wanted)


def test_the_last_part_is_read_in_one_step_with_what_was_sent_meanwhile(stores):
    store = damaged(stores)
    files = len(store._commit_log.starts)
    for number in range(files):
        assert store.rebuild.begin() is not None
        for _ in store.rebuild.records():
            pass
        if number == files - 1:
            assert store.rebuild.position == store.max_physical_offset
            fill(store, 3, start=50)
        assert store.rebuild.queues_left == 1
        assert store.rebuild.end_part()
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(53))
    assert store.get("T", 0, 53, 32).status is GetStatus.OFFSET_OVERFLOW_ONE


def test_what_cannot_be_read_yet_is_said(stores):
    store = damaged(stores)
    for offset in (0, 7, 49):
        found = store.get("T", 0, offset, 32)
        assert (found.status, found.next_offset, found.count) == (GetStatus.REBUILDING, offset, 0)
        assert (found.min_offset, found.max_offset) == (0, 50)
    assert store.get("T", 0, 50, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert store.get("T", 0, 51, 32).status is GetStatus.OFFSET_OVERFLOW_BADLY
    for read in (
        lambda: store.offset_by_time("T", 0, 1),
        lambda: store.offset_by_time("T", 0, 1, Boundary.UPPER),
        lambda: store.record_at_queue("T", 0, 3),
        lambda: store.queue_entries("T", 0, 3, 1),
        lambda: store.in_memory("T", 0, 0),
        lambda: store.physical_offset("T", 0, 3),
        lambda: store.query_by_tag("T", "even", 3, 0, 1 << 62),
    ):
        with pytest.raises(QueueRebuilding, match="queue 0 of topic T is being rebuilt"):
            read()
    assert store.store_time("T", 0, 3) == store.earliest_store_time("T", 0) == -1
    assert store.record_at_queue("T", 0, 50) is None
    assert numbers(decode_records(store.query("T", "k7", 64, 0, 1 << 62).body)) == [7]
    finish(store)
    assert store.store_time("T", 0, 3) == store.earliest_store_time("T", 0) == stores.clock.now


@pytest.mark.parametrize("saved", [False, True])
def test_a_crash_in_the_middle_begins_the_rebuild_again(stores, small_parts, saved):
    store = damaged(stores)
    fill(store, 3, start=50)
    assert run(store, 6) == 6
    if saved:
        flush(store)
        fill(store, 2, start=53)
    stores.crash()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    end = 55 if saved else 53
    assert store.queue_range("T", 0) == (0, end)
    assert fill(store, 1, start=end)[0].queue_offset == end
    finish(store)
    assert numbers(read_queue(store)) == list(range(end + 1))
    check_again(stores, list(range(end + 1)))


def test_a_rebuild_that_has_written_all_entries_but_has_not_ended_begins_again(stores, small_parts):
    store = damaged(stores)
    flush(store)
    assert run(store, 9) == 9
    store.rebuild._unfinished["T", 0].whole.spill()
    stores.crash()
    assert stores.open(NOW_OPEN).rebuild.queues_left == 1


def test_a_close_in_the_middle_begins_the_rebuild_again(stores, small_parts, caplog):
    store = damaged(stores)
    fill(store, 3, start=50)
    assert run(store, 4) == 4
    store.rebuild._unfinished["T", 0].whole.spill()
    store.close()
    store = stores.open(NOW_OPEN)
    assert "T-0 is rebuilt from the commit log while the store is open: its rebuild has not ended" in caplog.text
    assert store.queue_range("T", 0) == (0, 53)
    finish(store)
    check_again(stores, list(range(53)))


def test_a_close_in_the_middle_may_be_followed_by_a_start_that_waits(stores, small_parts):
    store = damaged(stores)
    run(store, 4)
    check_again(stores, list(range(50)), SMALL)


def test_another_program_may_use_the_store_in_the_middle_of_a_rebuild(stores, small_parts):
    store = damaged(stores)
    run(store, 4)
    store.close()
    checkpoint = stores.root / "checkpoint"
    times = bytes(stores.fs.nodes[checkpoint].content)
    stores.fs.write(checkpoint, times[:24].ljust(4096, b"\0"))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(50))


def test_a_crash_after_the_end_of_a_rebuild_keeps_it(stores, small_parts):
    store = damaged(stores)
    finish(store)
    flush(store)
    fill(store, 3, start=50)
    stores.crash()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(53))


def test_a_short_log_is_read_before_the_store_is_open(stores):
    store = damaged(stores, config=SMALL)
    end = store.max_physical_offset
    assert store.rebuild.queues_left == 0
    store.close()
    for bytes_before, left in ((end, 0), (end - 1, 1)):
        stores.fs.remove(queue_file(stores, 1))
        store = stores.open(msgspec.structs.replace(SMALL, rebuild_bytes_before_start=bytes_before))
        assert store.rebuild.queues_left == left
        if left:
            finish(store)
        assert numbers(read_queue(store)) == list(range(50))
        store.close()


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_only_queues_that_the_broker_reads_are_rebuilt_before(stores, topic):
    store = stores.open(NOW_OPEN)
    fill(store, 50)
    fill(store, 50, topic=topic)
    store.close()
    stores.fs.remove(queue_file(stores, 1))
    stores.fs.remove(queue_file(stores, 1, topic))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    assert store.rebuild.has("T", 0)
    assert numbers(read_queue(store, topic)) == list(range(50))
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def test_a_crash_does_not_leave_a_half_rebuilt_queue_of_the_broker(stores, monkeypatch):
    """Also the queues for which the start waits are marked until their entries are on disk."""
    topic = "SCHEDULE_TOPIC_XXXX"
    store = stores.open(NOW_OPEN)
    fill(store, 50)
    fill(store, 50, topic=topic)
    store.close()
    stores.fs.remove(queue_file(stores, 1))
    stores.fs.remove(queue_file(stores, 1, topic))

    def fail(dispatch, found):
        raise OSError("killed")

    monkeypatch.setattr("rocketmq_py.store.queue.dispatch.RecordDispatch.rebuild", fail)
    with pytest.raises(StoreCorrupt, match="killed"):
        stores.open(NOW_OPEN)
    monkeypatch.undo()
    stores.fs = stores.fs.after_kill()
    store = stores.open(NOW_OPEN)
    assert numbers(read_queue(store, topic)) == list(range(50))
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def test_a_queue_whose_end_is_not_known_is_rebuilt_before(stores):
    store = stores.open(NOW_OPEN)
    fill(store, 50)
    store.close()
    stores.fs.remove(queue_file(stores, 2))
    stores.fs.remove(stores.root / "queueends")
    stores.fs.remove(stores.root / "queueends.bak")
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert store.queue_range("T", 0) == (0, 50)


def test_ends_that_are_older_than_the_checkpoint_do_not_tell_where_a_queue_ends(stores):
    store = stores.open(NOW_OPEN)
    fill(store, 40)
    flush(store)
    before = stores.fs.read(stores.root / "queueends")
    fill(store, 10, start=40)
    flush(store)
    fill(store, 3, topic="U")
    stores.crash()
    stores.fs.write(stores.root / "queueends", before)
    stores.fs.write(stores.root / "queueends.bak", before)
    stores.fs.remove(queue_file(stores, 1))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(50))


def test_after_a_crash_the_end_is_that_of_the_last_message(stores, small_parts):
    store = stores.open(NOW_OPEN)
    fill(store, 40)
    flush(store)
    fill(store, 10, start=40)
    stores.crash()
    stores.fs.remove(queue_file(stores, 1))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    assert fill(store, 1, start=50)[0].queue_offset == 50
    finish(store)
    assert numbers(read_queue(store)) == list(range(51))


def test_a_topic_may_be_deleted_and_created_again_meanwhile(stores, small_parts):
    store = damaged(stores)
    assert run(store, 3) == 3
    part = store.rebuild.begin()
    assert part is not None
    steps = store.topic_removal("T")
    assert not store.rebuild.has("T", 0)
    new = fill(store, 30, start=100)
    assert new[0].queue_offset == 0
    for _ in store.rebuild.records():
        pass
    store.rebuild.end_part()
    for _ in steps:
        pass
    assert store.rebuild.begin() is not None
    assert store.rebuild.queues_left == store.rebuild.bytes_left == 0
    assert numbers(read_queue(store)) == list(range(100, 130))
    check_again(stores, list(range(100, 130)))


def test_a_topic_may_be_deleted_meanwhile(stores, small_parts):
    store = damaged(stores)
    assert run(store, 6) == 6
    store.delete_topic("T")
    assert run(store) == 1
    assert not [path for path in stores.fs.nodes if "consumequeue/T" in str(path)]
    store.close()
    assert not stores.open(NOW_OPEN).has_queue("T", 0)


def test_a_topic_that_is_deleted_at_the_end_of_its_rebuild_stays_deleted(stores, small_parts):
    store, finished = damaged(stores), []
    store.rebuild.on_finished = finished.append
    while store.rebuild.position < store.max_physical_offset:
        assert store.rebuild.begin() is not None
        for _ in store.rebuild.records():
            pass
        if store.rebuild.position < store.max_physical_offset:
            assert store.rebuild.end_part()
    assert store.rebuild.queues_left == 1
    store.delete_topic("T")
    assert store.rebuild.end_part()
    assert (store.rebuild.queues_left, finished) == (0, [])
    assert not store.has_queue("T", 0)
    assert not [path for path in stores.fs.nodes if "consumequeue/T" in str(path)]


@pytest.mark.parametrize("before", [50, 51, 52, 53])
def test_a_topic_that_was_deleted_and_created_again_before_has_its_new_messages_only(stores, small_parts, before):
    """Whether the last entry of the old topic has been committed by then, or not."""
    store = stores.open(NOW_OPEN)
    fill(store, before)
    store.delete_topic("T")
    fill(store, 30, start=100)
    store.close()
    stores.fs.remove(queue_file(stores, 0))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    finish(store)
    assert numbers(read_queue(store)) == list(range(100, 130))


@pytest.mark.parametrize("when", [2, 9])
def test_files_of_the_log_may_expire_meanwhile(stores, small_parts, when):
    store = damaged(stores, count=100)
    first = store.min_physical_offset
    run(store, when)
    for _ in range(3):
        store._commit_log.detach(store._commit_log.starts[0])()
    begin = store.min_physical_offset
    assert begin > first
    finish(store)
    while store._cleaner._trimmed_to < begin or store._cleaner._untrimmed:
        store._cleaner.step()
    low, high = store.queue_range("T", 0)
    assert high == 100
    assert numbers(read_queue(store)) == list(range(low, 100))
    assert store.queue_entries("T", 0, low, 1)[0][0] < begin + 500
    assert 0 < low < 100


def test_all_messages_of_a_queue_may_expire_meanwhile(stores, small_parts):
    store = damaged(stores, count=30, others=60)
    run(store, 2)
    while store._commit_log.starts[1] < store.max_physical_offset - 4096:
        store._commit_log.detach(store._commit_log.starts[0])()
    finish(store)
    assert store.queue_range("T", 0) == (30, 30)
    assert fill(store, 1, start=30)[0].queue_offset == 30
    assert numbers(read_queue(store)) == [30]


def test_a_slave_whose_log_has_no_message_of_a_queue_any_more_begins_it_at_0(stores, small_parts, tmp_path):
    masters = Stores(tmp_path, MemoryFileSystem())
    master = masters.open(NOW_OPEN)
    fill(master, 30)
    fill(master, 60, topic="U")
    slave = stores.open(NOW_OPEN, is_slave=True)
    copy_log(master, slave)
    slave.close()
    stores.fs.remove(queue_file(stores, 1))
    slave = stores.open(NOW_OPEN, is_slave=True)
    run(slave, 2)
    while slave._commit_log.starts[1] < slave.max_physical_offset - 4096:
        slave._commit_log.detach(slave._commit_log.starts[0])()
    finish(slave)
    assert slave.queue_range("T", 0) == (0, 0)
    fill(master, 1, start=30)
    copy_log(master, slave)
    assert slave.queue_range("T", 0) == (30, 31)
    assert numbers(read_queue(slave)) == [30]
    masters.close()


def test_damage_in_the_log_costs_the_record(stores, small_parts, caplog):
    store = stores.open(NOW_OPEN)
    done = fill(store, 50)
    fill(store, 5, topic="U")
    store.close()
    log = stores.root / "commitlog" / f"{0:020d}"
    at = done[7].physical_offset
    content = stores.fs.nodes[log].content
    content[at + 4 : at + 8] = b"\1\2\3\4"
    stores.fs.remove(queue_file(stores, 1))
    store = stores.open(NOW_OPEN)
    finish(store)
    assert f"the commit log is damaged from {at} to {done[8].physical_offset}" in caplog.text
    assert store.queue_range("T", 0) == (0, 50)
    found = store.get("T", 0, 0, 32)
    assert numbers(decode_records(found.body)) == [*range(7), *range(8, 33)][: found.count]


def test_a_rebuild_says_how_far_it_is(stores, small_parts, monkeypatch, caplog):
    monkeypatch.setattr(rebuild, "_REPORT_EVERY", 3000)
    store = damaged(stores)
    end = store.max_physical_offset
    assert store.rebuild.bytes_left == end
    caplog.clear()
    with caplog.at_level(logging.INFO):
        run(store, 4)
        assert store.rebuild.bytes_left == end - store.rebuild.position < end
        finish(store)
    said = [one.getMessage() for one in caplog.records if "is scanned up to" in one.getMessage()]
    assert len(said) > 2
    assert all(one.startswith("rebuilding 1 consume queues: the commit log is scanned up to ") for one in said)
    assert said[0].endswith(f" of {end}")
    places = [0, *(int(one.rpartition(" of ")[0].rpartition(" ")[2]) for one in said)]
    assert all(3000 <= later - before < 3500 for before, later in pairwise(places))
    assert "the consume queues are rebuilt, with 50 records of the commit log" in caplog.text


def test_the_check_of_the_store_leaves_unfinished_queues_alone(stores, small_parts):
    store = damaged(stores)
    scrub = store.new_scrub()
    while (part := scrub.begin()) is not None:
        for _ in scrub.records():
            pass
        scrub.entries()
        for _ in scrub.queues():
            pass
        assert part is not None
    assert scrub.counts.entries_rebuilt == scrub.counts.damages == 0
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def copy_log(source, slave, end=None):
    """Let a slave copy the log of another store, up to an offset."""
    log, at = source._commit_log, slave.replica.end
    end = log.end if end is None else end
    while at < end:
        size = min(log.next_file(at), end) - at
        slave.replica.append(at, bytes(log.view(at, size)))
        slave.replica.dispatch()
        at += size


def test_a_slave_rebuilds_its_queues_while_it_copies_the_log(stores, small_parts, tmp_path):
    masters = Stores(tmp_path, MemoryFileSystem())
    master = masters.open(NOW_OPEN)
    fill(master, 50)
    fill(master, 5, topic="U")
    slave = stores.open(NOW_OPEN, is_slave=True)
    copy_log(master, slave)
    assert slave.queue_range("T", 0) == (0, 50)
    slave.close()
    stores.fs.remove(queue_file(stores, 1))
    slave = stores.open(NOW_OPEN, is_slave=True)
    assert slave.rebuild.queues_left == 1
    run(slave, 3)
    fill(master, 9, start=50)
    copy_log(master, slave)
    assert slave.queue_range("T", 0) == (0, 59)
    finish(slave)
    fill(master, 4, start=59)
    copy_log(master, slave)
    assert numbers(read_queue(slave)) == list(range(63))
    masters.close()


def test_a_flush_that_has_begun_before_the_end_of_a_rebuild_covers_its_entries(stores, small_parts, monkeypatch):
    monkeypatch.setattr(schedule, "_SPILLS_PER_TICK", 4)
    store = damaged(stores)
    for number in range(20):  # a flush takes several ticks
        fill(store, 1, topic="V", queue_id=number)
    stores.clock.now += 1_000_000
    store.tick(stores.clock.now)
    assert store._schedule._round is not None
    finish(store)
    assert store._queues.by_key["T", 0].tail_start == 50
    while store._schedule._round is not None:
        store.tick(stores.clock.now)
    assert store.flush()
    store._flusher.complete(1)
    stores.crash()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(50))


@pytest.mark.parametrize("topics", ["T", "TU"])
def test_all_queues_may_be_rebuilt(stores, small_parts, topics):
    store = stores.open(NOW_OPEN)
    for topic in topics:
        fill(store, 50, topic=topic)
    store.close()
    for topic in topics:
        stores.fs.remove(queue_file(stores, 1, topic))
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == len(topics)
    run(store, 3)
    assert fill(store, 1, start=50)[0].queue_offset == 50
    finish(store)
    assert numbers(read_queue(store)) == list(range(51))
    for topic in topics[1:]:
        assert numbers(read_queue(store, topic)) == list(range(50))


def test_without_room_for_the_mark_the_start_waits(stores):
    store = damaged(stores, config=SMALL)
    store.close()
    stores.fs.remove(queue_file(stores, 1))
    ends = stores.root / "queueends"
    stores.fs.fails = lambda operation, path: path == ends and operation != "read"
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 0
    assert numbers(read_queue(store)) == list(range(50))


def test_messages_that_wait_for_their_flush_are_not_read_before(stores, small_parts):
    config = msgspec.structs.replace(NOW_OPEN, flush_disk_type=SYNC_FLUSH)
    arrived = []
    store = damaged(stores, config=config, on_arrival=arrived.extend)
    arrived.clear()
    store._flusher.request = lambda *_: None
    assert fill(store, 3, start=50)[-1].queue_offset == 52
    assert run(store) > 3
    assert store.rebuild.queues_left == 0
    assert store.queue_range("T", 0) == (0, 50)
    assert numbers(read_queue(store)) == list(range(50))
    assert fill(store, 1, start=53)[0].queue_offset == 53
    del store._flusher.request
    assert not arrived
    assert store.flush()
    store.commit_pending()
    assert [(one.queue_offset, one.next_offset) for one in arrived] == [(50, 53), (53, 54)]
    assert numbers(read_queue(store)) == list(range(54))
    check_again(stores, list(range(54)), config)


def test_a_lost_end_of_the_log_gives_no_offset_twice(stores, small_parts):
    store = stores.open(NOW_OPEN)
    done = fill(store, 50)
    store.close()
    blank_from(stores, done[45].physical_offset)
    stores.fs.remove(queue_file(stores, 1))
    store = stores.open(NOW_OPEN)
    assert fill(store, 1, start=50)[0].queue_offset == 50
    finish(store)
    assert store.queue_range("T", 0) == (0, 51)
    assert numbers(decode_records(store.get("T", 0, 40, 32).body)) == [40, 41, 42, 43, 44]
    assert numbers(decode_records(store.get("T", 0, 45, 32).body)) == [50]


def blank_from(stores, at):
    """Let the log have zeros from an offset on."""
    log = stores.root / "commitlog"
    for name in stores.fs.names(log):
        begin = max(0, at - int(name))
        if begin < 4096:
            stores.fs.nodes[log / name].content[begin:] = bytes(4096 - begin)


def test_a_full_disk_interrupts_the_rebuild(stores, small_parts, monkeypatch):
    monkeypatch.setattr("rocketmq_py.store.queue.queue_table._SPILL_AT", 100)
    store = damaged(stores)
    stores.fs.fails = lambda operation, path: "consumequeue/T" in str(path)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            run(store)
        assert store.rebuild.queues_left == 1
        assert store.rebuild.bytes_left > 0, "no further part is read before there is room"
    stores.fs.fails = lambda operation, path: False
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def test_a_slave_whose_log_has_lost_its_end_continues_where_its_log_ends(stores, small_parts, tmp_path):
    masters = Stores(tmp_path, MemoryFileSystem())
    master = masters.open(NOW_OPEN)
    done = fill(master, 50)
    slave = stores.open(NOW_OPEN, is_slave=True)
    copy_log(master, slave)
    slave.close()
    blank_from(stores, done[45].physical_offset)
    stores.fs.remove(queue_file(stores, 1))
    slave = stores.open(NOW_OPEN, is_slave=True)
    assert slave.queue_range("T", 0) == (0, 50)
    finish(slave)
    assert slave.queue_range("T", 0) == (0, 45)
    masters.close()


def test_messages_that_cannot_be_written_to_the_log_at_first_are_not_lost(stores, small_parts):
    store = damaged(stores)
    assert run(store, 4) == 4
    store.append(record(50))
    stores.fs.failing.add("allocate")
    stores.fs.failing.add("write")
    assert run(store) > 1
    assert store.rebuild.queues_left == 1
    stores.fs.failing.clear()
    store.tick(stores.clock.now)
    finish(store)
    assert numbers(read_queue(store)) == list(range(51))


@pytest.mark.parametrize("config", [NOW_OPEN, SMALL])
def test_records_without_an_entry_do_not_begin_a_queue_anew(stores, small_parts, config):
    store = stores.open(config)
    fill(store, 30)
    fill(store, 1, sys_flag=0xC)
    fill(store, 20, start=30)
    store.close()
    stores.fs.remove(queue_file(stores, 1))
    store = stores.open(config)
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def test_entries_are_written_in_the_middle_of_a_long_part(stores, monkeypatch):
    """So that memory does not hold those of a whole part."""
    monkeypatch.setattr(rebuild, "_COMMIT_EVERY", 8)
    monkeypatch.setattr("rocketmq_py.store.queue.queue_table._SPILL_AT", 100)
    store = damaged(stores, config=msgspec.structs.replace(NOW_OPEN, mapped_file_size_commit_log=1 << 16))
    writes = []
    stores.fs.fails = lambda operation, path: operation == "write" and writes.append(path.name)
    assert store.rebuild.begin() is not None
    steps = store.rebuild.records()
    for _ in steps:
        pass
    assert store.rebuild.bytes_left == 0
    assert set(writes) == {f"{at:020d}" for at in (0, 400, 800)}
    stores.fs.fails = lambda *_: False
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))


def test_few_queues_are_finished_at_once(stores, monkeypatch):
    monkeypatch.setattr(rebuild, "_MOST_AT_ONCE", 2)
    store = stores.open(NOW_OPEN)
    for number in range(7):
        fill(store, 30, queue_id=number)
    store.close()
    for number in range(7):
        stores.fs.remove(stores.root / "consumequeue" / "T" / str(number) / f"{0:020d}")
    store = stores.open(NOW_OPEN)
    left = [7]
    for _ in parts(store):
        if left[-1] != store.rebuild.queues_left:
            left.append(store.rebuild.queues_left)
        for number in range(7):
            fill(store, 1, start=store.queue_range("T", number)[1], queue_id=number)
    assert left == [7, 5, 3, 1, 0]
    for number in range(7):
        end = store.queue_range("T", number)[1]
        assert numbers(read_queue(store, queue_id=number)) == list(range(end))
        assert end > 30


def java_fields(stores):
    """What a Java broker reads in the checkpoint about queues: the timestamp, and the offset of 5.5."""
    data = stores.fs.read(stores.root / "checkpoint")
    return int.from_bytes(data[8:16], "big"), int.from_bytes(data[40:48], "big")


def test_a_java_broker_rebuilds_the_queue_after_a_close_in_the_middle(stores, small_parts):
    store = damaged(stores)
    assert java_fields(stores) == (0, 0), "a kill may come at any time"
    assert run(store, 4) == 4
    store.rebuild._unfinished["T", 0].whole.spill()
    assert stores.fs.read(queue_file(stores)) is not None
    store.close()
    abort = stores.root / "abort"
    assert stores.fs.read(abort) == b"closed during a rebuild of consume queues"
    assert java_fields(stores) == (0, 0)
    assert stores.fs.read(queue_file(stores)) is None, "Java would add entries only behind it"
    store = stores.open(NOW_OPEN)
    assert stores.fs.read(abort).isdigit()
    finish(store)
    store.close()
    assert stores.fs.read(abort) is None
    assert java_fields(stores) == (stores.clock.now, store.max_physical_offset)


def test_a_start_after_a_close_in_the_middle_is_one_after_a_clean_shutdown(stores, small_parts, caplog):
    store = damaged(stores)
    run(store, 4)
    store.close()
    caplog.clear()
    finish(stores.open(NOW_OPEN))
    assert "not closed cleanly" not in caplog.text


def test_a_start_that_fails_leaves_the_abort_file_as_it_was(stores, small_parts):
    store = damaged(stores)
    run(store, 4)
    store.close()
    abort = stores.root / "abort"
    before = stores.fs.read(abort)
    with pytest.raises(StoreCorrupt):
        stores.open(
            msgspec.structs.replace(NOW_OPEN, mapped_file_size_commit_log=2 * SMALL.mapped_file_size_commit_log)
        )
    assert stores.fs.read(abort) == before


def test_a_close_in_the_middle_of_a_damaged_log_leaves_no_abort_file(stores, small_parts):
    """A Java broker would cut off the log at the damage."""
    store = damaged(stores)
    store.close()
    log = stores.fs.nodes[stores.root / "commitlog" / f"{0:020d}"].content
    second = int.from_bytes(log[:4], "big")
    log[second + 4 : second + 8] = bytes(4)
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    run(store, 4)
    assert store.rebuild.queues_left == 1
    store.rebuild._unfinished["T", 0].whole.spill()
    store.close()
    assert stores.fs.read(stores.root / "abort") is None
    assert stores.fs.read(queue_file(stores)) is not None


def test_a_close_whose_abort_file_cannot_be_written_is_not_clean(stores, small_parts, caplog):
    store = damaged(stores)
    run(store, 4)
    stores.fs.fails = lambda operation, path: path.name == "abort"
    store.close()
    stores.fs.fails = lambda *_: False
    assert "was not closed cleanly" in caplog.text
    assert stores.fs.read(stores.root / "abort").isdigit()


def test_a_close_that_cannot_remove_entries_is_not_clean(stores, small_parts, caplog):
    store = damaged(stores)
    run(store, 4)
    store.rebuild._unfinished["T", 0].whole.spill()
    stores.fs.fails = lambda operation, path: operation == "remove" and "consumequeue" in path.parts
    store.close()
    stores.fs.fails = lambda *_: False
    assert "was not closed cleanly" in caplog.text
    assert stores.fs.read(stores.root / "abort").isdigit()
    assert stores.fs.locked == set()
    store = stores.open(NOW_OPEN)
    assert store.rebuild.queues_left == 1
    finish(store)
    assert numbers(read_queue(store)) == list(range(50))
