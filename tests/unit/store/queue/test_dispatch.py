"""Records of the log on their way to queues and index: which of them get an entry, which keys, and what is left out."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.store.fs.layout import StoreLayout
from rocketmq_py.store.index.index import MessageIndex
from rocketmq_py.store.log.lost_parts import LostPart
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue import queue_table
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.dispatch import RecordDispatch
from rocketmq_py.store.queue.lost_messages import lost_messages, offsets_between
from rocketmq_py.store.queue.queue_ends import QueueEnd
from rocketmq_py.store.queue.queue_table import QueueTable
from rocketmq_py.wire.java_hash import string_hash
from tests.unit.store.coldfs import ByHand
from tests.unit.store.helpers import NOW, SMALL, Clock
from tests.unit.store.memoryfs import MemoryFileSystem

SIZE = 100
TAG_A = 97
"""The hash of the tag ``a``."""


class World:
    """A table of queues and an index, to which records are dispatched."""

    def __init__(self, indexed_to: int = 0, *, is_slave: bool = False) -> None:
        fs, layout = MemoryFileSystem(), StoreLayout(Path("/store"))
        self.fs = fs
        self.queues = QueueTable(fs, layout, SMALL, lambda topic: topic == "B", lambda _: NOW, ByHand())
        self.index = MessageIndex(fs, layout, SMALL, Clock())
        self.commits = 0
        self.recreated: list[str] = []
        recreated = self.recreated.append if is_slave else None
        self.dispatch = RecordDispatch(SMALL, self.queues, self.index, self.commit, recreated, indexed_to=indexed_to)

    def commit(self) -> None:
        self.commits += 1
        touched, self.dispatch.touched = self.dispatch.touched, []
        self.queues.commit_pending(touched)

    def take(self, number: int, **changes: Any) -> None:
        """Dispatch the record at offset ``number * SIZE``, which has that queue offset."""
        fields: dict[str, Any] = {
            "physical_offset": number * SIZE, "size": SIZE, "topic": "T", "queue_id": 0, "queue_offset": number,
            "sys_flag": 0, "store_timestamp": NOW + number, "properties": b"UNIQ_KEY\x01u\x02KEYS\x01k l\x02TAGS\x01a",
        }  # fmt: skip
        self.dispatch.dispatch(Found(**(fields | changes)))

    def entries(self, topic: str = "T", queue_id: int = 0) -> list[tuple[int, int, int]]:
        self.commit()
        queue = self.queues.by_key[topic, queue_id]
        return queue.span(queue.min_offset, queue.max_offset)


def test_a_record_gets_an_entry_and_keys() -> None:
    world = World()
    world.take(0)
    world.take(1, queue_id=3, queue_offset=0, properties=b"")
    assert [queue.queue_id for queue in world.dispatch.touched] == [0, 3]
    assert world.commits == 0
    world.take(2, queue_offset=1, store_timestamp=NOW - 5)
    assert len(world.dispatch.touched) == 2
    assert world.entries() == [(0, SIZE, TAG_A), (2 * SIZE, SIZE, TAG_A)]
    assert world.entries(queue_id=3) == [(SIZE, SIZE, 0)]
    prefix = string_hash("T#")
    assert world.index.waiting.fields[:12] == [prefix, b"u", 0, NOW, prefix, b"k", 0, NOW, prefix, b"l", 0, NOW]
    assert world.index.waiting.fields[14::4] == [2 * SIZE] * 3
    assert world.dispatch.last_timestamp == NOW + 1


def test_a_queue_of_a_slave_begins_anew_with_a_record_behind_its_end_that_has_offset_0() -> None:
    world = World(is_slave=True)
    for number in range(4):
        world.take(number, properties=b"")
    world.take(4, queue_id=1, queue_offset=0, properties=b"")
    former = world.queues.by_key["T", 0]
    world.take(5, queue_offset=0, properties=b"")
    world.take(6, queue_offset=1, properties=b"")
    assert world.entries() == [(5 * SIZE, SIZE, 0), (6 * SIZE, SIZE, 0)]
    assert world.entries(queue_id=1) == [(4 * SIZE, SIZE, 0)]
    assert world.recreated == ["T"]
    assert not world.queues.is_current(former)


def test_a_queue_of_a_slave_that_has_a_record_stays_as_it_is() -> None:
    world = World(is_slave=True)
    for number in (0, 1, 2, 0):
        world.take(number, properties=b"")
    assert world.entries() == [(number * SIZE, SIZE, 0) for number in range(3)]
    assert world.recreated == []


def test_a_queue_of_a_slave_that_is_being_rebuilt_does_not_begin_anew() -> None:
    world = World(is_slave=True)
    end = QueueEnd("T", 0, batched=False, first=0, end=3, next_offset=3, checksums={})
    unfinished = world.queues.put_off(("T", 0), end)
    world.take(7, queue_offset=0, properties=b"")
    assert world.queues.is_current(unfinished)
    assert world.recreated == []


def test_records_of_transactions_get_entries_and_keys_by_their_kind() -> None:
    """Prepared ones only keys, committed ones both, rolled back ones nothing; other flags do not matter."""
    for flag, queued, indexed in (
        (0, 1, 3),
        (4, 0, 3),
        (8, 1, 3),
        (12, 0, 0),
        (1, 1, 3),
        (16, 1, 3),
        (3, 1, 3),
        (35, 1, 3),
    ):
        world = World()
        world.take(0, sys_flag=flag)
        assert (len(world.entries()), len(world.index.waiting)) == (queued, indexed), flag


def test_a_queue_that_is_rebuilt_gets_entries_and_the_index_no_keys() -> None:
    rebuilt = World()
    rebuilt.queues.create("T", 0)
    rebuilt.dispatch.rebuild(Found(0, SIZE, "T", 0, 0, 0, NOW, b"KEYS\x01k"))
    assert (len(rebuilt.entries()), rebuilt.index.waiting.fields) == (1, [])


def test_keys_that_the_index_has_are_not_added_again() -> None:
    for indexed_to, added in ((0, [0, 100, 200]), (99, [100, 200]), (100, [200]), (200, [])):
        world = World(indexed_to)
        for number in range(3):
            world.take(number, properties=b"KEYS\x01k")
        assert world.index.waiting.fields[2::4] == added, indexed_to
        assert len(world.entries()) == 3


def test_delayed_messages_have_their_time_of_delivery() -> None:
    world = World()
    world.take(0, topic="SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x012\x02TAGS\x01a")
    assert world.entries("SCHEDULE_TOPIC_XXXX") == [(0, SIZE, NOW + 5000)]


def test_batches_count_their_messages() -> None:
    world = World()
    inner = b"INNER_NUM\x014\x02INNER_BASE\x010"
    world.take(0, topic="B", sys_flag=0x80, properties=inner)
    world.take(1, topic="B", queue_offset=4)
    world.take(2, topic="deleted", sys_flag=0x80, queue_offset=0, properties=inner)
    world.take(3, queue_offset=0, properties=inner)
    world.commit()
    ends = {key: queue.max_offset for key, queue in world.queues.by_key.items()}
    assert ends == {("B", 0): 5, ("deleted", 0): 4, ("T", 0): 1}
    assert world.queues.by_key["deleted", 0].is_batched


def test_gaps_are_filled_and_older_records_left_out() -> None:
    world = World()
    world.take(7)
    assert world.commits == 1
    world.take(8)
    world.take(7)
    world.take(8)
    assert world.commits == 1
    world.take(11)
    assert world.commits == 2, "what is pending comes before the gap"
    assert [entry[0] for entry in world.entries()] == [700, 800, 0, 0, 1100]
    queue = world.queues.by_key["T", 0]
    assert (queue.min_offset, queue.max_offset) == (7, 12)
    again = World()
    again.queues.create("T", 0).begin_at(5)
    again.take(3)
    assert (again.queues.by_key["T", 0].min_offset, [entry[0] for entry in again.entries()]) == (3, [300])


def test_a_queue_that_is_rebuilt_begins_again_at_offset_0() -> None:
    """Its topic was deleted and created again; in other queues such a record is one of a former time."""
    for damaged, entries in ((True, [200, 300]), (False, [0, 100])):
        world = World()
        if damaged:
            world.queues.damaged["T", 0] = "lost"
        for number, offset in ((0, 0), (1, 1), (2, 0), (3, 1)):
            world.take(number, queue_offset=offset)
        assert [entry[0] for entry in world.entries()] == entries


def test_entries_of_a_replaced_queue_are_not_written_behind_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_table, "_SPILL_AT", 20)
    world = World()
    world.queues.damaged["T", 0] = "lost"
    for number, offset in ((0, 0), (1, 1), (2, 0)):
        world.take(number, queue_offset=offset)
    world.commit()
    content = world.fs.read(Path("/store/consumequeue/T/0") / ("0" * 20))
    assert content == pack(">qiq", 200, SIZE, TAG_A).ljust(400, b"\0")


def test_queue_offsets_that_cannot_be_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """They would fill the disk with blank entries; an empty queue can begin at any offset."""
    cases = [
        ([0, 1_000_001], 1_000_002), ([0, 1_000_002], 1), ([0, -1], 1), ([5_000_000], 5_000_001),
        ([1 << 56], (1 << 56) + 1), ([(1 << 56) + 1], 0), ([-1], 0), ([0, 1 << 60, 1], 2),
    ]  # fmt: skip
    ends = []
    for offsets, _ in cases:
        world = World()
        for number, offset in enumerate(offsets):
            world.take(number, queue_offset=offset)
        ends.append((offsets, world.queues.by_key["T", 0].next_offset))
    assert ends == cases
    said = "the record at 100 of the commit log has queue offset 1000002, but queue 0 of topic T ends at 1: "
    assert said in caplog.text


def test_of_implausible_records_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for number in range(20):
        world.take(number, queue_id=number, queue_offset=-1)
        world.take(number, queue_id=number, queue_offset=-1)
    assert len(caplog.records) == 16


def test_topics_without_a_folder_have_keys_but_no_queue(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for number in range(20):
        for _ in range(2):
            world.take(number, topic=f"a/{number}", properties=b"KEYS\x01k")
    assert world.queues.by_key == {}
    assert world.index.waiting.fields[0] == string_hash("a/0#")
    assert len(world.index.waiting) == 40
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 17
    assert said[0].startswith("the record at 0 of the commit log and all others of its topic have no consume queue: ")
    assert said[16] == "further topics of records without consume queues are not named"


# -- which messages a lost part of the log had


def with_entries(*entries: tuple[int, int]) -> ConsumeQueue:
    queue = ConsumeQueue("T", 3, Path("/store/q"), SimpleNamespace(file_size=400))  # type: ignore[arg-type]
    for physical, size in entries:
        queue.add(physical, size, 0)
    queue.commit_pending()
    return queue


def test_messages_that_are_lost_even_in_part() -> None:
    queue = with_entries((100, 10), (110, 10), (150, 10), (200, 10))
    cases = [
        ((0, 100), (0, 0)), ((0, 101), (0, 1)), ((105, 106), (0, 1)), ((109, 110), (0, 1)), ((110, 111), (1, 2)),
        ((119, 151), (1, 3)), ((120, 150), (2, 2)), ((0, 999), (0, 4)), ((209, 999), (3, 4)), ((210, 999), (4, 4)),
    ]  # fmt: skip
    assert [(part, offsets_between(queue, *part)) for part, _ in cases] == cases
    queue.min_offset = 2
    assert offsets_between(queue, 0, 999) == (2, 4)


def test_lost_messages_are_named_by_queue() -> None:
    blanks = with_entries((0, 0x7FFFFFFF), (0, 0x7FFFFFFF), (130, 10))
    parts = [LostPart(100, 120, ""), LostPart(125, 131, "")]
    assert lost_messages([with_entries((100, 10), (110, 10), (120, 5), (125, 10)), blanks], parts) == [
        "T-3 0 to 1", "T-3 3 to 3", "T-3 2 to 2",
    ]  # fmt: skip
    assert lost_messages([], parts) == lost_messages([with_entries()], parts) == []
