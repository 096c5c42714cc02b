"""A slave of ours and its master on real sockets: how it finds the master, what it takes over, and who it asks when the
master has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rocketmq_py.aio import ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.broker import Broker
from rocketmq_py.client.consumer.push import pull_loop
from rocketmq_py.namesrv import NameServer
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.pop import MessageRequestMode
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.server.pairs import Pairs, ha_address
from tests.server.test_broker import make, name_server, until


class Pair:
    """A name server, a master and its slave."""

    def __init__(self, server: NameServer, master: Broker, slave: Broker) -> None:
        self.server, self.master, self.slave = server, master, slave

    @property
    def takes_over(self) -> int:
        return self.slave.services.slave_sync.completed


@asynccontextmanager
async def pair(root: Path, **config: object) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        master = make(root / "master", server.address)
        slave = make(root / "slave", server.address, broker_role="SLAVE", broker_id=1, **config)
        for broker in (master, slave):
            await broker.start()
            stack.push_async_callback(broker.stop)
        yield Pair(server, master, slave)


async def test_a_slave_copies_the_tables_of_its_master(tmp_path: Path) -> None:
    async with pair(tmp_path, slave_sync_interval=50) as both:
        theirs, ours = both.master.services, both.slave.services
        theirs.topics.put([TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=3)])
        theirs.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=2)])
        theirs.offsets.commit("g", "t", 1, 42, "a test")
        theirs.delay.offsets[3] = 7
        theirs.modes.set(MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=1))
        before = both.takes_over
        await until(lambda: both.takes_over > before + 1)
        assert ours.topics.table == theirs.topics.table
        assert ours.topics.version == theirs.topics.version
        assert ours.groups.table == theirs.groups.table
        assert ours.offsets.table["t@g"] == {1: 42}
        assert ours.delay.offsets == theirs.delay.offsets
        assert ours.modes.modes == theirs.modes.modes
        theirs.topics.delete("t")
        await until(lambda: ours.topics.get("t") is None)


async def test_a_slave_knows_a_new_topic_with_its_first_message(tmp_path: Path) -> None:
    """Nobody waits for the next round: the master may be gone by then."""
    async with pair(tmp_path, slave_sync_interval=3_600_000) as both:
        await until(lambda: both.takes_over >= 1)
        made = Pairs(tmp_path)
        assert (await made.send(both.master, b"first", topic="new")).code == 0
        await until(lambda: both.slave.services.topics.get("new") is not None)
        rounds = both.takes_over
        both.slave.services.slave_sync.arrived(["deleted", "new"])
        sync = both.slave.services.slave_sync
        await until(lambda: both.takes_over > rounds and not sync._is_due)
        sync.arrived(["deleted"])
        assert not sync._is_due, "asked again for a topic the master has not"
        made.caller.close()


def test_a_slave_keeps_offsets_of_topics_it_does_not_know_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the master knows that a topic is gone: who forgot an offset would read messages anew, or miss some."""

    monkeypatch.setattr(pull_loop, "SUSPEND_SECONDS", 1.0)  # a pull that waits is not told that its topic is there

    async def scenario() -> None:
        seen: list[bytes] = []
        async with pair(tmp_path, slave_sync_interval=3_600_000, slave_read_enable=True) as both:
            namesrv, topics = both.server.address, both.slave.services.topics
            async with Producer("p", namesrv) as producer:
                for number in range(4):
                    await producer.send(Message("t", f"{number}"))
            consumer = PushConsumer(
                "g", namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, listener=lambda m: seen.append(m.body)
            )
            consumer.subscribe("t")
            async with consumer:
                await until(lambda: len(seen) == 4)
                await until(lambda: topics.get("t") is not None)
                config = topics.get("t")
                assert config is not None
                topics.delete("t")
                await both.master.stop()
                await until(lambda: "topic[t] not exist" in caplog.text)
                topics.put([config])
                await until(lambda: "pulling t@broker-a:0 works again" in caplog.text)
        assert sorted(seen) == [b"0", b"1", b"2", b"3"]
        assert "is released" not in caplog.text

    asyncio.run(scenario())


async def test_a_slave_copies_many_topics(tmp_path: Path) -> None:
    async with pair(tmp_path, slave_sync_interval=50) as both:
        both.master.config.split_metadata_size = 7
        theirs, ours = both.master.services.topics, both.slave.services.topics
        theirs.put([TopicConfig(topic_name=f"t{number}") for number in range(100)])
        await until(lambda: ours.version == theirs.version)
        assert ours.table == theirs.table


async def test_a_slave_serves_while_its_master_is_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The slave hears within moments, not with its next registration in half a minute."""
    async with pair(tmp_path) as both:
        role, port = both.slave.services.role, both.master.port
        await until(lambda: role.master.address == both.master.address and both.takes_over)
        log_from = ha_address(both.master)
        assert role.master.ha_address == log_from
        await both.master.stop()
        await until(lambda: role.master.address is None)
        assert role.master.ha_address == log_from
        rounds = both.takes_over
        both.master.config.listen_port = port
        await both.master.start()
        both.slave.services.registration.renew()
        await until(lambda: role.master.address == both.master.address and both.takes_over > rounds)
