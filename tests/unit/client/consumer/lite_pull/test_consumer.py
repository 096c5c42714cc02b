"""The lite pull consumer against a scripted broker: its requests and what it returns."""

import asyncio
import json
import logging

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.lite_pull import pull_loop
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.core.consumer import flow_control
from rocketmq_py.errors import (
    ConfigError,
    NetworkError,
    NoRouteError,
    PermissionDenied,
)
from rocketmq_py.model import ConsumeFromWhere, MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.record import decode_record, encode_record
from tests.unit.client.scripted import ScriptedNetwork, made_by, route_answer

GROUP, TOPIC = "g", "T"
NS, BROKER = "ns:1", "b:1"
QUEUE = MessageQueue(TOPIC, "b", 0)
PATIENCE = 120.0


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes seconds takes a millisecond."""
    for module, name in ((flow_control, "STATE_DELAY"), (pull_loop, "START_DELAY")):
        monkeypatch.setattr(module, name, 0.001)


def record(offset, properties=b"", body=b"x"):
    head = RecordHead(0, 0, 0, 0, 0, offset, 1000 + offset, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    return encode_record(head, TOPIC, body, properties)


def pulled(code, next_offset, body=b"", **more):
    ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "9", **more}
    return Command(code, ext=ext, body=body)


class Broker:
    """One broker with one queue. ``pulls`` answers pulls by their offset; what it does not know is held."""

    def __init__(self):
        self.network = ScriptedNetwork(self.answer)
        self.stored = 0
        self.pulls = {}
        self.special = {}
        self.instance = ClientInstance(NS)
        self.network.carry(self.instance.connections)

    def consumer(self, **options):
        return LitePullConsumer(GROUP, instance=self.instance, **{"pull_delay_after_error": 0.001, **options})

    def assigned(self, **options):
        member = self.consumer(**options)
        member.assign([QUEUE])
        return member

    def answer(self, address, request):
        if request.code in self.special:
            return self.special[request.code](request)
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
            return route_answer({"b": 1} if request.ext["topic"] == TOPIC else None)
        if request.code == Code.GET_CONSUMER_LIST_BY_GROUP:
            return Command(0, body=json.dumps({"consumerIdList": [self.instance.client_id]}).encode())
        if request.code == Code.QUERY_CONSUMER_OFFSET:
            unknown = Command(ResponseCode.QUERY_NOT_FOUND)
            return unknown if self.stored is None else Command(0, ext={"offset": str(self.stored)})
        if request.code in (Code.LITE_PULL_MESSAGE, Code.PULL_MESSAGE):
            answers = self.pulls.get(int(request.ext["queueOffset"]))
            return answers.pop(0) if answers else None
        return Command(0)

    def asked(self, code, **ext):
        """The requests of a code, in order."""
        return [
            request
            for _, request in self.network.requests
            if request.code == code and all(request.ext.get(name) == value for name, value in ext.items())
        ]

    async def pull(self, offset, times=1):
        """The newest pull at an offset, once it was asked for so often."""
        async with asyncio.timeout(PATIENCE):
            while len(found := self.asked(Code.LITE_PULL_MESSAGE, queueOffset=str(offset))) < times:
                self.network.asked.clear()
                await self.network.asked.wait()
        return found[-1]

    def answer_late(self, request, answer):
        answer.opaque, answer.flag = request.opaque, 1
        self.network.transports[BROKER].deliver(encode_command(answer))


def scenario(function):
    async def run():
        broker = Broker()
        try:
            await function(broker)
        finally:
            await broker.instance.stop()

    asyncio.run(run())


with_broker = made_by(scenario)
"""Decorates a test whose first argument is the scripted broker."""


@with_broker()
async def test_a_pull_has_the_lite_flag_and_the_subscription_and_no_commit(broker):
    member = broker.consumer()
    member.subscribe(TOPIC, "a || b")
    async with member:
        ext = (await broker.pull(0)).ext
        beat = HeartbeatData.decode(broker.asked(Code.HEART_BEAT)[-1].body).consumer_data_set[0]
    assert {name: ext.get(name) for name in ("sysFlag", "commitOffset", "subVersion", "maxMsgNums")} == {
        "sysFlag": "22",
        "commitOffset": "0",
        "subVersion": "0",
        "maxMsgNums": "10",
    }
    assert (ext["subscription"], ext["expressionType"], ext["suspendTimeoutMillis"]) == ("a || b", "TAG", "20000")
    assert (beat.consume_type, beat.consume_from_where) == ("CONSUME_ACTIVELY", "CONSUME_FROM_LAST_OFFSET")
    assert [subscription.topic for subscription in beat.subscription_data_set] == [TOPIC]  # no retry topic
    assert not broker.asked(Code.PULL_MESSAGE)
    assert broker.network.codes(BROKER)[-1] == Code.UNREGISTER_CLIENT


@pytest.mark.parametrize(("mode", "start"), [("LAST_OFFSET", 40), ("FIRST_OFFSET", 0), ("TIMESTAMP", 25)])
@with_broker()
async def test_a_group_without_offsets_starts_at_the_configured_position(broker, mode, start):
    broker.stored = None
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "40"})
    broker.special[Code.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: Command(0, ext={"offset": "25"})
    async with broker.assigned(consume_from=ConsumeFromWhere[mode]) as member:
        await broker.pull(start)
        await member.commit()
        assert await member.committed(QUEUE) == start


@with_broker()
async def test_local_commits_take_precedence_over_offsets_of_the_broker(broker):
    broker.pulls[0] = [pulled(0, 2, record(0) + record(1))]
    async with broker.assigned() as member:
        await member.poll()
        await member.commit()
        member.assign([MessageQueue(TOPIC, "b", 1)])
        member.assign([QUEUE])
        await broker.pull(2, times=2)
    assert len(broker.asked(Code.QUERY_CONSUMER_OFFSET, queueId="0")) == 1


@with_broker()
async def test_an_answer_that_comes_after_a_seek_is_not_delivered(broker):
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "40"})
    broker.special[Code.GET_MIN_OFFSET] = lambda request: Command(0, ext={"offset": "0"})
    async with broker.assigned() as member:
        held = await broker.pull(0)
        await member.seek(QUEUE, 30)
        second = await broker.pull(30)
        broker.answer_late(held, pulled(0, 1, record(0)))
        broker.answer_late(second, pulled(0, 31, record(30)))
        assert [m.queue_offset for m in await member.poll()] == [30]
    stored = broker.asked(Code.UPDATE_CONSUMER_OFFSET)[-1]
    assert (stored.ext["commitOffset"], stored.is_oneway) == ("31", False)


@with_broker()
async def test_an_offset_outside_the_queue_is_replaced_by_that_of_the_broker(broker, caplog):
    broker.stored = 3
    broker.pulls[3] = [pulled(ResponseCode.PULL_OFFSET_MOVED, 7)]
    async with broker.assigned():
        await broker.pull(7)
    assert "offset 3 of T@b:0 lies outside the queue or was reset: on from 7" in caplog.text


@with_broker()
async def test_a_reset_queue_is_delivered_from_its_new_offset(broker):
    broker.pulls[0] = [pulled(0, 5, b"".join(record(i) for i in range(5)))]
    async with broker.assigned() as member:
        broker.answer_late(await broker.pull(5), pulled(ResponseCode.PULL_OFFSET_MOVED, 1))
        broker.answer_late(await broker.pull(1), pulled(0, 3, record(1) + record(2)))
        await broker.pull(3)
        assert [m.queue_offset for m in await member.poll()] == [1, 2]
        await member.commit()
        assert await member.committed(QUEUE) == 3


@with_broker()
async def test_brokers_can_query_its_state_and_reset_it(broker):
    broker.pulls[0] = [pulled(0, 2, record(0) + record(1))]
    async with broker.assigned() as member:
        await member.poll()
        await member.commit()
        assert member.consume_offsets(TOPIC) == {QUEUE: 2}
        info = member.running_info()
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert info["mqTable"][QUEUE]["commitOffset"] == 2
        await member.reset_offsets({QUEUE: 0, MessageQueue(TOPIC, "b", 7): 0})
        await broker.pull(0, times=2)
        assert await member.committed(QUEUE) == 0
        answer = await member.consume_directly(decode_record(record(0), 0))
        assert (answer["consumeResult"], "no listener" in answer["remark"]) == ("CR_THROW_EXCEPTION", True)


@with_broker()
async def test_the_next_pull_is_sent_before_the_messages_are_polled(broker):
    broker.pulls[0] = [pulled(0, 1, record(0))]
    broker.pulls[1] = [pulled(0, 2, record(1))]
    async with broker.assigned() as member:
        await broker.pull(2)
        assert [[m.queue_offset for m in await member.poll()] for _ in range(2)] == [[0], [1]]


@with_broker()
async def test_a_full_queue_is_pulled_again_when_it_is_polled(broker):
    broker.pulls[0] = [pulled(0, 2, record(0) + record(1))]
    async with broker.assigned(pull_threshold_for_queue=1) as member:
        assert len(await member.poll()) == 2
        await broker.pull(2)


@with_broker()
async def test_hash_collisions_are_filtered_and_the_offset_moves(broker):
    broker.pulls[0] = [pulled(0, 1, record(0, b"TAGS\x01BB"))]
    member = broker.consumer()
    member.assign([QUEUE], "Aa")
    async with member:
        await broker.pull(1)
        assert await member.poll(0) == []
        await member.commit()
        assert await member.committed(QUEUE) == 1


@with_broker()
async def test_an_sql_filter_is_checked_first_and_pulled_with_its_version(broker):
    member = broker.consumer()
    member.subscribe(TOPIC, sql="a > 1")
    async with member:
        ext = (await broker.pull(0)).ext
        version = member._subscription(TOPIC).sub_version
    assert broker.asked(Code.CHECK_CLIENT_CONFIG)
    assert (ext["subscription"], ext["expressionType"]) == ("a > 1", "SQL92")
    assert 0 < int(ext["subVersion"]) <= version


@with_broker()
async def test_a_broker_without_sql_filters_fails_the_start(broker):
    broker.special[Code.CHECK_CLIENT_CONFIG] = lambda request: Command(1, remark="not enabled")
    member = broker.consumer()
    member.assign([QUEUE], sql="a > 1")
    with pytest.raises(ConfigError, match="enablePropertyFilter"):
        await member.start()


@with_broker()
async def test_a_failed_pull_is_logged_once_and_retried(broker, caplog):
    refused = Command(ResponseCode.NO_PERMISSION, remark="lite pull is forbidden")
    broker.pulls[0] = [refused, Command(16, remark="still"), pulled(0, 1, b"garbage"), pulled(0, 1, record(0))]
    async with broker.assigned() as member:
        assert len(await member.poll(PATIENCE)) == 1
    told = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert "pulling T@b:0 at 0 failed, again in 0.001 s: code 16 from b:1: lite pull is forbidden" in told
    assert not any("still" in message for message in told)
    assert "pulling T@b:0 works again" in told


@with_broker()
async def test_an_unknown_start_offset_is_requested_again(broker):
    answers = [Command(1, remark="not now"), Command(0, ext={"offset": "5"})]
    broker.special[Code.QUERY_CONSUMER_OFFSET] = lambda request: answers.pop(0)
    async with broker.assigned():
        await broker.pull(5)


@with_broker()
async def test_a_failed_commit_raises(broker):
    broker.special[Code.UPDATE_CONSUMER_OFFSET] = lambda request: Command(1, remark="disk full")
    async with broker.assigned() as member:
        await broker.pull(0)
        with pytest.raises(Exception, match="disk full"):
            await member.commit()


@with_broker()
async def test_a_failed_start_releases_everything(broker):
    broker.network.unreachable.add(NS)
    member = broker.assigned()
    with pytest.raises(NetworkError):
        await member.start()
    assert broker.instance.members == []


@with_broker()
async def test_offsets_are_persisted_periodically_and_for_lost_queues(broker):
    broker.pulls[0] = [pulled(0, 1, record(0))]
    async with broker.assigned() as member:
        await member.poll()
        await member.commit()
        member.assign([MessageQueue(TOPIC, "b", 1)])
        await member.persist_offsets()
        await broker.pull(0, times=2)
        last = broker.asked(Code.UPDATE_CONSUMER_OFFSET, queueId="0")[-1]
        assert (last.ext["commitOffset"], last.is_oneway) == ("1", True)
        before = len(broker.asked(Code.UPDATE_CONSUMER_OFFSET, queueId="0"))
        await member.persist_offsets()
        await asyncio.sleep(0.01)
        assert len(broker.asked(Code.UPDATE_CONSUMER_OFFSET, queueId="0")) == before


@pytest.mark.parametrize(
    "option",
    [
        {"pull_batch_size": 0},
        {"pull_threshold_for_all": 0},
        {"auto_commit_interval": 0.5},
        {"timeout_when_suspend": 10.0},
        {"consume_timestamp": "yesterday"},
    ],
)
@with_broker()
async def test_invalid_options_are_refused(broker, option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        broker.consumer(**option)


# -- missing topics and brokers


@with_broker()
async def test_a_poll_raises_when_none_of_the_topics_exists(broker):
    member = broker.consumer(rebalance_interval=0.01)
    member.subscribe("missing")
    async with member:
        with pytest.raises(NoRouteError, match="missing"):
            await member.poll(0.01)
        assert not member.health().ok


@with_broker()
async def test_a_poll_raises_when_all_brokers_refuse_and_returns_messages_when_they_answer_again(broker):
    broker.pulls[0] = [Command(ResponseCode.NO_PERMISSION, remark="lite pull is forbidden")] * 1000
    async with broker.assigned(pull_delay_after_error=0.001) as member:
        with pytest.raises(PermissionDenied, match="forbidden"):
            await member.poll(0.2)
        assert not member.health().ok
        broker.pulls[0] = [pulled(0, 1, record(0))]
        assert len(await member.poll(PATIENCE)) == 1
        assert member.health().ok


@with_broker()
async def test_a_poll_does_not_raise_while_one_queue_is_pulled(broker):
    member = broker.consumer()
    member.assign([QUEUE, MessageQueue(TOPIC, "other", 0)])
    async with member:
        await broker.pull(0)
        assert await member.poll(0.05) == []
        assert not member.health().ok


@with_broker()
async def test_a_start_without_a_name_server_raises(broker):
    broker.network.unreachable.add(NS)
    with pytest.raises(NetworkError, match="ns:1"):
        await broker.assigned().start()
    with pytest.raises(NetworkError, match="ns:1"):
        await broker.consumer().start()


# -- the pull loop


@with_broker()
async def test_a_wake_ends_the_pause_of_a_pull_loop(broker):
    member = broker.consumer(pull_threshold_for_queue=1)
    member.assign([QUEUE])
    broker.pulls[0] = [pulled(0, 3, record(0) + record(1) + record(2))]
    async with member:
        await member._wait(PATIENCE)
        process = member._group.queues[QUEUE]
        loop, _ = member._queues._loops[process]
        held = loop._decide()
        assert held.reason == "count"
        pause = asyncio.ensure_future(loop._pause.wait(PATIENCE))
        await asyncio.sleep(0)
        loop.wake()
        await asyncio.wait_for(pause, 5)


@pytest.mark.parametrize("resume", [False, True])
def test_a_resumed_queue_is_pulled_at_once(resume, monkeypatch):
    """Without a wake it would be pulled only after the pause of a suspended queue."""
    suspended = flow_control.SUSPENDED._replace(delay=PATIENCE)
    monkeypatch.setattr(flow_control, "SUSPENDED", suspended)

    async def run(broker):
        async with broker.assigned() as member:
            request = await broker.pull(0)
            member.pause([QUEUE])
            broker.answer_late(request, pulled(ResponseCode.PULL_NOT_FOUND, 0))
            process = member._group.queues[QUEUE]
            loop, _ = member._queues._loops[process]
            async with asyncio.timeout(PATIENCE):
                while loop._pause._event is None:  # noqa: ASYNC110 - the pause of a loop has no other event
                    await asyncio.sleep(0)
            if resume:
                member.resume([QUEUE])
                async with asyncio.timeout(5):
                    await broker.pull(0, times=2)
            else:
                assert len(broker.asked(Code.LITE_PULL_MESSAGE)) == 1

    scenario(run)


@pytest.mark.parametrize(
    ("answer", "then"),
    [(Command(ResponseCode.SYSTEM_ERROR, remark="no"), 4), (pulled(ResponseCode.PULL_OFFSET_MOVED, 50), 50)],
    ids=["failed", "moved"],
)
@with_broker()
async def test_after_a_pull_that_went_wrong_one_pull_is_in_flight_until_the_next_answer(broker, answer, then):
    """Nobody knows any more where the queue ends."""
    first = b"".join(map(record, range(4)))
    broker.pulls = {0: [pulled(0, 4, first, maxOffset="100")], 4: [answer]}
    async with broker.assigned(pulls_in_flight=3, pull_batch_size=4):
        await broker.pull(then, times=2 if then == 4 else 1)
        await asyncio.sleep(5)
    offsets = [int(request.ext["queueOffset"]) for request in broker.asked(Code.LITE_PULL_MESSAGE)]
    assert offsets == [0, 4, 8, 12, then]
