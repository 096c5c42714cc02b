"""Timers of a slave that acts for its master, with clock, master and the other masters in the test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.acting import timer_escape
from rocketmq_py.broker.acting.timer_escape import TimerEscape
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.broker.timer.slave_timers import SlaveTimers
from rocketmq_py.errors import BrokerError, NoRouteError
from rocketmq_py.properties import Property, decode_properties, encode_properties
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import NewRecord
from rocketmq_py.store.timer.timer_wheel import progress
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.broker.timer.test_timers import delivered, pass_time, timed

SMALL_LOG = {"mapped_file_size_timer_log": 1 << 16}
CHECKPOINT, RECALL = 60, 370


class Others(EscapeBridge):
    """Masters of other names: they take what comes, but for topics that are closed.

    :ivar took: what they have got, and when.
    """

    def __init__(self, running: InProcess) -> None:
        super().__init__(running.config, RpcClient(), running.clock)
        self._running = running
        self.took: list[tuple[str, int]] = []
        self.records: list[NewRecord] = []
        self.closed: set[str] = set()
        self.refused: set[bytes] = set()
        self.silent = asyncio.Event()
        self.silent.set()

    async def put(self, record: NewRecord, key: str | None = None) -> None:
        await self.silent.wait()
        if record.topic in self.closed:
            raise NoRouteError(f"no master has topic {record.topic}")
        if record.body in self.refused:
            raise BrokerError.of(13, "it is illegal", "127.0.0.1:1")
        self.took.append((record.body.decode(), self._running.now))
        self.records.append(record)


def exchange_timer_files(root: Path, mine: str, theirs: str) -> None:
    """Log and tables are a master's and its slave's; each has written its own timer files."""
    for path in (root / "timerwheel", root / "timerlog", root / "config" / "timercheck"):
        if path.exists():
            path.rename(f"{path}.{theirs}")
        kept = Path(f"{path}.{mine}")
        if kept.exists():
            kept.rename(path)


class Slave(InProcess):
    """A slave on the directory of a master that has gone, as replication would have left it."""

    def __init__(self, root: Path, now: int, check: bytes, **config: object) -> None:
        self.timers: SlaveTimers
        exchange_timer_files(root, "slave", "master")
        super().__init__(
            root, SMALL_LOG | {"timer_roll_window_slot": 20}, now, broker_role="SLAVE", broker_id=1,
            enable_slave_acting_master=True, **config,
        )  # fmt: skip
        assert isinstance(self.services.timers, SlaveTimers)
        self.timers = self.services.timers
        self.timers.take_over(check)
        self.others = Others(self)
        log = self.services.pop.revive_log
        assert isinstance(log, SlaveReviveLog)
        self.escape = TimerEscape(self.timers, self.others, log, self.clock)

    def pass_time(self, milliseconds: int, step: int = 50) -> None:
        until = self.now + milliseconds
        while self.now < until:
            self.step(min(step, until - self.now))

    def step(self, forward_ms: int = 0) -> None:
        self.turn(forward_ms)
        while asyncio.run(self.escape.send_due(self.now)):
            pass
        self.turn()

    def told(self) -> tuple[tuple[int, int], TimerCheckPointResponse]:
        answer = self.connect().ask(CHECKPOINT)
        return progress(answer.body), TimerCheckPointResponse.from_ext(answer.ext)


def master(root: Path, now: int = START_MS) -> InProcess:
    return InProcess(root, SMALL_LOG | {"timer_roll_window_slot": 20}, now, recall_message_enable=True)


def ended(running: InProcess) -> bytes:
    """What a master told its slave last, and it ends."""
    running.turn()
    check = running.services.timers.checkpoint()
    assert check is not None
    running.services.close()
    return check


def taken_back(root: Path, slave: Slave) -> InProcess:
    """The master is back, and has asked."""
    answer = slave.connect().ask(CHECKPOINT)
    slave.timers.stop_acting()
    slave.services.close()
    exchange_timer_files(root, "master", "slave")
    again = master(root, slave.now)
    again.services.timers.take_over(answer.body, TimerCheckPointResponse.from_ext(answer.ext))
    return again


def test_due_messages_are_sent_to_other_masters(tmp_path: Path) -> None:
    running = master(tmp_path)
    due = {"a": 500, "b": 1_500, "c": 2_900, "d": 19_000}
    for name, after in due.items():
        timed(running, name, after, TAGS="red")
    pass_time(running, 800)
    assert delivered(running) == ["a"]
    slave = Slave(tmp_path, running.now, ended(running))
    slave.pass_time(20)
    assert slave.others.took == []
    slave.timers.start_acting()
    waiting, given = slave.timers.metrics.total, slave.timers.dequeued.count
    slave.pass_time(19_000, 20)
    assert (waiting - slave.timers.metrics.total, slave.timers.dequeued.count - given) == (4, 4)
    assert [name for name, _ in slave.others.took] == ["a", "b", "c", "d"], "a came in the second it was last told of"
    assert all(START_MS + due[name] <= at < START_MS + due[name] + 20 for name, at in slave.others.took[1:])
    assert slave.services.store.queue_range("t", 0) == (0, 1), "nothing is stored here"
    told = decode_properties(slave.others.records[1].properties)
    assert (told["TIMER_OUT_MS"], told["TAGS"]) == (str(START_MS + 1_000), "red")
    slave.pass_time(2_000)
    (read_ms, offset), _ = slave.told()
    assert (read_ms, offset) == (slave.now // 1_000 * 1_000, 4)
    again = taken_back(tmp_path, slave)
    pass_time(again, 30_000)
    assert delivered(again) == ["a"]
    again.services.close()


def test_an_untaken_topic_does_not_delay_others(tmp_path: Path) -> None:
    """It is named to a master of this project; a Java broker would begin with its slot."""
    running = master(tmp_path)
    for name, topic in (("a", "t"), ("u", "closed"), ("v", "closed"), ("no", "t"), ("b", "t")):
        timed(running, name, 1_500, topic)
    timed(running, "c", 4_500)
    slave = Slave(tmp_path, running.now, ended(running))
    slave.others.closed, slave.others.refused = {"closed"}, {b"no"}
    slave.timers.start_acting()
    slave.pass_time(6_000)
    assert [name for name, _ in slave.others.took] == ["a", "b", "c"]
    (read_ms, _), more = slave.told()
    assert (read_ms, more.delivered_before, more.waiting) == (START_MS + 1_000, START_MS + 6_000, "1,2,3")
    slave.others.refused.clear()
    slave.pass_time(1_000)
    (read_ms, _), more = slave.told()
    assert (read_ms, more.waiting) == (START_MS + 1_000, "1,2")
    again = taken_back(tmp_path, slave)
    pass_time(again, 10_000)
    assert (delivered(again), delivered(again, "closed")) == ([], ["u", "v"])
    again.services.close()


def test_untaken_messages_are_sent_later(tmp_path: Path) -> None:
    running = master(tmp_path)
    timed(running, "u", 1_500, "closed")
    slave = Slave(tmp_path, running.now, ended(running))
    slave.others.closed = {"closed"}
    slave.timers.start_acting()
    slave.pass_time(5_000)
    slave.others.closed = set()
    slave.pass_time(1_000)
    assert [name for name, _ in slave.others.took] == ["u"]
    (read_ms, _), more = slave.told()
    assert (read_ms, more.waiting) == (START_MS + 6_000, "")
    slave.timers.stop_acting()
    slave.services.close()


def test_very_many_untaken_messages_hold_the_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are named wait apart; of the others, none is forgotten."""
    monkeypatch.setattr("rocketmq_py.core.timer.progress.UndeliveredEntries.__init__.__defaults__", (3,))
    running = master(tmp_path)
    for number in range(8):
        timed(running, str(number), 1_500, "closed")
    slave = Slave(tmp_path, running.now, ended(running))
    slave.others.closed = {"closed"}
    slave.timers.start_acting()
    slave.pass_time(5_000)
    (_, _), more = slave.told()
    assert more.delivered_before == START_MS + 1_000
    slave.others.closed = set()
    slave.pass_time(2_100)
    assert sorted(name for name, _ in slave.others.took) == [str(number) for number in range(8)]
    slave.timers.stop_acting()
    slave.services.close()


