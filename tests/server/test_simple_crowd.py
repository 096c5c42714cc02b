"""A crowd of simple consumers that come, go, fail, dawdle and are interrupted: every message is acked, none stays."""

import asyncio
import random

import pytest

from rocketmq_py.aio import Message, Producer, SimpleConsumer
from rocketmq_py.errors import InvalidReceipt
from rocketmq_py.testing import Cluster
from tests.server.consuming import FIRST, PATIENCE

COUNT = 60


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as running:
        yield running


class Crowd:
    def __init__(self, cluster, topic, group):
        self.cluster, self.topic, self.group = cluster, topic, group
        self.acked = set()

    @property
    def is_done(self):
        return len(self.acked) == COUNT

    async def work(self, seed):
        """One after the other consumer, each for a few calls."""
        chance = random.Random(seed)
        while not self.is_done:
            member = SimpleConsumer(self.group, self.cluster.namesrv, consume_from=FIRST)
            member.subscribe(self.topic)
            async with member:
                for _ in range(chance.randrange(2, 8)):
                    if not self.is_done:
                        await self.call(member, chance)

    async def call(self, member, chance):
        try:
            async with asyncio.timeout(chance.choice([0.01, 5, 5])):
                messages = await member.receive(chance.randrange(1, 20), invisible_duration=2, timeout=1)
        except TimeoutError:
            return
        done = [message for message in messages if chance.random() < 0.8]
        for message in messages:
            if message not in done and chance.random() < 0.5:
                await self.late(member.extend(message, chance.choice([0, 1])))
        late = await self.late(member.ack(done)) if done else []
        self.acked.update(int(message.body) for message in done if message not in late)

    async def late(self, call):
        """The messages that a call came too late for."""
        try:
            await call
        except InvalidReceipt as e:
            return e.messages
        return []


async def test_every_message_is_acked_once(cluster, topic, group):
    async with Producer("sender", cluster.namesrv) as producer:
        for number in range(COUNT):
            await producer.send(Message(topic, str(number)))
    crowd = Crowd(cluster, topic, group)
    await asyncio.gather(*(crowd.work(seed) for seed in range(4)))
    assert crowd.acked == set(range(COUNT))
    async with SimpleConsumer(group, cluster.namesrv) as member:
        member.subscribe(topic)
        async with asyncio.timeout(PATIENCE):
            while sum((await member.lag()).values()):  # acks that reached the broker too late, if any
                if messages := await member.receive(timeout=1):
                    await member.ack(messages)
