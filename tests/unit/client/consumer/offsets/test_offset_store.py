"""Offsets that are stored at brokers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.offsets.offset_store import BrokerOffsetStore
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
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