def test_messages_the_slave_lacked_are_delivered_by_the_master(tmp_path: Path) -> None:
    """It was stored before the master died, and had not been sent to the slave."""
    running = master(tmp_path)
    timed(running, "a", 1_500)
    check = running.services.timers
    running.turn()
    told = check.checkpoint()
    assert told is not None
    behind = progress(told)
    timed(running, "unseen", 1_500)
    running.turn()
    running.services.close()
    again = master(tmp_path, running.now + 60_000)
    more = TimerCheckPointResponse(delivered_before=again.now, waiting="", acted_from=START_MS)
    again.services.timers.take_over(told, more)
    assert behind[1] == 1
    pass_time(again, 1_000)
    assert delivered(again) == ["unseen"]
    again.services.close()


def test_messages_newer_than_the_checkpoint_are_sent(tmp_path: Path) -> None:
    """A message is in the log, and the master has not said that it has an entry for it: its time is over already."""
    running = master(tmp_path)
    timed(running, "a", 1_500)
    running.turn()
    check = running.services.timers.checkpoint()
    assert check is not None
    timed(running, "b", 200)
    running.turn()
    running.services.close()
    slave = Slave(tmp_path, running.now + 10_000, check)
    slave.timers.start_acting()
    slave.pass_time(100)
    assert sorted(name for name, _ in slave.others.took) == ["a", "b"]
    slave.timers.stop_acting()
    slave.services.close()


