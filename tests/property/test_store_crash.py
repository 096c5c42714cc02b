"""Crashes at any point: synced bytes survive, every message keeps its offset, and the store continues.

The model is a list of what was appended per queue. After a crash each queue has everything up to where the log was
flushed, and any part of the rest, each message at its offset; nothing else may turn up, by offset or by key.
"""

from __future__ import annotations

import logging
import random
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.store import SYNC_FLUSH, MessageStore, NewBatch, StoreConfig
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import decode_records
from tests.examples import examples
from tests.unit.store.helpers import HOST, NOW, Clock, numbers, record
from tests.unit.store.memoryfs import MemoryFileSystem

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200, max_hash_slot_num=7, max_index_num=40,
    flush_interval_commit_log=1, flush_commit_log_least_pages=1, flush_commit_log_thorough_interval=5,
    flush_consume_queue_thorough_interval=20, max_open_queue_files=2,
)  # fmt: skip
SYNC = msgspec.structs.replace(CONFIG, flush_disk_type=SYNC_FLUSH)
ROOT = Path("/store")


@pytest.fixture(autouse=True, scope="module")
def quiet():
    """Every recovery of thousands says where it cut."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


step = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 900)),
    st.tuples(st.just("batch"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("commit_pending"), st.just(0), st.just(0)),
    st.tuples(st.just("tick"), st.integers(1, 4000), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
)
trim = st.tuples(st.just("trim"), st.just(0), st.just(0))
untrimmed = st.lists(step, max_size=30)
steps = st.lists(step | step | step | trim, max_size=30)


class World:
    """A store, its disk, and what should be in it."""

    def __init__(self, config: StoreConfig = CONFIG) -> None:
        self.config = config
        self.fs = MemoryFileSystem()
        self.clock = Clock(NOW)
        self.appended: dict[int, list[tuple[int | None, int]]] = {0: [], 1: [], 2: []}
        # Number of the message, None for one that is lost, and its end in the log.
        self.first = {0: 0, 1: 0, 2: 0}
        self.next_number = 0
        self.flushed = 0  # when the store was last open
        self.lost_at: tuple[int, MemoryFileSystem, dict[int, int]] | None = None
        self.shown: dict[int, int] = {}  # the end of each queue as readers saw it when power was lost
        self.open()

    def open(self) -> None:
        self.is_open = False
        self.store = MessageStore(ROOT, self.config, store_host=HOST, fs=self.fs, clock=self.clock)
        self.store.open()
        self.is_open = True

    def append(self, queue_id: int, size: int) -> None:
        done = self.store.append(record(self.next_number, queue_id=queue_id, size=size))
        assert done.queue_offset == self.first[queue_id] + len(self.appended[queue_id])
        self.appended[queue_id].append((self.next_number, done.physical_offset + done.size))
        self.next_number += 1

    def batch(self, queue_id: int, count: int) -> None:
        messages = [record(self.next_number + i, size=8) for i in range(count)]
        body = encode_batch([(0, m.body, m.properties) for m in messages])
        done = self.store.append_batch(NewBatch("T", queue_id, body))
        assert done.queue_offset == self.first[queue_id] + len(self.appended[queue_id])
        for at in done.physical_offsets:
            self.appended[queue_id].append((self.next_number, at + done.size // count))
            self.next_number += 1

    def commit_pending(self, *_: int) -> None:
        self.store.commit_pending()

    def tick(self, passed: int, _: int) -> None:
        self.clock.now += passed
        self.store.tick(self.clock.now)
        self.drain()

    def trim(self, *_: int) -> None:
        """Remove every file of the log that may go, as the clean-up does it."""
        self.tick(20, 0)
        self.store.delete_expired()
        self.store.clean(self.clock.now)
        for _ in range(4):
            self.tick(0, 0)

    def drain(self) -> None:
        """Let the flush thread finish, so that a run can be repeated."""
        done = threading.Event()
        self.store._flusher.request(0, done.set)
        assert done.wait(10)

    def reopen(self, *_: int) -> None:
        self.shown = self.visible()
        self.store.close()
        self.flushed = self.store.flushed_offset
        self.open()

    def run(self, script: list[tuple[str, int, int]]) -> None:
        for name, *arguments in script:
            getattr(self, name)(*arguments)

    def crash(self, chance: random.Random | None) -> int:
        """What a kill (or, with ``chance``, a loss of power) leaves; up to where the log was known to be on disk."""
        if chance is None:
            self.store.commit_pending()
            flushed = self.store.max_physical_offset
            fs = self.fs.after_kill()
        elif self.lost_at is not None:
            flushed, fs, self.shown = self.lost_at
            self.flushed = flushed
        else:
            flushed, fs = self.store.flushed_offset, self.fs.after_power_loss(chance)
            self.shown = self.visible()
        self.store._flusher.stop()
        self.fs, self.lost_at = fs, None
        self.open()
        return flushed

    def lose_power_before(self, operation: int, chance: random.Random) -> None:
        """Take what the disk has right before one of the coming operations as what :meth:`crash` leaves."""

        def snapshot() -> None:
            flushed = self.store.flushed_offset if self.is_open else self.flushed
            self.lost_at = flushed, self.fs.after_power_loss(chance), self.visible()

        self.fs.snapshot = snapshot
        self.fs.snapshot_at = self.fs.operations + operation

    def visible(self) -> dict[int, int]:
        """The end of each queue as readers see it; called from within the store, so that it must not be asked."""
        if not self.is_open:
            return self.shown  # what they saw before
        queues = self.store._queues.by_key
        return {queue_id: queue.max_offset for (_, queue_id), queue in queues.items()}

    def check_shown(self) -> None:
        """Whatever a reader saw before the power was lost is there."""
        for queue_id, end in self.shown.items():
            assert self.store.queue_range("T", queue_id)[1] >= end
        self.shown = {}

    def check(self, flushed: int) -> None:
        """Every message is at its offset or lost, and only what was not flushed is lost; it stays lost.

        A loss of power can take messages from the middle of what was not flushed.
        """
        removed = self.store.min_physical_offset
        for queue_id, appended in self.appended.items():
            low, high = self.store.queue_range("T", queue_id)
            first, found = self.first[queue_id], read_with_gaps(self.store, queue_id)
            wanted = {first + i: number for i, (number, _) in enumerate(appended) if number is not None}
            assert found.items() <= wanted.items()
            ends = {first + i: end for i, (_, end) in enumerate(appended)}
            assert found.keys() >= {at for at in wanted if removed < ends[at] <= flushed}
            self.first[queue_id] = low
            appended[:] = [(found.get(at), ends.get(at, 0)) for at in range(low, high)]
            for number in sorted(found.values())[-3:]:
                hits = decode_records(self.store.query("T", f"U{number:06d}", 64, 0, 1 << 62).body)
                assert number in numbers(hits)


def read_with_gaps(store: MessageStore, queue_id: int) -> dict[int, int]:
    """The number of every message of a queue that is not lost, by its offset."""
    offset, end = store.queue_range("T", queue_id)
    found: dict[int, int] = {}
    while offset < end:
        result = store.get("T", queue_id, offset, 32)
        messages = decode_records(result.body) if result.count else []
        found |= dict(zip([message.queue_offset for message in messages], numbers(messages), strict=True))
        assert result.next_offset > offset
        offset = result.next_offset
    return found


@settings(max_examples=examples(60), deadline=None)
@given(before=steps, after=steps)
def test_a_kill_loses_no_message(before, after):
    world = World()
    for script in (before, after):
        world.run(script)
        world.check(world.crash(None))
        assert all(end <= world.store.max_physical_offset for queue in world.appended.values() for _, end in queue)
    world.store.close()


@settings(max_examples=examples(150), deadline=None)
@given(before=steps, after=steps, seed=st.integers(0, 1 << 32), operations=st.lists(st.integers(1, 60), min_size=3))
def test_flushed_messages_survive_a_power_failure(before, after, seed, operations):
    world = World()
    chance = random.Random(seed)
    for script, operation in zip((before, after, after), operations, strict=False):
        world.lose_power_before(operation, chance)
        world.run(script)
        world.check(world.crash(chance))
    world.store.close()


@settings(max_examples=examples(100), deadline=None)
@given(before=steps, after=steps, seed=st.integers(0, 1 << 32), operations=st.lists(st.integers(1, 60), min_size=3))
def test_under_sync_flush_a_power_failure_loses_no_readable_message(before, after, seed, operations):
    world = World(SYNC)
    chance = random.Random(seed)
    for script, operation in zip((before, after, after), operations, strict=False):
        world.lose_power_before(operation, chance)
        world.run(script)
        flushed = world.crash(chance)
        world.check_shown()
        world.check(flushed)
    world.store.close()


@settings(max_examples=examples(50), deadline=None)
@given(script=untrimmed)
def test_a_clean_shutdown_writes_everything_to_files(script):
    world = World()
    world.run(script)
    world.reopen()
    world.check(1 << 62)
    world.store.close()
    before = {path: bytes(node.content) for path, node in world.fs.nodes.items() if path.name != "checkpoint"}
    world.fs.remove_tree(ROOT / "consumequeue")
    world.open()
    world.check(1 << 62)
    world.store.close()
    queues = {path: content for path, content in before.items() if "consumequeue" in path.parts}
    after = {path: bytes(node.content) for path, node in world.fs.nodes.items() if "consumequeue" in path.parts}
    assert after == queues


def attempt(world: World, script: list[tuple[str, int, int]]) -> list[str]:
    """Run a script on a disk that fails; the words of each refusal."""
    refusals = []
    for name, *arguments in script:
        if name != "reopen":
            try:
                getattr(world, name)(*arguments)
            except StoreNotWritable as e:
                refusals.append(str(e))
    return refusals


failures = st.tuples(st.integers(1, 80), st.integers(1, 12))
configs = st.sampled_from([CONFIG, SYNC])


@settings(max_examples=examples(150), deadline=None)
@given(script=steps, failure=failures, config=configs)
@example(  # the removal of an expired commit log file fails, and its queue and index files could be removed
    script=[("append", 0, 0)] * 6 + [("batch", 1, 9), ("batch", 2, 9), ("trim", 0, 0)]
    + [("append", 0, 0)] * 2 + [("batch", 0, 4), ("trim", 0, 0)], failure=(37, 10), config=CONFIG,
)  # fmt: skip
def test_a_temporarily_failing_disk_loses_no_message(script, failure, config):
    """Writes, new files and allocations fail; syncs do not: what a failed sync leaves nobody knows."""
    world = World(config)
    begin, count = world.fs.operations + failure[0], failure[1]
    world.fs.fails = lambda operation, _: operation != "sync" and begin <= world.fs.operations < begin + count
    assert all("No space left on device" in refusal for refusal in attempt(world, script))
    world.fs.fails = lambda *_: False
    world.tick(1, 0)
    assert world.store.is_writable
    world.append(0, 10)
    world.reopen()
    world.check(1 << 62)
    world.store.close()
    assert world.fs.size(ROOT / "abort") is None


@settings(max_examples=examples(100), deadline=None)
@given(before=steps, after=steps, number=st.integers(1, 30), config=configs)
def test_a_failed_sync_stops_appends_and_the_next_start_loses_nothing(before, after, number, config):
    world = World(config)
    syncs = []

    def fails(operation, path):
        if operation != "sync" or path.name == "checkpoint":
            return False
        syncs.append(path)
        return len(syncs) == number

    world.fs.fails = fails
    attempt(world, before)
    world.tick(1, 0)
    if len(syncs) >= number:
        world.tick(1, 0)
        assert not world.store.is_writable
        with pytest.raises(StoreNotWritable, match="the disk failed"):
            world.append(0, 10)
    attempt(world, after)
    world.fs.fails = lambda *_: False
    world.crash(None)
    world.check(0)
    assert all(end <= world.store.max_physical_offset for queue in world.appended.values() for _, end in queue)
    world.append(0, 10)
    world.store.close()
