"""Power is lost at any point: every acknowledged timer is delivered, none early, and twice only near a crash.

The model is a list of what was sent and when it is due. After any history of kills and losses of power, time passes
until everything is due; then the topic must hold each message that was on disk when it was acknowledged, delivered when
it was due or later. A second delivery is allowed where a crash came soon after the first one.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.timer import timer_files
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.timer_metrics import TimerMetrics
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.core.timer import timers as rules
from rocketmq_py.core.timer.delay_levels import DelayLevels
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.store import ASYNC_FLUSH, SYNC_FLUSH, MessageStore, NewRecord, StoreConfig, workers
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.log.flusher import Flusher
from rocketmq_py.wire.record import decode_records
from tests.examples import examples
from tests.unit.store.helpers import CLIENT, HOST, NOW, Clock
from tests.unit.store.memoryfs import MemoryFileSystem

ROOT = Path("/store")
SLOTS = 200
"""Half the slots of the wheel: a real one has 38 MB, which no test wants to lose page by page."""
CONFIG = StoreConfig(
    flush_disk_type=SYNC_FLUSH, mapped_file_size_commit_log=1 << 15, mapped_file_size_consume_queue=4000,
    max_hash_slot_num=7, max_index_num=400, mapped_file_size_timer_log=4096, timer_roll_window_slot=6,
)  # fmt: skip
STEP_MS = 250
NOTED_MS = 2 * CONFIG.timer_flush_interval_ms + CONFIG.timer_precision_ms + 6 * STEP_MS
"""After this time a delivery is on disk with all that tells of it; to load what is needed first takes more ticks."""
LONGEST_MS = 9_000
WINDOW_MS = 5_000
"""What waits less long goes round the wheel once."""


def read_with_gaps(store: MessageStore, topic: str) -> list[MessageExt]:
    """Every message of a queue; under ASYNC_FLUSH a loss of power can take some from its middle."""
    offset, end = store.queue_range(topic, 0)
    messages: list[MessageExt] = []
    while offset < end:
        result = store.get(topic, 0, offset, 32)
        messages += decode_records(result.body) if result.count else []
        assert result.next_offset > offset
        offset = result.next_offset
    return messages


class AtOnce:
    """An executor without a thread, so that a history can be repeated."""

    def __init__(self, workers: int, thread_name_prefix: str) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except OSError as e:
            done.set_exception(e)
        return done

    def shutdown(self, *, wait: bool) -> None:
        pass


class FlushAtOnce(Flusher):
    """A flusher that does in the thread of who asks what it is asked."""

    def request(self, end: int, then: Callable[[], None] | None = None) -> None:
        self._flush(end)
        self._release()
        if then is not None:
            self._do(then)


@pytest.fixture(autouse=True, scope="module")
def small_and_quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "Flusher", FlushAtOnce)
        patch.setattr(workers, "ThreadPoolExecutor", AtOnce)
        patch.setattr(timer_files, "WHEEL_SLOTS", SLOTS)
        patch.setattr(rules, "WHEEL_SLOTS", SLOTS)
        yield
    logging.disable(logging.NOTSET)


class Sent(NamedTuple):
    due_ms: int
    rolls: bool
    """Whether it goes round the wheel more than once."""
    end: int
    """Where it ends in the log when it was stored."""


class Delivery(NamedTuple):
    number: int
    at_ms: int


class World:
    """A store with timers on a disk that loses power, and what was asked of it."""

    def __init__(self, config: StoreConfig = CONFIG) -> None:
        self.config = config
        self.fs = MemoryFileSystem()
        self.clock = Clock(NOW)
        self.sent: dict[int, Sent] = {}
        self.acknowledged: set[int] = set()
        self.crashes: list[int] = []
        self.lost_at: tuple[int, int, MemoryFileSystem] | None = None
        self.flushed = 0
        self.open()

    def open(self) -> None:
        self.is_open = False
        self.store = MessageStore(ROOT, self.config, store_host=HOST, fs=self.fs, clock=self.clock)
        self.store.open()
        self.is_open = True
        delay = DelayService(self.store, DelayLevels((1_000,)), self._file("delayOffset.json"), 1, self.clock)
        metrics = TimerMetrics(self._file("timermetrics"), self.clock)
        self.timers = Timers(self.store, delay, metrics, "revive", self.fs, self.clock)
        self.timers.load(self.store.max_physical_offset)

    def _file(self, name: str) -> ConfigFile:
        return ConfigFile(ROOT / "config" / name, self.fs)

    # -- steps

    def send(self, after_ms: int, count: int) -> None:
        """Messages of one read of a socket: on disk together."""
        for _ in range(count):
            number, due_ms = len(self.sent), self.clock.now + after_ms
            properties = {Property.TIMER_DELIVER_MS: str(due_ms), Property.UNIQUE_KEY: f"U{number:04d}"}
            record = NewRecord(
                "T", 0, b"%04d" % number, encode(properties).encode(), 0, born_timestamp=self.clock.now,
                born_host=CLIENT, uniq_key=f"U{number:04d}",
            )  # fmt: skip
            self.timers.redirect(record, properties)
            done = self.store.append(record)
            self.sent[number] = Sent(due_ms, after_ms >= WINDOW_MS, done.physical_offset + done.size)
        self.store.commit_pending()

    def rest(self, milliseconds: int, _: int) -> None:
        """Time passes; what is due several times a second is done."""
        until = self.clock.now + milliseconds
        while self.clock.now < until:
            self.clock.now += min(STEP_MS, until - self.clock.now)
            self.store.tick(self.clock.now)
            while self.timers.tick(self.clock.now):
                pass

    def reopen(self, _: int, __: int) -> None:
        self.timers.close()
        self.store.close()
        self.flushed = self.store.flushed_offset
        self.open()

    def run(self, script: list[tuple[str, int, int]]) -> None:
        for name, *arguments in script:
            getattr(self, name)(*arguments)

    # -- crashes

    def lose_power_before(self, operation: int, chance: random.Random) -> None:
        """Take what the disk has right before one of the coming operations as what :meth:`lose_power` leaves."""

        def snapshot() -> None:
            flushed = self.store.flushed_offset if self.is_open else self.flushed
            self.lost_at = flushed, self.clock.now, self.fs.after_power_loss(chance)

        self.fs.snapshot = snapshot
        self.fs.snapshot_at = self.fs.operations + operation

    def lose_power(self, chance: random.Random) -> None:
        if self.lost_at is None:
            self.lost_at = self.store.flushed_offset, self.clock.now, self.fs.after_power_loss(chance)
        (flushed, at_ms, fs), self.lost_at = self.lost_at, None
        self.acknowledged |= {number for number, sent in self.sent.items() if sent.end <= flushed}
        self.forget_unacknowledged()
        self._restart(fs, at_ms)

    def kill(self, *_: int) -> None:
        self.store.commit_pending()
        self.acknowledged |= self.sent.keys()
        self._restart(self.fs.after_kill(), None)

    def _restart(self, fs: MemoryFileSystem, lost_at_ms: int | None) -> None:
        if lost_at_ms is not None:
            self.crashes.append(lost_at_ms)
        self.store._flusher.stop()
        self.fs = fs
        self.open()

    def forget_unacknowledged(self) -> None:
        """Of these nobody knows whether they come; their places in the log go to others."""
        for number in self.sent.keys() - self.acknowledged:
            self.sent[number] = self.sent[number]._replace(end=1 << 62)

    # -- the end

    def finish(self) -> list[Delivery]:
        """Everything that is delivered when everything is due."""
        self.rest(LONGEST_MS + 3_000, 0)
        found = read_with_gaps(self.store, "T")
        self.timers.close()
        self.store.close()
        return [Delivery(int(m.body), int(m.properties[Property.TIMER_DEQUEUE_MS])) for m in found]

    def check(self, deliveries: list[Delivery]) -> None:
        by_number: dict[int, list[int]] = {}
        for number, at_ms in deliveries:
            assert at_ms >= self.sent[number].due_ms, "delivered early"
            by_number.setdefault(number, []).append(at_ms)
        assert self.acknowledged <= by_number.keys(), "acknowledged and lost"
        for number, times in by_number.items():
            if self.sent[number].rolls:
                assert len(times) <= 2 ** len(self.crashes), "more often than it can have gone round twice"
                continue
            for before, after in itertools.pairwise(times):
                assert any(before <= crash <= after and crash - before <= NOTED_MS for crash in self.crashes), "twice"


send = st.tuples(st.just("send"), st.integers(1, LONGEST_MS), st.integers(1, 12))
step = st.one_of(
    send, send, st.tuples(st.just("rest"), st.integers(1, 4_000), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
)  # fmt: skip
steps = st.lists(step, max_size=14)
killed = st.lists(step | st.tuples(st.just("kill"), st.just(0), st.just(0)), max_size=20)
operations = st.lists(st.integers(1, 120), min_size=3, max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(script=killed)
def test_a_kill_neither_loses_nor_repeats_timers(script: list[tuple[str, int, int]]) -> None:
    world = World()
    world.run(script)
    world.kill()
    world.check(world.finish())


@settings(max_examples=examples(150), deadline=None)
@given(
    scripts=st.tuples(steps, steps, steps), seed=st.integers(0, 1 << 32), at=operations,
    flush=st.sampled_from([SYNC_FLUSH, SYNC_FLUSH, ASYNC_FLUSH]),
)  # fmt: skip
def test_a_power_failure_loses_no_acknowledged_timer(
    scripts: tuple[list[tuple[str, int, int]], ...], seed: int, at: list[int], flush: str
) -> None:
    """Under ASYNC_FLUSH messages are acknowledged before they are on disk; those that are come all the same."""
    world = World(msgspec.structs.replace(CONFIG, flush_disk_type=flush))
    chance = random.Random(seed)
    for script, operation in zip(scripts, at, strict=True):
        world.lose_power_before(operation, chance)
        world.run(script)
        world.lose_power(chance)
    world.check(world.finish())
