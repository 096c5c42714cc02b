"""Missing and damaged queue files are found at the start and rebuilt from the commit log, for just those queues."""

from __future__ import annotations

import logging
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from rocketmq_py.errors import StoreCorrupt
from rocketmq_py.store import NewRecord
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.queue import queue_table
from rocketmq_py.store.queue.queue_ends import QueueEnds, QueueEndsFile
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.wire.batch import encode_batch
from tests.unit.store.helpers import SMALL, Stores, fill, flush, numbers, read_queue, record
from tests.unit.store.memoryfs import MemoryFileSystem

COUNT = 50
"""Messages of each queue: three files of 20 entries."""


def filled(stores: Stores, step_ms: int = 0):
    """Two topics of two queues, whose messages alternate in the log."""
    store = stores.open()
    for i in range(COUNT):
        stores.clock.now += step_ms
        for topic in ("T", "U"):
            for queue_id in (0, 1):
                store.append(record(i, topic=topic, queue_id=queue_id))
    store.commit_pending()
    return store


def queue_files(stores: Stores, topic: str = "T", queue_id: int = 0):
    directory = stores.root / "consumequeue" / topic / str(queue_id)
    return sorted(path for path in stores.fs.nodes if path.is_relative_to(directory))


def check_all(store, count=COUNT):
    for topic in ("T", "U"):
        for queue_id in (0, 1):
            assert store.queue_range(topic, queue_id) == (0, count)
            assert numbers(read_queue(store, topic, queue_id)) == list(range(count))


def lose(number):
    def damage(stores):
        stores.fs.remove(queue_files(stores)[number])

    return damage


def lose_folder(stores):
    for path in queue_files(stores):
        stores.fs.remove(path)


def lose_topic(stores):
    for queue_id in (0, 1):
        for path in queue_files(stores, "T", queue_id):
            stores.fs.remove(path)


def cut(number, size):
    def damage(stores):
        content = stores.fs.nodes[queue_files(stores)[number]].content
        del content[size:]

    return damage


def overwrite(number, at, data):
    def damage(stores):
        stores.fs.nodes[queue_files(stores)[number]].content[at : at + len(data)] = data

    return damage


def flip(number, at, bit):
    def damage(stores):
        stores.fs.nodes[queue_files(stores)[number]].content[at] ^= 1 << bit

    return damage


DAMAGES = {
    "the first file": (lose(0), "its files begin at 20 instead of 0"),
    "a file in the middle": (lose(1), "the file 00000000000000000400 is missing"),
    "the last file": (lose(2), "its files end at 40, 10 entries too early"),
    "the folder": (lose_folder, "its files are missing"),
    "the topic": (lose_topic, "its files are missing"),
    "emptied first": (cut(0, 0), "its files begin at 20 instead of 0"),
    "emptied last": (cut(2, 0), "its files end at 40"),
    "cut short": (cut(1, 333), "has 333 bytes"),
    "last cut short": (cut(2, 20), "has 20 bytes"),
    "zeros": (overwrite(0, 0, bytes(400)), "the checksum of the file 00000000000000000000 is wrong"),
    "zeros at the end": (overwrite(2, 100, bytes(300)), "its files end at 45"),
    "garbage": (overwrite(1, 40, b"\xa5" * 200), "the checksum of the file 00000000000000000400 is wrong"),
    "a bit of an offset": (flip(1, 47, 3), "the checksum of the file 00000000000000000400 is wrong"),
    "a bit of a tags code": (flip(2, 199, 0), "the checksum of the file 00000000000000000800 is wrong"),
}


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_queue_files_are_rebuilt(stores, caplog, name, clean):
    damage, said = DAMAGES[name]
    store = filled(stores)
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    intact = {path: bytes(stores.fs.nodes[path].content) for path in queue_files(stores)}
    damage(stores)
    with caplog.at_level(logging.WARNING):
        store = stores.open()
    warnings = [r.getMessage() for r in caplog.records if "is rebuilt from the commit log" in r.getMessage()]
    assert len(warnings) == (2 if name == "the topic" else 1)
    assert warnings[0].startswith("consume queue T-0 is rebuilt")
    assert said in warnings[0]
    check_all(store)
    fill(store, 1, start=COUNT)
    assert store.queue_range("T", 0) == (0, COUNT + 1)
    store.close()
    for path, content in intact.items():
        again = bytes(stores.fs.nodes[path].content)
        assert again[: len(content.rstrip(b"\0"))] == content.rstrip(b"\0")
    caplog.clear()
    store = stores.open()
    assert numbers(read_queue(store)) == list(range(COUNT + 1))
    assert "rebuilt" not in caplog.text


