"""Orderly and broadcasting consumers against a scripted broker: their requests and their order."""

import asyncio
import json

import pytest

from rocketmq_py.client.consumer.rebalance import queue_lock
from rocketmq_py.core.consumer import flow_control, orderly, rebalance
from rocketmq_py.model import MessageModel, OrderlyResult
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.push.test_consumer import (
    GROUP,
    QUEUE,
    RETRY,
    TOPIC,
    ask,
    pulled,
    record,
    scenario,
    with_broker,
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)
    monkeypatch.setattr(flow_control, "STATE_DELAY", 0.001)


def locks_for(broker, refused=()):
    """The scripted broker grants locks, but those of ``refused`` topics."""

    def lock(request):
        asked = json.loads(request.body)["mqSet"]
        held = [queue for queue in asked if queue["topic"] not in refused]
        return Command(0, body=json.dumps({"lockOKMQSet": held}).encode())

    broker.special[Code.LOCK_BATCH_MQ] = lock


def topics_of(requests):
    return [{queue["topic"] for queue in json.loads(request.body)["mqSet"]} for request in requests]


@with_broker()
async def test_a_queue_is_locked_before_it_is_pulled_and_unlocked_after_its_offset_is_stored(broker):
    locks_for(broker)
    broker.pulls[TOPIC, 0] = [pulled(ResponseCode.SUCCESS, 1, record(0))]
    async with broker.consumer(orderly=True) as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="1"))
        codes = broker.network.codes()
        assert codes.index(Code.LOCK_BATCH_MQ) < codes.index(Code.QUERY_CONSUMER_OFFSET)
        assert codes.index(Code.QUERY_CONSUMER_OFFSET) < codes.index(Code.PULL_MESSAGE)
        lock = json.loads(broker.asked(Code.LOCK_BATCH_MQ)[0].body)
        assert (lock["consumerGroup"], lock["clientId"], lock["onlyThisBroker"]) == (GROUP, member.client_id, False)
        assert lock["mqSet"] == [{"topic": TOPIC, "brokerName": "b", "queueId": 0}]
        assert not broker.asked(Code.UNLOCK_BATCH_MQ)
    codes = broker.network.codes()
    assert codes.index(Code.UPDATE_CONSUMER_OFFSET) < codes.index(Code.UNLOCK_BATCH_MQ)
    assert codes.index(Code.UNLOCK_BATCH_MQ) < codes.index(Code.UNREGISTER_CLIENT)
    [unlock] = topics_of(broker.asked(Code.UNLOCK_BATCH_MQ))
    assert unlock == {TOPIC, RETRY}


@pytest.mark.parametrize("why", ["refused", "an error"])
def test_a_queue_that_cannot_be_locked_is_not_pulled_until_it_can(why, caplog):
    async def run(broker):
        if why == "refused":
            locks_for(broker, refused={TOPIC})
        else:
            broker.special[Code.LOCK_BATCH_MQ] = lambda request: Command(1, remark="not now")
        async with broker.consumer(orderly=True) as member:
            await broker.until(lambda: len(broker.asked(Code.LOCK_BATCH_MQ)) > 4)
            assert QUEUE not in member.queues
            assert not broker.asked(Code.PULL_MESSAGE)
            beats = len(broker.asked(Code.HEART_BEAT))
            await broker.until(lambda: len(broker.asked(Code.LOCK_BATCH_MQ)) > 8)
            assert len(broker.asked(Code.HEART_BEAT)) == beats, "waiting for a lock is no news for the brokers"
            locks_for(broker)
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
            assert QUEUE in member.queues

    scenario(run)
    told = [record.getMessage() for record in caplog.records if "locked at broker" in record.getMessage()]
    if why == "refused":
        assert told == []
    else:
        assert [text.split(" at ")[0] for text in told] == ["1 queues cannot be locked", "queues can be locked"], "once"


