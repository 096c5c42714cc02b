"""The orderly push consumer against our own broker."""

import asyncio
import threading

import pytest

from rocketmq_py import PushConsumer as BlockingConsumer
from rocketmq_py.aio import (
    Admin,
    ConfigError,
    Message,
    MessageQueue,
    OrderlyResult,
    Producer,
    PushConsumer,
)
from rocketmq_py.core.consumer import orderly
from rocketmq_py.testing import Cluster
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually


async def send(cluster, topic, numbers, queue_id=None):
    queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
    async with Producer("sender", cluster.namesrv) as producer:
        for i in numbers:
            await producer.send(Message(topic, f"{i}"), queue=queue)


def consumer(cluster, group, topic, listener, **options):
    made = PushConsumer(
        group, cluster.namesrv, **{"orderly": True, "consume_from": FIRST, "suspend_seconds": 0.01, **options}
    )
    made.subscribe(topic, listener=listener)
    return made


def own(member, topic):
    return [queue for queue in member.queues if queue.topic == topic]


async def offset(cluster, group, topic, queue_id=0):
    async with Admin(cluster.namesrv) as admin:
        return await admin.group_offset(group, MessageQueue(topic, "broker-a", queue_id))


@pytest.mark.parametrize("listens", ["plain", "async", "batch"])
async def test_each_queue_is_consumed_in_order_one_message_at_a_time(cluster, topic, group, listens):
    seen, busy, overlaps = Seen(), set(), []

    def listen(message):
        if message.queue_id in busy:
            overlaps.append(message)
        busy.add(message.queue_id)
        seen(message)
        busy.discard(message.queue_id)

    async def listen_async(message):
        if message.queue_id in busy:
            overlaps.append(message)
        busy.add(message.queue_id)
        await asyncio.sleep(0)
        seen(message)
        busy.discard(message.queue_id)

    def listen_batch(messages, context):
        assert context.queue == messages[0].queue
        for message in messages:
            listen(message)

    listener = {"plain": listen, "async": listen_async, "batch": listen_batch}[listens]
    await send(cluster, topic, range(200))
    batch = 7 if listens == "batch" else 1
    async with consumer(cluster, group, topic, listener, consume_batch_size=batch) as member:
        await seen.count(200)
        assert member.health().ok
    assert seen.by_queue == {i: list(range(50)) for i in range(4)}
    assert not overlaps
    assert [await offset(cluster, group, topic, i) for i in range(4)] == [50] * 4