@pytest.mark.parametrize("name", ["the last file", "the folder", "garbage", "zeros at the end"])
def test_a_crash_during_the_repair_is_harmless(stores, name):
    filled(stores).close()
    DAMAGES[name][0](stores)
    stores.open()
    stores.crash()
    check_all(stores.open())


def test_unflushed_messages_are_served_after_a_crash_with_damage(stores):
    store = filled(stores)
    flush(store)
    fill(store, 30, start=COUNT)
    stores.crash()
    lose_folder(stores)
    store = stores.open()
    assert numbers(read_queue(store)) == list(range(COUNT + 30))
    assert numbers(read_queue(store, "U", 1)) == list(range(COUNT))


def test_an_intact_store_reads_its_queue_files_only(stores, monkeypatch, caplog):
    filled(stores).close()
    scanned = []
    monkeypatch.setattr(queue_table.QueueTable, "replace", lambda *_: scanned.append(1))
    check_all(stores.open())
    assert not scanned
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_files_beyond_the_budget_are_checked_by_their_sizes(stores, monkeypatch):
    filled(stores).close()
    monkeypatch.setattr(queue_table, "_CHECKED_BYTES", 0)
    overwrite(1, 40, b"\xa5" * 20)(stores)
    store = stores.open()
    assert store.record_at_queue("T", 0, 22) is None
    store.close()
    monkeypatch.undo()
    check_all(stores.open())


def test_no_offset_is_assigned_twice_after_a_truncated_log(stores, caplog):
    store = stores.open()
    done = fill(store, 30)
    store.close()
    log = next(path for path in sorted(stores.fs.nodes, reverse=True) if "commitlog" in path.parts)
    start = int(log.name)
    at = next(one.physical_offset for one in done if one.physical_offset >= start)
    first = next(i for i, one in enumerate(done) if one.physical_offset == at)
    stores.fs.nodes[log].content[at - start + 90] ^= 0xFF
    lose_folder(stores)
    with caplog.at_level(logging.ERROR):
        store = stores.open()
    assert f"messages {first} to {first} are missing in the commit log" in caplog.text
    assert store.append(record(30)).queue_offset == 30
    others = [number for number in range(30) if number != first]
    assert numbers_with_gaps(store) == [*others, 30]
    flush(store)
    stores.crash()
    store = stores.open()
    assert store.append(record(31)).queue_offset == 31
    assert numbers_with_gaps(store) == [*others, 30, 31]


def numbers_with_gaps(store):
    low, high = store.queue_range("T", 0)
    found = []
    while low < high:
        result = store.get("T", 0, low, 32)
        assert result.next_offset > low
        found += [] if not result.count else numbers(decoded(result))
        low = result.next_offset
    return found


def decoded(result):
    from rocketmq_py.wire.record import decode_records

    return decode_records(result.body)


@pytest.mark.parametrize("kill", [False, True], ids=["closed", "killed"])
def test_a_deleted_topic_stays_deleted(stores, kill):
    store = filled(stores)
    flush(store)
    store.delete_topic("T")
    if kill:
        stores.crash()
    else:
        store.close()
    store = stores.open()
    assert ("T", 0) not in store.queues()
    assert numbers(read_queue(store, "U", 1)) == list(range(COUNT))


def test_a_topic_deleted_during_the_write_of_queue_ends_stays_deleted(stores):
    store = filled(stores)
    flush(store)
    snapshot = store._ends.snapshot(*store._queues.ends(0))
    store.delete_topic("T")
    store._ends.save(snapshot)
    stores.crash()
    assert ("T", 0) not in stores.open().queues()


def test_a_recreated_topic_is_rebuilt_without_its_old_messages(stores):
    store = filled(stores)
    store.delete_topic("T")
    fill(store, 25, start=100)
    store.close()
    lose(0)(stores)
    store = stores.open()
    assert store.queue_range("T", 0) == (0, 25)
    assert numbers(read_queue(store)) == list(range(100, 125))


