"""The tables of a slave follow its master's; the connection between them is in the test's hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rocketmq_py.broker.ha.slave_sync import SlaveSync, Tables
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ConnectionLost
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.remoting.rpc_client import NewRpcClient
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess
from tests.unit.broker.workers import WithoutThreads

MASTER = "127.0.0.1:10911"
DUE_EVERY = 10.0


async def a_moment() -> None:
    """Let the slave go on: that it has finished is a number, no event."""
    await asyncio.sleep(0.01)


class Link:
    """The slave's connection to its master. ``failure`` answers instead; ``asked``: codes in their order."""

    def __init__(self, master: InProcess) -> None:
        self._client = master.connect()
        self.asked: list[int] = []
        self.failure: dict[int, Exception] = {}
        self.addresses: set[str] = set()
        self.is_closed = False
        self.on_lost: Callable[[str], None] = lambda _: None

    async def ask(self, address: str, command: Command, timeout: float) -> Reply:
        del timeout
        self.addresses.add(address)
        self.asked.append(command.code)
        await asyncio.sleep(0)
        if command.code in self.failure:
            raise self.failure[command.code]
        answer = (await self._client._serve_tasks([command], 1))[0]
        assert answer.code == 0, answer
        fields = msgspec.Raw(msgspec.json.encode(answer.ext))
        return Reply(answer.code, answer.opaque, remark=answer.remark, fields=fields, body=answer.body)

    def close(self) -> None:
        self.is_closed = True


