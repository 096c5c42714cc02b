"""The check of an open store: what is whole is left alone, what is damaged is named, wrong entries are rebuilt."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.store import MessageStore
from rocketmq_py.store.log import log_parts
from rocketmq_py.store.queue.consume_queue import unpack_entries
from rocketmq_py.store.read import scrub as module
from rocketmq_py.store.read.scrub import NOTHING, Counts, Gap, Scrub
from rocketmq_py.store.read.strays import Place
from rocketmq_py.wire.record import QUEUE_ID_AT, QUEUE_OFFSET_AT
from tests.unit.store.coldfs import ColdFileSystem
from tests.unit.store.helpers import Stores, fill, record


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the log end in the middle of records, and some records are longer than a part."""
    monkeypatch.setattr(log_parts, "PART_BYTES", 700)
    monkeypatch.setattr(log_parts, "_READ_BEYOND", 400)


def check_queues(store: MessageStore, subject: Scrub) -> int:
    """Check the entries of a part; return how often something was to be loaded."""
    rounds = 0
    store.load(subject.entries())
    list(subject.queues())
    while entries := subject.entries():
        rounds += 1
        assert rounds < 1_000, "no progress"
        store.load(entries)
        list(subject.queues())
    return rounds


def one_pass(store: MessageStore, subject: Scrub) -> Counts:
    """Check the whole log, loading what is to be loaded."""
    before = subject.counts.passes
    parts = 0
    while (part := subject.begin()) is not None:
        parts += 1
        assert parts < 1_000, "no progress"
        store.load([part])
        list(subject.records())
        check_queues(store, subject)
    check_queues(store, subject)
    assert subject.counts.passes == before + 1
    return subject.counts


def checked(store: MessageStore) -> Counts:
    return one_pass(store, store.new_scrub())


def log_bytes(stores: Stores, number: int = 0) -> Any:
    """The content of a file of the log."""
    assert stores.fs is not None
    paths = sorted(path for path in stores.fs.nodes if path.parent.name == "commitlog")
    return stores.fs.nodes[paths[number]].content


def filled(stores: Stores) -> MessageStore:
    """60 messages in two queues, in several files; some are longer than a part of the log."""
    store = stores.open()
    for number in range(60):
        store.append(record(number, queue_id=number % 2, size=1_200 if number % 7 == 3 else 100))
    store.commit_pending()
    return store


def places(store: MessageStore, queue_id: int = 0) -> list[tuple[int, int]]:
    """Offset in the log and size of each record of a queue."""
    return [entry[:2] for entry in store.queue_entries("T", queue_id, 0, 100)]


