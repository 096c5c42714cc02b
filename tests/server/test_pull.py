"""The older pull consumer, both faces, against our own broker."""

import asyncio
import datetime

import pytest

from rocketmq_py import PullConsumer as BlockingConsumer
from rocketmq_py.aio import (
    Admin,
    ClosedError,
    ConfigError,
    Message,
    MessageModel,
    MessageQueue,
    NetworkError,
    OffsetIllegal,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
)
from rocketmq_py.client.consumer.offsets.local_offsets import load
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually

pytestmark = pytest.mark.filterwarnings("ignore:PullConsumer is deprecated:DeprecationWarning")


async def send(cluster, topic, count, queue=None, **properties):
    async with Producer("sender", cluster.namesrv) as producer:
        for i in range(count):
            await producer.send(Message(topic, f"{i:03}", **properties), queue=queue)


def first_queue(topic):
    return MessageQueue(topic, "broker-a", 0)


def bodies(result):
    return [message.body.decode() for message in result.messages]


async def stored(cluster, group, queue):
    async with Admin(cluster.namesrv) as admin:
        return await admin.group_offset(group, queue)


def test_the_pull_consumer_is_deprecated():
    with pytest.warns(DeprecationWarning, match="LitePullConsumer") as said:
        BlockingConsumer("g", "127.0.0.1:1")
    assert [warning.filename for warning in said] == [__file__]


async def test_a_pull_has_one_of_four_statuses(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster, topic, 10, queue, tags="a", keys="k")
    async with PullConsumer(group, cluster.namesrv) as member:
        assert await member.queues(topic) == [MessageQueue(topic, "broker-a", i) for i in range(4)]
        found = await member.pull(queue, 2, max_messages=5)
        assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (PullStatus.FOUND, 7, 0, 10)
        assert bodies(found) == ["002", "003", "004", "005", "006"]
        one = found.messages[0]
        assert (one.keys, one.queue_offset, one.properties["MAX_OFFSET"]) == ("k", 2, "10")
        none = await member.pull(queue, 10)
        assert (none.status, none.next_offset, none.messages) == (PullStatus.NO_NEW_MSG, 10, [])
        other = await member.pull(queue, 0, "b || c")
        assert (other.status, other.next_offset, other.messages) == (PullStatus.NO_MATCHED_MSG, 10, [])
        beyond = await member.pull(queue, 99)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 10)


async def test_a_pull_can_wait_for_messages(cluster, topic, group):
    queue = first_queue(topic)
    async with PullConsumer(group, cluster.namesrv) as member:
        waiting = asyncio.ensure_future(member.pull(queue, 0, wait=True))
        await eventually(lambda: sum(len(broker.services.pull_request_hold) for broker in cluster.brokers))
        await send(cluster, topic, 1, queue)
        assert bodies(await waiting) == ["000"]
    async with PullConsumer(group, cluster.namesrv, broker_suspend_time=0.05) as member:
        assert (await member.pull(queue, 1, wait=True)).status is PullStatus.NO_NEW_MSG


async def test_offsets_are_read_updated_and_stored(cluster, topic, group):
    queue, other = first_queue(topic), MessageQueue(topic, "broker-a", 1)
    await send(cluster, topic, 5, queue)
    async with PullConsumer(group, cluster.namesrv) as member:
        assert (await member.min_offset(queue), await member.max_offset(queue)) == (0, 5)
        assert await member.offset_for_timestamp(queue, 0) == 0
        tomorrow = datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(days=1)
        assert await member.offset_for_timestamp(queue, tomorrow) == 5
        assert await member.committed(other) is None
        assert len((await member.pull(queue, 0, max_messages=3)).messages) == 3
        member.update_offset(queue, 3)
        assert await member.committed(queue) == 3
        assert await member.committed(queue, from_store=True) != 3
        assert (await member.lag())[queue] == 2
        await member.commit()
        assert await stored(cluster, group, queue) == 3
        member.update_offset(queue, 2)
        await member.commit({other: 0})
        assert await stored(cluster, group, queue) == 3
    assert await stored(cluster, group, queue) == 2, "closing stores what was updated"


