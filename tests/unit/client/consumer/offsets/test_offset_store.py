"""Offsets that are stored at brokers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.offsets.offset_store import BrokerOffsetStore
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, encode_command
from tests.unit.client.scripted import ScriptedNetwork, cluster


def test_failed_commits_are_logged_once_per_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        network = ScriptedNetwork(cluster(t={"a": 2}))
        instance = ClientInstance("ns:1")
        network.carry(instance.connections)
        await instance.routes.get("t")
        offsets = BrokerOffsetStore(instance, "g")
        queues = [MessageQueue("t", "a", queue) for queue in range(2)]
        for queue in queues:
            offsets.update(queue, 5)
        for unreachable in ({"a:1"}, {"a:1"}, set[str](), {"a:1"}):
            network.unreachable = unreachable
            if unreachable:
                instance.connections.drop("a:1")
            await offsets.persist(queues)
        await asyncio.sleep(0)  # what is written leaves with the turn of the loop
        assert network.codes("a:1") == [RequestCode.UPDATE_CONSUMER_OFFSET] * 2
        await instance.stop()

    caplog.set_level(logging.WARNING)
    asyncio.run(main())
    first, second = (record.getMessage() for record in caplog.records)
    assert first == second
    assert first.startswith("offset 5 of t@a:0, group g, could not be persisted: cannot connect to a:1")


async def test_a_commit_that_waited_for_another_broker_has_the_offset_of_now() -> None:
    network = ScriptedNetwork(cluster(t={"a": 2, "b": 1}))
    instance = ClientInstance("ns:1")
    network.carry(instance.connections)
    await instance.routes.get("t")
    offsets = BrokerOffsetStore(instance, "g")
    slow, other, released = MessageQueue("t", "b", 0), MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
    for queue in (slow, other, released):
        offsets.update(queue, 12)
    connect, waits, can_connect = instance.connections._opening._work, asyncio.Event(), asyncio.Event()

    async def connect_late(address: str) -> Connection:
        if address == "b:1":
            waits.set()
            await can_connect.wait()
        return await connect(address)

    instance.connections._opening._work = connect_late
    persisting = asyncio.ensure_future(offsets.persist([slow, other, released]))
    await waits.wait()
    for queue in (slow, other):
        offsets.update(queue, 14)
    offsets.remove(released)
    can_connect.set()
    await persisting
    await asyncio.sleep(0)
    commits = [(r.ext["queueId"], r.ext["commitOffset"]) for where, r in network.requests if where != "ns:1"]
    assert commits == [("0", "14"), ("0", "14")]
    await instance.stop()


@pytest.mark.parametrize("call", ["persist_confirmed", "store"])
async def test_the_first_offset_of_a_topic_at_a_broker_is_confirmed_before_the_others_are_sent(call: str) -> None:
    """A Java broker that gets two at the same time loses one."""
    script = cluster(t={"a": 3, "b": 2}, u={"a": 1})
    network = ScriptedNetwork(lambda at, request: None if is_commit(request) else script(at, request))
    instance = ClientInstance("ns:1")
    network.carry(instance.connections)
    for topic in ("t", "u"):
        await instance.routes.get(topic)
    queues = [MessageQueue("t", "a", n) for n in range(3)] + [MessageQueue("t", "b", n) for n in range(2)]
    queues.append(MessageQueue("u", "a", 0))
    offsets = BrokerOffsetStore(instance, "g")
    for queue in queues:
        offsets.update(queue, 5)

    async def run() -> list[int]:
        """How many are sent at the same time, until all are."""
        seen, answered = [], 0
        task = asyncio.ensure_future(
            offsets.store(dict(offsets)) if call == "store" else offsets.persist_confirmed(queues)
        )
        while not task.done():
            for _ in range(20):
                await asyncio.sleep(0)
            commits = [(at, request) for at, request in network.requests if is_commit(request)][answered:]
            answered += len(commits)
            seen.append(len(commits))
            for at, request in commits:
                network.transports[at].deliver(encode_command(Command(0, opaque=request.opaque, flag=RESPONSE_FLAG)))
            for _ in range(20):
                await asyncio.sleep(0)
        network.requests.clear()
        return [count for count in seen if count]

    assert await run() == [3, 3], "one of each topic and broker, then the rest"
    assert await run() == [6], "the brokers have an offset of each topic"
    await instance.stop()


def is_commit(request: Command) -> bool:
    return request.code == RequestCode.UPDATE_CONSUMER_OFFSET
