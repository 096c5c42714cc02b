"""Loading the queues at a start: how much is read and opened for each of them."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from rocketmq_py.errors import MessageIllegal, StoreCorrupt
from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue import queue_table
from rocketmq_py.store.queue.confirm_offset import Entries
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.queue_ends import QueueEnd, QueueEnds, QueueEndsFile
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.wire.record import decode_records
from tests.unit.store.coldfs import ByHand
from tests.unit.store.helpers import SMALL, Stores, fill, flush, numbers, read_queue
from tests.unit.store.memoryfs import MemoryFileSystem

QUEUES = 30
ENTRIES = 5


class Opened:
    """Counts opened consume queue files."""

    def __init__(self, fs) -> None:
        self.files = 0
        self._opening = fs.open
        fs.open = self._open

    def _open(self, path, size, **given):
        self.files += "consumequeue" in path.parts
        return self._opening(path, size, **given)


def filled(stores: Stores):
    store = stores.open()
    for queue_id in range(QUEUES):
        fill(store, ENTRIES, queue_id=queue_id)
    store._schedule.everything(store._readable())
    assert store.flush()
    return store


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_start_opens_no_file_of_a_short_queue(stores, clean):
    store = filled(stores)
    if clean:
        store.close()
    else:
        stores.crash()
    opened = Opened(stores.fs)
    again = stores.open()
    assert {again.queue_range("T", queue_id) for queue_id in range(QUEUES)} == {(0, ENTRIES)}
    assert opened.files == 0


def test_a_start_after_a_crash_erases_only_files_with_bytes_after_the_end(stores):
    filled(stores)
    stores.crash()
    path = stores.root / "consumequeue" / "T" / "3" / ("0" * 20)
    content = stores.fs.nodes[path].content
    content[ENTRIES * 20 + 60] = 0xA5
    opened = Opened(stores.fs)
    again = stores.open()
    assert opened.files == 1
    assert not any(stores.fs.nodes[path].content[ENTRIES * 20 :])
    assert again.queue_range("T", 3) == (0, ENTRIES)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_entries_that_are_written_after_a_start_are_read_from_the_file(stores, clean):
    """A start reads the first page of a queue's file; what is written later is not in it."""
    store = filled(stores)
    if clean:
        store.close()
    else:
        stores.crash()
    store = stores.open()
    fill(store, ENTRIES, start=ENTRIES, queue_id=3)
    flush(store)
    assert store._queues.by_key["T", 3].tail_start == 2 * ENTRIES
    assert numbers(read_queue(store, queue_id=3)) == list(range(2 * ENTRIES))
    (last,) = decode_records(store.record_at_queue("T", 3, 2 * ENTRIES - 1))
    assert store.queue_entries("T", 3, 2 * ENTRIES - 1, 1)[0][0] == last.commit_log_offset


def test_the_recorded_end_saves_the_search_for_it(stores, monkeypatch):
    """Two entries are read around it, where a search reads a logarithm of the file."""
    store = filled(stores)
    queue = store._queues.by_key["T", 0]
    read = []
    reading = ConsumeQueue._read_file
    monkeypatch.setattr(ConsumeQueue, "_read_file", lambda *given: (read.append(given[1]), reading(*given))[1])
    assert queue._count_in(0, 1 << 63, ENTRIES) == ENTRIES
    assert read == [ENTRIES - 1, ENTRIES]
    for wrong in (-3, 0, 1, ENTRIES + 1, 20, 21):
        assert queue._count_in(0, 1 << 63, wrong) == ENTRIES


def test_a_file_in_place_of_a_queue_is_refused(stores):
    filled(stores).close()
    stores.fs.write(stores.root / "consumequeue" / "T" / "77", b"x")
    with pytest.raises(StoreCorrupt, match="77 is not a folder"):
        stores.open()


# -- a table on its own


CONFIG = msgspec.structs.replace(SMALL, mapper_file_size_batch_consume_queue=460)


def table(fs: MemoryFileSystem) -> QueueTable:
    layout = StoreLayout(Path("/store"))
    return QueueTable(fs, layout, CONFIG, lambda topic: topic == "B", lambda _: 0, ByHand())


def add(queue: ConsumeQueue, count: int, begin: int = 0) -> None:
    """Entries of messages of 10 bytes; the first is at ``begin`` of the log."""
    for number in range(count):
        queue.add(begin + 10 * number, 10, number)
    queue.commit_pending()
    queue.spill()