async def test_members_share_the_queues_of_registered_topics(cluster, topic, group):
    changes = []

    def changed(topic, queues, mine):
        changes.append(len(mine))

    async with PullConsumer(group, cluster.namesrv, topics=[topic], queues_changed=changed) as one:
        assert len(one.assignment(topic)) == 4
        async with PullConsumer(group, cluster.namesrv, topics=[topic]) as two:
            await eventually(lambda: len(one.assignment()) == 2 == len(two.assignment()))
            assert not set(one.assignment()) & set(two.assignment())
        await eventually(lambda: len(one.assignment()) == 4)
        assert changes == [4, 2, 4]
        assert one.health().queues
        assert one.health().ok


async def test_a_message_sent_back_is_delivered_to_the_push_consumer_of_the_group(cluster, topic, group):
    queue, seen = first_queue(topic), Seen()
    await send(cluster, topic, 1, queue)
    async with PullConsumer(group, cluster.namesrv) as member:
        found = await member.pull(queue, 0)
        await member.send_back(found.messages[0], 1)
        await member.commit({queue: found.next_offset})
    consumer = PushConsumer(group, cluster.namesrv, consume_from=FIRST)
    consumer.subscribe(topic, listener=seen)
    async with consumer:
        await seen.count(1)
    assert (seen.messages[0].body, seen.messages[0].reconsume_times) == (b"000", 1)


async def test_a_broadcasting_consumer_stores_offsets_locally(cluster, topic, group, tmp_path):
    queue = first_queue(topic)
    options = {"message_model": MessageModel.BROADCASTING, "local_offset_dir": tmp_path}
    async with PullConsumer(group, cluster.namesrv, topics=[topic], **options) as member:
        assert len(member.assignment()) == 4
        member.update_offset(queue, 7)
        await member.commit()
        path = tmp_path / member.client_id / group / "offsets.json"
        assert load(path) == {queue: 7}
    async with PullConsumer(group, cluster.namesrv, **options) as again:
        assert await again.committed(queue) == 7


async def test_invalid_arguments_raise_at_once(cluster, topic, group):
    queue = first_queue(topic)
    member = PullConsumer(group, cluster.namesrv)
    with pytest.raises(ClosedError, match="not started"):
        await member.pull(queue, 0)
    async with member:
        with pytest.raises(OffsetIllegal, match="negative"):
            await member.pull(queue, -1)
        with pytest.raises(ConfigError, match="max_messages"):
            await member.pull(queue, 0, max_messages=0)
        with pytest.raises(OffsetIllegal):
            member.update_offset(queue, -1)
        with pytest.raises(ConfigError):
            await member.pull(queue, 0, sql="a >")
        with pytest.raises(NetworkError):
            await member.pull(queue, 0, timeout=1e-9)
    with pytest.raises(ClosedError, match="make a new one"):
        await member.pull(queue, 0)
    with pytest.raises(ConfigError, match="given up while"):
        PullConsumer(group, cluster.namesrv, timeout_when_suspend=1)
    with pytest.raises(ConfigError, match="pull_timeout"):
        PullConsumer(group, cluster.namesrv, pull_timeout=0)


def test_the_blocking_consumer_pulls_and_commits(cluster, topic, group):
    queue = first_queue(topic)
    asyncio.run(send(cluster, topic, 4, queue))
    with BlockingConsumer(group, cluster.namesrv, topics=[topic]) as member:
        assert member.assignment(topic) == member.queues(topic)
        offset, got = member.min_offset(queue), []
        while offset < member.max_offset(queue):
            found = member.pull(queue, offset, max_messages=3, timeout=PATIENCE)
            got += bodies(found)
            offset = found.next_offset
            member.update_offset(queue, offset)
        assert got == ["000", "001", "002", "003"]
        assert member.committed(queue) == 4
        assert member.lag()[queue] == 0
        assert member.offset_for_timestamp(queue, 0) == 0
        member.commit()
        assert member.health().ok
        assert group in repr(member)
        assert member.group == group
        assert member.client_id
        member.send_back(found.messages[0], 1)
        with pytest.raises(ConfigError):
            member.pull(queue, 0, "a", sql="a IS NULL")