def test_an_expired_beginning_is_no_damage(stores, caplog):
    config = msgspec.structs.replace(SMALL, file_reserved_time=0, delete_when="00")
    store = stores.open(config)
    fill(store, 100)
    flush(store)
    stores.clock.now *= 2
    store.delete_expired()
    store.clean(stores.clock.now)
    for _ in range(60):
        store.tick(stores.clock.now)
        store.flush()
    low = store.queue_range("T", 0)[0]
    assert low > 20
    stores.crash()
    store = stores.open(config)
    assert store.queue_range("T", 0) == (low, 100)
    assert "rebuilt" not in caplog.text
    store.close()
    lose(0)(stores)
    assert stores.open(config).queue_range("T", 0) == (low, 100)


def expired(stores):
    """The settings, and the open store after all messages of the topic ``old`` have expired."""
    config = msgspec.structs.replace(SMALL, file_reserved_time=0, delete_when="00")
    store = stores.open(config)
    fill(store, 7, topic="old")
    fill(store, 100)
    flush(store)
    stores.clock.now *= 2
    store.delete_expired()
    store.clean(stores.clock.now)
    for _ in range(60):
        store.tick(stores.clock.now)
        store.flush()
    return config, store


def test_a_queue_whose_messages_have_all_expired_keeps_its_end_without_its_files(stores):
    config, store = expired(stores)
    assert store.queue_range("old", 0) == (7, 7)
    store.close()
    for path in queue_files(stores, "old"):
        stores.fs.remove(path)
    store = stores.open(config)
    assert store.queue_range("old", 0) == (7, 7)
    assert store.append(record(7, topic="old")).queue_offset == 7


def test_batch_consume_queues_are_rebuilt(stores):
    def opened():
        return stores.open(is_batched=lambda topic: topic == "B")

    store = opened()
    for i in range(30):
        body = encode_batch([(0, f"{i}-{k}".encode(), b"") for k in range(3)])
        store.append_inner_batch(NewRecord("B", 0, body, b""), 3)
    fill(store, 10)
    store.close()
    for path in [path for path in stores.fs.nodes if "batchconsumequeue" in path.parts]:
        stores.fs.remove(path)
    store = opened()
    assert store.queue_range("B", 0) == (0, 90)
    assert store.get("B", 0, 45, 3).count == 1
    body = encode_batch([(0, b"x", b"")])
    assert store.append_inner_batch(NewRecord("B", 0, body, b""), 1).queue_offset == 90


def test_another_configured_file_size_is_refused(stores):
    filled(stores).close()
    before = {path: bytes(node.content) for path, node in stores.fs.nodes.items()}
    with pytest.raises(StoreCorrupt, match="mappedFileSizeConsumeQueue says 600"):
        stores.open(msgspec.structs.replace(SMALL, mapped_file_size_consume_queue=600))
    assert {path: bytes(node.content) for path, node in stores.fs.nodes.items() if path.name != "lock"} == before


@pytest.mark.parametrize("content", [b"", b"00000000\n{}", b"\xff\xfe", b"deadbeef\n[1]", b"c8dc0a1c"])
def test_a_damaged_file_of_queue_ends_is_ignored(stores, content):
    filled(stores).close()
    lose_ends(stores, content)
    check_all(stores.open())


def lose_ends(stores, content, names=("queueends", "queueends.bak")):
    """Damage the file of queue ends and its copy; None removes them."""
    for name in names:
        if content is None:
            stores.fs.remove(stores.root / name)
        else:
            stores.fs.write(stores.root / name, content)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("content", [b"", b"00000000\n{}", None], ids=["emptied", "garbage", "removed"])
@pytest.mark.parametrize("name", ["queueends", "queueends.bak"])
@pytest.mark.parametrize("damage", [lose(1), lose(2), lose_folder], ids=["middle", "last", "folder"])
def test_one_of_the_two_files_is_enough(stores, caplog, name, content, damage, clean):
    """Also to notice what is damaged besides, and both are there again after the next flush."""
    store = filled(stores)
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    damage(stores)
    lose_ends(stores, content, [name])
    store = stores.open()
    assert "all queues are compared with the commit log" not in caplog.text
    used = f"{stores.root}/queueends is lost or damaged: {stores.root}/queueends.bak is used"
    assert (used in caplog.text) is (name == "queueends")
    check_all(store)
    assert fill(store, 1, start=COUNT)[0].queue_offset == COUNT
    store.close()
    assert stores.fs.read(stores.root / "queueends") == stores.fs.read(stores.root / "queueends.bak") != content


