"""A broker rebuilds a lost consume queue while it serves: a consumer gets each message, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketmq_py.aio import Message, MessageQueue, Producer, PushConsumer
from rocketmq_py.broker import Broker
from rocketmq_py.broker.rebuilder import Rebuilder
from rocketmq_py.core.broker.hold_table import QueueKey
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import rebuild
from rocketmq_py.store.log import log_parts
from rocketmq_py.wire.command import Command
from tests.server.consuming import Seen
from tests.server.test_broker import ask, make, name_server, until
from tests.unit.broker.requests import pull

COUNT, MORE, QUEUES = 400, 30, 2
LATER = {"rebuild_bytes_before_start": 0}


async def fill(broker: Broker, namesrv: str) -> None:
    broker.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=QUEUES, write_queue_nums=QUEUES)])
    async with Producer("p", namesrv) as producer:
        for queue_id in range(QUEUES):
            queue = MessageQueue("t", broker.config.broker_name, queue_id)
            for number in range(COUNT):
                await producer.send(Message("t", b"%d" % number), queue=queue)
    broker.services.groups.find("g")
    for queue_id in range(QUEUES):
        broker.services.offsets.commit("g", "t", queue_id, 0, "a test")


def lose_queue(root: Path) -> None:
    [lost] = root.glob("consumequeue/t/0/*")
    lost.unlink()


@asynccontextmanager
async def broker_without_a_queue(root: Path) -> AsyncIterator[tuple[Broker, str]]:
    """A broker that rebuilds the entries of queue 0 while it serves, and the address of its name server."""
    async with name_server() as server:
        broker = make(root, server.address)
        await broker.start()
        await fill(broker, server.address)
        await broker.stop()
        lose_queue(root)
        broker = make(root, server.address, LATER)
        await broker.start()
        try:
            yield broker, server.address
        finally:
            await broker.stop()


async def test_a_consumer_gets_all_messages_of_a_queue_that_is_rebuilt_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_parts, "PART_BYTES", 5_000)
    monkeypatch.setattr(rebuild, "_AT_ONCE", 1_000)
    gate, load = asyncio.Semaphore(3), Rebuilder._load

    async def wait_and_load(self: Rebuilder, part: object) -> None:
        await gate.acquire()
        await load(self, part)  # type: ignore[arg-type]

    monkeypatch.setattr(Rebuilder, "_load", wait_and_load)
    async with broker_without_a_queue(tmp_path) as (broker, namesrv):
        await consume(broker, namesrv, gate)


async def consume(broker: Broker, namesrv: str, gate: asyncio.Semaphore) -> None:
    services, seen = broker.services, Seen()
    queue = MessageQueue("t", broker.config.broker_name, 0)
    assert services.rebuilder.queues_left == 1
    caller = RpcClient()
    consumer = PushConsumer("g", namesrv, listener=seen, consume_threads=1)
    consumer.subscribe("t")
    async with consumer, Producer("p", namesrv) as producer:
        await seen.count(COUNT)
        await until(lambda: services.pull_request_hold._table.waiting(QueueKey("t", 0)))
        refused = await ask(caller, broker.address, Command(RequestCode.PULL_MESSAGE, ext=pull().to_ext()))
        assert (refused.code, refused.ext) == (ResponseCode.SYSTEM_BUSY, {})
        caller.close()
        for number in range(COUNT, COUNT + MORE):
            sent = await producer.send(Message("t", b"%d" % number), queue=queue)
            assert sent.queue_offset == number
        assert set(seen.by_queue) == {1}
        for _ in range(1_000):
            gate.release()
        await seen.count(2 * COUNT + MORE)
        assert services.rebuilder.queues_left == 0
        assert seen.by_queue == {0: list(range(COUNT + MORE)), 1: list(range(COUNT))}
        assert all(message.body == b"%d" % message.queue_offset for message in seen.messages)
