"""Members of an orderly group join, leave and crash while messages come: each key's sequence stays whole.

Hand-overs in good order repeat nothing. After a crash the next owner goes back to the last offset stored, never further
forward, and the crashed member handles nothing any more once the next one has begun.
"""

import asyncio
import random
from collections import defaultdict

import pytest

from rocketmq_py.aio import ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.core.consumer import orderly
from rocketmq_py.testing import Cluster

KEYS = 12
QUEUES = 8
PATIENCE = 120.0


@pytest.fixture(autouse=True)
def short_locks(monkeypatch):
    """Locks as long-lived as they are, in a tenth of the time."""
    monkeypatch.setattr(orderly, "LOCK_LIVE", 3.0)
    monkeypatch.setattr(orderly, "LOCK_REFRESH", 0.5)
    monkeypatch.setattr(orderly, "RELOCK_DELAY", 0.3)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        running.brokers[0].services.locks.max_live_ms = 6000
        yield running


class Journal:
    """Who handled which message of which key, in order of time."""

    def __init__(self):
        self.entries = []
        self.together = []
        self.busy = {}
        self.done = defaultdict(int)

    def listener(self, name, dice):
        def listen(message):
            key, number = map(int, message.body.split())
            if message.queue_id in self.busy:
                self.together.append((name, self.busy[message.queue_id], key, number))
            self.busy[message.queue_id] = name
            try:
                if dice.random() < 0.01:
                    raise ValueError("on purpose")
                self.entries.append((name, key, number))
                self.done[key] = max(self.done[key], number + 1)
            finally:
                self.busy.pop(message.queue_id, None)

        return listen

    def check(self, crashed):
        assert not self.together, "two listeners had a message of the same queue at one time"
        for key in range(KEYS):
            last, owner, gone = -1, None, set()
            for who, number in [(who, number) for who, k, number in self.entries if k == key]:
                assert who not in gone, f"{who} handled {key}/{number} after its successor had begun"
                if who != owner and owner in crashed:
                    assert number <= last + 1, f"key {key} jumps from {last} to {number}"
                    gone.add(owner)
                else:
                    assert number == last + 1, f"key {key}: {number} by {who} after {last} by {owner}"
                last, owner = number, who


class Group:
    """Members that come and go by the dice."""

    def __init__(self, cluster, topic, name, dice):
        self._cluster, self._topic, self._name, self._dice = cluster, topic, name, dice
        self.journal = Journal()
        self.members = {}
        self.crashed = set()
        self._count = 0

    async def join(self):
        self._count += 1
        name = f"member-{self._count}"
        member = PushConsumer(
            self._name, self._cluster.namesrv, orderly=True, suspend_seconds=0.01, consume_threads=3,
            consume_from=ConsumeFromWhere.FIRST_OFFSET,
        )  # fmt: skip
        member.subscribe(self._topic, listener=self.journal.listener(name, self._dice))
        self.members[name] = member
        await member.start()

    async def leave(self):
        name = self._dice.choice(list(self.members))
        await self.members.pop(name).close()

    async def crash(self):
        """Cuts a member off from the brokers without a word; what it holds, it handles while it trusts its locks."""
        name = self._dice.choice(list(self.members))
        self.crashed.add(name)
        await self.members.pop(name)._instance.stop()

    async def until_done(self, total):
        async with asyncio.timeout(PATIENCE):
            while sum(self.journal.done.values()) < total:  # noqa: ASYNC110 - listeners run in threads
                await asyncio.sleep(0.05)


async def produce(cluster, topic, sent, stop):
    async with Producer("sender", cluster.namesrv) as producer:
        while not stop.is_set():
            for key in range(KEYS):
                await producer.send_ordered(Message(topic, f"{key} {sent[key]}"), key)
                sent[key] += 1
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "steps",
    [
        ["join", "join", "leave", "join", "leave"],
        ["join", "crash", "join", "leave"],
    ],
    ids=["in good order", "with a crash"],
)
async def test_every_key_keeps_its_order_while_members_change(cluster, steps):
    name = f"chaos-{'-'.join(steps)}"
    dice = random.Random(name)
    topic = cluster.create_topic(f"topic-{name}", QUEUES)
    group, sent, stop = Group(cluster, topic, name, dice), defaultdict(int), asyncio.Event()
    await group.join()
    sending = asyncio.ensure_future(produce(cluster, topic, sent, stop))
    for step in steps:
        await asyncio.sleep(dice.uniform(0.2, 1.5))
        await getattr(group, step)()
    await asyncio.sleep(0.5)
    stop.set()
    await sending
    await group.until_done(sum(sent.values()))
    for member in group.members.values():
        await member.close()
    group.journal.check(group.crashed)
    assert dict(group.journal.done) == dict(sent)
