"""The broadcasting push consumer against our own broker: everyone gets everything, offsets stay at home."""

import asyncio

import pytest

from rocketmq_py.aio import Admin, Message, MessageModel, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.consumer.offsets.local_offsets import load
from tests.server.consuming import FIRST, PATIENCE


class Seen(list):
    """Bodies in order of arrival."""

    def __init__(self):
        super().__init__()
        self._changed = asyncio.Event()

    async def __call__(self, message):
        self.append(int(message.body))
        self._changed.set()

    async def count(self, number):
        async with asyncio.timeout(PATIENCE):
            while len(self) < number:
                await self._changed.wait()
                self._changed.clear()


async def send(cluster, topic, numbers):
    async with Producer("sender", cluster.namesrv) as producer:
        for i in numbers:
            await producer.send(Message(topic, f"{i}"))


def consumer(cluster, group, topic, listener, directory, **options):
    made = PushConsumer(
        group, cluster.namesrv, message_model=MessageModel.BROADCASTING, local_offset_dir=directory,
        **{"consume_from": FIRST, **options},
    )  # fmt: skip
    made.subscribe(topic, listener=listener)
    return made


async def test_every_member_gets_every_message_and_the_brokers_keep_no_offset(cluster, topic, group, tmp_path):
    here, there = Seen(), Seen()
    async with (
        consumer(cluster, group, topic, here, tmp_path, instance_name="one") as one,
        consumer(cluster, group, topic, there, tmp_path, instance_name="two") as two,
    ):
        await send(cluster, topic, range(40))
        await here.count(40)
        await there.count(40)
        assert len(one.queues) == len(two.queues) == 4
        assert one.health().ok
    assert sorted(here) == sorted(there) == list(range(40))
    async with Admin(cluster.namesrv) as admin:
        assert await admin.group_offsets(group, topic) == {}


@pytest.mark.parametrize("orderly", [False, True])
async def test_it_finds_its_offsets_again(cluster, topic, group, tmp_path, orderly):
    seen, again = Seen(), Seen()
    await send(cluster, topic, range(10))
    async with consumer(cluster, group, topic, seen, tmp_path, orderly=orderly) as member:
        await seen.count(10)
    path = tmp_path / member.client_id / group / "offsets.json"
    assert member.client_id.endswith("@DEFAULT")
    stored = load(path)
    assert {queue.topic for queue in stored} == {topic}
    assert sum(stored.values()) == 10
    await send(cluster, topic, range(10, 20))
    async with consumer(cluster, group, topic, again, tmp_path, orderly=orderly):
        await again.count(10)
    assert sorted(again) == list(range(10, 20))


async def test_a_message_that_fails_is_dropped_with_a_word(cluster, topic, group, tmp_path, caplog):
    seen = Seen()

    async def listen(message):
        await seen(message)
        if message.body == b"1":
            raise ValueError("on purpose")

    await send(cluster, topic, range(4))
    async with consumer(cluster, group, topic, listen, tmp_path) as member:
        await seen.count(4)
    assert f"failed and is dropped: group {group} is broadcasting" in caplog.text
    assert sum(load(tmp_path / member.client_id / group / "offsets.json").values()) == 4


async def test_orderly_broadcasting_retries_a_failure_until_its_limit(cluster, topic, group, tmp_path, caplog):
    seen = Seen()

    async def listen(message):
        await seen(message)
        if message.body == b"0":
            raise ValueError("on purpose")

    async with Producer("sender", cluster.namesrv) as producer:
        for i in range(2):
            await producer.send(Message(topic, f"{i}"), queue=MessageQueue(topic, "broker-a", 0))
    options = {"orderly": True, "max_reconsume_times": 2, "suspend_seconds": 0.01}
    async with consumer(cluster, group, topic, listen, tmp_path, **options):
        await seen.count(4)
    assert seen == [0, 0, 0, 1]
    assert "is dropped" in caplog.text
