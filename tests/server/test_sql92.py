"""Consumers that filter by SQL expression, against our own broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rocketmq_py import ConfigError, ConsumeFromWhere, ConsumeResult, Message, Producer, PushConsumer, aio
from rocketmq_py.testing import Cluster

FIRST = ConsumeFromWhere.FIRST_OFFSET
PATIENCE = 240.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(enable_property_filter=True, message_delay_level="1s 1s 1s") as running:
        yield running


class Seen:
    """The bodies a listener got, and a way to wait until it has them all."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, message: aio.MessageExt) -> None:
        self.bodies.append(message.body)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def until(self, *bodies: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while not set(bodies) <= set(self.bodies):
                await self._changed.wait()
                self._changed.clear()


async def send(cluster: Cluster, topic: str, *values: object) -> None:
    async with aio.Producer(group="p", namesrv=cluster.namesrv) as producer:
        for value in values:
            await producer.send(Message(topic, str(value).encode(), tags="A", properties={"a": str(value)}))


def test_only_matching_messages_are_delivered(cluster: Cluster) -> None:
    topic = cluster.create_topic("matches", 2)

    async def run() -> None:
        seen = Seen()
        await send(cluster, topic, 1, 10, "x", 7)
        async with aio.PushConsumer("g1", cluster.namesrv, consume_from=FIRST) as consumer:
            consumer.subscribe(topic, sql="a > 5 AND TAGS = 'A'", listener=seen)
            await consumer.start()
            await seen.until(b"10", b"7")
            await send(cluster, topic, 2, 20)  # wakes the pulls that wait now
            await seen.until(b"20")
        assert sorted(seen.bodies) == [b"10", b"20", b"7"]

    asyncio.run(run())


def test_an_expression_is_changed_while_the_consumer_runs(cluster: Cluster) -> None:
    topic = cluster.create_topic("changes", 1)

    async def run() -> None:
        seen = Seen()
        async with aio.PushConsumer("g2", cluster.namesrv, consume_from=FIRST, listener=seen) as consumer:
            consumer.subscribe(topic, sql="a > 5")
            await consumer.start()
            await send(cluster, topic, 1, 10)
            await seen.until(b"10")
            version = consumer.heartbeat().subscription_data_set[0].sub_version
            consumer.subscribe(topic, sql="a <= 5")
            filters = cluster.brokers[0].services.filters
            async with asyncio.timeout(PATIENCE):
                while filters.get(topic, "g2").client_version <= version:  # noqa: ASYNC110 - nobody announces it
                    await asyncio.sleep(0.02)
            await send(cluster, topic, 11, 2)
            await seen.until(b"2")
        assert b"1" not in seen.bodies

    asyncio.run(run())


def test_failed_messages_are_redelivered_whatever_the_expression(cluster: Cluster) -> None:
    topic = cluster.create_topic("retries", 1)

    async def run() -> None:
        seen = Seen()
        attempts: list[int] = []

        async def listener(message: aio.MessageExt) -> ConsumeResult:
            attempts.append(message.reconsume_times)
            if not message.reconsume_times:
                return ConsumeResult.RECONSUME_LATER
            seen(message)
            return ConsumeResult.SUCCESS

        await send(cluster, topic, 1, 10)
        async with aio.PushConsumer("g3", cluster.namesrv, consume_from=FIRST) as consumer:
            consumer.subscribe(topic, sql="a > 5", listener=listener)
            await consumer.start()
            await seen.until(b"10")
        assert attempts == [0, 1]

    asyncio.run(run())


def test_blocking_consumers_filter_by_sql(cluster: Cluster) -> None:
    topic = cluster.create_topic("blocking", 1)
    with Producer(group="p", namesrv=cluster.namesrv) as producer:
        for value in ("1", "10"):
            producer.send(Message(topic, value.encode(), properties={"a": value}))

    async def run() -> None:
        seen = Seen()
        with PushConsumer("g4", cluster.namesrv, consume_from=FIRST) as consumer:
            consumer.on(topic, sql="a > 5")(seen)
            await asyncio.to_thread(consumer.start)
            await seen.until(b"10")
            await asyncio.to_thread(consumer.close)
        assert seen.bodies == [b"10"]

    asyncio.run(run())


def test_a_broker_without_sql_filters_is_named_at_the_start() -> None:
    with Cluster() as plain:
        topic = plain.create_topic("plain", 1)
        consumer = PushConsumer("g5", plain.namesrv, listener=lambda message: None)
        consumer.subscribe(topic, sql="a > 5")
        with pytest.raises(ConfigError, match=r"does not filter topic plain by SQL .* set enablePropertyFilter=true"):
            consumer.start()
