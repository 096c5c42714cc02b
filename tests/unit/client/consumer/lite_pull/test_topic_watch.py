"""Watching the queues of topics: notifications, and failing listeners and name servers."""

import asyncio

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicWatch
from tests.unit.client.scripted import ScriptedNetwork, cluster

PATIENCE = 120.0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_queue_change_is_notified_once_after_failures(is_async, caplog):
    async def run():
        topics = {"T": {"b": 1}}
        network = ScriptedNetwork(cluster(topics))
        instance = ClientInstance("ns:1")
        network.carry(instance.connections)
        watch, heard, told = TopicWatch(instance, 0.001), [], asyncio.Event()

        def listener(topic, queues):
            heard.append((topic, len(queues)))
            told.set()
            if len(queues) == 2:
                raise ValueError("on purpose")

        async def listener_async(topic, queues):
            listener(topic, queues)

        async def change(**topic):
            """Changes the topic once it was looked at, and then lets it be looked at again."""
            await looks(network, 2)
            topics.update(topic)
            await looks(network, 2)

        watch.start()
        watch.add("T", listener_async if is_async else listener)
        await change(T={"b": 2})
        await change(T=None)
        await change(T={"b": 3})
        await asyncio.wait_for(told.wait(), PATIENCE)
        await watch.close()
        await instance.stop()
        assert heard == [("T", 2), ("T", 3)]

    asyncio.run(run())
    assert "the listener for the queues of topic T failed" in caplog.text
    assert "the queues of topic T cannot be checked: no route for topic 'T'" in caplog.text


async def test_a_topic_is_checked_at_once_and_after_each_interval():
    network = ScriptedNetwork(cluster({"T": {"b": 1}, "U": {"b": 1}}))
    instance = ClientInstance("ns:1")
    network.carry(instance.connections)
    watch = TopicWatch(instance, 1000.0)
    watch.start()
    await asyncio.sleep(1)
    assert network.requests == []
    for wait, topics in ((1, ["T"]), (900, ["T"]), (200, ["T", "T"])):
        if not network.requests:
            watch.add("T", print)
        await asyncio.sleep(wait)
        assert [request.ext["topic"] for _, request in network.requests] == topics
    await watch.close()
    await asyncio.sleep(2000)
    assert len(network.requests) == 2
    await instance.stop()


async def looks(network, count):
    """Waits until the name server was asked so many times more."""
    wanted = len(network.requests) + count
    async with asyncio.timeout(PATIENCE):
        while len(network.requests) < wanted:
            network.asked.clear()
            await network.asked.wait()