@pytest.mark.parametrize("name", ["queueends", "queueends.bak"])
def test_the_newer_of_the_two_files_counts(stores, name):
    store = filled(stores)
    flush(store)
    before = stores.fs.read(stores.root / name)
    fill(store, 3, start=COUNT)
    store.close()
    stores.fs.write(stores.root / name, before)
    ends = QueueEndsFile(stores.fs, stores.root / "queueends").load().by_key()
    assert ends["T", 0].next_offset == COUNT + 3


def test_a_file_that_was_lost_is_written_again_although_nothing_has_changed(stores):
    filled(stores).close()
    both = [stores.root / "queueends", stores.root / "queueends.bak"]
    for lost in both:
        lose_ends(stores, None, [lost.name])
        stores.open().close()
        first, second = map(stores.fs.read, both)
        assert first == second is not None


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("content", [b"", b"00000000\n{}", None], ids=["emptied", "garbage", "removed"])
@pytest.mark.parametrize("name", DAMAGES)
def test_without_queue_ends_all_queues_are_compared_with_the_log(stores, caplog, name, content, clean):
    store = filled(stores)
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    DAMAGES[name][0](stores)
    lose_ends(stores, content)
    store = stores.open()
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len([one for one in warnings if "all queues are compared with the commit log" in one]) == 1
    rebuilt = [one for one in warnings if "is rebuilt from the commit log" in one]
    assert [one[:22] for one in rebuilt] == [f"consume queue T-{i} is r"[:22] for i in range(1 + (name == "the topic"))]
    check_all(store)
    assert store.append(record(COUNT)).queue_offset == COUNT
    store.close()
    caplog.clear()
    assert numbers(read_queue(stores.open())) == list(range(COUNT + 1))
    assert not caplog.text


def test_a_crash_during_the_comparison_is_harmless(stores):
    filled(stores).close()
    lose_folder(stores)
    lose_ends(stores, b"")
    stores.open()
    stores.crash()
    check_all(stores.open())


def test_intact_queues_keep_their_files_without_queue_ends(stores, caplog):
    store = filled(stores)
    store.delete_topic("U")
    fill(store, 3, topic="U")
    store.close()
    lose_ends(stores, b"")
    before = {path: bytes(stores.fs.nodes[path].content) for path in queue_files(stores)}
    store = stores.open()
    assert {path: bytes(stores.fs.nodes[path].content) for path in queue_files(stores)} == before
    assert "consume queue T" not in caplog.text
    assert numbers(read_queue(store, "U", 0)) == [0, 1, 2]


def test_an_expired_queue_keeps_its_end_without_queue_ends(stores):
    config, store = expired(stores)
    low = store.queue_range("T", 0)[0]
    store.close()
    lose_ends(stores, b"")
    lose(-1)(stores)
    store = stores.open(config)
    assert (store.queue_range("old", 0), store.queue_range("T", 0)) == ((7, 7), (low, 100))


def test_batch_consume_queues_are_compared_with_the_log_without_queue_ends(stores, caplog):
    store = stores.open(is_batched=lambda topic: topic in "BC")
    for i in range(30):
        body = encode_batch([(0, f"{i}-{k}".encode(), b"") for k in range(3)])
        for topic in "BC":
            store.append_inner_batch(NewRecord(topic, 0, body, b""), 3)
    store.close()
    for path in [path for path in stores.fs.nodes if "batchconsumequeue" in path.parts and "B" in path.parts]:
        stores.fs.remove(path)
    lose_ends(stores, b"")
    store = stores.open()
    assert (store.queue_range("B", 0), store.queue_range("C", 0)) == ((0, 90), (0, 90))
    assert "B-0 is rebuilt" in caplog.text
    assert "C-0 is rebuilt" not in caplog.text


def test_a_tags_code_is_compared_with_the_log_without_queue_ends(stores):
    filled(stores).close()
    before = bytes(stores.fs.nodes[queue_files(stores)[2]].content)
    flip(2, 199, 0)(stores)
    lose_ends(stores, b"")
    stores.open().close()
    assert bytes(stores.fs.nodes[queue_files(stores)[2]].content) == before


def test_another_configured_file_size_is_refused_without_queue_ends_too(stores):
    filled(stores).close()
    lose_ends(stores, b"")
    with pytest.raises(StoreCorrupt, match="mappedFileSizeConsumeQueue says 600"):
        stores.open(msgspec.structs.replace(SMALL, mapped_file_size_consume_queue=600))


