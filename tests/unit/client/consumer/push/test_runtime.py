"""Problems of a push consumer: health, log lines, and a waiting close."""

import asyncio
import json
import logging
import threading

import pytest

from rocketmq_py.client.consumer import flow_control_log
from rocketmq_py.client.consumer.push import pull_loop, runtime
from rocketmq_py.core.consumer import rebalance
from rocketmq_py.model import ConsumeResult
from rocketmq_py.protocol.bodies.client import ConsumerConnection, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import eventually
from tests.unit.client.consumer.push.test_consumer import (
    BROKER,
    RETRY,
    TOPIC,
    pulled,
    record,
    scenario,
    with_broker,
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """A rebalance once in a millisecond."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)


def lines(caplog, text, level=logging.WARNING):
    return [r.getMessage() for r in caplog.records if text in r.getMessage() and r.levelno >= level]


# -- health


@with_broker()
async def test_a_missing_topic_is_a_problem_until_it_exists(broker, caplog):
    del broker.routes[TOPIC]
    async with broker.consumer(rebalance_interval=0.01) as member:
        assert not member.health().ok
        assert "no route for topic 'T'" in member.health().problems[0]
        broker.routes[TOPIC] = {"b": 1}
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        await eventually(lambda: member.health().ok)
    assert len(lines(caplog, "topic T is not consumed for now")) == 1
    assert lines(caplog, "topic T is consumed again")


@with_broker()
async def test_a_missing_topic_that_is_unsubscribed_is_no_problem(broker):
    async with broker.consumer(rebalance_interval=0.01) as member:
        member.subscribe("other", listener=broker.take)
        await eventually(lambda: not member.health().ok)
        member.unsubscribe("other")
        await eventually(lambda: member.health().ok)


@with_broker()
async def test_a_retry_topic_that_does_not_exist_yet_is_no_problem(broker):
    del broker.routes[RETRY]
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        assert member.health().ok


@with_broker()
async def test_a_broker_that_refuses_pulls_is_a_problem_until_it_answers(broker, caplog):
    refused = [Command(ResponseCode.NO_PERMISSION, remark="not for you")] * 3
    broker.pulls[TOPIC, 0] = [*refused, pulled(0, 1, record(0))]
    async with broker.consumer(pull_delay_after_error=0.05) as member:
        await eventually(lambda: any("not for you" in problem for problem in member.health().problems))
        assert not member.health().ok
        await broker.arrived.wait()
        await eventually(lambda: member.health().ok)
    assert len(lines(caplog, "not for you")) == 1
    assert lines(caplog, "pulling T@b:0 works again")


def test_a_frozen_broker_is_a_problem(monkeypatch):
    monkeypatch.setattr(pull_loop, "PULL_TIMEOUT", 0.02)

    async def run(broker):
        async with broker.consumer() as member:
            await eventually(lambda: not member.health().ok)
            assert "b:1" in member.health().problems[0]

    scenario(run)


@with_broker()
async def test_a_released_queue_leaves_no_problem(broker):
    broker.pulls[TOPIC, 0] = [Command(ResponseCode.NO_PERMISSION, remark="no")] * 1000
    async with broker.consumer() as member:
        await eventually(lambda: not member.health().ok)
        member.unsubscribe(TOPIC)
        await eventually(lambda: member.health().ok)


@with_broker()
async def test_a_topic_deleted_at_its_master_is_a_problem_until_it_is_pulled_again(broker):
    broker.pulls[TOPIC, 0] = [Command(ResponseCode.TOPIC_NOT_EXIST, remark="topic[T] not exist")]
    async with broker.consumer(rebalance_interval=0.01) as member:
        await eventually(lambda: any("not exist" in problem for problem in member.health().problems))
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
        await broker.arrived.wait()
        await eventually(lambda: member.health().ok)


def test_members_with_other_subscriptions_are_a_problem_until_they_agree(caplog):
    theirs = {TOPIC: "b"}

    def connections(request):
        table = {topic: SubscriptionData.parse(topic, tags, 1) for topic, tags in theirs.items()}
        return Command(0, body=ConsumerConnection(subscription_table=table).encode())

    async def run(broker):
        broker.special[Code.GET_CONSUMER_CONNECTION_LIST] = connections
        members = [broker.instance.client_id, "other"]
        broker.special[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda request: Command(
            0, body=json.dumps({"consumerIdList": members}).encode()
        )
        async with broker.consumer(rebalance_interval=0.01) as member:
            await eventually(lambda: any("different subscriptions" in text for text in member.health().problems))
            assert not member.health().ok
            theirs[TOPIC] = "*"
            await eventually(lambda: not member.health().problems)
        assert len(lines(caplog, "different subscriptions")) == 1

    scenario(run)


# -- flow control


@pytest.mark.parametrize(
    ("option", "limit"),
    [({"pull_threshold_for_queue": 1}, "1 messages"), ({"consume_max_span": 1}, "1 offsets")],
)
def test_flow_control_is_logged_when_it_begins_and_when_it_ends(option, limit, caplog, monkeypatch):
    monkeypatch.setattr(flow_control_log, "NOTICE_AFTER", 0.06)
    go = asyncio.Event()

    async def wait(message):
        await go.wait()

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 3, record(0) + record(1) + record(2))]
        async with broker.consumer(wait, **option):
            await eventually(lambda: lines(caplog, "flow control: group g has not pulled T@b:0"))
            [line] = lines(caplog, "flow control")
            assert "holds 3 messages" in line
            assert "offsets 0 to 2" in line
            assert f"the limit is {limit}" in line
            go.set()
            await eventually(lambda: lines(caplog, "flow control: group g pulls T@b:0 again after"))

    scenario(run)


@with_broker()
async def test_short_flow_control_is_not_logged(broker, caplog):
    broker.pulls[TOPIC, 0] = [pulled(0, 3, record(0) + record(1) + record(2))]
    async with broker.consumer(pull_threshold_for_queue=1):
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="3"))
    assert not lines(caplog, "flow control", logging.INFO)


# -- dead letters


@pytest.mark.parametrize("level", [-1, 0])
def test_a_dead_letter_is_logged_as_one(level, caplog):
    def fail(messages, context):
        context.delay_level = level
        return ConsumeResult.RECONSUME_LATER

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
        async with broker.consumer(fail, max_reconsume_times=0 if level == 0 else 5):
            await broker.until(lambda: broker.asked(Code.CONSUMER_SEND_MSG_BACK))
        [line] = lines(caplog, "dead letter")
        assert "has failed 1 times and goes to topic %DLQ%g" in line

    scenario(run)


@with_broker()
async def test_a_message_with_retries_left_is_no_dead_letter(broker, caplog):
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    async with broker.consumer(lambda message: ConsumeResult.RECONSUME_LATER, max_reconsume_times=1):
        await broker.until(lambda: broker.asked(Code.CONSUMER_SEND_MSG_BACK))
    assert not lines(caplog, "dead letter")


# -- close


@pytest.mark.parametrize("orderly", [False, True])
def test_a_waiting_close_logs_the_reason(orderly, caplog, monkeypatch):
    monkeypatch.setattr(runtime, "CLOSE_NOTICE", 0.01)
    begun, go = threading.Event(), threading.Event()

    def hang(message):
        begun.set()
        assert go.wait(30)

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 2, record(0) + record(1))]
        options = {"consume_threads": 1, "orderly": orderly}
        if orderly:
            broker.special[Code.LOCK_BATCH_MQ] = lambda request: Command(
                0, body=json.dumps({"lockOKMQSet": json.loads(request.body)["mqSet"]}).encode()
            )
        member = broker.consumer(hang, **options)
        await member.start()
        assert await asyncio.to_thread(begun.wait, 30)
        closing = asyncio.ensure_future(member.close())
        await eventually(lambda: lines(caplog, "waits for 1 running listeners (T@b:0 at 0)"))
        assert "close_timeout" in lines(caplog, "running listeners")[0]
        assert not closing.done()
        go.set()
        await closing

    scenario(run)


def test_the_end_of_a_with_block_waits_for_close_timeout(caplog):
    begun, go = threading.Event(), threading.Event()

    def hang(message):
        begun.set()
        assert go.wait(30)

    async def run(broker):
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
        async with broker.consumer(hang, close_timeout=0.01):
            assert await asyncio.to_thread(begun.wait, 30)
        go.set()
        assert lines(caplog, "still run after 0.01 s")

    scenario(run)


@with_broker()
async def test_the_rebalance_interval_is_an_option(broker):
    async with broker.consumer(rebalance_interval=0.01):
        await broker.until(lambda: len(broker.network.codes(BROKER)) and
                           broker.network.codes(BROKER).count(Code.GET_CONSUMER_LIST_BY_GROUP) > 6)  # fmt: skip


async def turns(number: int) -> None:
    """Let tasks that are ready run."""
    for _ in range(number):
        await asyncio.sleep(0)


@with_broker()
async def test_a_queue_whose_topic_is_not_subscribed_is_logged_once(broker, caplog):
    broker.pulls[TOPIC, 0] = [pulled(ResponseCode.PULL_NOT_FOUND, 0)]
    async with broker.consumer() as member:
        known = member._group.announced.pop(TOPIC)
        await eventually(lambda: lines(caplog, "T@b:0 is not pulled: topic T is not subscribed"))
        await asyncio.sleep(0.05)
        member._group.announced[TOPIC] = known
        member.suspend()
        member._runtime.fetcher.wake_all()
        await turns(10)
        assert len(lines(caplog, "is not subscribed")) == 1
        member._group.announced.pop(TOPIC)
        member.resume()
        await eventually(lambda: len(lines(caplog, "is not subscribed")) == 2)
