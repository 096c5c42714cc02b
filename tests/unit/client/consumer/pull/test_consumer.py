"""The older pull consumer against a scripted broker: errors of missing topics and brokers, and offsets."""

import asyncio
import json
import warnings
from time import time

import pytest

from rocketmq_py.client.consumer.pull.consumer import PullConsumer
from rocketmq_py.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    NetworkError,
    NoRouteError,
    OffsetIllegal,
    PermissionDenied,
)
from rocketmq_py.model import MessageQueue, PullStatus
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
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


# -- what an application does with it


@with_broker()
async def test_a_pull_asks_for_what_its_arguments_say_and_returns_what_the_broker_says(broker):
    answers = {
        0: (PullStatus.FOUND, [3]), 19: (PullStatus.NO_NEW_MSG, []), 20: (PullStatus.NO_MATCHED_MSG, []),
        21: (PullStatus.OFFSET_ILLEGAL, []),
    }  # fmt: skip
    async with consumer(broker) as member:
        for code, (status, offsets) in answers.items():
            broker.pulls[TOPIC, 3] = [pulled(code, 4, record(3) if offsets else b"", minOffset="2")]
            result = await member.pull(QUEUE, 3, max_messages=5)
            assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (status, 4, 2, 9)
            assert [message.queue_offset for message in result.messages] == offsets
        broker.pulls[TOPIC, 3] = [pulled(19, 4)]
        await member.pull(QUEUE, 3, wait=True)
        sent = broker.asked(Code.PULL_MESSAGE)
        wanted = ("queueOffset", "maxMsgNums", "maxMsgBytes", "sysFlag", "commitOffset", "subVersion", "subscription")
        assert [sent[0].ext[name] for name in wanted] == ["3", "5", "2147483647", "4", "0", "0", "*"]
        assert (sent[-1].ext["maxMsgNums"], sent[-1].ext["sysFlag"]) == ("32", "6")
        assert member.health().ok


async def test_a_pull_waits_for_its_answer_as_long_as_its_options_say():
    loop = asyncio.get_running_loop()
    for options, seconds in (({}, 4.0), ({"wait": True}, 6.0), ({"timeout": 2.5}, 2.5)):
        broker = Broker()
        async with consumer(broker, pull_timeout=4.0, broker_suspend_time=5.0, timeout_when_suspend=6.0) as member:
            await member.queues(TOPIC)
            began = loop.time()
            with pytest.raises(NetworkError):
                await member.pull(QUEUE, 0, **options)
            assert loop.time() - began == pytest.approx(seconds, abs=0.1)
        assert broker.asked(Code.PULL_MESSAGE)[0].ext["suspendTimeoutMillis"] == "5000"
        await broker.instance.stop()


@with_broker()
async def test_the_next_pull_goes_to_the_suggested_replica_or_always_to_the_chosen_one(broker):
    data = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0: BROKER, 1: "b:2"})],
    )
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: Command(0, body=data.encode())
    for options, wanted in (({}, [BROKER, "b:2"]), ({"pull_from_broker_id": 0}, [BROKER, BROKER])):
        broker.network.requests.clear()
        broker.pulls = {(TOPIC, 0): [pulled(19, 0, suggestWhichBrokerId="1") for _ in range(2)]}
        async with consumer(broker, **options) as member:
            for _ in range(2):
                await member.pull(QUEUE, 0)
        assert [where for where, r in broker.network.requests if r.code == Code.PULL_MESSAGE] == wanted


@with_broker()
async def test_a_pull_that_fails_on_the_way_refreshes_the_route(broker):
    async with consumer(broker) as member:
        await member.queues(TOPIC)
        for code, times in ((ResponseCode.SERVICE_NOT_AVAILABLE, 1), (ResponseCode.SYSTEM_ERROR, 0)):
            broker.network.requests.clear()
            broker.pulls[TOPIC, 0] = [Command(code, remark="not now")]
            with pytest.raises(BrokerError, match="not now"):
                await member.pull(QUEUE, 0)
            assert len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC)) == times


