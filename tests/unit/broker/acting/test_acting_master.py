"""What a slave hands on while it acts for its master, and that the master finds out how far it got."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from rocketmq_py.broker.acting.acting_master import ActingMaster
from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.core.pop.inflight import InflightPop
from rocketmq_py.errors import NoRouteError, RocketMQError
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, revive_topic
from rocketmq_py.store import NewRecord
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.pop.pop_client import REVIVE_MS, make_topic, put, take
from tests.unit.broker.requests import send
from tests.unit.broker.workers import WithoutThreads

REVIVE = revive_topic("DefaultCluster")
QUEUE = 3


class Others:
    """Masters of other names: they take what comes, but for topics that none of them has."""

    def __init__(self) -> None:
        self.took: list[NewRecord] = []
        self.closed: set[str] = set()

    async def put(self, record: NewRecord) -> None:
        if record.topic in self.closed:
            raise NoRouteError(f"no master has topic {record.topic}")
        self.took.append(record)

    def close(self) -> None:
        """Nothing is open."""


class Acting:
    """A slave on the directory of its master, which has gone, and what it hands on."""

    def __init__(self, slave: InProcess) -> None:
        s = slave.services
        self.slave, self.others = slave, Others()
        self.master = ActingMaster(
            slave.config,
            cast("EscapeBridge", self.others),
            s.delay,
            s.transactions,
            s.transaction_check,
            s.pop,
            None,
            slave.clock,
        )
        assert s.role.update_smallest_id(1, "127.0.0.1:10911")

    def popped(self) -> int:
        return asyncio.run(self.master._popped(self.slave.now))

    def delayed(self) -> int:
        return asyncio.run(self.master._delayed(self.slave.now))

    def progress(self) -> int:
        return self.slave.services.offsets.query(REVIVE_GROUP, REVIVE, QUEUE)


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    with broker(tmp_path) as master:
        make_topic(master)
        client = master.connect()
        master.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        put(client, b"one", b"two", b"three")
        for _ in range(3):
            assert take(client, max_msg_nums=1)
        for topic, level in (("t", 1), ("u", 1), ("t", 2)):
            delayed = send(topic, properties={"DELAY": str(level)}, default_topic_queue_nums=1)
            assert client.ask(Code.SEND_MESSAGE_V2, delayed, b"delayed").code == 0
    with broker(tmp_path, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as slave:
        yield Acting(slave)


def test_popped_messages_are_handed_on_when_they_are_due(acting: Acting) -> None:
    assert acting.popped() == 0
    acting.slave.now += REVIVE_MS
    assert acting.popped() == 3
    assert sorted(record.body for record in acting.others.took) == [b"one", b"three", b"two"]
    assert {record.topic for record in acting.others.took} == {"%RETRY%g_t"}
    assert acting.popped() == 0


def test_the_master_finds_out_which_pops_were_handed_on(acting: Acting) -> None:
    before = acting.progress()
    acting.slave.now += REVIVE_MS
    acting.popped()
    assert acting.progress() > before
    assert acting.progress() == acting.slave.services.store.queue_range(REVIVE, QUEUE)[1] - 1


def test_pops_that_nobody_takes_are_tried_again_later(acting: Acting) -> None:
    acting.slave.now += REVIVE_MS
    acting.others.closed.add("%RETRY%g_t")
    with pytest.raises(NoRouteError):
        acting.popped()
    acting.others.closed.clear()
    acting.slave.now += 900
    assert acting.popped() == 0
    acting.slave.now += 1_100  # due times are rounded up to a second
    assert acting.popped() == 3


def test_a_pop_whose_messages_are_unreachable_is_tried_again(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[InflightPop] = []
    fetcher = acting.slave.services.pop.remote_fetcher

    async def read(_: InflightPop) -> tuple[dict[int, bytes | None], RocketMQError | None]:
        return {}, NoRouteError("unknown")

    monkeypatch.setattr(fetcher, "read", read)
    monkeypatch.setattr(fetcher, "try_again", lambda one, _: tried.append(one))
    acting.slave.now += REVIVE_MS
    acting.popped()
    assert len(tried) == 3
    assert acting.others.took == []


def test_delayed_messages_are_handed_on_when_their_level_is_due(acting: Acting) -> None:
    delay = acting.slave.services.delay
    assert acting.delayed() == 0
    acting.slave.now += 1_000
    assert acting.delayed() == 2
    assert [(record.topic, record.body) for record in acting.others.took] == [("t", b"delayed"), ("u", b"delayed")]
    assert (delay.offsets.get(1), delay.offsets.get(2, 0)) == (2, 0)
    acting.slave.now += 4_000
    assert acting.delayed() == 1
    assert (delay.offsets.get(1), delay.offsets.get(2)) == (2, 1)


def test_a_topic_that_nobody_takes_stops_its_level_only(acting: Acting) -> None:
    acting.others.closed.add("u")
    acting.slave.now += 5_000
    with pytest.raises(NoRouteError, match="topic u"):
        acting.delayed()
    assert [record.topic for record in acting.others.took] == ["t", "t"]
    assert acting.slave.services.delay.offsets.get(1) == 1, "the second waits"
    acting.others.closed.clear()
    assert acting.delayed() == 1
    assert acting.slave.services.delay.offsets.get(1) == 2


async def test_what_the_master_did_with_transactions_is_read_before_any_is_handed_on(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting.slave.config.enable_remote_escape = True
    done: list[str] = []
    begun = asyncio.Event()

    async def halves(_: int) -> int:
        done.append("halves")
        begun.set()
        return 0

    monkeypatch.setattr(acting.slave.services.transactions, "load", lambda: done.append("load"))
    monkeypatch.setattr(acting.master, "_halves", halves)
    acting.master._acting_changed(True)
    async with asyncio.timeout(10):
        await begun.wait()
    await acting.master.stop()
    await acting.master.stop()
    assert done[:2] == ["load", "halves"]
    assert not acting.master._work.runs


async def test_a_failure_is_logged_until_it_is_over(caplog: pytest.LogCaptureFixture, acting: Acting) -> None:
    answers: list[int | RocketMQError] = [NoRouteError("nobody"), NoRouteError("nobody"), 2, 0]

    async def part(_: int) -> int:
        found = answers.pop(0)
        if isinstance(found, RocketMQError):
            raise found
        return found

    with caplog.at_level(logging.WARNING, "rocketmq_py.broker.acting.acting_master"):
        assert [await acting.master._try("things", part) for _ in range(4)] == [None, None, 2, 0]
    assert [record.getMessage() for record in caplog.records] == [
        "things wait, no other master accepts them: nobody",
        "other masters accept things again",
    ]


# -- transactions


def half(running: InProcess, *bodies: bytes) -> None:
    client = running.connect()
    for body in bodies:
        header = send("t", properties={"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": body.decode()}, sys_flag=4)
        assert client.ask(Code.SEND_MESSAGE_V2, header, body).code == 0


@pytest.fixture
def with_halves(tmp_path: Path) -> Iterator[Acting]:
    """Three open half messages that the master has left."""
    with broker(tmp_path) as master:
        half(master, b"one", b"two", b"three")
    with broker(tmp_path, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as slave:
        yield Acting(slave)


async def test_open_half_messages_are_handed_on_once_in_an_interval(with_halves: Acting) -> None:
    subject, slave, took = with_halves.master, with_halves.slave, with_halves.others.took
    subject._round_ms = slave.now
    assert await subject._halves(slave.now + 29_999) == 0
    assert took == []
    assert await subject._halves(slave.now + 30_000) == 3
    assert [record.body for record in took] == [b"one", b"two", b"three"]
    assert {record.topic for record in took} == {"t"}
    assert slave.services.offsets.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0) == 3
    assert await subject._halves(slave.now + 59_999) == 0
    assert await subject._halves(slave.now + 60_000) == 0, "none is left"
    assert len(took) == 3


async def test_a_half_message_that_nobody_takes_comes_first_in_the_next_round(with_halves: Acting) -> None:
    subject, slave, others = with_halves.master, with_halves.slave, with_halves.others
    put, count = others.put, 0

    async def once(record: NewRecord) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise NoRouteError("nobody")
        await put(record)

    others.put = once  # type: ignore[method-assign]
    with pytest.raises(NoRouteError):
        await subject._halves(slave.now + 30_000)
    assert await subject._halves(slave.now + 30_000) == 2, "not only after another interval"
    assert [record.body for record in others.took] == [b"one", b"two", b"three"]


async def test_a_half_message_that_cannot_be_read_is_passed_over(
    with_halves: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_halves.slave.services.store
    read = store.record_at_queue
    monkeypatch.setattr(store, "record_at_queue", lambda topic, queue, at: None if at == 0 else read(topic, queue, at))
    assert await with_halves.master._halves(with_halves.slave.now + 30_000) == 3
    assert [record.body for record in with_halves.others.took] == [b"two", b"three"]


# -- begin and end


class Round:
    """Parts whose answers a test gives: numbers, or errors that are raised."""

    def __init__(self, subject: ActingMaster, monkeypatch: pytest.MonkeyPatch, *answers: int | RocketMQError) -> None:
        self.times: list[float] = []
        self._answers = list(answers)

        async def first(_: int) -> int:
            self.times.append(asyncio.get_running_loop().time())
            answer = self._answers.pop(0) if self._answers else 0
            if isinstance(answer, RocketMQError):
                raise answer
            return answer

        async def nothing(_: int) -> int:
            return 0

        monkeypatch.setattr(subject, "_delayed", first)
        for name in ("_popped", "_halves"):
            monkeypatch.setattr(subject, name, nothing)

    def waits(self) -> list[float]:
        return [round(after - before, 1) for before, after in itertools.pairwise(self.times)]


@pytest.fixture
def threadless(tmp_path: Path) -> Iterator[Acting]:
    """A thread could wake the loop, which then would really wait."""
    slave = {"broker_role": "SLAVE", "broker_id": 1, "enable_slave_acting_master": True}
    with broker(tmp_path, workers=WithoutThreads(), **slave) as running:
        yield Acting(running)


async def test_rounds_follow_each_other_while_there_is_something_to_send(
    threadless: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise ten a second; one a second while nobody takes what is sent."""
    acting = threadless
    acting.slave.config.enable_remote_escape = True
    rounds = Round(acting.master, monkeypatch, 5, 1, 0, NoRouteError("nobody"), NoRouteError("nobody"), 0)
    monkeypatch.setattr(acting.slave.services.transactions, "load", lambda: None)
    acting.master._acting_changed(True)
    await asyncio.sleep(3)
    assert rounds.waits()[:7] == [0.0, 0.0, 0.1, 1.0, 1.0, 0.1, 0.1]
    acting.master._acting_changed(False)
    await asyncio.sleep(0.3)
    count = len(rounds.times)
    await asyncio.sleep(1)
    assert len(rounds.times) == count
    await acting.master.stop()


