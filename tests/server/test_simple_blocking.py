"""The simple consumer, blocking face, against our own brokers: two of them, one of which goes and comes back."""

import asyncio
import itertools
import threading

import pytest

from rocketmq_py import (
    ClosedError,
    ConfigError,
    ConsumeFromWhere,
    InvalidReceipt,
    Message,
    Producer,
    SimpleConsumer,
    aio,
)
from rocketmq_py.testing import Cluster

PATIENCE = 240.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as running:
        yield running


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"topic-{next(_numbers)}", 2)


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"


def send(cluster, topic, count, start=0):
    with Producer("sender", cluster.namesrv) as producer:
        for i in range(start, start + count):
            producer.send(Message(topic, f"{i}"))


def consumer(cluster, group, topic, **options):
    made = SimpleConsumer(group, cluster.namesrv, **{"consume_from": ConsumeFromWhere.FIRST_OFFSET, **options})
    made.subscribe(topic)
    return made


def numbers(messages):
    return sorted(int(message.body) for message in messages)


def received(member, count, **options):
    found = []
    while len(found) < count:
        messages = member.receive(timeout=PATIENCE, **options)
        assert messages, f"{len(found)} of {count} messages came"
        found += messages
    return found


def test_messages_of_all_brokers_are_received_and_acked(cluster, topic, group):
    send(cluster, topic, 20)
    with consumer(cluster, group, topic) as member:
        found = received(member, 20)
        assert numbers(found) == list(range(20))
        assert {message.broker_name for message in found} == {"broker-a", "broker-b"}
        member.ack(found)
        assert member.receive(timeout=0) == []
        assert sum(member.lag().values()) == 0
        assert member.health().ok
        assert {source.broker_name for source in member.health().sources} == {"broker-a", "broker-b"}
        assert (member.group, "@" in member.client_id) == (group, True)
    assert "closed" in repr(member)
    with pytest.raises(ClosedError):
        member.receive()
    with consumer(cluster, group, topic) as member:
        member.unsubscribe(topic)
        with pytest.raises(ConfigError):
            member.receive()


def test_a_returned_message_is_redelivered_at_once_with_a_new_receipt(cluster, topic, group):
    send(cluster, topic, 1)
    with consumer(cluster, group, topic) as member:
        [message] = received(member, 1)
        member.extend(message, 0)
        [again] = received(member, 1)
        assert (again.body, again.reconsume_times) == (b"0", 1)
        with pytest.raises(InvalidReceipt):
            member.ack(message)
        member.ack(again)


def test_threads_share_a_consumer_and_iteration_ends_with_close(cluster, topic, group):
    seen, enough = [], threading.Event()
    send(cluster, topic, 30)

    def work():
        for message in member:
            member.ack(message)
            seen.append(int(message.body))
            if len(seen) == 30:
                enough.set()

    with consumer(cluster, group, topic) as member:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE), len(seen)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(30))


def test_it_continues_during_and_after_a_broker_outage(cluster, topic, group):
    async def receive_and_ack(member, count):
        found = []
        while len(found) < count:
            found += (messages := await member.receive(timeout=PATIENCE))
            assert messages
        await member.ack(found)
        return found

    async def run():
        instance = aio.ClientInstance(cluster.namesrv, route_interval=0.2)
        async with aio.SimpleConsumer(group, instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
            member.subscribe(topic)
            await asyncio.to_thread(send, cluster, topic, 8)
            await receive_and_ack(member, 8)
            await asyncio.to_thread(cluster.stop_broker, 1)
            await asyncio.to_thread(send, cluster, topic, 4, 8)
            assert numbers(await receive_and_ack(member, 4)) == [8, 9, 10, 11]
            await asyncio.to_thread(cluster.start_broker, 1)
            brokers = set()
            while brokers != {"broker-a", "broker-b"}:
                await asyncio.to_thread(send, cluster, topic, 4)
                brokers |= {message.broker_name for message in await receive_and_ack(member, 4)}
        await instance.stop()

    asyncio.run(run())


def test_messages_popped_before_a_restart_can_be_acked_after_it(cluster, topic, group):
    send(cluster, topic, 6)
    with consumer(cluster, group, topic) as member:
        found = received(member, 6, invisible_duration=120)
        cluster.stop_broker(0)
        cluster.start_broker(0)
        member.ack(found)
        assert sum(member.lag().values()) == 0