@with_broker()
async def test_impossible_calls_are_refused(broker):
    member = consumer(broker)

    async def update(offset):
        member.update_offset(QUEUE, offset)

    calls = [
        lambda: member.pull(QUEUE, 0), lambda: member.send_back(None), lambda: member.committed(QUEUE),
        member.commit, lambda: member.min_offset(QUEUE), lambda: member.max_offset(QUEUE),
        lambda: update(1),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ClosedError, match="not started"):
            await call()
    async with member:
        with pytest.raises(OffsetIllegal, match=r"offset -1 of .* cannot be pulled: it is negative"):
            await member.pull(QUEUE, -1)
        with pytest.raises(ConfigError, match="max_messages=0 must be positive"):
            await member.pull(QUEUE, 0, max_messages=0)
        for call in (lambda: update(-1), lambda: member.commit({QUEUE: -1})):
            with pytest.raises(OffsetIllegal, match=r"offset -1 of .* cannot be stored: it is negative"):
                await call()
        member.update_offset(QUEUE, 0)
    for call in calls:
        with pytest.raises(ClosedError, match="closed"):
            await call()


@with_broker()
async def test_offsets_are_stored_when_the_application_says_so_and_may_go_back(broker):
    other = MessageQueue(TOPIC, "b", 1)

    def stored():
        asked = broker.asked(Code.UPDATE_CONSUMER_OFFSET)
        return [(r.ext["queueId"], r.ext["commitOffset"], r.is_oneway) for r in asked]

    async with consumer(broker) as member:
        await member.queues(TOPIC)
        member.update_offset(QUEUE, 9)
        member.update_offset(QUEUE, 7)
        await member.commit({other: 3})
        assert stored() == [("1", "3", False)]
        await member.commit()
        assert sorted(stored()[1:]) == [("0", "7", False), ("1", "3", False)]
        await member.persist_offsets()
        await asyncio.sleep(0.01)
        assert sorted(stored()[3:]) == [("0", "7", True), ("1", "3", True)]
        await member.reset_offsets({QUEUE: 2, MessageQueue(TOPIC, "b", 5): 2})
        assert member.consume_offsets(TOPIC) == {QUEUE: 2, other: 3}
        broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "10"})
        broker.special[Code.GET_MIN_OFFSET] = lambda request: Command(0, ext={"offset": "1"})
        assert (await member.min_offset(QUEUE), await member.max_offset(QUEUE)) == (1, 10)
        assert await member.lag() == {QUEUE: 8, other: 7}


@with_broker()
async def test_messages_are_sent_back_to_their_broker(broker):
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    async with consumer(broker) as member:
        [message] = (await member.pull(QUEUE, 0)).messages
        await member.send_back(message)
        await member.send_back(message, 3)
        sent = broker.asked(Code.CONSUMER_SEND_MSG_BACK)
        assert [request.ext["delayLevel"] for request in sent] == ["0", "3"]
        broker.special[Code.CONSUMER_SEND_MSG_BACK] = lambda request: Command(1, remark="no")
        broker.special[Code.SEND_MESSAGE_V2] = lambda request: Command(1, remark="no")
        with pytest.raises(NetworkError, match="could not be sent back"):
            await member.send_back(message)


@with_broker()
async def test_queues_are_shared_by_the_members_and_lost_ones_begin_at_the_master_again(broker):
    changes = []
    async with consumer(broker, topics=[TOPIC], queues_changed=lambda *change: changes.append(change)) as member:
        assert (member.assignment(), member.assignment(TOPIC), member.assignment("U")) == ([QUEUE], [QUEUE], [])
        assert changes == [(TOPIC, [QUEUE], [QUEUE])]
        assert repr(member) == "PullConsumer(group='g', running, 1 queues)"
        assert member.topics() == {TOPIC}
        broker.pulls[TOPIC, 0] = [pulled(19, 0, suggestWhichBrokerId="1")]
        process = member._group.queues[QUEUE]
        process.pulled_at -= 500
        await member.pull(QUEUE, 0, sql=None)
        assert process.pulled_at == pytest.approx(member._group.now(), abs=1)
        assert member._broker_ids == {QUEUE: 1}
        ids = ["0-comes-first", member.client_id]
        broker.special[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda request: Command(
            0, body=json.dumps({"consumerIdList": ids}).encode()
        )
        await member.on_ids_changed()
        await eventually(lambda: member.assignment() == [])
        assert (process.dropped, member._broker_ids) == (True, {})
        started = int(member.running_info()["properties"]["PROP_CONSUMER_START_TIMESTAMP"])
        assert started == pytest.approx(time() * 1000, abs=60_000)
    broker.network.requests.clear()
    await asyncio.sleep(50)
    assert not broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP), "nothing is balanced after the end"


@with_broker()
async def test_a_queue_that_the_application_does_not_pull_stays_its_own(broker):
    async with consumer(broker, topics=[TOPIC]) as member:
        process = member._group.queues[QUEUE]
        process.pulled_at -= 1000
        await asyncio.sleep(50)
        assert member._group.queues[QUEUE] is process