def test_a_queue_whose_lock_request_is_not_answered_is_unlocked_until_the_broker_confirms_it(monkeypatch):
    """The broker may handle the request when its sender has given it up, and nobody else could consume the queue."""
    monkeypatch.setattr(queue_lock, "TIMEOUT", 0.01)
    monkeypatch.setattr(orderly, "RELOCK_DELAY", 0.001)
    monkeypatch.setattr(orderly, "LOCK_REFRESH", 0.001)

    async def run(broker):
        locks_for(broker)
        grant = broker.special[Code.LOCK_BATCH_MQ]
        broker.special[Code.LOCK_BATCH_MQ] = lambda request: (
            None if TOPIC in topics_of([request])[0] else grant(request)
        )
        broker.special[Code.UNLOCK_BATCH_MQ] = lambda _: None
        async with broker.consumer(orderly=True):
            await broker.until(lambda: len(broker.asked(Code.UNLOCK_BATCH_MQ)) > 1)
            assert topics_of(broker.asked(Code.UNLOCK_BATCH_MQ))[:2] == [{TOPIC}] * 2, "that of the retry topic is held"
            broker.special[Code.LOCK_BATCH_MQ] = grant
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
            broker.special[Code.UNLOCK_BATCH_MQ] = lambda _: Command(0)
            unlocks = len(broker.asked(Code.UNLOCK_BATCH_MQ))
            locks = len(broker.asked(Code.LOCK_BATCH_MQ))
            await broker.until(lambda: len(broker.asked(Code.LOCK_BATCH_MQ)) > locks + 1)
            assert len(broker.asked(Code.UNLOCK_BATCH_MQ)) == unlocks, "it is ours now"

    scenario(run)


@with_broker()
async def test_a_reset_moves_the_offset_and_the_queue_is_locked_again(broker):
    locks_for(broker)
    broker.pulls[TOPIC, 0] = [pulled(ResponseCode.PULL_OFFSET_MOVED, 7)]
    async with broker.consumer(orderly=True):
        await broker.until(lambda: broker.asked(Code.UNLOCK_BATCH_MQ))
        codes = broker.network.codes()
        assert codes.index(Code.UPDATE_CONSUMER_OFFSET) < codes.index(Code.UNLOCK_BATCH_MQ)
        broker.stored[TOPIC] = 7
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="7"))


def test_running_info_shows_locks_and_uncommitted_messages():
    def listen(messages, context):
        context.auto_commit = False
        return OrderlyResult.SUCCESS

    async def run(broker):
        locks_for(broker)
        body = b"".join(record(offset) for offset in range(3))
        broker.pulls[TOPIC, 0] = [pulled(ResponseCode.SUCCESS, 3, body)]
        async with broker.consumer(listen, orderly=True) as member:
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="3"))
            while len(member._group.queues[QUEUE].kept) < 3:  # noqa: ASYNC110 - results settle in silence
                await asyncio.sleep(0.001)
            info = member.running_info()
            state = info["mqTable"][QUEUE]
            assert info["properties"]["PROP_CONSUMEORDERLY"] == "true"
            assert (state["locked"], state["lastLockTimestamp"] > 0, state["cachedMsgCount"]) == (True, True, 3)
            assert [state[f"transactionMsg{what}"] for what in ("Count", "MinOffset", "MaxOffset")] == [3, 0, 2]

    scenario(run)


@pytest.mark.parametrize(
    ("returns", "result"), [(None, "CR_SUCCESS"), (OrderlyResult.SUSPEND, "CR_LATER"), ("nonsense", "CR_LATER")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_broker_can_request_direct_consumption(returns, result, is_async):
    async def listen(message):
        return returns

    async def run(broker):
        locks_for(broker)
        async with broker.consumer(listen if is_async else lambda message: returns, orderly=True):
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
            _, _, body = await ask(broker, Code.CONSUME_MESSAGE_DIRECTLY, record(4, b"now"), consumerGroup=GROUP)
            answer = json.loads(body)
            assert (answer["order"], answer["consumeResult"]) == (True, result)

    scenario(run)


@with_broker()
async def test_a_broadcasting_consumer_requests_no_members_offsets_or_retries(broker, tmp_path):
    broker.pulls[TOPIC, 0] = [pulled(ResponseCode.SUCCESS, 1, record(0))]
    options = {"message_model": MessageModel.BROADCASTING, "local_offset_dir": tmp_path}
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "0"})
    async with broker.consumer(**options) as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="1"))
        assert member.topics() == {TOPIC}
        assert member.queues == [QUEUE]
        [consumer] = HeartbeatData.decode(broker.asked(Code.HEART_BEAT)[0].body).consumer_data_set
        assert consumer.message_model == "BROADCASTING"
        assert {request.ext["commitOffset"] for request in broker.asked(Code.PULL_MESSAGE)} == {"0"}
    asked = set(broker.network.codes())
    assert not asked & {
        Code.GET_CONSUMER_LIST_BY_GROUP, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET,
        Code.LOCK_BATCH_MQ,
    }  # fmt: skip
    assert (tmp_path / member.client_id / GROUP / "offsets.json").exists()