async def test_without_the_setting_nothing_is_handed_on(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Round(acting.master, monkeypatch)
    acting.master._acting_changed(True)
    await asyncio.sleep(0.01)
    assert rounds.times == []
    assert not acting.master._work.runs
    await acting.master.stop()


def test_a_slave_that_begins_to_act_tells_it(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    role = acting.slave.services.role
    heard: list[bool] = []
    monkeypatch.setattr(acting.master, "_acting_changed", heard.append)
    acting.master.watch(role)
    role.update_smallest_id(0, "127.0.0.1:10911")
    role.update_smallest_id(1, "127.0.0.1:10911")
    assert heard == [False, True]


async def test_a_stop_closes_the_connections(acting: Acting) -> None:
    closed: list[int] = []
    acting.others.close = lambda: closed.append(1)  # type: ignore[method-assign]
    await acting.master.stop()
    assert closed == [1]


def test_timed_messages_are_handed_on_beside_the_others(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []

    class Timers:
        async def run(self) -> None:
            began.append("timers")

    async def run() -> None:
        began.append("others")

    async def work() -> None:
        acting.slave.config.enable_remote_escape = True
        monkeypatch.setattr(acting.master, "_timers", Timers())
        monkeypatch.setattr(acting.master, "_run", run)
        acting.master._acting_changed(True)
        await asyncio.sleep(0.01)

    asyncio.run(work())
    assert sorted(began) == ["others", "timers"]