def saved(counts: dict[tuple[str, int], int], begin: int = 0) -> tuple[MemoryFileSystem, QueueEnds]:
    """Queues with so many entries, and the ends that a flush has saved of them."""
    fs = MemoryFileSystem()
    queues = table(fs)
    for key, count in counts.items():
        add(queues.create(*key), count, begin)
    _, ends = QueueEndsFile(fs, Path("/store/queueends")).snapshot(*queues.ends(begin))
    return fs, ends


def path_of(topic: str, queue_id: int, number: int = 0) -> Path:
    folder = "batchconsumequeue" if topic == "B" else "consumequeue"
    return Path("/store") / folder / topic / str(queue_id) / f"{number * 400:020d}"


def ranges(queues: QueueTable) -> dict[tuple[str, int], tuple[int, int]]:
    return {key: (queue.min_offset, queue.max_offset) for key, queue in queues.by_key.items()}


def test_the_ends_of_all_queues_are_saved():
    fs, ends = saved({("T", 0): 45, ("T", 1): 20, ("B", 0): 3, ("U", 0): 0})
    assert (ends.log_begin, ends.file_size, ends.batch_file_size) == (0, 400, 460)
    sums = {start: crc32(fs.read(path_of("T", 0, start // 20))[: 20 * min(20, 45 - start)]) for start in (0, 20, 40)}
    assert [(one.topic, one.queue_id, one.batched, one.first, one.end, one.next_offset) for one in ends.queues] == [
        ("T", 0, False, 0, 45, 45), ("T", 1, False, 0, 20, 20), ("B", 0, True, 0, 3, 3),
    ]  # fmt: skip
    assert ends.queues[0].checksums == sums


def test_the_newest_message_of_all_queues_ends_the_log():
    fs, ends = saved({("T", 0): 45, ("T", 1): 20, ("B", 0): 3})
    assert table(MemoryFileSystem()).load(0, ends=ends) == -1
    for end, newest, counts in (
        (None, 450, (45, 20, 3)),
        (450, 450, (45, 20, 3)),
        (449, 440, (44, 20, 3)),
        (205, 200, (20, 20, 3)),
        (20, 20, (2, 2, 2)),
        (9, -1, (0, 0, 0)),
    ):
        queues = table(fs.after_kill())
        assert queues.load(0, end) == newest, end
        assert ranges(queues) == {("T", 0): (0, counts[0]), ("T", 1): (0, counts[1]), ("B", 0): (0, counts[2])}, end
        assert queues.damaged == {}
    queues = table(fs)
    queues.load(101)
    assert ranges(queues) == {("T", 0): (11, 45), ("T", 1): (11, 20), ("B", 0): (3, 3)}


def test_without_any_queue_none_is_added_from_the_saved_ends():
    """The whole log is read then, which finds them all."""
    fs, ends = saved({("T", 0): 5, ("U", 3): 5, ("B", 1): 5})
    queues = table(MemoryFileSystem())
    assert queues.load(0, None, ends) == -1
    assert (queues.by_key, queues.damaged) == ({}, {})
    fs.remove(path_of("U", 3))
    fs.remove(path_of("B", 1))
    ends.queues[1].topic = "U"
    ends.queues.append(msgspec.structs.replace(ends.queues[0], topic="a/b"))
    queues = table(fs)
    assert queues.load(0, None, ends) == 50
    assert ranges(queues) == {("T", 0): (0, 5), ("U", 3): (0, 0), ("B", 1): (0, 0)}
    assert queues.damaged == {("U", 3): "its files are missing", ("B", 1): "its files are missing"}
    assert queues.by_key["B", 1].is_batched
    assert not queues.by_key["U", 3].is_batched


def test_a_file_of_another_size_is_damage_only_if_the_size_is_known():
    for recorded, is_damage in ((400, True), (600, False), (0, False)):
        fs, ends = saved({("T", 0): 25, ("T", 1): 5})
        del fs.nodes[path_of("T", 0)].content[333:]
        ends.file_size = recorded
        queues = table(fs)
        if is_damage:
            assert queues.load(0, None, ends) == 50
            assert "has 333 bytes, but mappedFileSizeConsumeQueue says 400" in queues.damaged["T", 0]
            assert ranges(queues) == {("T", 0): (0, 0), ("T", 1): (0, 5)}
            assert fs.names(path_of("T", 0).parent) == []
        else:
            with pytest.raises(StoreCorrupt, match="has 333 bytes"):
                queues.load(0, None, ends)
            assert len(fs.names(path_of("T", 0).parent)) == 2
            with pytest.raises(StoreCorrupt, match="has 333 bytes"):
                table(fs).load(0)


def test_a_batch_file_of_another_size_is_compared_with_the_size_of_batch_files():
    for recorded, is_damage in ((460, True), (400, False)):
        fs = MemoryFileSystem()
        queues = table(fs)
        add(queues.create("B", 0), 3)
        ends = QueueEnds(0, 400, recorded, [QueueEnd("B", 0, True, 0, 3, 3, {})])
        del fs.nodes[path_of("B", 0)].content[77:]
        queues = table(fs)
        if is_damage:
            queues.load(0, None, ends)
            assert "has 77 bytes, but mapperFileSizeBatchConsumeQueue says 460" in queues.damaged["B", 0]
        else:
            with pytest.raises(StoreCorrupt):
                queues.load(0, None, ends)


def test_files_that_the_clean_up_has_removed_since_are_not_missing():
    for begin, physical_start, is_damaged in (
        (0, 0, True),
        (0, 1, False),
        (100, 100, True),
        (100, 99, True),
        (100, 101, False),
    ):
        fs, ends = saved({("T", 0): 45}, begin)
        fs.remove(path_of("T", 0))
        queues = table(fs)
        queues.load(physical_start, None, ends)
        assert bool(queues.damaged) is is_damaged, (begin, physical_start)


def test_queues_of_another_kind_or_without_a_saved_end_are_compared_with_nothing():
    fs, ends = saved({("T", 0): 45, ("T", 1): 45, ("T", 2): 45})
    ends.queues[0].batched = True
    del ends.queues[1]
    for queue_id in range(3):
        fs.remove(path_of("T", queue_id, 2))
    queues = table(fs)
    queues.load(0, None, ends)
    assert queues.damaged == {("T", 2): "its files end at 40, 5 entries too early"}
    fs.remove(path_of("T", 0, 0))
    fs.write(path_of("T", 1, 3), fs.read(path_of("T", 1, 0)))
    queues = table(fs)
    queues.load(0, None, None)
    assert queues.damaged == {("T", 1): f"the file {800:020d} is missing"}


def test_so_many_bytes_are_verified_at_a_start(monkeypatch):
    """From queue to queue; what is left is checked by its size."""
    for budget, noticed in (
        (0, ()),
        (399, ()),
        (400, (0,)),
        (899, (0,)),
        (1299, (0,)),
        (1300, (0, 1)),
        (9999, (0, 1, 2)),
    ):
        monkeypatch.setattr(queue_table, "_CHECKED_BYTES", budget)
        fs, ends = saved({("T", 0): 20, ("T", 1): 45, ("T", 2): 20})
        for queue_id in range(3):
            fs.nodes[path_of("T", queue_id)].content[19] ^= 1
        queues = table(fs)
        queues.load(0, None, ends)
        assert sorted(queues.damaged) == [("T", queue_id) for queue_id in noticed], budget
    monkeypatch.undo()
    assert queue_table._CHECKED_BYTES == 16_777_216


def test_folders_that_are_no_queues_are_ignored(caplog):
    fs, _ = saved({("T", 0): 5})
    for name in ("T/x/1", "T/\u0663/1", "%RETRY%g/-1/1", "a:b/0/1", "a:b/1/1"):
        fs.write(Path("/store/consumequeue") / name, b"")
    queues = table(fs)
    assert queues.load(0) == 50
    assert list(queues.by_key) == [("T", 0)]
    said = [record.getMessage() for record in caplog.records]
    assert len([one for one in said if one.endswith("is not a consume queue, ignored")]) == 3


def test_a_removed_topic_leaves_what_is_not_of_its_queues(caplog):
    fs, _ = saved({("T", 0): 25, ("T", 1): 5, ("U", 0): 5})
    queues = table(fs)
    queues.load(0)
    fs.write(path_of("T", 0).parent / "notes", b"x")
    fs.write(Path("/store/batchconsumequeue/T/1") / f"{0:020d}", b"of a former batch queue")
    removal = queues.remove_topic("T")
    assert list(queues.remove_topic("T")) == []
    assert list(queues.by_key) == [("U", 0)]
    assert path_of("T", 1) in fs.nodes, "a step for each queue"
    assert len(list(removal)) == 2
    assert queues.of_topic("T") == []
    assert sorted(str(path) for path in fs.nodes) == ["/store/consumequeue/T/0/notes", str(path_of("U", 0))]
    assert "notes is not a consume queue file and stays" in caplog.text
    queues.clear()
    assert queues.by_key == {}
    assert path_of("U", 0) not in fs.nodes


def test_queues_of_a_topic_are_sorted_and_created_once():
    queues = table(MemoryFileSystem())
    for queue_id in (3, 0, 12, 1):
        queues.create("T", queue_id)
    assert [queue.queue_id for queue in queues.of_topic("T")] == [0, 1, 3, 12]
    assert queues.get_or_create("T", 3) is queues.by_key["T", 3]
    assert queues.get_or_create("T", 4).queue_id == 4
    assert queues.create("U", 0, batched=True).is_batched
    with pytest.raises(MessageIllegal, match=r"topic '\.\./x' cannot have a consume queue: "):
        queues.create("../x", 0)


def test_files_that_were_written_are_synced_once():
    fs = MemoryFileSystem()
    queues = table(fs)
    for topic in ("T", "B"):
        add(queues.create(topic, 0), 3)
    assert queues.take_dirty() == [str(path_of("T", 0)), str(path_of("B", 0))]
    assert queues.take_dirty() == []
    for number in range(3, 25):
        queues.by_key["T", 0].add(10 * number, 10, 0)
    queues.commit_pending([queues.by_key["T", 0]])
    assert queues.with_tail() == [queues.by_key["T", 0]]
    queues.spill()
    assert sorted(queues.take_dirty()) == [str(path_of("T", 0)), str(path_of("T", 0, 1))]
    queues.truncate(30)
    assert ranges(queues) == {("T", 0): (0, 3), ("B", 0): (0, 3)}
    queues.close()
    assert fs.open_files == 0


def test_many_tails_are_written_together_up_to_a_disk_that_is_full(monkeypatch):
    """Those after it stay in memory, and the next time writes them."""
    monkeypatch.setattr(queue_table, "_SPILLED_AT_ONCE", 3)
    fs = MemoryFileSystem()
    queues = table(fs)
    many = [queues.create(topic, queue_id) for topic in ("T", "B") for queue_id in range(4)]
    for queue in many:
        for number in range(25):
            queue.add(10 * number, 10, number)
        queue.commit_pending()
    queues.spill(many[:1])
    assert [bool(queue.tail) for queue in many] == [False] + [True] * 7
    fs.fails = lambda operation, path: operation == "create" and path == path_of("B", 1)
    with pytest.raises(OSError, match="No space left"):
        queues.spill()
    assert [queue.entry_queue.tail_start for queue in many] == [25, 20, 20, 20, 10, 0, 0, 0]
    fs.fails = lambda *_: False
    queues.spill()
    assert queues.with_tail() == []
    again = table(fs)
    again.load(0)
    assert ranges(again) == {(queue.topic, queue.queue_id): (0, 25) for queue in many}
    assert set(queues.take_dirty()) == {str(path) for path in fs.nodes}


def test_published_entries_of_removed_queues_are_dropped(monkeypatch):
    monkeypatch.setattr(queue_table, "_SPILL_AT", 40)
    queues = table(MemoryFileSystem())
    gone, short, long = queues.create("gone", 0), queues.create("T", 0), queues.create("T", 1)
    queues.remove_topic("gone")
    entry = [0, 10, 0]
    queues.publish([Entries(gone, entry, 1), Entries(short, entry, 1), Entries(long, 2 * entry, 2)])
    assert [(one.max_offset, one.tail_start) for one in (gone, short, long)] == [(0, 0), (1, 0), (2, 2)]


def test_records_of_a_damaged_queue_are_passed_over_and_those_behind_them_compared():
    queues = table(MemoryFileSystem())
    records = [Found(10 * number, 10, topic, 0, 0, 0, 0, b"") for number, topic in enumerate("TTU")]
    queues.compare(records)
    assert queues.damaged == dict.fromkeys([("T", 0), ("U", 0)], "its files are missing")
