"""The asyncio push consumer against our own broker."""

import asyncio
import threading

import pytest

from rocketmq_py.aio import (
    Admin,
    BrokerError,
    ClosedError,
    ConfigError,
    ConsumeResult,
    Message,
    MessageQueue,
    NetworkError,
    Producer,
    PushConsumer,
)
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.testing import Cluster
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually


async def send(namesrv, topic, count, **properties):
    async with Producer("sender", namesrv) as producer:
        return [await producer.send(Message(topic, f"{i:03}", **properties)) for i in range(count)]


def consumer(cluster, group, topic, listener, tags="*", **options):
    made = PushConsumer(group, cluster.namesrv, **{"consume_from": FIRST, **options})
    made.subscribe(topic, tags, listener)
    return made


def numbers(count):
    return [f"{i:03}" for i in range(count)]


async def test_every_message_is_delivered_once_with_content_and_position(cluster, topic, group):
    seen = Seen()
    results = await send(cluster.namesrv, topic, 40, tags="a", keys=["k1", "k2"], properties={"mine": "1"})
    async with consumer(cluster, group, topic, seen) as member:
        await seen.count(40)
        assert sorted(seen.bodies) == numbers(40)
        assert {(m.queue_id, m.queue_offset) for m in seen.messages} == {(r.queue[2], r[3]) for r in results}
        one = seen.messages[0]
        assert (one.tags, one.keys, one.properties["mine"], one.broker_name) == ("a", "k1 k2", "1", "broker-a")
        assert (one.properties["MIN_OFFSET"], one.properties["MAX_OFFSET"]) == ("0", "10")
        await eventually(lambda: member.health().rates[topic]["consumeOKTPS"] > 0)
        async with asyncio.timeout(PATIENCE):
            while any((await member.lag()).values()):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.02)
        assert member.health().ok
    assert len(seen.messages) == 40


async def test_a_group_continues_at_its_offsets(cluster, topic, group):
    seen, again = Seen(), Seen()
    await send(cluster.namesrv, topic, 10)
    async with consumer(cluster, group, topic, seen):
        await seen.count(10)
    async with Admin(cluster.namesrv) as admin:
        assert sum((await admin.group_offsets(group, topic)).values()) == 10
    await send(cluster.namesrv, topic, 10)
    async with consumer(cluster, group, topic, again):
        await again.count(10)
    assert sorted(again.bodies) == numbers(10)


async def test_tags_with_equal_hashes_are_filtered(cluster, topic, group):
    seen = Seen()
    for tag in ("Aa", "BB", "other", None):
        await send(cluster.namesrv, topic, 2, tags=tag)
    await send(cluster.namesrv, topic, 1, tags="last")
    async with consumer(cluster, group, topic, seen, "Aa || last"):
        await seen.until(lambda seen: any(m.tags == "last" for m in seen.messages))
        await seen.count(3)
    assert sorted(m.tags for m in seen.messages) == ["Aa", "Aa", "last"]


async def test_a_failed_message_is_redelivered_later_and_alone(cluster, topic, group):
    seen = Seen()

    def listen(messages, context):
        for message in messages:
            seen(message)
        context.delay_level = 1
        if messages[0].body == b"003" and not messages[0].reconsume_times:
            raise ValueError("on purpose")

    await send(cluster.namesrv, topic, 6, keys="k")
    async with consumer(cluster, group, topic, listen) as member:
        await seen.count(7)
        first, again = [m for m in seen.messages if m.body == b"003"]
        assert (again.reconsume_times, again.topic, again.keys) == (1, topic, "k")
        assert again.msg_id == first.msg_id
        assert again.properties["ORIGIN_MESSAGE_ID"] == first.offset_msg_id
        await eventually(lambda: member.health().rates[topic]["consumeFailedMsgs"] == 1)


async def test_an_exhausted_message_becomes_a_dead_letter(cluster, topic, group):
    seen, dead = Seen(), Seen()

    def listen(messages, context):
        seen(messages[0])
        context.delay_level = 1
        return ConsumeResult.RECONSUME_LATER

    await send(cluster.namesrv, topic, 1)
    async with consumer(cluster, group, topic, listen, max_reconsume_times=1):
        await seen.count(2)
        async with consumer(cluster, f"{group}-dead", f"%DLQ%{group}", dead):
            await dead.count(1)
    assert dead.messages[0].body == b"000"
    assert [m.reconsume_times for m in seen.messages] == [0, 1]


