"""Consumers in a namespace: brokers see names with it, applications names without it."""

import asyncio
import json

import pytest

from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record
from tests.unit.client.consumer import popbroker
from tests.unit.client.consumer.pull import test_consumer as pull
from tests.unit.client.consumer.push import test_consumer as push
from tests.unit.client.consumer.push.test_consumer import Broker, pulled
from tests.unit.client.scripted import made_by

TOPIC, RETRY = "shop%T", "%RETRY%shop%g"
QUEUE, NAMED = MessageQueue("T", "b", 0), MessageQueue(TOPIC, "b", 0)


def record(offset, topic=TOPIC, properties=b""):
    head = RecordHead(0, 0, 0, 0, 0, offset, 1000 + offset, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    return encode_record(head, topic, b"x", properties)


def scenario(function):
    async def run(broker: Broker):
        broker.routes = {TOPIC: {"b": 1}, RETRY: {"b": 1}}
        broker.stored = {TOPIC: 0, RETRY: 0}
        await function(broker)

    push.scenario(run)


with_broker = made_by(scenario)


def test_a_push_consumer_subscribes_pulls_and_commits_with_the_namespace():
    changes = []

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
        member = broker.consumer(
            namespace="shop", queues_changed=lambda topic, queues, mine: changes.append((topic, queues, mine))
        )
        async with member:
            await broker.arrived.wait()
            assert QUEUE in member.queues
            assert QUEUE in [queue.queue for queue in member.health().queues]
            assert member.health().rates["T"]["pullTPS"] >= 0
            await popbroker.eventually(lambda: member._group.stats("T").ok.count == 1)
            beat = HeartbeatData.decode(broker.asked(Code.HEART_BEAT)[-1].body).consumer_data_set[0]
        assert beat.group_name == "shop%g"
        assert {one.topic for one in beat.subscription_data_set} == {TOPIC, RETRY}
        assert [message.topic for message in broker.seen] == ["T"]
        stored = broker.asked(Code.UPDATE_CONSUMER_OFFSET, topic=TOPIC)[-1]
        assert (stored.ext["consumerGroup"], stored.ext["topic"], stored.ext["commitOffset"]) == ("shop%g", TOPIC, "1")
        assert ("T", [QUEUE], [QUEUE]) in changes

    scenario(run)


def test_failed_messages_are_sent_back_with_the_namespace():
    seen = []

    def listen(message):
        seen.append((message.topic, message.reconsume_times))
        return ConsumeResult.RECONSUME_LATER

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
        retried = record(0, RETRY, f"RETRY_TOPIC\x01{TOPIC}".encode())
        broker.pulls[RETRY, 0] = [pulled(0, 1, retried)]
        broker.routes[RETRY] = {"b": 1}
        async with broker.consumer(listen, namespace="shop"):
            await broker.until(lambda: len(broker.asked(Code.CONSUMER_SEND_MSG_BACK)) == 2)
        sent = {request.ext["originTopic"] for request in broker.asked(Code.CONSUMER_SEND_MSG_BACK)}
        assert sent == {TOPIC}
        assert {topic for topic, _ in seen} == {"T"}

    scenario(run)


@with_broker()
async def test_a_lite_pull_consumer_takes_and_returns_names_without_the_namespace(broker):
    broker.special[Code.LITE_PULL_MESSAGE] = lambda request: (
        pulled(0, 1, record(0)) if request.ext["queueOffset"] == "0" else None
    )
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "5"})
    broker.special[Code.GET_MIN_OFFSET] = lambda request: Command(0, ext={"offset": "0"})
    async with LitePullConsumer("g", instance=broker.instance, namespace="shop") as member:
        assert await member.queues("T") == [QUEUE]
        member.assign([QUEUE])
        assert member.assignment == [QUEUE]
        [message] = await member.poll(30)
        assert message.queue == QUEUE
        member.pause([QUEUE])
        assert member.paused == [QUEUE]
        await member.commit()
        assert await member.committed(QUEUE) == 1
        assert await member.lag() == {QUEUE: 4}
        await member.seek(QUEUE, 3)
        await member.commit({QUEUE: 3})
        assert await member.committed(QUEUE) == 3
    asked = [request.ext["topic"] for _, request in broker.network.requests if "topic" in request.ext]
    assert set(asked) <= {TOPIC, "TBW102"}


@with_broker()
async def test_a_pull_consumer_takes_and_returns_names_without_the_namespace(broker):
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    async with pull.consumer(broker, namespace="shop", topics=["T"]) as member:
        assert await member.queues("T") == [QUEUE]
        assert member.assignment("T") == [QUEUE]
        result = await member.pull(QUEUE, 0)
        assert [message.topic for message in result.messages] == ["T"]
        member.update_offset(QUEUE, 1)
        assert await member.committed(QUEUE) == 1
        assert await member.committed(QUEUE, from_store=True) == 0
        await member.commit({QUEUE: 1})
        await member.send_back(result.messages[0])
    [back] = broker.asked(Code.CONSUMER_SEND_MSG_BACK)
    assert (back.ext["group"], back.ext["originTopic"]) == ("shop%g", TOPIC)
    assert broker.asked(Code.UPDATE_CONSUMER_OFFSET, topic=TOPIC)


@pytest.mark.parametrize("count", [1, 2])
def test_received_messages_are_acked_with_the_namespace(count):
    async def run(brokers):
        brokers.topics = {TOPIC}
        brokers.has["b"] = [[record(offset) for offset in range(count)]]
        member = SimpleConsumer("g", instance=brokers.instance, namespace="shop")
        member.subscribe("T")
        async with member:
            messages = await member.receive()
            assert [message.topic for message in messages] == ["T"] * count
            assert [source.topic for source in member.health().sources] == ["T"]
            await member.extend(messages[0], 60)
            await member.ack(messages)
        [pop] = [request for request in brokers.asked(Code.POP_MESSAGE) if request.ext["topic"] == TOPIC]
        assert pop.ext["consumerGroup"] == "shop%g"
        [extend] = brokers.asked(Code.CHANGE_MESSAGE_INVISIBLETIME)
        assert (extend.ext["topic"], extend.ext["consumerGroup"]) == (TOPIC, "shop%g")
        if count == 1:
            assert brokers.asked(Code.ACK_MESSAGE)[0].ext["topic"] == TOPIC
        else:
            acks = json.loads(brokers.asked(Code.BATCH_ACK_MESSAGE)[0].body)["acks"]
            assert {(ack["t"], ack["c"]) for ack in acks} == {(TOPIC, "shop%g")}

    popbroker.scenario(run)


def test_an_illegal_namespace_is_refused():
    with pytest.raises(ConfigError, match="namespace"):
        SimpleConsumer("g", "ns:1", namespace="a%b")


@with_broker()
async def test_names_without_a_namespace_are_not_changed(broker):
    member = LitePullConsumer("g", instance=broker.instance)
    member.assign([NAMED])
    assert member.assignment == [NAMED]
    await asyncio.sleep(0)
