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
