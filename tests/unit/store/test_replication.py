"""The store of a slave grows by pieces of its master's log and can be read like it."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.errors import ReplicaRefused, StoreNotWritable
from rocketmq_py.store import SYNC_FLUSH, MessageStore, NewBatch
from rocketmq_py.store.queue.runs import Arrival
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import QUEUE_OFFSET_AT, decode_records
from tests.examples import examples
from tests.unit.store.helpers import SMALL, Stores, fill, flush, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem

ROOT = Path("/store")
SYNCED = msgspec.structs.replace(SMALL, flush_disk_type=SYNC_FLUSH)


@pytest.fixture
def masters():
    opened = Stores(ROOT, MemoryFileSystem())
    yield opened
    opened.close()


@pytest.fixture
def slaves():
    opened = Stores(ROOT, MemoryFileSystem())
    yield opened
    opened.close()


def replicate(master: MessageStore, slave: MessageStore, most: int = 32 * 1024, *, until: int | None = None) -> None:
    """Hand on what the slave lacks, at most so many bytes at a time."""
    replica = slave.replica
    offset = replica.end or master.max_physical_offset // SMALL.mapped_file_size_commit_log * 4096
    until = master.max_physical_offset if until is None else until
    while offset < until:
        view = master.log_view(offset, min(most, until - offset))
        assert view is not None
        replica.append(offset, view)
        replica.dispatch()
        offset += len(view)


def load(master: MessageStore) -> None:
    """A bit of everything, over several files."""
    fill(master, 12)
    fill(master, 3, queue_id=1, size=1500)
    batch = encode_batch([(0, b"%d|" % i, b"KEYS\x01k%d\x02" % i) for i in range(5)])
    master.append_batch(NewBatch("B", 0, batch))
    fill(master, 4, topic="HALF", sys_flag=4)
    fill(master, 2, topic="X", sys_flag=8, prepared_transaction_offset=7)
    fill(master, 20, start=12)


def files(fs: MemoryFileSystem, *folders: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(ROOT)): bytes(node.content)
        for path, node in fs.nodes.items() if path.relative_to(ROOT).parts[0] in folders
    }  # fmt: skip


def assert_equal(masters: Stores, slaves: Stores) -> None:
    """After an orderly end of both."""
    masters.close()
    slaves.close()
    for folder in ("commitlog", "consumequeue", "index"):
        assert files(slaves.fs, folder) == files(masters.fs, folder), folder


@pytest.mark.parametrize("most", [1, 7, 100, 32 * 1024])
def test_files_of_a_slave_equal_those_of_its_master(masters, slaves, most) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    fill(master, 1)
    replicate(master, slave, most)
    load(master)
    replicate(master, slave, most)
    assert slave.queues() == master.queues()
    assert numbers(read_queue(slave)) == numbers(read_queue(master))
    assert slave.query("T", "k3", 10, 0, 1 << 60).body == master.query("T", "k3", 10, 0, 1 << 60).body
    assert_equal(masters, slaves)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_repeatedly_killed_slave_equals_its_master(seed) -> None:
    chance = random.Random(seed)
    masters, slaves = Stores(ROOT, MemoryFileSystem()), Stores(ROOT, MemoryFileSystem())
    master, slave = masters.open(), slaves.open(SYNCED if chance.random() < 0.5 else SMALL, is_slave=True)
    fill(master, 1)
    for number in range(8):
        replicate(master, slave, chance.randint(1, 3000), until=None if number == 0 else _part(chance, master, slave))
        fill(
            master, chance.randint(0, 9), start=number * 10, queue_id=chance.randint(0, 2), size=chance.randint(0, 1900)
        )
        ending = chance.randint(0, 2)
        if ending:
            slaves.crash() if ending == 1 else slave.close()
            slave = slaves.open(is_slave=True)
            assert slave.max_physical_offset <= master.max_physical_offset
    replicate(master, slave)
    for queue in master.queues():
        assert slave.queue_range(*queue) == master.queue_range(*queue)
        assert slave.queue_entries(*queue, 0, 1000) == master.queue_entries(*queue, 0, 1000)
        assert numbers(read_queue(slave, *queue)) == numbers(read_queue(master, *queue))
    assert files(slaves.fs, "commitlog") == files(masters.fs, "commitlog")
    masters.close()
    slaves.close()


def _part(chance: random.Random, master: MessageStore, slave: MessageStore) -> int:
    return chance.randint(slave.replica.end, master.max_physical_offset)


def test_a_record_is_readable_when_its_last_byte_has_arrived(masters, slaves) -> None:
    arrivals: list[Arrival] = []
    master, slave = masters.open(), slaves.open(is_slave=True, on_arrival=arrivals.extend)
    [one, two] = fill(master, 2)
    replicate(master, slave, until=two.physical_offset + two.size - 1)
    assert slave.queue_range("T", 0) == (0, 1)
    assert (slave.replica.end, slave.replica.whole_end) == (two.physical_offset + two.size - 1, one.size)
    replicate(master, slave)
    assert numbers(read_queue(slave)) == [0, 1]
    assert [(a.queue_offset, a.next_offset, a.store_timestamp) for a in arrivals] == [
        (0, 1, one.store_timestamp), (1, 2, two.store_timestamp),
    ]  # fmt: skip


def test_an_empty_slave_begins_with_the_masters_last_file(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    fill(master, 60)
    replicate(master, slave)
    begin = master.max_physical_offset // 4096 * 4096
    assert 0 < begin == slave.min_physical_offset
    low, high = slave.queue_range("T", 0)
    assert 0 < low < high == 60
    assert numbers(read_queue(slave)) == list(range(low, 60))


def test_bytes_that_do_not_continue_the_log_are_refused(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    fill(master, 3)
    replica = slave.replica
    with pytest.raises(ReplicaRefused, match="from 100 on, and this one ends at 0"):
        replica.append(100, b"x")
    replicate(master, slave)
    end = replica.end
    for offset in (0, end - 1, end + 1):
        with pytest.raises(ReplicaRefused, match=f"ends at {end}"):
            replica.append(offset, b"x")
    with pytest.raises(ReplicaRefused, match="mappedFileSizeCommitLog"):
        replica.append(end, bytes(4096))
    assert replica.end == end
    assert numbers(read_queue(slave)) == [0, 1, 2]


def test_the_store_of_a_slave_refuses_appends(slaves) -> None:
    slave = slaves.open(is_slave=True)
    with pytest.raises(StoreNotWritable, match="slave"):
        slave.append(record())
    slave.tick(slaves.clock() + 100)
    with pytest.raises(StoreNotWritable, match="slave"):
        slave.append(record())


def test_replication_continues_after_a_full_disk(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    fill(master, 1)
    replicate(master, slave)
    fill(master, 2, start=1)
    slaves.fs.failing = {"write"}
    with pytest.raises(StoreNotWritable, match="the bytes of the master cannot be written"):
        replicate(master, slave)
    slaves.fs.failing = set()
    replicate(master, slave)
    assert numbers(read_queue(slave)) == [0, 1, 2]


def test_an_incomplete_record_is_truncated_on_slave_and_master(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    [_, two] = fill(master, 2)
    replicate(master, slave, until=two.physical_offset + two.size - 1)
    slaves.crash()
    promoted = slaves.open()
    assert promoted.max_physical_offset == two.physical_offset
    assert promoted.query("T", "all", 10, 0, 1 << 60).count == 1
    fill(promoted, 1, start=7)
    assert numbers(read_queue(promoted)) == [0, 7]


def test_only_a_slave_has_a_replica(masters) -> None:
    with pytest.raises(StoreNotWritable, match="no master"):
        _ = masters.open().replica


def test_under_sync_flush_a_message_is_readable_when_it_is_on_disk(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(SYNCED, is_slave=True)
    fill(master, 30)
    slaves.fs.failing = {"sync"}
    replicate(master, slave, 50)
    low, high = slave.queue_range("T", 0)
    assert low == high


def test_under_sync_flush_every_message_becomes_readable(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(SYNCED, is_slave=True)
    load(master)
    fill(master, 3, start=32)
    slave.replica.append(0, master.log_view(0, 4096))
    replicate(master, slave, 77)
    slave.close()
    slave = slaves.open(is_slave=True)
    for queue in master.queues():
        assert slave.queue_range(*queue) == master.queue_range(*queue)


def test_a_damaged_log_is_readable_up_to_the_damage(masters, slaves, caplog) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    appended = fill(master, 4)
    broken = bytearray(master.log_view(0, 4096))
    broken[appended[2].physical_offset + 4] = 0xFF
    slave.replica.append(0, broken)
    slave.replica.dispatch()
    assert numbers(read_queue(slave)) == [0, 1]
    fill(master, 1)
    replicate(master, slave)
    assert slave.replica.end == master.max_physical_offset
    assert [r.message for r in caplog.records if "no valid record at" in r.message] == [caplog.records[-1].message]


@pytest.mark.parametrize("queue_offset", [2 + 1_000_001, 1 << 40, (1 << 63) - 1, -1])
def test_a_record_with_an_impossible_queue_offset_stays_out_of_its_queue(masters, slaves, caplog, queue_offset) -> None:
    """Blank entries up to it would take memory and disk without limit."""
    master, slave = masters.open(), slaves.open(is_slave=True)
    places = [master.append(record(i)).physical_offset for i in range(4)]
    master.commit_pending()
    log = bytearray(master.log_view(0, master.max_physical_offset))
    at = places[2] + QUEUE_OFFSET_AT
    log[at : at + 8] = queue_offset.to_bytes(8, "big", signed=True)
    slave.replica.append(0, bytes(log))
    slave.replica.dispatch()
    assert slave.queue_range("T", 0) == (0, 4), "the next record has the offset that follows"
    assert _by_offset(slave) == [b"0", b"1", None, b"3"]
    assert caplog.text.count("left out of the queue") == (queue_offset > 0)
    slaves.close()
    assert _by_offset(slaves.open(is_slave=True)) == [b"0", b"1", None, b"3"]


def _by_offset(store: MessageStore) -> list[bytes | None]:
    records = [store.record_at_queue("T", 0, offset) for offset in range(store.queue_range("T", 0)[1])]
    return [raw and decode_records(raw)[0].body.split(b"|")[0] for raw in records]


@pytest.mark.parametrize("queue_offset", [1 << 60, -5])
def test_the_first_record_of_a_queue_may_not_have_any_queue_offset(masters, slaves, queue_offset) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    master.append(record(0))
    master.commit_pending()
    log = bytearray(master.log_view(0, master.max_physical_offset))
    log[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = queue_offset.to_bytes(8, "big", signed=True)
    slave.replica.append(0, bytes(log))
    slave.replica.dispatch()
    assert slave.queue_range("T", 0) == (0, 0)


def test_a_close_removes_the_bytes_of_an_incomplete_record(masters, slaves) -> None:
    master, slave = masters.open(), slaves.open(is_slave=True)
    [_, two] = fill(master, 2)
    end = two.physical_offset
    for until, left in ((end, end), (end + 50, end), (end + two.size, end + two.size)):
        replicate(master, slave, until=until)
        assert slave.replica.end == until
        assert slave.replica.whole_end == left
        slave.close()
        log = slaves.fs.read(slave.layout.commit_log / f"{0:020d}")
        assert log is not None
        assert log == masters.fs.read(master.layout.commit_log / f"{0:020d}")[:left].ljust(4096, b"\0")
        slave = slaves.open(is_slave=True)
        assert slave.replica.end == left


def test_a_slave_starts_without_its_last_files(masters, slaves) -> None:
    """It gets them from its master again; another broker would refuse to lose messages."""
    master, slave = masters.open(), slaves.open(is_slave=True)
    for i in range(40):
        fill(master, 1, start=i, size=300)
        replicate(master, slave)
    slave.close()
    slaves.fs.remove(slave.layout.commit_log / f"{16384:020d}")
    slave = slaves.open(is_slave=True)
    assert slave.replica.end == 16384
    replicate(master, slave)
    assert numbers(read_queue(slave)) == list(range(40))


def test_bytes_fill_a_file_to_its_last_one_and_no_further(masters, slaves) -> None:
    slave = slaves.open(is_slave=True)
    replica = slave.replica
    for offset, size, said in (
        (1, 1, "the master sends its log from 1 on, and this one ends at 0"),
        (
            0,
            4097,
            "4097 bytes at 0 do not fit into a commit log file of 4096: mappedFileSizeCommitLog must be the same",
        ),
    ):
        with pytest.raises(ReplicaRefused, match=said):
            replica.append(offset, bytes(size))
    assert slaves.fs.names(slave.layout.commit_log) == []
    replica.append(1, b"")
    replica.append(8192, bytes(4095))
    assert replica.end == 12287
    with pytest.raises(ReplicaRefused, match="2 bytes at 12287 do not fit"):
        replica.append(12287, b"ab")
    with pytest.raises(ReplicaRefused, match="from 12286 on, and this one ends at 12287"):
        replica.append(12286, b"a")
    replica.append(12287, b"a")
    replica.append(12288, b"b")
    assert slaves.fs.names(slave.layout.commit_log) == [f"{at:020d}" for at in (8192, 12288)]
    assert slaves.fs.allocated[0] == (slave.layout.commit_log / f"{8192:020d}", 0, 4096)


@pytest.mark.parametrize("clean", [True, False])
def test_a_slave_gets_again_what_is_damaged(masters, slaves, clean) -> None:
    """Its log ends at the damage, and its queues too: the records that come again have the same offsets."""
    master, slave = masters.open(), slaves.open(is_slave=True)
    done = fill(master, 12)
    replicate(master, slave)
    flush(slave)
    if clean:
        slave.close()
        slaves.fs.remove_tree(slave.layout.consume_queue)
    else:
        slaves.crash()
        slaves.fs.remove(slave.layout.checkpoint)
    slaves.fs.nodes[slave.layout.commit_log / f"{0:020d}"].content[done[5].physical_offset + 90] ^= 0xFF
    slave = slaves.open(is_slave=True)
    assert slave.replica.end == done[5].physical_offset
    assert slave.queue_range("T", 0) == (0, 5)
    replicate(master, slave)
    assert numbers(read_queue(slave)) == list(range(12))


def test_a_message_whose_body_is_damaged_is_replicated_as_it_is(masters, slaves) -> None:
    """Consumers find the damage, and all later messages are whole."""
    master, slave = masters.open(), slaves.open(is_slave=True)
    done = fill(master, 5)
    data = bytearray(master.log_view(0, 4096) or b"")
    data[done[1].physical_offset + 90] ^= 0xFF
    slave.replica.append(0, data)
    slave.replica.dispatch()
    assert slave.queue_range("T", 0) == (0, 5)