def test_messages_of_the_next_round_wait_at_another_broker(tmp_path: Path) -> None:
    running = master(tmp_path)
    timed(running, "far", 65_500, mine="kept")
    timed(running, "near", 25_500)
    slave = Slave(tmp_path, running.now, ended(running))
    slave.timers.start_acting()
    slave.pass_time(24_000)
    assert sorted(name for name, _ in slave.others.took) == ["far", "near"], "they wait there"
    for record in slave.others.records:
        told = decode_properties(record.properties)
        due = START_MS + (65_500 if record.body == b"far" else 25_500)
        assert told == {
            "TIMER_DELIVER_MS": str(due), "UNIQ_KEY": record.body.decode(),
            **({"mine": "kept"} if record.body == b"far" else {}),
            **{name: text for name, text in told.items() if name in ("MSG_REGION", "TRACE_ON", "CLUSTER", "WAIT")},
        }  # fmt: skip
        assert record.topic == "t"
    again = taken_back(tmp_path, slave)
    pass_time(again, 60_000)
    assert delivered(again) == [], "they were given away"
    again.services.close()


def test_messages_of_the_masters_next_round_are_not_missed(tmp_path: Path) -> None:
    """Its slot was over when the slave was told, but the master may not have come to it."""
    running = master(tmp_path)
    timed(running, "far", 65_500)
    pass_time(running, 19_500)
    slave = Slave(tmp_path, running.now, ended(running))
    slave.pass_time(100)
    (read_ms, offset), _ = slave.told()
    slave.timers.take_over(told_as(slave, read_ms + 3_000, offset))
    slave.timers.start_acting()
    slave.pass_time(5_000)
    assert [name for name, _ in slave.others.took] == ["far"]
    slave.timers.stop_acting()
    slave.services.close()


