"""A master dies and comes back, its slave acts meanwhile: every timer comes, none early, twice only near a change.

The model is a list of what was sent and when it is due. The slave gets the log and its master's word whenever the
history says so, or not; other masters take what it hands on, refuse it, or do not say whether they have it.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.slave_timers import EscapedMessage, SlaveTimers
from rocketmq_py.broker.timer.timer_metrics import TimerMetrics
from rocketmq_py.core.timer.delay_levels import DelayLevels
from rocketmq_py.core.timer.timers import TimerEntry
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.store import MessageStore
from rocketmq_py.store.config.config_files import ConfigFile
from tests.examples import examples
from tests.property.test_timer_crash import (
    LONGEST_MS,
    ROOT,
    STEP_MS,
    Delivery,
    World,
    small_and_quiet,  # noqa: F401 - pytest uses it
)  # fmt: skip
from tests.unit.store.helpers import HOST, read_queue
from tests.unit.store.memoryfs import MemoryFileSystem

TAKES, REFUSES, SILENT = 0, 1, 2
"""What other masters do: SILENT ones have the message, and the slave does not hear of it."""


class Change(NamedTuple):
    """The master went, or came back: whoever goes on does so at this time of slots."""

    at_ms: int
    from_ms: int


class Pair(World):
    """A master, its slave, and another master that takes what comes due."""

    def __init__(self) -> None:
        self.slave_fs = MemoryFileSystem()
        self.is_up = True
        self.changes: list[Change] = []
        self.backs: list[Change] = []
        self.others: list[Delivery] = []
        self.waiting: list[tuple[int, int]] = []
        """Messages that wait there: when they are due, and which."""
        self.doubtful: set[int] = set()
        self.answer = TAKES
        super().__init__()
        self._open_slave()

    def _open_slave(self) -> None:
        store = MessageStore(
            ROOT, self.config, store_host=HOST, fs=self.slave_fs, clock=self.clock, is_slave=True
        )  # fmt: skip
        store.open()
        delay = DelayService(store, DelayLevels((1_000,)), ConfigFile(ROOT / "delay", self.slave_fs), 1, self.clock)
        metrics = TimerMetrics(ConfigFile(ROOT / "metrics", self.slave_fs), self.clock)
        self.slave_store = store
        self.slave = SlaveTimers(store, delay, metrics, "revive", self.slave_fs, self.clock)
        self.slave.load(store.max_physical_offset)

    # -- steps

    def send(self, after_ms: int, count: int) -> None:
        if self.is_up:
            super().send(after_ms, count)

    def rest(self, milliseconds: int, follows: int) -> None:
        """Time passes. The slave gets the log meanwhile (1), and hears how far its master is (2)."""
        until = self.clock.now + milliseconds
        while self.clock.now < until:
            self.clock.now += min(STEP_MS, until - self.clock.now)
            if self.is_up:
                self.store.tick(self.clock.now)
                while self.timers.tick(self.clock.now):
                    pass
                self.follow(follows)
            self.slave_store.tick(self.clock.now)
            while self.slave.tick(self.clock.now):
                pass
            if not self.is_up:
                self.hand_on()
            self.others += [Delivery(number, self.clock.now) for due, number in self.waiting if due <= self.clock.now]
            self.waiting = [one for one in self.waiting if one[0] > self.clock.now]

    def follow(self, follows: int) -> None:
        replica = self.slave_store.replica
        if follows & 1:
            while (view := self.store.log_view(replica.end, 1 << 20)) is not None:
                replica.append(replica.end, bytes(view))
                replica.dispatch()
        if follows & 2:
            check = self.timers.checkpoint()
            assert check is not None
            self.slave.take_over(check)

    def ask(self, answer: int, _: int) -> None:
        """How other masters answer from now on."""
        self.answer = answer

    def die(self, _: int, __: int) -> None:
        if not self.is_up:
            return
        self.store.commit_pending()
        self.acknowledged |= {number for number, sent in self.sent.items() if sent.end <= self.slave_store.replica.end}
        self.store._flusher.stop()
        self.fs = self.fs.after_kill()
        self.is_up = False
        self.slave.start_acting()
        self.changes.append(Change(self.clock.now, self.slave._from_ms))

    def back(self, asks: int, _: int) -> None:
        """The master is back, and asks its slave (1), or hears nothing of it."""
        if self.is_up:
            return
        self.open()
        if asks:
            check = self.slave.checkpoint()
            assert check is not None
            self.timers.take_over(check, self.slave.checkpoint_extension())
        self.slave.stop_acting()
        self.is_up = True
        self.backs.append(Change(self.clock.now, self.slave_is_past() if asks else 0))

    def outage(self, milliseconds: int, answer: int) -> None:
        """The master is away for some time, and others answer so meanwhile."""
        self.die(0, 0)
        self.answer = answer
        self.rest(milliseconds, 0)
        self.back(1, 0)

    def slave_is_past(self) -> int:
        more = self.slave.checkpoint_extension()
        return 0 if more is None or more.delivered_before is None else more.delivered_before

    def restart_slave(self, _: int, __: int) -> None:
        acts, check = not self.is_up, self.slave.checkpoint()
        assert check is not None
        self.slave.stop_acting()
        self.slave.close()
        self.slave_store.close()
        self._open_slave()
        if acts:
            self.slave.start_acting()
            self.changes.append(Change(self.clock.now, self.slave._from_ms))

    # -- others

    def hand_on(self) -> None:
        while True:
            now = self.clock.now
            entries = self.slave.due(now, 5)
            for entry in [*entries, *self.slave.untaken()]:
                self.hand_on_one(entry, now)
            if len(entries) < 5 or self.answer == SILENT:
                return

    def hand_on_one(self, entry: TimerEntry, now: int) -> None:
        message = self.slave.escaped_message(entry, now)
        if message is None:
            self.slave.mark_taken(entry, None, now)
        elif self.answer == REFUSES:
            self.slave.mark_untaken(entry, now + 1_000)
        else:
            number = self.other_takes(message)
            if self.answer == SILENT:
                self.doubtful.add(number)
                self.slave.put_back([entry])
            else:
                self.slave.mark_taken(entry, "T", now)

    def other_takes(self, message: EscapedMessage) -> int:
        properties = decode_properties(message.record.properties)
        number = int(message.record.body)
        if Property.TIMER_OUT_MS in properties:
            self.others.append(Delivery(number, self.clock.now))
        else:
            self.waiting.append((int(properties[Property.TIMER_DELIVER_MS]), number))
        return number

    # -- the end

    def finish(self) -> list[Delivery]:
        self.answer = TAKES
        self.rest(STEP_MS, 0)
        self.back(1, 0)
        self.acknowledged |= self.sent.keys()
        self.rest(LONGEST_MS + 3_000, 3)
        found = read_queue(self.store, topic="T")
        self.slave.close()
        self.slave_store.close()
        self.timers.close()
        self.store.close()
        mine = [Delivery(int(m.body), int(m.properties[Property.TIMER_DEQUEUE_MS])) for m in found]
        return sorted(mine + self.others, key=lambda one: one.at_ms)

    def check(self, deliveries: list[Delivery]) -> None:
        times: dict[int, list[int]] = {}
        for number, at_ms in deliveries:
            assert at_ms >= self.sent[number].due_ms, "delivered early"
            times.setdefault(number, []).append(at_ms)
        assert self.sent.keys() <= times.keys(), "lost"
        for number, at in times.items():
            for before in at[:-1]:
                assert number in self.doubtful or self.may_come_again(number, before), "twice"

    def may_come_again(self, number: int, before_ms: int) -> bool:
        """Whether it had come in the time that was not told when the master went, or when it came back."""
        changes = self.changes + self.backs
        return (self.sent[number].rolls and bool(changes)) or any(
            change.from_ms <= before_ms <= change.at_ms for change in changes
        )


sends = st.tuples(st.just("send"), st.integers(1, LONGEST_MS), st.integers(1, 12))
step = st.one_of(
    sends, sends, st.tuples(st.just("rest"), st.integers(1, 4_000), st.sampled_from([3, 3, 3, 1, 2, 0])),
    st.tuples(st.just("outage"), st.integers(1, LONGEST_MS), st.sampled_from([TAKES, TAKES, REFUSES, SILENT])),
    st.tuples(st.just("die"), st.just(0), st.just(0)),
    st.tuples(st.just("back"), st.sampled_from([1, 1, 0]), st.just(0)),
    st.tuples(st.just("ask"), st.sampled_from([TAKES, TAKES, REFUSES, SILENT]), st.just(0)),
    st.tuples(st.just("restart_slave"), st.just(0), st.just(0)),
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(script=st.lists(step, max_size=25))
def test_no_timer_is_lost_or_early_whoever_is_there(script: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    pair.run(script)
    pair.check(pair.finish())
