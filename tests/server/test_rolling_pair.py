"""A rolling restart of a master and its slave under load, as clients see it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, RocketMQError
from rocketmq_py.aio import ClientInstance, Producer, PushConsumer
from rocketmq_py.broker import Broker
from tests.server.test_broker import make, name_server, until

READ = {"slave_read_enable": True, "slave_sync_interval": 50}
DRAIN = {"enable_shutdown_gracefully": True, "shutdown_wait_time_seconds": 60}


class Load:
    """An application that sends each message until it is taken, and one that reads them."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.sent: set[bytes] = set()
        self.refused = 0
        self.places: dict[bytes, set[tuple[int, int]]] = defaultdict(set)
        self.is_over = False

    def has_all(self, bodies: set[bytes]) -> bool:
        return self.places.keys() >= bodies

    def instance(self) -> ClientInstance:
        return ClientInstance(self._namesrv, route_interval=0.2)

    async def send_on(self) -> None:
        instance = self.instance()
        async with Producer("p", instance=instance) as producer:
            while not self.is_over:
                body = b"%d" % len(self.sent)
                try:
                    await producer.send(Message("t", body))
                except RocketMQError:
                    self.refused += 1
                    await asyncio.sleep(0.05)  # as an application would that has no other broker
                else:
                    self.sent.add(body)
        await instance.stop()

    async def receive(self, message: MessageExt) -> None:
        self.places[message.body].add((message.queue_id, message.queue_offset))

    async def goes_on(self) -> None:
        """A while of sending and receiving."""
        sent, received = len(self.sent), len(self.places)
        await until(lambda: len(self.sent) > sent + 50 and len(self.places) > received + 50)


async def restart(broker: Broker) -> None:
    broker.config.listen_port = broker.port
    await broker.start()


async def test_a_restart_of_the_master_loses_and_repeats_no_message(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        master = make(tmp_path / "master", server.address, **READ, **DRAIN)
        slave = make(tmp_path / "slave", server.address, broker_role="SLAVE", broker_id=1, **READ)
        for broker in (master, slave):
            await broker.start()
            stack.push_async_callback(broker.stop)
        load = Load(server.address)
        instance = load.instance()
        stack.push_async_callback(instance.stop)
        reader = PushConsumer("g", instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        reader.subscribe("t", listener=load.receive)
        sending = asyncio.create_task(load.send_on())
        await stack.enter_async_context(reader)
        await until(lambda: slave.services.topics.get("t"))
        await load.goes_on()

        await slave.stop()
        await load.goes_on()
        await restart(slave)
        await until(lambda: master.services.replication.in_sync_slaves() and slave.services.topics.get("t"))
        assert load.refused == 0, "a slave that is away refuses nobody anything"

        await master.stop()
        await until(lambda: load.refused)
        taken = set(load.sent)
        await until(lambda: load.has_all(taken))
        assert load.sent == taken, "nobody takes messages while the only master is away"
        await restart(master)
        await load.goes_on()
        load.is_over = True
        await sending
        await until(lambda: load.has_all(load.sent))
        assert not {body for body, places in load.places.items() if len(places) > 1}