def test_the_checkpoint_excludes_unread_slots(tmp_path: Path) -> None:
    """The slave has begun to act, and nobody has taken anything yet: the master that is back does it all."""
    running = master(tmp_path)
    timed(running, "far", 24_500)
    running.turn(1_999)
    timed(running, "near", 22_501)
    pass_time(running, 17_000)
    slave = Slave(tmp_path, running.now, ended(running))
    slave.pass_time(100)
    (_, offset), _ = slave.told()
    slave.timers.take_over(told_as(slave, slave.now // 1_000 * 1_000, offset))
    slave.timers.start_acting()
    slave.turn()
    assert slave.told()[1] == TimerCheckPointResponse()
    again = taken_back(tmp_path, slave)
    pass_time(again, 10_000)
    assert sorted(delivered(again)) == ["far", "near"]
    again.services.close()


def told_as(slave: Slave, read_ms: int, offset: int) -> bytes:
    """A checkpoint that says so."""
    check = slave.connect().ask(CHECKPOINT).body
    return read_ms.to_bytes(8, "big") + check[8:24] + offset.to_bytes(8, "big") + check[32:]


def test_a_recalled_message_is_not_sent(tmp_path: Path) -> None:
    running = master(tmp_path)
    handles = {name: timed(running, name, 15_000)["recallHandle"] for name in ("a", "b")}
    assert running.connect().ask(RECALL, RecallMessage(topic="t", recall_handle=handles["b"])).code == 0
    slave = Slave(tmp_path, running.now, ended(running))
    slave.timers.start_acting()
    slave.pass_time(17_000)
    assert [name for name, _ in slave.others.took] == ["a"]
    (read_ms, _), _ = slave.told()
    assert read_ms == slave.now // 1_000 * 1_000
    slave.timers.stop_acting()
    slave.services.close()


def test_a_recall_goes_to_the_broker_of_its_message(tmp_path: Path) -> None:
    running = master(tmp_path)
    recall = timed(running, "far", 65_500)["recallHandle"]
    assert running.connect().ask(RECALL, RecallMessage(topic="t", recall_handle=recall)).code == 0
    slave = Slave(tmp_path, running.now, ended(running))
    keys: list[str | None] = []
    put = slave.others.put

    async def noted(record: NewRecord, key: str | None = None) -> None:
        keys.append(key)
        await put(record, key)

    slave.others.put = noted  # type: ignore[method-assign]
    slave.timers.start_acting()
    slave.pass_time(24_000)
    assert keys == ["far", "far"]
    assert [Property.TIMER_DEL_UNIQKEY in decode_properties(one.properties) for one in slave.others.records] == [
        False, True,
    ]  # fmt: skip
    slave.timers.stop_acting()
    slave.services.close()


@pytest.mark.parametrize("killed", [False, True])
def test_a_restarted_slave_sends_the_rest(tmp_path: Path, *, killed: bool) -> None:
    """Others' messages are marked, those nobody takes are not."""
    running = master(tmp_path)
    for name, after in (("a", 1_100), ("b", 1_200), ("c", 1_900), ("u", 1_100)):
        timed(running, name, after, "closed" if name == "u" else "t")
    slave = Slave(tmp_path, running.now, ended(running))
    slave.others.closed = {"closed"}
    slave.timers.start_acting()
    slave.pass_time(1_500)
    assert [name for name, _ in slave.others.took] == ["a", "b"]
    check = slave.timers.checkpoint()
    assert check is not None
    if killed:
        slave.timers._files = None
        slave.services.store.close()
        (tmp_path / "abort").write_text("")
    else:
        slave.timers.stop_acting()
        slave.services.close()
    exchange_timer_files(tmp_path, "none", "slave")
    again = Slave(tmp_path, slave.now, check)
    again.timers.start_acting()
    again.pass_time(1_500)
    assert sorted(name for name, _ in again.others.took) == ["c", "u"]
    again.timers.stop_acting()
    again.services.close()


def test_messages_in_transit_at_a_stop_are_sent_again(tmp_path: Path) -> None:
    running = master(tmp_path)
    timed(running, "a", 1_500)
    slave = Slave(tmp_path, running.now, ended(running))

    async def scenario() -> None:
        slave.others.silent = asyncio.Event()
        task = asyncio.create_task(slave.escape.run())
        await asyncio.sleep(0)
        slave.turn(2_000)
        await until(lambda: bool(slave.escape._under_way))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    (read_ms, _), _ = slave.told()
    assert read_ms == START_MS + 1_000
    slave.others.silent = asyncio.Event()
    slave.others.silent.set()
    slave.timers.start_acting()
    slave.step()
    assert [name for name, _ in slave.others.took] == ["a"]
    slave.timers.stop_acting()
    slave.services.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


def test_the_slave_checkpoint_stays_until_a_master_asks(tmp_path: Path) -> None:
    """It ends to act, and begins again: what was handed on is not handed on again."""
    running = master(tmp_path)
    timed(running, "a", 1_500)
    timed(running, "b", 3_500)
    slave = Slave(tmp_path, running.now, ended(running))
    slave.timers.start_acting()
    slave.pass_time(2_500)
    slave.timers.stop_acting()
    slave.pass_time(500)
    slave.timers.start_acting()
    slave.pass_time(2_000)
    assert [name for name, _ in slave.others.took] == ["a", "b"]
    slave.timers.stop_acting()
    slave.services.close()


# -- the decisions alone, with timers in memory


class Timers:
    """In the place of the slave's timers: entries are names, messages are found by them."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.waiting: list[str] = []
        self.messages: dict[str, Any] = {}
        self.asked: list[tuple[int, int]] = []
        self.taken: list[tuple[str, str | None, int]] = []
        self.untaken_until: list[tuple[str, int]] = []
        self.back: list[set[str]] = []
        self.states: list[str] = []

    def due(self, now: int, most: int) -> list[str]:
        self.asked.append((now, most))
        due, self.entries = self.entries[:most], self.entries[most:]
        return due

    def untaken(self) -> list[str]:
        return list(self.waiting)

    def escaped_message(self, entry: str, now: int) -> Any:
        return self.messages[entry]

    def mark_taken(self, entry: str, topic: str | None, now: int) -> None:
        self.waiting = [one for one in self.waiting if one != entry]
        self.taken.append((entry, topic, now))

    def mark_untaken(self, entry: str, until: int) -> None:
        if entry not in self.waiting:
            self.waiting.append(entry)
        self.untaken_until.append((entry, until))

    def put_back(self, entries: set[str]) -> None:
        self.back.append(set(entries))

    def start_acting(self) -> None:
        self.states.append("acts")

    def stop_acting(self) -> None:
        self.states.append("stops")


class Bench:
    """Names of messages begin with their topic: ``t1``. ``failures``: what masters raise, by topic or name."""

    def __init__(self) -> None:
        self.now = START_MS
        self.timers = Timers()
        self.failures: dict[str, Exception] = {}
        self.put_names: list[tuple[str, str | None]] = []
        self.applied: list[tuple[str, bytes, int]] = []
        self.is_done = True
        subject: Any = TimerEscape
        self.escape: TimerEscape = subject(
            self.timers, SimpleNamespace(put=self.put),
            SimpleNamespace(topic="revive", apply_timer_entry=self.apply), lambda: self.now,
        )  # fmt: skip

    async def put(self, record: Any, key: str | None) -> None:
        name = record.body.decode()
        self.put_names.append((name, key))
        await asyncio.sleep(0)
        failure = self.failures.get(name) or self.failures.get(record.topic)
        if failure is not None:
            raise failure

    def apply(self, tag: str, body: bytes, offset: int) -> bool:
        self.applied.append((tag, body, offset))
        return self.is_done

    def due(self, *names: str, topic: str | None = None) -> None:
        for name in names:
            record = NewRecord(topic or name[0], 0, name.encode(), encode_properties({"TAGS": "ck"}))
            self.timers.messages[name] = SimpleNamespace(record=record, key=f"key of {name}", queue_offset=7)
            self.timers.entries.append(name)

    def send(self) -> bool:
        return asyncio.run(self.escape.send_due(self.now))

    def taken(self) -> list[str]:
        return sorted(entry for entry, *_ in self.timers.taken)


def test_due_messages_are_sent_with_their_keys_and_marked() -> None:
    bench = Bench()
    bench.due("t1", "t2", "u1")
    assert bench.send() is False
    assert sorted(bench.put_names) == [(name, f"key of {name}") for name in ("t1", "t2", "u1")]
    assert sorted(bench.timers.taken) == [("t1", "t", START_MS), ("t2", "t", START_MS), ("u1", "u", START_MS)]
    assert bench.timers.back == [set()]


def test_a_full_portion_says_that_there_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_escape, "_AT_ONCE", 2)
    bench = Bench()
    bench.due("t1", "t2", "t3")
    assert [bench.send(), bench.send()] == [True, False]
    assert bench.timers.asked == [(START_MS, 2)] * 2
    assert bench.taken() == ["t1", "t2", "t3"]


def test_a_message_that_is_gone_is_done() -> None:
    bench = Bench()
    bench.timers.entries, bench.timers.messages = ["gone"], {"gone": None}
    bench.send()
    assert (bench.timers.taken, bench.put_names) == ([("gone", None, START_MS)], [])


def test_a_topic_that_nobody_has_is_tried_with_one_message_only() -> None:
    bench = Bench()
    bench.failures["t"] = NoRouteError("nobody has t")
    bench.due("t1", "t2", "t3", "u1")
    bench.send()
    assert sorted(name for name, _ in bench.put_names) == ["t1", "u1"]
    assert bench.taken() == ["u1"]
    assert sorted(bench.timers.untaken_until) == [
        (name, START_MS + timer_escape._RETRY_MS) for name in ("t1", "t2", "t3")
    ]  # fmt: skip


def test_a_message_that_is_refused_does_not_stop_the_others() -> None:
    bench = Bench()
    bench.failures["t1"] = BrokerError.of(13, "illegal")
    bench.due("t1", "t2", "t3")
    bench.send()
    assert (bench.taken(), [name for name, _ in bench.timers.untaken_until]) == (["t2", "t3"], ["t1"])


def test_messages_that_wait_are_tried_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.failures["t"] = NoRouteError("nobody has t")
    bench.due("t1")
    bench.send()
    bench.now += timer_escape._RETRY_MS - 1
    bench.send()
    assert len(bench.put_names) == 1
    bench.now += 1
    bench.send()
    assert len(bench.put_names) == 2
    bench.failures.clear()
    bench.now += timer_escape._RETRY_MS
    bench.send()
    assert bench.taken() == ["t1"]
    bench.send()
    assert caplog.messages == [
        "timed messages wait, no other master accepts them: nobody has t",
        "other masters accept all timed messages again",
    ]


def test_it_is_not_over_while_a_message_waits(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.failures["t"] = NoRouteError("nobody has t")
    bench.due("t1", "u1")
    bench.send()
    bench.due("u2")
    bench.send()
    assert "accept all timed messages again" not in caplog.text


@pytest.mark.parametrize("is_done", [True, False])
def test_entries_of_the_revive_log_are_applied_here(is_done: bool) -> None:
    bench = Bench()
    bench.is_done = is_done
    bench.due("r1", topic="revive")
    bench.send()
    assert (bench.applied, bench.put_names) == ([("ck", b"r1", 7)], [])
    assert bool(bench.timers.taken) is is_done
    assert bool(bench.timers.untaken_until) is not is_done


def test_what_is_under_way_when_it_ends_is_put_back() -> None:
    bench = Bench()
    bench.due("t1")

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    bench.escape._escape.put = never  # type: ignore[method-assign]

    async def run() -> None:
        task = asyncio.ensure_future(bench.escape.run())
        await asyncio.sleep(0.01)
        assert bench.timers.states == ["acts"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert bench.timers.states == ["acts", "stops"]
    assert bench.timers.back == [{"t1"}]


def test_a_slave_that_acts_again_tries_waiting_messages_at_once() -> None:
    bench = Bench()
    bench.failures["t"] = NoRouteError("nobody has t")
    bench.due("t1")

    async def act() -> None:
        task = asyncio.ensure_future(bench.escape.run())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(act())
    asyncio.run(act())
    assert [name for name, _ in bench.put_names] == ["t1", "t1"]


def test_a_slave_that_restarts_knows_what_its_master_last_told(tmp_path: Path) -> None:
    running = master(tmp_path)
    timed(running, "a", 2_500)
    pass_time(running, 1_200)
    slave = Slave(tmp_path, running.now, ended(running))
    told, _ = slave.told()
    slave.services.close()
    again = InProcess(tmp_path, SMALL_LOG, slave.now, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True)
    check = again.services.timers.checkpoint()
    assert check is not None
    assert progress(check) == told
    assert told[1] == 1
    again.services.close()