class Following:
    """A slave, its master, and the link between them. ``lost``: how often the name servers were asked for another."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.master = InProcess(root / "master", workers=WithoutThreads())
        self.slave = InProcess(
            root / "slave",
            broker_role="SLAVE",
            broker_id=1,
            slave_sync_interval=int(DUE_EVERY * 1000),
            workers=WithoutThreads(),
            **config,
        )
        self.link = Link(self.master)
        self.lost = 0
        s = self.slave.services
        tables = Tables(s.topics, s.mappings, s.groups, s.offsets, s.delay, s.modes, s.timers)

        def connect(*, on_lost: Callable[[str], None]) -> Link:
            self.link.on_lost = on_lost
            return self.link

        new = cast("NewRpcClient", connect)
        self.sync = SlaveSync(self.slave.config, s.role, tables, new, "127.0.0.1:20911", self._ask_again)

    def close(self) -> None:
        for services in (self.master.services, self.slave.services):
            services.saver.close()
            services.store.close()

    def _ask_again(self) -> None:
        self.lost += 1

    def say(self, master: str | None = MASTER) -> None:
        self.slave.services.role.update_master("name server", master, "127.0.0.1:10912" if master else None)

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def between() -> None:
            self.sync.start()
            try:
                await scenario()
            finally:
                await self.sync.stop()

        asyncio.run(between())

    async def copied(self, times: int = 1) -> None:
        async with asyncio.timeout(100):
            while self.sync.completed < times:
                await a_moment()


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Following]:
    found = Following(tmp_path)
    yield found
    found.close()


def fill(master: InProcess) -> None:
    services = master.services
    services.topics.put([TopicConfig(topic_name="t", read_queue_nums=3)])
    hosted = {0: [MappingItem(gen=0, queue_id=0, bname="broker-a", logic_offset=0)]}
    static = MappingDetail(topic="t", bname="broker-a", total_queues=1, epoch=1, hosted_queues=hosted)
    services.mappings.put(static, "t", force=False)
    services.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=2)])
    services.groups.set_read_forbidden("g", "t", True)
    services.offsets.commit("g", "t", 0, 5, "c")
    services.offsets.commit("g", "t", 2, 7, "c")
    services.delay.commit(3, 11)
    services.modes.take_over(
        MessageRequestModes(message_request_mode_map={"t": {"g": MessageRequestMode(topic="t", consumer_group="g")}})
    )


def test_a_slave_takes_over_every_table(following: Following) -> None:
    fill(following.master)
    following.say()
    following.run(following.copied)
    mine, theirs = following.slave.services, following.master.services
    assert (topic := mine.topics.get("t")) is not None
    assert topic.read_queue_nums == 3
    assert (group := mine.groups.get("g")) is not None
    assert group.retry_queue_nums == 2
    assert mine.groups.is_read_forbidden("g", "t")
    assert [mine.offsets.query("g", "t", queue) for queue in range(3)] == [5, -1, 7]
    assert mine.mappings.table == theirs.mappings.table
    assert mine.mappings.has("t")
    assert mine.delay.offsets[3] == 11
    assert mine.modes.modes == theirs.modes.modes
    assert following.link.addresses == {MASTER}
    assert following.link.is_closed


def test_what_was_taken_over_is_on_disk(following: Following, tmp_path: Path) -> None:
    fill(following.master)
    following.say()
    following.run(following.copied)
    following.slave.services.saver.close()
    config = tmp_path / "slave" / "config"
    assert '"t@g":{\n\t\t\t0:5,\n\t\t\t2:7\n' in (config / "consumerOffset.json").read_text()
    assert "3:11" in (config / "delayOffset.json").read_text()


def test_everything_is_copied_at_once_and_then_at_intervals(following: Following) -> None:
    following.say()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await following.copied()
        assert loop.time() - begin < 1
        fill(following.master)
        await following.copied(2)
        assert DUE_EVERY <= loop.time() - begin < DUE_EVERY + 3.5

    following.run(scenario)
    assert following.slave.services.topics.get("t") is not None
    whole = [Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET,
             Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_MESSAGE_REQUEST_MODE]  # fmt: skip
    assert following.link.asked[:5] == whole
    assert all(following.link.asked.count(code) == 2 for code in whole)


def test_the_timer_checkpoint_is_copied_between_the_intervals(following: Following) -> None:
    following.say()

    async def scenario() -> None:
        await following.copied(2)

    following.run(scenario)
    assert following.link.asked.count(Code.GET_TIMER_CHECK_POINT) >= 4
    assert following.link.asked.count(Code.GET_TIMER_METRICS) == 2


def test_the_timer_checkpoint_is_asked_for_every_three_seconds(following: Following) -> None:
    following.say()

    async def scenario() -> None:
        await following.copied()
        assert following.link.asked.count(Code.GET_TIMER_CHECK_POINT) == 1
        await asyncio.sleep(8.5)

    following.run(scenario)
    assert following.link.asked.count(Code.GET_TIMER_CHECK_POINT) == 3


def test_nothing_is_asked_of_nobody_or_of_itself(following: Following) -> None:
    async def scenario() -> None:
        await asyncio.sleep(30)
        following.say("127.0.0.1:20911")
        await asyncio.sleep(30)
        assert following.link.asked == []
        following.say()
        await following.copied()

    following.run(scenario)


def test_an_unknown_topic_in_the_log_is_asked_for_once_an_interval(following: Following) -> None:
    following.say()

    async def scenario() -> None:
        await following.copied()
        fill(following.master)
        following.sync.arrived(["t"])
        await following.copied(2)
        assert following.slave.services.topics.get("t") is not None
        following.sync.arrived(["t"])  # known by now
        following.sync.arrived(["gone"])
        await following.copied(3)
        asked = len(following.link.asked)
        following.sync.arrived(["gone"])
        await asyncio.sleep(0.5)
        assert len(following.link.asked) == asked
        await following.copied(4)  # the next interval has begun
        loop = asyncio.get_running_loop()
        begin = loop.time()
        following.sync.arrived(["gone"])
        await following.copied(5)
        assert loop.time() - begin < 1

    following.run(scenario)


def test_a_part_that_fails_does_not_keep_the_others(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    fill(following.master)
    following.link.failure[Code.GET_ALL_TOPIC_CONFIG] = BrokerError.of(1, "not now", MASTER)
    following.say()

    async def scenario() -> None:
        while len(following.link.asked) < 2 * 7:
            following.link.on_lost(MASTER)  # whatever has happened: it tries again at once
            await asyncio.sleep(0)
        assert following.sync.completed == 0
        following.link.failure.clear()
        following.link.on_lost(MASTER)
        await following.copied()

    with caplog.at_level(logging.WARNING, "rocketmq_py.broker.ha.slave_sync"):
        following.run(scenario)
    assert following.slave.services.offsets.query("g", "t", 0) == 5
    assert following.lost == 0
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        f"the topics of master {MASTER} cannot be copied",
        f"the topics of master {MASTER} can be copied again",
    ]


def test_an_unreachable_master_is_asked_one_thing_and_looked_up_at_growing_intervals(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    following.link.failure = dict.fromkeys(Code, ConnectionLost("it is gone"))
    following.say()

    async def scenario() -> None:
        async with asyncio.timeout(100):
            while len(following.link.asked) < 9:
                await a_moment()
        assert set(following.link.asked) == {Code.GET_ALL_TOPIC_CONFIG}
        assert following.lost == 4, "after 1, 2, 4 and 8"
        following.link.failure.clear()
        await following.copied()

    with caplog.at_level(logging.WARNING, "rocketmq_py.broker.ha.slave_sync"):
        following.run(scenario)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"master {MASTER} cannot be reached: it is gone", f"master {MASTER} can be reached again"]


@pytest.mark.parametrize(("keeps", "offset"), [(True, 9), (False, 5)])
def test_a_slave_may_keep_larger_offsets(tmp_path: Path, keeps: bool, offset: int) -> None:
    following = Following(tmp_path, slave_keep_larger_offset=keeps)
    fill(following.master)
    following.slave.services.offsets.commit("g", "t", 0, 9, "c")
    following.slave.services.offsets.commit("g", "other", 0, 4, "c")
    following.say()
    following.run(following.copied)
    offsets = following.slave.services.offsets
    assert [offsets.query("g", "t", 0), offsets.query("g", "t", 2), offsets.query("g", "other", 0)] == [offset, 7, 4]
    following.close()


def test_counts_of_timed_messages_are_taken_over(following: Following) -> None:
    metrics = following.master.services.timers.metrics
    metrics.add("t", 1, 5)
    metrics.persist()
    following.say()

    async def scenario() -> None:
        await following.copied()

    following.run(scenario)
    assert following.slave.services.timers.metrics.total == 1


def test_a_master_that_is_back_is_copied_at_once(following: Following) -> None:
    """Not only when the interval is over; while there is none, nothing is asked."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        following.say()
        await following.copied()
        following.say(None)
        await a_moment()
        asked = len(following.link.asked)
        await asyncio.sleep(2)
        assert len(following.link.asked) == asked
        begin = loop.time()
        following.say()
        await following.copied(2)
        assert loop.time() - begin < 1

    following.run(scenario)


def test_a_stopped_slave_asks_nothing(following: Following) -> None:
    async def scenario() -> None:
        following.say()
        await following.copied()
        await following.sync.stop()
        asked = len(following.link.asked)
        assert following.link.is_closed
        await asyncio.sleep(3 * DUE_EVERY)
        assert len(following.link.asked) == asked

    following.run(scenario)
