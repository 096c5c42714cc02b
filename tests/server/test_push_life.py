"""The push consumer over time: its share of the queues, its workers, and notifications."""

import asyncio
import threading

import pytest

from rocketmq_py import ConsumeHook, PushConsumer as BlockingConsumer
from rocketmq_py.aio import ConfigError, Message, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.consumer.push import pull_loop
from rocketmq_py.core.consumer import process_queue, rebalance
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually


@pytest.fixture
def hurry(monkeypatch):
    """Brokers hold pulls no longer than 0.1 s, and an unbalanced group is balanced again after 0.05 s."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.05)
    monkeypatch.setattr(pull_loop, "SUSPEND_SECONDS", 0.1)


async def send(cluster, topic, count, queue_id=None):
    queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
    async with Producer("sender", cluster.namesrv) as producer:
        for i in range(count):
            await producer.send(Message(topic, f"{i:03}"), queue=queue)


def consumer(cluster, group, topic, listener, **options):
    made = PushConsumer(group, cluster.namesrv, **{"consume_from": FIRST, **options})
    made.subscribe(topic, listener=listener)
    return made


async def test_whoever_wants_to_know_hears_of_queues_that_come_and_go(cluster, topic, group):
    told = []

    def changed(about, queues, mine):
        if about == topic:  # the retry topic's queue comes and goes, too
            told.append((len(queues), len(mine)))

    async with consumer(cluster, group, topic, Seen(), queues_changed=changed):
        assert told == [(4, 4)]
        async with consumer(cluster, group, topic, Seen()):
            await eventually(lambda: told[-1] == (4, 2))
        await eventually(lambda: told[-1] == (4, 4))


async def test_the_limits_of_a_topic_are_shared_by_the_queues_there_are(cluster, topic, group):
    options = {"pull_threshold_for_topic": 100, "pull_threshold_size_for_topic": 8}
    async with consumer(cluster, group, topic, Seen(), **options) as one:
        limits = one._group.limits
        assert (limits[topic].count, limits[topic].mebibytes) == (25, 2)
        async with consumer(cluster, group, topic, Seen(), **options):
            await eventually(lambda: (limits[topic].count, limits[topic].mebibytes) == (50, 4))
        await eventually(lambda: limits[topic].count == 25)


def test_pulling_waits_at_the_share_of_a_topics_limit(cluster, topic, group):
    go = threading.Event()

    async def scenario():
        seen = Seen()

        def wait(message):
            assert go.wait(PATIENCE)
            seen(message)

        await send(cluster, topic, 60, 0)
        options = {"pull_threshold_for_topic": 40, "pull_batch_size": 4, "consume_threads": 1}
        async with consumer(cluster, group, topic, wait, **options) as member:

            def held():
                queues = member.health().queues
                return next(each.held for each in queues if each.queue == MessageQueue(topic, "broker-a", 0))

            await eventually(lambda: held() > 10)
            most = held()
            assert most <= 10 + 4, "a fourth of the topic's limit, and one more batch"
            go.set()
            await seen.count(60)

    asyncio.run(scenario())


def test_a_queue_whose_pull_loop_was_lost_is_rebuilt(cluster, topic, group, hurry, monkeypatch):
    monkeypatch.setattr(process_queue, "PULL_MAX_IDLE", 1.0)

    async def scenario():
        seen = Seen()
        async with consumer(cluster, group, topic, seen, rebalance_interval=0.1) as member:
            lost = next(process for queue, process in member._group.queues.items() if queue.topic == topic)
            member._runtime.fetcher._pull._tasks[lost].cancel()
            await send(cluster, topic, 1, lost.queue.queue_id)
            await seen.count(1)
            assert lost.dropped
            assert member._group.queues[lost.queue] is not lost

    asyncio.run(scenario())


async def test_the_number_of_workers_is_changed_at_run_time(cluster, topic, group):
    busy, go = set(), threading.Event()

    def wait(message):
        busy.add(message.queue_offset)
        assert go.wait(PATIENCE)

    await send(cluster, topic, 30, 0)
    async with consumer(cluster, group, topic, wait, consume_threads=2) as member:
        await eventually(lambda: len(busy) == 2)
        with pytest.raises(ConfigError, match="consume_threads"):
            member.resize(0)
        member.resize(7)
        await eventually(lambda: len(busy) == 7)
        assert member.running_info()["properties"]["PROP_THREADPOOL_CORE_SIZE"] == "7"
        go.set()
        await eventually(lambda: len(busy) == 30)


def test_hooks_and_workers_of_the_blocking_face(cluster, topic, group):
    class Count(ConsumeHook):
        def __init__(self):
            self.calls = []

        def after(self, consumption):
            self.calls.append((consumption.group, consumption.queue.topic, consumption.succeeded))

    hook, all_seen, seen = Count(), threading.Event(), []

    def listen(message):
        seen.append(message)
        if len(seen) == 5:
            all_seen.set()

    asyncio.run(send(cluster, topic, 5))
    member = BlockingConsumer(group, cluster.namesrv, listener=listen, hooks=[hook], consume_from=FIRST)
    member.subscribe(topic)
    with member:
        member.resize(3)
        assert all_seen.wait(PATIENCE)
        with pytest.raises(ConfigError):
            member.resize(1001)
    assert hook.calls == [(group, topic, True)] * 5


async def test_the_stacks_of_threads_and_tasks_are_returned(cluster, topic, group):
    go, here = asyncio.Event(), asyncio.Event()

    async def waits_in_a_listener(message):
        here.set()
        await go.wait()

    await send(cluster, topic, 1)
    async with consumer(cluster, group, topic, waits_in_a_listener) as member:
        await here.wait()
        stacks = member.stacks()
        go.set()
    assert "waits_in_a_listener" in stacks
    assert "MainThread" in stacks