def test_a_store_that_is_whole_is_checked_to_its_end_and_again(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(stores)
    subject = store.new_scrub()
    size = sum(size for queue_id in (0, 1) for _, size in places(store, queue_id))
    assert store.max_physical_offset > 3 * 4096, "several files"
    assert one_pass(store, subject) == Counts(bytes=size, records=60, passes=1)
    fill(store, 5)
    assert one_pass(store, subject).records == 60 + 65
    assert subject.counts.damages == subject.counts.entries_rebuilt == 0
    assert caplog.text == ""


def test_a_part_is_checked_in_short_steps(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "PART_BYTES", 4_000)
    monkeypatch.setattr(module, "_RECORDS_A_STEP", 4)
    monkeypatch.setattr(log_parts, "_RECORDS_A_STEP", 4)
    store = stores.open()
    fill(store, 10)
    subject = store.new_scrub()
    assert subject.begin() is not None
    assert len(list(subject.records())) == 3, "records 0, 4 and 8"
    assert len(list(subject._check_entries())) == 3


def test_an_empty_store_has_nothing_to_check(stores: Stores) -> None:
    assert checked(stores.open()) == Counts(passes=1)


def test_what_has_no_entry_is_not_missed(stores: Stores) -> None:
    store = stores.open()
    for flags in (0, 0x4, 0x8, 0xC):
        store.append(record(sys_flag=flags))
    store.commit_pending()
    assert checked(store) == Counts(bytes=store.max_physical_offset, records=4, passes=1)


DAMAGES = {
    "a bit of a body": (90, 1, "the checksum of a body is wrong"),
    "a magic": (4, 4, "magic 0x"),
    "a larger size": (2, 1, "cannot be here"),
    "zeros": (0, 60, "nothing is written there"),
}


@pytest.mark.parametrize("what", DAMAGES)
@pytest.mark.parametrize("number", [0, 5, 17])
def test_damage_is_named_once_and_all_other_records_are_checked(
    stores: Stores, caplog: pytest.LogCaptureFixture, what: str, number: int
) -> None:
    at, count, reason = DAMAGES[what]
    store = filled(stores)
    begin, _ = places(store)[number]
    content, start = log_bytes(stores, begin // 4096), begin % 4096
    for position in range(start + at, start + at + count):
        content[position] = 0 if what == "zeros" else content[position] ^ 0x55
    subject = store.new_scrub()
    assert one_pass(store, subject)._replace(bytes=0) == Counts(records=59, damages=1, passes=1)
    [line] = caplog.messages
    found = re.fullmatch(r"the commit log is damaged from (\d+) to (\d+): (.*)", line)
    assert found is not None
    assert int(found[1]) == begin
    assert int(found[2]) == min(at for queue_id in (0, 1) for at, _ in places(store, queue_id) if at > begin)
    assert reason in found[3]
    assert one_pass(store, subject).damages == 1, "a damage is counted once"
    assert len(caplog.messages) == 1


def test_damage_at_the_end_of_the_log_is_named(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    begin, size = max(places(store, 0) + places(store, 1))
    log_bytes(stores, begin // 4096)[begin % 4096 + 90] ^= 1
    assert checked(store).damages == 1
    assert f"damaged from {begin} to {begin + size}: " in caplog.text


def test_wrong_entries_are_rebuilt(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(stores)
    queue = store._queue("T", 1)
    assert queue is not None
    before = queue.read(0, 30)
    entries = list(unpack_entries(before))
    queue.replace_entry(3, *entries[4])
    queue.replace_entry(7, entries[7][0], entries[7][1] + 8, entries[7][2])
    queue.replace_entry(20, 1 << 50, 100, 0)
    assert checked(store) == checked(store)._replace(entries_rebuilt=3)
    assert queue.read(0, 30) == before
    assert caplog.messages == [
        f"the consume queue entry of offset {offset} of queue 1 of topic T was wrong: rebuilt from the commit log"
        for offset in (3, 7, 20)
    ]


def test_old_records_of_a_topic_that_was_created_again_leave_its_entries_alone(stores: Stores) -> None:
    store = stores.open()
    fill(store, 10)
    store.delete_topic("T")
    for _ in range(3):
        store.tick(stores.clock())
    assert store.queue_range("T", 0)[1] == 0
    fill(store, 5, start=10)
    before = store.queue_entries("T", 0, 0, 5)
    counts = checked(store)
    assert (counts.records, counts.entries_rebuilt) == (15, 0)
    assert store.queue_entries("T", 0, 0, 5) == before


def test_a_file_that_expires_meanwhile_is_passed_over(stores: Stores) -> None:
    store = filled(stores)
    subject = store.new_scrub()
    assert subject.begin() is not None
    store._commit_log.remove(0)
    assert list(subject.records()) == []
    counts = one_pass(store, subject)
    assert 30 < counts.records < 60
    assert counts.damages == 0


def test_nothing_cold_is_read_by_the_checks(stores: Stores) -> None:
    fs = stores.fs = ColdFileSystem()
    store = filled(stores)
    store.close()
    fs.chill()
    store = stores.open()
    fs.chill()
    counts = checked(store)
    assert counts.records == 60
    assert fs.cold_reads == []


# -- heads that are damaged

HEADS = {
    "another offset, which has a record, too": (QUEUE_OFFSET_AT + 7, 1, (0, 4)),
    "an offset far behind the end": (QUEUE_OFFSET_AT + 2, 4, (0, (4 << 40) + 5)),
    "a negative offset": (QUEUE_OFFSET_AT, 0x80, (0, 5 - (1 << 63))),
    "another queue, which has the offset, too": (QUEUE_ID_AT + 3, 1, (1, 5)),
    "a queue that does not exist": (QUEUE_ID_AT, 2, (2 << 24, 5)),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_that_disagrees_with_the_consume_queue_is_named_and_a_gap(
    stores: Stores, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    position, mask, (queue_id, offset) = HEADS[what]
    store = filled(stores)
    at, size = places(store)[5]
    log_bytes(stores, at // 4096)[at % 4096 + position] ^= mask
    subject = store.new_scrub()
    assert one_pass(store, subject)._replace(bytes=0) == Counts(records=60, damages=1, passes=1)
    assert subject.take_gaps() == [Gap(at, at + size, NOTHING, NOTHING, Place(0, 5))]
    assert one_pass(store, subject).damages == 1, "a damage is counted once"
    [line] = caplog.messages
    assert line == (
        f"the commit log is damaged from {at} to {at + size}: the record says queue {queue_id} offset {offset} of "
        "topic T, but the consume queue has it at queue 0 offset 5; its body is whole"
    )


@pytest.mark.parametrize("number", [0, 1, 29])
def test_a_head_is_healed_from_a_replica(stores: Stores, number: int) -> None:
    store = filled(stores)
    at, size = places(store)[number]
    replica = copy_of(stores)
    log_bytes(stores, at // 4096)[at % 4096 + QUEUE_OFFSET_AT + 7] ^= 64
    subject = store.new_scrub()
    assert [gap[:2] for gap in heal(store, subject, replica)] == [(at, at + size)]
    assert (subject.counts.damages, subject.counts.records_healed, subject.counts.entries_rebuilt) == (1, 1, 0)
    assert copy_of(stores)[at : at + size] == replica[at : at + size]
    assert one_pass(store, store.new_scrub()).damages == 0


def test_a_wrong_entry_beside_a_record_is_no_damage_of_its_head(stores: Stores) -> None:
    """What an entry says counts only if it stands between its neighbours; the log is the truth otherwise."""
    store = filled(stores)
    queue = store._queue("T", 0)
    assert queue is not None
    right = queue.read(0, 30)
    entries = list(unpack_entries(right))
    queue.replace_entry(3, *entries[4])
    queue.replace_entry(4, *entries[5])
    subject = store.new_scrub()
    assert one_pass(store, subject)._replace(bytes=0) == Counts(records=60, entries_rebuilt=2, passes=1)
    assert subject.take_gaps() == []
    assert queue.read(0, 30) == right


def test_only_some_records_of_a_part_are_searched(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "PART_BYTES", 4_096)
    monkeypatch.setattr(module, "_MOST_STRAYS", 3)
    store = stores.open()
    fill(store, 10)
    for at, _ in places(store)[2:7]:
        log_bytes(stores)[at + QUEUE_ID_AT + 3] ^= 4
    subject = store.new_scrub()
    assert one_pass(store, subject).damages == 3
    assert [gap.head for gap in subject.take_gaps()] == [Place(0, 2), Place(0, 3), Place(0, 4)]


def test_a_damaged_queue_offset_makes_no_long_run_of_entries_to_load(stores: Stores) -> None:
    asked: list[tuple[int, int]] = []
    queue: Any = SimpleNamespace(min_offset=5, needs=lambda first, count, _: asked.append((first, count)))
    subject = stores.open().new_scrub()
    subject._find_queue = lambda *_: queue
    offsets = [4, 5, 6, 1 << 40, 7, 8, 8]
    subject._found["T", 0] = [SimpleNamespace(queue_offset=offset) for offset in offsets]  # type: ignore[misc]
    subject.entries()
    assert asked == [(5, 3), (1 << 40, 1), (7, 2), (8, 1)]


def test_the_search_for_a_place_reads_nothing_cold(stores: Stores) -> None:
    fs = stores.fs = ColdFileSystem()
    store = stores.open()
    fill(store, 900)
    store.close()
    at, _ = stores.open().queue_entries("T", 0, 500, 1)[0][:2]
    stores.close()
    log_bytes(stores, at // 4096)[at % 4096 + QUEUE_ID_AT + 3] ^= 4
    store = stores.open()
    fs.chill()
    subject = store.new_scrub()
    loads = 0
    while (part := subject.begin()) is not None:
        store.load([part])
        list(subject.records())
        loads += check_queues(store, subject)
    assert [gap.head for gap in subject.take_gaps()] == [Place(0, 500)]
    assert loads > 0
    assert fs.cold_reads == []


# -- healing


def copy_of(stores: Stores) -> bytes:
    """The whole log, as a replica has it."""
    assert stores.fs is not None
    paths = sorted(path for path in stores.fs.nodes if path.parent.name == "commitlog")
    return b"".join(bytes(stores.fs.nodes[path].content) for path in paths)


def record_of(replica: bytes, at: int) -> bytes:
    return replica[at : at + int.from_bytes(replica[at : at + 4], "big")]


def heal(store: MessageStore, subject: Scrub, replica: bytes) -> list[Gap]:
    """Check the log, filling each gap from a replica; return the gaps."""
    gaps: list[Gap] = []
    while True:
        part = subject.begin()
        if part is not None:
            store.load([part])
            list(subject.records())
            check_queues(store, subject)
        for gap in subject.take_gaps():
            gaps.append(gap)
            pieces, at = [], gap.begin
            while at < gap.end:
                piece = subject.piece(at, gap.end, record_of(replica, at))
                assert piece is not None
                pieces.append(piece)
                at = piece.end
            assert at == gap.end
            subject.fill(pieces)
            list(subject.queues())
        if part is None:
            return gaps


@pytest.mark.parametrize(("first", "size"), [(0, 1), (0, 300), (3, 1_500), (8, 6_000), (25, 1), (29, 200)])
def test_a_gap_is_filled_with_what_a_replica_has(stores: Stores, first: int, size: int) -> None:
    store = filled(stores)
    begin, _ = places(store)[first]
    end = min(begin + size, store.max_physical_offset)
    replica = copy_of(stores)
    for at in range(begin, end):
        log_bytes(stores, at // 4096)[at % 4096] ^= 0x55
    queue = store._queue("T", 0)
    assert queue is not None
    entries = queue.read(0, 30)
    queue.replace_entry(4, 1 << 40, 77, 0)
    subject = store.new_scrub()
    gaps = heal(store, subject, replica)
    assert queue.read(0, 30) == entries
    whole = {place for queue_id in (0, 1) for place in places(store, queue_id)}
    for at, length in whole:  # what follows a blank record is nothing
        assert copy_of(stores)[at : at + length] == replica[at : at + length]
    healed = sum(gap.begin <= at < gap.end for gap in gaps for queue_id in (0, 1) for at, _ in places(store, queue_id))
    assert subject.counts.records_healed == healed > 0
    assert subject.counts.damages == len(gaps)
    for gap in gaps:
        assert gap.begin <= begin < end or gap.begin < end
        assert gap.after in whole or gap.after == NOTHING
        assert gap.before in whole or (gap.before == NOTHING and gap.begin == 0)
        assert subject.own(gap.before) == (record_of(replica, gap.before[0]) if gap.before != NOTHING else None)
    again = store.new_scrub()
    assert one_pass(store, again).damages == 0


def test_what_was_filled_is_synced_and_served_again(stores: Stores) -> None:
    store = filled(stores)
    store.close()
    store = stores.open()
    replica = copy_of(stores)
    at, _ = places(store)[5]
    fs = stores.fs
    assert fs is not None
    [node] = [node for path, node in fs.nodes.items() if path.name == f"{at // 4096 * 4096:020d}"]
    node.content[at % 4096 + 4] ^= 1
    node.durable = bytes(node.content)
    result = store.get("T", 0, 0, 30)
    assert result.damaged == (5,)
    subject = store.new_scrub()
    assert subject.has_suspects
    [suspect] = subject.take_suspects()
    assert (suspect.damage, subject.has_suspects, subject.take_suspects()) == (at, False, [])
    window = subject.at(suspect.start)
    assert [gap.begin for gap in heal(store, window, replica)] == [at]
    subject.add_counts(window)
    assert subject.counts == Counts(damages=1, records_healed=1)
    store._flusher.complete(0)
    assert node.durable == bytes(node.content)
    assert (store.get("T", 0, 0, 30).damaged, store.get("T", 0, 0, 30).count) == ((), 30)


@pytest.mark.parametrize("change", [(0, 1), (4, 1), (28, 8), (90, 1)])
def test_what_does_not_fit_into_a_gap_is_no_piece(stores: Stores, change: tuple[int, int]) -> None:
    store = filled(stores)
    at, size = places(store)[5]
    subject, data = store.new_scrub(), bytearray(record_of(copy_of(stores), at))
    assert subject.piece(at, at + size, bytes(data)) is not None
    assert subject.piece(at, at + size - 1, bytes(data)) is None
    assert subject.piece(at, at + size, bytes(data[:-1])) is None
    assert subject.piece(at, at + size, b"") is None
    assert subject.piece(at + 1, at + size + 1, bytes(data)) is None
    position, mask = change
    data[position] ^= mask
    assert subject.piece(at, at + size, bytes(data)) is None


def test_a_file_that_expired_is_not_filled(stores: Stores) -> None:
    store = filled(stores)
    at, size = places(store)[0]
    subject = store.new_scrub()
    piece = subject.piece(at, at + size, record_of(copy_of(stores), at))
    assert piece is not None
    store._commit_log.remove(0)
    subject.fill([piece])
    assert subject.counts.records_healed == 0
    assert 0 not in store._commit_log.starts
