"""The older pull consumer against a scripted broker: errors of missing topics and brokers, and offsets."""

import asyncio
import warnings

import pytest

from rocketmq_py.client.consumer.pull.consumer import PullConsumer
from rocketmq_py.errors import NetworkError, NoRouteError, PermissionDenied
from rocketmq_py.model import MessageQueue, PullStatus
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import eventually
from tests.unit.client.consumer.push.test_consumer import (
    BROKER,
    GROUP,
    NS,
    QUEUE,
    TOPIC,
    Broker,
    pulled,
    record,
    with_broker,
)


def consumer(broker: Broker, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return PullConsumer(GROUP, instance=broker.instance, **options)


@with_broker()
async def test_a_pull_returns_messages_and_an_update_is_stored_at_the_end(broker):
    broker.pulls[TOPIC, 4] = [pulled(0, 5, record(4))]
    async with consumer(broker) as member:
        result = await member.pull(QUEUE, 4, "a || b")
        assert result.status is PullStatus.FOUND
        assert (result.next_offset, [m.queue_offset for m in result.messages]) == (
            5,
            [],
        )  # it has another tag
        [request] = broker.asked(Code.PULL_MESSAGE)
        sent = {name: request.ext[name] for name in ("sysFlag", "subscription", "suspendTimeoutMillis")}
        assert sent == {"sysFlag": "4", "subscription": "a || b", "suspendTimeoutMillis": "20000"}
        member.update_offset(QUEUE, 5)
        assert await member.committed(QUEUE) == 5
        assert await member.committed(QUEUE, from_store=True) == 0
    [stored] = broker.asked(Code.UPDATE_CONSUMER_OFFSET)
    assert stored.ext["commitOffset"] == "5"


@with_broker()
async def test_a_start_without_a_name_server_raises(broker):
    broker.network.unreachable.add(NS)
    for topics in ((), (TOPIC,)):
        with pytest.raises(NetworkError, match="ns:1"):
            await consumer(broker, topics=topics).start()


@with_broker()
async def test_a_pull_of_a_topic_that_does_not_exist_raises(broker):
    async with consumer(broker) as member:
        with pytest.raises(NoRouteError, match="missing"):
            await member.pull(MessageQueue("missing", "b", 0), 0)
        with pytest.raises(NoRouteError, match="missing"):
            await member.queues("missing")


@with_broker()
async def test_a_pull_from_a_broker_that_is_away_or_refuses_raises(broker):
    async with consumer(broker) as member:
        await member.queues(TOPIC)
        broker.network.unreachable.add(BROKER)
        with pytest.raises(NetworkError, match="b:1"):
            await member.pull(QUEUE, 0)
        broker.network.unreachable.clear()
        broker.pulls[TOPIC, 0] = [Command(ResponseCode.NO_PERMISSION, remark="not for you")]
        with pytest.raises(PermissionDenied, match="not for you"):
            await member.pull(QUEUE, 0)


@with_broker()
async def test_a_missing_registered_topic_is_a_problem_until_it_exists(broker):
    del broker.routes[TOPIC]
    async with consumer(broker, topics=[TOPIC], rebalance_interval=0.01) as member:
        assert not member.health().ok
        broker.routes[TOPIC] = {"b": 1}
        await eventually(lambda: member.assignment() == [QUEUE])
        assert member.health().ok


@with_broker()
async def test_a_group_change_rebalances_at_once(broker):
    async with consumer(broker, topics=[TOPIC]) as member:
        asked = len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP))
        await member.on_ids_changed()
        async with asyncio.timeout(10):
            await broker.until(lambda: len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP)) > asked)
