"""A slave acts as master while there is none, and stops when the master is back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rocketmq_py.aio import ConsumeFromWhere, Message, MessageExt, Producer, SimpleConsumer
from rocketmq_py.broker import Broker
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.errors import RocketMQError
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import KvTable, TopicRouteData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.server.test_broker import make, until

ACTING = {"enable_slave_acting_master": True, "slave_read_enable": True, "slave_sync_interval": 50}


class Trio:
    """A name server that shows acting masters, a master and its slave."""

    def __init__(self, server: NameServer, master: Broker, slave: Broker) -> None:
        self.server, self.master, self.slave = server, master, slave

    async def restart_master(self) -> None:
        self.master.config.listen_port = self.master.port
        await self.master.start()

    async def is_active(self, broker: Broker) -> bool:
        """Whether tools are told that it does what a master does (brokerActive)."""
        outward = RpcClient()
        try:
            answer = await outward.invoke(broker.address, Command(Code.GET_BROKER_RUNTIME_INFO), 30)
            return bool(KvTable.decode(bytes(answer.body)).table["brokerActive"] == "true")
        finally:
            outward.close()

    async def route(self, topic: str) -> TopicRouteData:
        outward = RpcClient()
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        try:
            answer = await outward.invoke(
                self.server.address, Command(Code.GET_ROUTEINFO_BY_TOPIC, ext=header.to_ext()), 30
            )
            return TopicRouteData.decode(bytes(answer.body))
        finally:
            outward.close()


@asynccontextmanager
async def trio(
    root: Path, *, notify: bool = False, clock: Callable[[], int] = wall_clock, **config: object
) -> AsyncIterator[Trio]:
    async with AsyncExitStack() as stack:
        server = NameServer(
            NamesrvConfig(
                listen_port=0, bind_address="127.0.0.1", support_acting_master=True,
                notify_min_broker_id_changed=notify,
            )
        )  # fmt: skip
        await server.start()
        stack.push_async_callback(server.stop)
        master = make(root / "master", server.address, clock=clock, enable_slave_acting_master=True)
        slave = make(
            root / "slave", server.address, clock=clock, broker_role="SLAVE", broker_id=1, **ACTING | config
        )  # fmt: skip
        for broker in (master, slave):
            await broker.start()
            stack.push_async_callback(broker.stop)
        yield Trio(server, master, slave)


@pytest.mark.parametrize("notify", [False, True])
async def test_a_slave_acts_until_its_master_is_back(tmp_path: Path, notify: bool) -> None:
    """The slave hears of it when it asks, or when it is told though it hardly ever asks."""
    rarely = {"sync_broker_member_group_period": 3_600_000} if notify else {}
    async with trio(tmp_path, notify=notify, **rarely) as three:
        role = three.slave.services.role
        three.master.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=2)])
        await until(lambda: role.master.address and three.slave.services.topics.get("t"))
        assert not role.is_acting
        assert not await three.is_active(three.slave)
        await three.master.stop()
        await until(lambda: role.is_acting)
        assert role.master.address is None
        assert await three.is_active(three.slave)
        route = await three.route("t")
        assert route.broker_datas[0].broker_addrs == {0: three.slave.address}, "clients take it for the master"
        assert [queue.perm for queue in route.queue_datas] == [4]
        await three.restart_master()
        await until(lambda: not role.is_acting and role.master.address == three.master.address)
        route = await three.route("t")
        assert route.broker_datas[0].broker_addrs == {0: three.master.address, 1: three.slave.address}
        assert [queue.perm for queue in route.queue_datas] == [6]


async def test_a_frozen_broker_expires_at_its_name_server(tmp_path: Path) -> None:
    """Its connections stay; what is missed is its heartbeat."""
    async with trio(tmp_path) as three:
        live = three.server.registry._live
        assert {broker.expiry_ms for broker in live.values()} == {10_000}
        before = {key: broker.seen_ms for key, broker in live.items()}
        await until(lambda: all(broker.seen_ms > before[key] for key, broker in live.items()))


async def test_without_the_setting_a_slave_does_not_act(tmp_path: Path) -> None:
    async with trio(tmp_path, notify=True, enable_slave_acting_master=False) as three:
        role = three.slave.services.role
        await until(lambda: role.master.address)
        await three.master.stop()
        await until(lambda: role.master.address is None)
        assert not role.is_acting


async def test_pops_continue_at_the_slave_and_back(tmp_path: Path) -> None:
    """What was popped there and not acked is given out by the master again, what was acked is not."""
    async with trio(tmp_path, notify=True) as three:
        master, slave = three.master, three.slave.services
        master.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1)])
        master.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        async with Producer("p", three.server.address) as producer:
            for number in range(4):
                await producer.send(Message("t", b"%d" % number))
        end = master.services.store.max_physical_offset
        await until(lambda: slave.topics.get("t") and slave.groups.find("g") and slave.store.max_physical_offset == end)
        consumer = SimpleConsumer("g", three.server.address, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("t")
        async with consumer:
            await consumer.ack(await receive(consumer, 1))
            await until(lambda: slave.store.max_physical_offset == master.services.store.max_physical_offset)
            await master.stop()
            await until(lambda: slave.role.is_acting)
            acked, kept = await receive(consumer, 1), await receive(consumer, 1)
            assert [one.body for one in acked + kept] == [b"1", b"2"]
            await consumer.ack(acked)
            await consumer.extend(kept[0], 600)
            await three.restart_master()
            await until(lambda: not slave.role.is_acting)
            assert [one.body for one in await receive(consumer, 2)] == [b"2", b"3"]


async def receive(consumer: SimpleConsumer, count: int) -> list[MessageExt]:
    """So many messages; while the master changes, nobody may be there to be asked."""
    found: list[MessageExt] = []
    async with asyncio.timeout(240):
        while len(found) < count:
            with contextlib.suppress(RocketMQError):
                found += await consumer.receive(count - len(found), 600, timeout=1.0)
    return found