def test_without_queue_ends_and_log_the_store_begins_anew(stores):
    filled(stores).close()
    for path in [path for path in stores.fs.nodes if "commitlog" in path.parts]:
        stores.fs.remove(path)
    lose_ends(stores, b"")
    assert stores.open().queues() == []


def test_a_failed_write_of_queue_ends_is_harmless(stores, caplog):
    store = filled(stores)
    stores.fs.fails = lambda operation, path: path.name.startswith("queueends")
    flush(store)
    assert "the ends of the queues could not be written" in caplog.text
    store.tick(stores.clock.now)
    assert store.is_writable
    store.close()
    stores.fs.fails = lambda *_: False
    check_all(stores.open())


LOST_CHECKPOINTS = {
    "removed": None, "zeros": bytes(4096), "garbage": b"\xa5" * 4096, "garbage that is positive": b"\x5a" * 4096,
}  # fmt: skip


@pytest.mark.parametrize("content", LOST_CHECKPOINTS.values(), ids=LOST_CHECKPOINTS)
@pytest.mark.parametrize("damage", [lose(1), lose(2), lose_folder], ids=["middle", "last", "folder"])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_damaged_checkpoint_hides_no_lost_queue(stores, caplog, content, damage, clean):
    store = filled(stores)
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    path = stores.root / "checkpoint"
    stores.fs.remove(path)
    if content is not None:
        stores.fs.write(path, content)
    damage(stores)
    store = stores.open()
    check_all(store)
    assert fill(store, 1, start=COUNT)[0].queue_offset == COUNT
    if clean:
        assert "the checkpoint is damaged: all queues are compared with the commit log" in caplog.text


@pytest.mark.parametrize("content", LOST_CHECKPOINTS.values(), ids=LOST_CHECKPOINTS)
def test_a_damaged_checkpoint_is_written_again(stores, caplog, content):
    filled(stores).close()
    path = stores.root / "checkpoint"
    stores.fs.remove(path)
    if content is not None:
        stores.fs.write(path, content)
    stores.open().close()
    caplog.clear()
    check_all(stores.open())
    assert "compared" not in caplog.text
    found = Checkpoint(stores.fs, path)
    assert found.end > 0
    assert not found.is_damaged
    assert found.physic_msg_timestamp == stores.clock.now


def test_queue_ends_are_ignored_if_another_program_changed_the_store(stores):
    """A Java broker can delete a topic; its checkpoint has other times."""
    filled(stores).close()
    stores.fs.nodes[stores.root / "checkpoint"].content[0:8] = (1).to_bytes(8, "big")
    lose_topic(stores)
    assert ("T", 0) not in stores.open(is_topic="U".__eq__).queues()


@pytest.mark.parametrize("damage", [lose(1), lose(2), cut(2, 20), lose_folder, lose_topic],
                         ids=["middle", "last", "cut", "folder", "topic"])  # fmt: skip
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_checkpoint_with_plausible_times_hides_no_lost_queue(stores, caplog, damage, clean):
    """As a flipped bit leaves them: they look like those of a Java broker."""
    store = filled(stores, step_ms=1000)
    flush(store)
    if clean:
        store.close()
    else:
        stores.crash()
    stores.fs.nodes[stores.root / "checkpoint"].content[7] ^= 1
    damage(stores)
    store = stores.open()
    check_all(store)
    assert fill(store, 1, start=COUNT)[0].queue_offset == COUNT
    assert "consume queue T-0 is rebuilt from the commit log" in caplog.text


@pytest.mark.parametrize("content", [None, bytes(4096), "a bit"], ids=["removed", "zeros", "a bit"])
@pytest.mark.parametrize("number", [20, COUNT - 1], ids=["middle", "last"])
def test_without_checkpoint_the_log_goes_on_behind_damage_up_to_the_last_flush(stores, caplog, content, number):
    """What the queues had at their last flush was on disk: a crash cannot have torn it."""
    flush(filled(stores))
    stores.crash()
    path, at = stores.root / "checkpoint", stores.open().queue_entries("T", 1, number, 1)[0][0]
    stores.crash()
    if content == "a bit":
        stores.fs.nodes[path].content[7] ^= 1
    else:
        stores.fs.remove(path)
        if content is not None:
            stores.fs.write(path, content)
    log = stores.fs.nodes[stores.root / "commitlog" / f"{at // 4096 * 4096:020d}"].content
    log[at % 4096 + 90] ^= 1
    store = stores.open()
    assert f"the commit log is damaged from {at} to " in caplog.text
    assert "truncated" not in caplog.text
    wanted = [one for one in range(COUNT) if one != number]
    for queue in (("T", 0), ("U", 0), ("U", 1)):
        assert numbers(read_queue(store, *queue)) == list(range(COUNT))
    assert [numbers(decoded(store.get("T", 1, one, 1))) for one in wanted] == [[one] for one in wanted]
    assert fill(store, 1, start=COUNT, queue_id=1)[0].queue_offset == COUNT