@pytest.mark.parametrize("fault", ["raises", "says so", "talks nonsense"])
async def test_a_failure_delays_only_its_queue(cluster, topic, group, fault):
    seen, times, others_done = Seen(), [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen(message):
        if message.body == b"2" and len(times) < 3:
            times.append(message.reconsume_times)
            if fault == "raises":
                raise ValueError("on purpose")
            return OrderlyResult.SUSPEND if fault == "says so" else "nonsense"
        seen(message)
        if len(times) == 1:
            loop.call_soon_threadsafe(others_done.set)
        return None

    await send(cluster, topic, range(5), 0)
    await send(cluster, topic, range(10, 15), 1)
    async with consumer(cluster, group, topic, listen) as member:
        await seen.count(10)
        assert times == [0, 1, 2]
        assert next(m for m in seen.messages if m.body == b"2").reconsume_times == 3
        await eventually(lambda: member.health().rates[topic]["consumeFailedMsgs"] == 3)
    assert seen.by_queue == {0: list(range(5)), 1: list(range(5))}


async def test_an_exhausted_message_becomes_a_dead_letter_and_its_queue_continues(cluster, topic, group):
    seen, dead, tries = Seen(), Seen(), []

    def listen(message):
        if message.body == b"1":
            tries.append(message.reconsume_times)
            raise ValueError("on purpose")
        seen(message)

    await send(cluster, topic, range(4), 0)
    async with consumer(cluster, group, topic, listen, max_reconsume_times=2):
        await seen.count(3)
        async with consumer(cluster, f"{group}-dead", f"%DLQ%{group}", dead):
            await dead.count(1)
    assert tries == [0, 1, 2]
    assert seen.bodies == ["0", "2", "3"]
    assert dead.messages[0].body == b"1"
    assert dead.messages[0].properties["RETRY_TOPIC"] == topic
    assert dead.messages[0].properties["ORIGIN_MESSAGE_ID"]
    assert await offset(cluster, group, topic) == 4


async def test_offsets_can_be_committed_and_rolled_back_manually(cluster, topic, group):
    seen, rolled_back = Seen(), []

    def listen(messages, context):
        [message] = messages
        context.auto_commit = False
        seen(message)
        if message.body == b"4" and not rolled_back:
            rolled_back.append(message)
            return OrderlyResult.ROLLBACK
        return OrderlyResult.COMMIT if message.body in (b"1", b"5") else OrderlyResult.SUCCESS

    await send(cluster, topic, range(8), 0)
    async with consumer(cluster, group, topic, listen):
        await seen.count(11)
    assert seen.bodies == ["0", "1", "2", "3", "4", "2", "3", "4", "5", "6", "7"]
    assert await offset(cluster, group, topic) == 6
    again = Seen()
    async with consumer(cluster, group, topic, again):
        await again.count(2)
    assert again.bodies == ["6", "7"]


async def test_the_listener_sets_the_pause_of_its_queue(cluster, topic, group):
    seen = Seen()

    def listen(messages, context):
        seen(messages[0])
        context.suspend_seconds = 0.01
        return OrderlyResult.SUSPEND if len(seen.messages) < 20 else None

    await send(cluster, topic, [1], 0)
    async with consumer(cluster, group, topic, listen, suspend_seconds=30):
        await seen.count(20)  # would take ten minutes otherwise


async def test_a_queue_moves_only_after_its_listener_has_ended(cluster, topic, group):
    here, there, release = Seen(), Seen(), threading.Event()

    def slow(message):
        here(message)
        release.wait(PATIENCE)

    for i in range(4):
        await send(cluster, topic, range(10 * i, 10 * i + 5), i)
    async with consumer(cluster, group, topic, slow) as first:
        await here.count(4)
        async with consumer(cluster, group, topic, there) as second:
            await eventually(lambda: len(own(first, topic)) == 2)
            await asyncio.sleep(1.2)  # time enough to take what is locked, were that possible
            assert own(second, topic) == []
            release.set()
            await eventually(lambda: len(own(second, topic)) == 2)
            await eventually(lambda: len(here.messages) + len(there.messages) == 20)
    taken = set(there.by_queue)
    assert len(taken) == 2
    assert all(there.by_queue[i] == [1, 2, 3, 4] and here.by_queue[i] == [0] for i in taken)


async def test_close_releases_the_locks_at_once(cluster, topic, group):
    here, there = Seen(), Seen()
    await send(cluster, topic, range(8))
    async with consumer(cluster, group, topic, here):
        await here.count(8)
    await send(cluster, topic, range(8))
    async with consumer(cluster, group, topic, there) as second:
        assert len(own(second, topic)) == 4
        await there.count(8)


async def test_a_queue_locked_by_another_member_is_released(cluster, topic, group, caplog):
    seen = Seen()
    async with consumer(cluster, group, topic, seen) as member:
        queue = MessageQueue(topic, "broker-a", 0)
        locks = cluster.brokers[0].services.locks
        locks.unlock(group, member.client_id, [queue])
        assert locks.lock(group, "somebody else", [queue], 2**50) == [queue]
        await member._runtime.queue_lock.renew()
        assert len(own(member, topic)) == 3
        assert "has lost its locks of" in caplog.text
        locks.unlock(group, "somebody else", [queue])
        await eventually(lambda: len(own(member, topic)) == 4)
        await send(cluster, topic, range(8))
        await seen.count(8)


async def test_an_expired_lock_stops_consumption_until_it_is_renewed(cluster, topic, group):
    seen = Seen()
    async with consumer(cluster, group, topic, seen) as member:
        await send(cluster, topic, range(4))
        await seen.count(4)
        for process in member._group.queues.values():
            process.lock(member._group.now() - orderly.LOCK_LIVE - 1)
        await send(cluster, topic, range(4))
        await seen.count(8)  # whoever finds the lock expired has it renewed
    assert seen.by_queue == {i: [0, 1] for i in range(4)}


def test_a_lock_is_requested_again_after_a_broker_outage(group):
    async def scenario(cluster):
        seen = Seen()
        topic = cluster.create_topic("away", 2)
        await send(cluster, topic, range(4))
        async with consumer(cluster, group, topic, seen) as member:
            await seen.count(4)
            await asyncio.to_thread(cluster.stop_broker)
            now = member._group.now
            await eventually(lambda: not any(p.is_usable(now()) for p in member._group.queues.values()))
            await asyncio.to_thread(cluster.start_broker)
            await send(cluster, topic, range(4))
            await seen.count(8)
            locks = cluster.brokers[0].services.locks
            assert locks.lock(group, "somebody else", own(member, topic), 0) == []
        assert seen.by_queue == {i: [0, 1, 2, 3] for i in range(2)}

    with Cluster() as own_cluster:
        asyncio.run(scenario(own_cluster))


async def test_a_returned_queue_continues_at_the_offset_of_the_other_member(cluster, topic, group, caplog):
    seen = Seen()
    await send(cluster, topic, range(2), 0)
    async with consumer(cluster, group, topic, seen) as member, Admin(cluster.namesrv) as admin:
        await seen.count(2)
        queue = MessageQueue(topic, "broker-a", 0)
        await eventually(lambda: member._group.offsets.get(queue) == 2)
        member._group.queues[queue].unlock()
        await admin.set_group_offset(group, queue, 3)
        await send(cluster, topic, range(2, 4), 0)
        await seen.count(3)
    assert "another member had them meanwhile" in caplog.text
    assert seen.bodies == ["0", "1", "3"]


def test_the_blocking_consumer_consumes_in_order(cluster, topic, group):
    asyncio.run(send(cluster, topic, range(20), 2))
    got, done = [], threading.Event()
    with BlockingConsumer(group, cluster.namesrv, orderly=True, consume_from=FIRST) as member:

        @member.on(topic)
        def handle(message):
            got.append(int(message.body))
            if len(got) == 20:
                done.set()

        member.start()
        assert done.wait(PATIENCE)
    assert got == list(range(20))


async def test_an_async_listener_can_close_its_consumer(cluster, topic, group):
    seen, closed = Seen(), asyncio.Event()

    async def listen(message):
        seen(message)
        if len(seen.messages) == 3:
            await member.close()
            closed.set()

    await send(cluster, topic, range(5), 0)
    member = consumer(cluster, group, topic, listen)
    await member.start()
    async with asyncio.timeout(PATIENCE):
        await closed.wait()
    assert seen.bodies == ["0", "1", "2"]
    assert await offset(cluster, group, topic) == 2


async def test_close_with_a_timeout_keeps_the_lock_of_a_running_listener(cluster, topic, group, caplog):
    here, release = Seen(), threading.Event()

    def hangs(message):
        here(message)
        release.wait(PATIENCE)

    await send(cluster, topic, range(2), 0)
    member = consumer(cluster, group, topic, hangs)
    await member.start()
    await here.count(1)
    await member.close(timeout=0.05)
    assert "still run after 0.05 s" in caplog.text
    locks = cluster.brokers[0].services.locks
    queues = [MessageQueue(topic, "broker-a", i) for i in range(4)]
    assert locks.lock(group, "next", queues, 0) == queues[1:]
    release.set()


async def test_invalid_arguments_raise_at_once(cluster, group):
    for options in ({"suspend_seconds": 60}, {"message_model": "BROADCASTING"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            PushConsumer(group, cluster.namesrv, orderly=True, **options)
    with pytest.raises(ConfigError, match="takes one message"):
        consumer(cluster, group, "T", lambda message: None, consume_batch_size=2)