async def test_a_batch_is_consumed_up_to_its_ack_index(cluster, topic, group):
    seen, calls = Seen(), []

    def listen(messages, context):
        calls.append(len(messages))
        for message in messages:
            seen(message)
        if not messages[0].reconsume_times:
            context.ack_index, context.delay_level = 1, 1

    async with Producer("sender", cluster.namesrv) as producer:
        await producer.send_batch([Message(topic, f"{i:03}") for i in range(5)])
    async with consumer(cluster, group, topic, listen, consume_batch_size=5):
        await seen.count(8)
    assert calls[0] == 5
    assert sorted(seen.bodies) == ["000", "001", "002", "002", "003", "003", "004", "004"]


async def test_members_share_queues_and_take_over_those_of_a_leaving_member(cluster, topic, group):
    here, there = Seen(), Seen()
    async with consumer(cluster, group, topic, here) as stays:
        leaves = consumer(cluster, group, topic, there)
        await leaves.start()
        await eventually(lambda: len(own(stays, topic)) == len(own(leaves, topic)) == 2)
        assert not set(own(stays, topic)) & set(own(leaves, topic))
        await send(cluster.namesrv, topic, 40)
        await eventually(lambda: len(here.messages) + len(there.messages) == 40)
        assert len(there.messages) == 20
        await leaves.close()
        await eventually(lambda: len(own(stays, topic)) == 4)
        await send(cluster.namesrv, topic, 40)
        await here.count(60)
    assert len(here.messages) == 60
    assert len(there.messages) == 20


def own(member, topic):
    return [queue for queue in member.queues if queue.topic == topic]


