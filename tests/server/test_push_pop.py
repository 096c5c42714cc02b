"""The push consumer in POP mode against a broker of our own: members that are killed, a broker that is started anew."""

import asyncio
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from rocketmq_py.aio import Admin, ClientInstance, Message, Producer, PushConsumer
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually

VICTIM = textwrap.dedent("""
    import os, sys, time
    from rocketmq_py import ConsumeFromWhere, PushConsumer

    namesrv, group, topic, orderly = sys.argv[1:]

    def listen(message):
        os.write(1, message.body + b"\\n")  # a print of several threads may mix lines
        time.sleep(600)

    with PushConsumer(
        group, namesrv, listener=listen, consume_from=ConsumeFromWhere.FIRST_OFFSET, client_rebalance=False,
        pop_invisible_time=5, orderly=orderly == "True",
    ) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        time.sleep(600)
""")


async def pop_group(cluster, group, topic):
    async with Admin(cluster.namesrv) as admin:
        await admin.create_group(group)
        await admin.set_request_mode(group, topic, "POP")


async def send(cluster, topic, numbers):
    async with Producer("sender", cluster.namesrv) as producer:
        for number in numbers:
            await producer.send(Message(topic, str(number)))


def consumer(cluster, group, topic, listener, **options):
    made = PushConsumer(group, cluster.namesrv, consume_from=FIRST, client_rebalance=False, **options)
    made.subscribe(topic, listener=listener)
    return made


def die_consuming(*arguments):
    """The message a consumer was at work on when it was killed."""
    with subprocess.Popen([sys.executable, "-c", VICTIM, *arguments], stdout=subprocess.PIPE, text=True) as victim:
        try:
            return victim.stdout.readline().strip()
        finally:
            victim.kill()


@pytest.mark.parametrize("orderly", [False, True])
async def test_messages_of_a_killed_member_are_redelivered(cluster, topic, group, orderly):
    await pop_group(cluster, group, topic)
    await send(cluster, topic, range(8))
    had = await asyncio.to_thread(die_consuming, cluster.namesrv, group, topic, str(orderly))
    seen = Seen()
    async with consumer(cluster, group, topic, seen, orderly=orderly) as member:
        await seen.count(8)
        assert Counter(seen.bodies) == Counter(map(str, range(8)))
        [again] = [message for message in seen.messages if message.body.decode() == had]
        assert again.reconsume_times == 1
        if orderly:
            assert seen.by_queue == {queue: [0, 1] for queue in range(4)}
        await eventually(lambda: all(queue.held == 0 for queue in member.health().queues))


async def test_it_continues_after_a_broker_restart(cluster, topic, group):
    await pop_group(cluster, group, topic)
    seen = Seen()
    instance = ClientInstance(cluster.namesrv, route_interval=0.2, heartbeat_interval=0.5)
    member = PushConsumer(group, instance=instance, consume_from=FIRST, client_rebalance=False)
    member.subscribe(topic, listener=seen)
    async with member:
        await send(cluster, topic, range(20))
        await seen.count(20)
        await asyncio.to_thread(cluster.stop_broker)
        await asyncio.to_thread(cluster.start_broker)
        async with asyncio.timeout(PATIENCE):
            await send(cluster, topic, range(20, 40))
            await seen.until(lambda seen: set(seen.bodies) == set(map(str, range(40))))
    await instance.stop()
    assert max(Counter(seen.bodies).values()) == 1