def test_without_checkpoint_the_log_ends_at_damage_behind_the_last_flush(stores, caplog):
    store = filled(stores)
    flush(store)
    at = fill(store, 3, start=COUNT)[1].physical_offset
    stores.crash()
    stores.fs.remove(stores.root / "checkpoint")
    stores.fs.nodes[stores.root / "commitlog" / f"{at // 4096 * 4096:020d}"].content[at % 4096 + 90] ^= 1
    store = stores.open()
    assert f"truncated at {at}" in caplog.text
    assert store.queue_range("T", 0) == (0, COUNT + 1)


def test_a_topic_that_another_program_has_created_again_keeps_its_own_end(stores):
    """Its queue is shorter than before; only with a damaged log that can be a loss."""
    store = filled(stores)
    fill(store, 40, start=COUNT, topic="U")  # so that the newest file of the log has no message of the deleted topic
    flush(store)
    ends = stores.fs.read(stores.root / "queueends")
    store.delete_topic("T")
    stores.clock.now += 10_000
    fill(store, 3)
    flush(store)
    stores.crash()
    lose_ends(stores, ends)
    stores.fs.nodes[stores.root / "checkpoint"].content[7] ^= 1
    assert stores.open().queue_range("T", 0) == (0, 3)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_queues_that_another_program_has_made_longer_are_not_compared_with_the_log(stores, caplog, clean):
    store = filled(stores)
    flush(store)
    ends = stores.fs.read(stores.root / "queueends")
    fill(store, 3, start=COUNT)
    if clean:
        store.close()
    else:
        stores.crash()
    lose_ends(stores, ends)
    stores.fs.nodes[stores.root / "checkpoint"].content[7] ^= 1
    store = stores.open()
    assert store.queue_range("T", 0) == (0, COUNT + 3)
    assert "compared with the commit log" not in caplog.text


def test_queues_of_another_program_are_not_compared_with_the_log(stores, caplog):
    """A Java broker has no file of queue ends, and its checkpoint has no end of the log."""
    filled(stores).close()
    stores.fs.nodes[stores.root / "checkpoint"].content[0:8] = (1).to_bytes(8, "big")
    lose_topic(stores)
    lose_ends(stores, None)
    assert ("T", 0) not in stores.open().queues()
    assert "compared with the commit log" not in caplog.text


def test_verify_notes_lost_offsets(disk_stores):
    store = disk_stores.open()
    done = fill(store, 30)
    store.close()
    path = disk_stores.root / "commitlog" / f"{done[29].physical_offset // 4096 * 4096:020d}"
    data = bytearray(path.read_bytes())
    data[done[29].physical_offset % 4096 + 90] ^= 0xFF
    path.write_bytes(data)
    for file in (disk_stores.root / "consumequeue" / "T" / "0").iterdir():
        file.unlink()
    disk_stores.open().close()
    with OfflineStore(disk_stores.root) as offline:
        report = verify(offline)
    of_queue = [found for found in report.findings.listed() if found.place == "consume queue T-0"]
    assert [found.severity for found in of_queue] == ["note"]
    assert of_queue[0].what == "offsets 29 to 29 have no messages: the log has lost them"


def test_without_a_file_nothing_is_known(stores):
    ends = QueueEndsFile(stores.fs, stores.root / "queueends").load()
    assert (ends.log_begin, ends.file_size, ends.batch_file_size, ends.queues) == (-1, 0, 0, [])


def test_a_file_that_is_missing_names_no_queues() -> None:
    assert QueueEndsFile(MemoryFileSystem(), Path("/store/ends")).load() == QueueEnds()


@pytest.mark.parametrize("content", [b"00000000\n{}", b"%08x\n[]" % crc32(b"[]")])
def test_a_file_that_cannot_be_used_names_no_queues(content: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write(Path("/store/ends"), content)
    assert QueueEndsFile(fs, Path("/store/ends")).load() == QueueEnds()