@pytest.mark.parametrize("listens", ["plain", "async"])
async def test_close_waits_for_running_listeners_and_commits_their_results(cluster, topic, group, listens):
    begun, release, done = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def plain(message):
        loop.call_soon_threadsafe(begun.set)
        release.wait(PATIENCE)
        done.append(message)

    async def asynchronous(message):
        begun.set()
        await asyncio.to_thread(release.wait, PATIENCE)
        done.append(message)

    await send(cluster.namesrv, topic, 1)
    member = consumer(cluster, group, topic, plain if listens == "plain" else asynchronous)
    await member.start()
    await begun.wait()
    closing = asyncio.ensure_future(member.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    release.set()
    await closing
    assert len(done) == 1
    async with Admin(cluster.namesrv) as admin:
        assert sum((await admin.group_offsets(group, topic)).values()) == 1


async def test_close_waits_no_longer_than_its_timeout(cluster, topic, group, caplog):
    seen, release = Seen(), threading.Event()

    def listen(message):
        seen(message)
        release.wait(PATIENCE)

    await send(cluster.namesrv, topic, 1)
    member = consumer(cluster, group, topic, listen)
    await member.start()
    await seen.count(1)
    await member.close(timeout=0.05)
    release.set()
    assert "still run after 0.05 s" in caplog.text
    await member.close()
    with pytest.raises(ClosedError):
        await member.start()


async def test_an_offset_outside_the_queue_is_corrected(cluster, topic, group, caplog):
    seen = Seen()
    await send(cluster.namesrv, topic, 4)
    async with Admin(cluster.namesrv) as admin:
        queue = MessageQueue(topic, "broker-a", 0)
        await admin.create_group(group)
        await admin.set_group_offset(group, queue, 1000)
        async with consumer(cluster, group, topic, seen):
            await eventually(
                lambda: f"offset 1000 of {queue} lies outside the queue or was reset: on from 1" in caplog.text
            )
            await seen.count(3)
            async with Producer("sender", cluster.namesrv) as producer:
                await producer.send(Message(topic, "new"), queue=queue)
            await seen.until(lambda seen: "new" in sorted(seen.bodies))
        assert await admin.group_offset(group, queue) == 2


async def test_a_slow_listener_pauses_pulling(cluster, group):
    topic = cluster.create_topic(f"{group}-slow", 1)
    release, seen = threading.Event(), Seen()

    def listen(message):
        seen(message)
        release.wait(PATIENCE)

    await send(cluster.namesrv, topic, 100)
    async with consumer(cluster, group, topic, listen, pull_threshold_for_queue=20, consume_threads=2) as member:
        await seen.count(2)
        held = [queue.held for queue in member.health().queues if queue.queue.topic == topic]
        assert 20 < held[0] <= 20 + 32
        release.set()
        await seen.count(100)
    assert sorted(seen.bodies) == numbers(100)


async def test_a_suspended_consumer_pulls_nothing_until_resumed(cluster, topic, group):
    seen = Seen()
    member = consumer(cluster, group, topic, seen)
    member.suspend()
    async with member:
        await send(cluster.namesrv, topic, 8)
        assert member.health().suspended
        assert not seen.messages
        member.resume()
        await seen.count(8)


async def test_topics_can_be_added_and_removed_while_it_runs(cluster, topic, group):
    first, second = Seen(), Seen()
    other = cluster.create_topic(f"{group}-other", 2)
    async with consumer(cluster, group, topic, first) as member:
        member.on(other)(second)
        await send(cluster.namesrv, other, 4)
        await second.count(4)
        member.unsubscribe(topic)
        await eventually(lambda: not own(member, topic))
        await send(cluster.namesrv, other, 4)
        await second.count(8)
        assert not first.messages


def test_it_continues_after_a_broker_outage(group):
    async def scenario(cluster):
        seen = Seen()
        topic = cluster.create_topic("away", 2)
        await send(cluster.namesrv, topic, 4)
        async with consumer(cluster, group, topic, seen):
            await seen.count(4)
            await asyncio.to_thread(cluster.stop_broker)
            await asyncio.to_thread(cluster.start_broker)
            await send(cluster.namesrv, topic, 4)
            await seen.count(8)

    with Cluster() as own_cluster:
        asyncio.run(scenario(own_cluster))


async def test_a_topic_created_later_is_found(cluster, group, caplog):
    seen = Seen()
    topic = f"{group}-late"
    async with consumer(cluster, group, topic, seen):
        assert f"no route for topic '{topic}'" in caplog.text
        await send(cluster.namesrv, topic, 3)
        await seen.count(3)


async def test_invalid_arguments_raise_at_once(cluster, topic, group):
    with pytest.raises(ConfigError, match="subscribes to no topic"):
        await PushConsumer(group, cluster.namesrv).start()
    silent = PushConsumer(group, cluster.namesrv)
    silent.subscribe(topic)
    with pytest.raises(ConfigError, match="has no listener"):
        await silent.start()
    with pytest.raises(ConfigError, match="topic name"):
        silent.subscribe("no topic!")
    with pytest.raises(ConfigError, match="names no tag"):
        silent.subscribe(topic, "||")
    with pytest.raises(ConfigError, match="consume_threads=0"):
        PushConsumer(group, cluster.namesrv, consume_threads=0)
    with pytest.raises(ConfigError, match="group name"):
        PushConsumer("no group!", cluster.namesrv)
    unreachable = PushConsumer(group, "127.0.0.1:1")
    unreachable.subscribe(topic, listener=lambda message: None)
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"):
        await unreachable.start()


async def test_one_client_has_one_consumer_per_group(cluster, topic, group):
    instance = ClientInstance(cluster.namesrv)
    first = PushConsumer(group, instance=instance, listener=lambda message: None)
    second = PushConsumer(group, instance=instance, listener=lambda message: None)
    first.subscribe(topic)
    second.subscribe(topic)
    try:
        async with first:
            with pytest.raises(ConfigError, match="already has a consumer of group"):
                await second.start()
    finally:
        await instance.stop()


@pytest.fixture(scope="module")
def hasty():
    """A cluster whose delay levels are all one second."""
    with Cluster(message_delay_level=" ".join(["1s"] * 18)) as running:
        yield running


def refuse_send_back(member):
    """Makes the consumer's requests to send back fail."""
    connections = member._instance.connections
    invoke = connections.invoke

    async def refusing(address, code, *args, **named):
        if code == RequestCode.CONSUMER_SEND_MSG_BACK:
            raise BrokerError.of(1, "not today", address)
        return await invoke(address, code, *args, **named)

    connections.invoke = refusing


async def test_a_message_that_cannot_be_sent_back_is_copied_to_the_retry_topic(hasty, group, caplog):
    seen = Seen()
    topic = hasty.create_topic(f"{group}-copy", 1)

    def listen(message):
        seen(message)
        if message.reconsume_times < 2:
            raise ValueError("on purpose")

    await send(hasty.namesrv, topic, 1, keys="k")
    member = consumer(hasty, group, topic, listen)
    refuse_send_back(member)
    async with member:
        await seen.count(3)
    assert [m.reconsume_times for m in seen.messages] == [0, 1, 2]
    assert {(m.topic, m.keys, m.body, m.msg_id) for m in seen.messages} == {
        (topic, "k", b"000", seen.messages[0].msg_id)
    }
    assert "a copy goes to the retry topic" in caplog.text
    async with Admin(hasty.namesrv) as admin:
        assert await admin.lag(group, topic) == 0
