"""What an application does with a running push consumer, and how its pull loop reacts to brokers."""

import asyncio
import json
import logging
from time import time
from types import SimpleNamespace

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.push import listener_watch
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.hooks.filter_hooks import FilterMessageHook
from rocketmq_py.core.consumer import flow_control, rebalance
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import eventually
from tests.unit.client.consumer.push.test_consumer import (
    BROKER,
    GROUP,
    QUEUE,
    RETRY,
    SLAVE,
    TOPIC,
    ask,
    late_answer,
    pulled,
    record,
    with_broker,
)


class NoGuard:
    """Stands for the thread that watches the event loop: while a thread runs, timers take their time."""

    def __init__(self, *_): ...

    def close(self): ...


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(listener_watch, "LoopGuard", NoGuard)
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)
    monkeypatch.setattr(flow_control, "STATE_DELAY", 0.001)


def pulls(broker, topic=TOPIC):
    return broker.asked(Code.PULL_MESSAGE, topic)


def held_pull(broker):
    return broker.until(lambda: pulls(broker))


def with_slave(broker):
    """The route of the topic has a slave."""
    data = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0: BROKER, 1: SLAVE})],
    )
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: Command(0, body=data.encode())


# -- subscriptions


@with_broker()
async def test_a_start_needs_a_topic_and_a_listener_for_each(broker):
    with pytest.raises(ConfigError, match="consumer group g subscribes to no topic"):
        await PushConsumer(GROUP, instance=broker.instance).start()
    member = PushConsumer(GROUP, instance=broker.instance)
    member.subscribe(TOPIC)
    with pytest.raises(ConfigError, match="topic T has no listener"):
        await member.start()
    for topic, listener in (("a b", print), (TOPIC, "text"), (TOPIC, lambda: None)):
        with pytest.raises(ConfigError):
            member.subscribe(topic, listener=listener)
    await member.close()
    with pytest.raises(ClosedError, match="make a new one"):
        await member.start()
    assert broker.network.codes() == []


@with_broker()
async def test_topics_come_and_go_while_it_runs(broker):
    broker.routes["U"] = {"b": 1}
    broker.stored["U"] = 0
    member = broker.consumer()
    member.subscribe("V", listener=print)
    member.unsubscribe("V")
    async with member:
        await held_pull(broker)
        with pytest.raises(ConfigError, match="topic U has no listener"):
            member.subscribe("U")
        member.subscribe("U", listener=broker.take)
        await broker.until(lambda: pulls(broker, "U"))
        assert member.topics() == {TOPIC, "U", RETRY}
        assert repr(member) == "PushConsumer(group='g', running, topics=['%RETRY%g', 'T', 'U'], 3 queues)"
        member.unsubscribe("U")
        await asyncio.sleep(0.5)
        assert len(member.queues) == 2, "it does not wait for the next rebalance"
        started = int(member.running_info()["properties"]["PROP_CONSUMER_START_TIMESTAMP"])
        assert started == pytest.approx(time() * 1000, abs=60_000)


@with_broker()
async def test_a_second_start_does_nothing_and_a_failed_one_closes(broker):
    async with broker.consumer() as member:
        await held_pull(broker)
        beats = len(broker.asked(Code.HEART_BEAT))
        await member.start()
        assert len(broker.asked(Code.HEART_BEAT)) == beats
        with pytest.raises(ConfigError, match="already has a consumer of group 'g'"):
            await broker.consumer().start()


# -- suspend, resume, resize


@with_broker()
async def test_a_suspended_consumer_pulls_nothing_until_it_is_resumed(broker, monkeypatch):
    monkeypatch.setattr(flow_control, "SUSPENDED", flow_control.SUSPENDED._replace(delay=1000.0))
    async with broker.consumer() as member:
        await held_pull(broker)
        member.suspend()
        broker.pulls[TOPIC, 1] = [pulled(0, 2, record(1))]
        broker.network.transports[BROKER].deliver(late_answer(broker, pulled(0, 1, record(0))))
        await asyncio.sleep(5)
        assert [message.queue_offset for message in broker.seen] == [0], "what was pulled is consumed"
        assert len(pulls(broker)) == 1
        member.resume()
        await asyncio.sleep(0.1)
        assert [message.queue_offset for message in broker.seen] == [0, 1]


@with_broker()
async def test_the_number_of_listeners_can_be_changed_within_its_range(broker):
    running, release = [], asyncio.Event()

    async def listen(message):
        running.append(message.queue_offset)
        await release.wait()

    broker.pulls[TOPIC, 0] = [pulled(0, 4, b"".join(record(offset) for offset in range(4)))]
    member = broker.consumer(listen, consume_threads=1)
    with pytest.raises(ConfigError, match="consume_threads=1001"):
        member.resize(1001)
    async with member:
        await asyncio.sleep(1)
        assert running == [0]
        member.resize(3)
        await asyncio.sleep(1)
        assert running == [0, 1, 2]
        release.set()
        await eventually(lambda: len(running) == 4)


# -- the pull loop


@with_broker()
async def test_requests_to_the_broker_have_their_options(broker):
    options = {"pull_batch_size": 7, "pull_batch_bytes": 1000, "post_subscription_when_pull": True}
    async with broker.consumer(**options):
        [pull] = await held_pull(broker)
    assert {name: pull.ext[name] for name in pull.ext if name != "subVersion"} == {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "7",
        "maxMsgBytes": "1000", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000",
        "subscription": "*", "expressionType": "TAG", "requestSource": "-1", "bname": "b",
    }  # fmt: skip


@with_broker()
async def test_a_pull_without_an_answer_is_given_up_after_30_seconds(broker):
    async with broker.consumer():
        await held_pull(broker)
        await asyncio.sleep(29.5)
        assert len(pulls(broker)) == 1
        await asyncio.sleep(1.5)
        assert len(pulls(broker)) == 2


@with_broker()
async def test_pulls_are_an_interval_apart(broker):
    broker.pulls = {(TOPIC, offset): [pulled(0, offset + 1, record(offset))] for offset in range(3)}
    async with broker.consumer(pull_interval=10.0):
        await asyncio.sleep(5)
        assert len(pulls(broker)) == 1
        await asyncio.sleep(10)
        assert len(pulls(broker)) == 2


@with_broker()
async def test_the_next_pull_is_sent_before_its_messages_are_consumed_unless_there_is_no_room(broker):
    hold = asyncio.Event()

    async def listen(message):
        await hold.wait()

    for limit, sent in ((1000, ["0", "2", "3"]), (1, ["0"])):
        broker.pulls = {(TOPIC, 0): [pulled(0, 2, record(0) + record(1))], (TOPIC, 2): [pulled(0, 3, record(2))]}
        broker.network.requests.clear()
        async with broker.consumer(listen, pull_threshold_for_queue=limit, close_timeout=0):
            await asyncio.sleep(1)
            assert [pull.ext["queueOffset"] for pull in pulls(broker)] == sent
    hold.set()


@pytest.mark.parametrize(("first", "known"), [(9, 0), (8, 8)])
@with_broker()
async def test_the_next_pull_is_sent_before_an_answer_of_many_messages_is_decoded(broker, first, known):
    """So that the broker reads while the client decodes; a few messages go to their listener first."""
    messages = b"".join(record(offset) for offset in range(first))
    answers, cached = {"0": pulled(0, first, messages)}, []

    async def listen(message):
        await hold.wait()

    def answer(request):
        if request.ext["topic"] == RETRY:
            return None
        cached.append((request.ext["queueOffset"], member._group.queues[QUEUE].count))
        return answers.pop(request.ext["queueOffset"], None)

    hold = asyncio.Event()
    broker.special[Code.PULL_MESSAGE] = answer
    async with broker.consumer(listen, close_timeout=0) as member:
        await asyncio.sleep(1)
    hold.set()
    assert cached == [("0", 0), (str(first), known)]


@with_broker()
async def test_an_answer_that_suggests_another_replica_is_handled_before_the_next_pull(broker):
    with_slave(broker)
    broker.pulls = {(TOPIC, 0): [pulled(0, 1, record(0), suggestWhichBrokerId="1")], (TOPIC, 1): [pulled(19, 1)]}
    async with broker.consumer():
        await broker.until(lambda: len(pulls(broker)) == 3)
        await asyncio.sleep(0.01)
    asked = [
        (where, r.ext["queueOffset"], int(r.ext["sysFlag"]) & 1)
        for where, r in broker.network.requests
        if r.code == Code.PULL_MESSAGE and r.ext["topic"] == TOPIC
    ]
    assert asked[:2] == [(BROKER, "0", 0), (SLAVE, "1", 0)]
    assert asked[2][0] == BROKER


@with_broker()
async def test_a_queue_that_has_moved_to_another_broker_is_pulled_there(broker, caplog):
    caplog.set_level(logging.INFO)
    async with broker.consumer():
        [pull] = await held_pull(broker)
        broker.routes[TOPIC] = {"b": 1}
        broker.network.transports[BROKER].deliver(
            late_answer(broker, Command(ResponseCode.NOT_LEADER_FOR_QUEUE, remark="moved"))
        )
        began = asyncio.get_running_loop().time()
        await broker.until(lambda: len(pulls(broker)) == 2)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.1, abs=0.05)
        assert len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC, TOPIC)) > 1
    assert pull.ext["queueOffset"] == "0"


@with_broker()
async def test_filtered_messages_do_not_move_the_offset_while_others_are_consumed(broker):
    hold = asyncio.Event()

    async def listen(message):
        await hold.wait()

    broker.pulls = {(TOPIC, 0): [pulled(0, 1, record(0))], (TOPIC, 1): [pulled(20, 9)]}
    async with broker.consumer(listen) as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="9"))
        assert member.consume_offsets(TOPIC) == {QUEUE: 0}
        hold.set()
        await eventually(lambda: member.consume_offsets(TOPIC) == {QUEUE: 1})


@with_broker()
async def test_messages_that_hooks_drop_count_as_consumed(broker):
    class Hook(FilterMessageHook):
        def filter(self, group, queue, messages):
            seen.append((group, queue, len(messages)))
            return []

    seen = []
    broker.pulls[TOPIC, 0] = [pulled(0, 2, record(0) + record(1))]
    async with broker.consumer(filter_hooks=[Hook()]) as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="2"))
        await eventually(lambda: member.consume_offsets(TOPIC) == {QUEUE: 2})
    assert (broker.seen, seen) == ([], [(GROUP, QUEUE, 2)])


@with_broker()
async def test_statistics_of_a_topic_count_its_pulled_messages(broker):
    broker.pulls[TOPIC, 0] = [pulled(0, 3, record(0) + record(1) + record(2))]
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="3"))
        await eventually(lambda: member._group.stats(TOPIC).pulled.count == 3)


@with_broker()
async def test_after_a_failure_the_offset_to_commit_is_sent_again(broker):
    """The broker may not have got the pull that carried it."""
    broker.pulls = {(TOPIC, 0): [pulled(0, 1, record(0))], (TOPIC, 1): [pulled(19, 1)]}
    async with broker.consumer() as member:
        await eventually(lambda: member.consume_offsets(TOPIC) == {QUEUE: 1})
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="1", commitOffset="1"))
        for answer, commit in ((pulled(19, 1), "0"), (Command(1, remark="not now"), "1")):
            asked = len(pulls(broker))
            broker.network.transports[BROKER].deliver(late_answer(broker, answer))
            await broker.until(lambda asked=asked: len(pulls(broker)) > asked)
            assert pulls(broker)[-1].ext["commitOffset"] == commit


@with_broker()
async def test_a_fault_in_an_answer_pauses_the_queue(broker, caplog):
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0)), pulled(0, 1, record(0))]
    async with broker.consumer(pull_delay_after_error=2.0) as member:
        await eventually(lambda: member._runtime.fetcher._pull._pull_loops)
        loop = member._runtime.fetcher._pull._pull_loops[member._group.queues[QUEUE]]
        handle, loop._handle = loop._handle, None
        await asyncio.sleep(1)
        asked = len(broker.asked(Code.PULL_MESSAGE, queueOffset="0"))
        loop._handle = handle
        await asyncio.sleep(2)
        assert [message.queue_offset for message in broker.seen] == [0]
    assert asked == 1
    assert "pulling T@b:0 at 0 failed" in caplog.text


@with_broker()
async def test_a_queue_of_a_broker_that_is_gone_is_looked_for_in_a_new_route(broker):
    async with broker.consumer():
        await held_pull(broker)
        asked = len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC, TOPIC))
        broker.network.transports[BROKER].close()
        await broker.until(lambda: len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC, TOPIC)) > asked)
        await broker.until(lambda: len(pulls(broker)) == 2)


@with_broker()
async def test_the_offset_in_memory_is_that_of_the_broker_when_a_queue_starts(broker):
    broker.stored[TOPIC] = 7
    async with broker.consumer() as member:
        await held_pull(broker)
        assert member.consume_offsets(TOPIC) == {QUEUE: 7}


# -- a listener that a broker's operator calls


@with_broker()
async def test_one_message_can_be_consumed_directly_by_any_kind_of_listener(broker):
    async def fails(message):
        raise ValueError("on purpose")

    async def takes(message): ...

    for listener, result in ((takes, "CR_SUCCESS"), (fails, "CR_LATER")):
        broker.network.requests.clear()
        async with broker.consumer(listener):
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
            _, _, body = await ask(broker, Code.CONSUME_MESSAGE_DIRECTLY, record(4), consumerGroup="g")
            answer = json.loads(body)
            assert (answer["consumeResult"], answer["order"], answer["autoCommit"]) == (result, False, True)
            assert 0 <= answer["spentTimeMills"] < 10_000


@with_broker()
async def test_requests_about_other_groups_are_refused_by_name(broker):
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        requests = {
            Code.GET_CONSUMER_STATUS_FROM_CLIENT: {"topic": TOPIC, "group": "other"},
            Code.GET_CONSUMER_RUNNING_INFO: {"consumerGroup": "other", "clientId": "me"},
            Code.CONSUME_MESSAGE_DIRECTLY: {"consumerGroup": "other", "clientId": "me"},
        }
        for code, fields in requests.items():
            broker.network.requests.clear()
            answered, remark, _ = await ask(broker, code, **fields)
            assert (answered, "has no consumer of group other" in remark) == (1, True), code
        broker.network.requests.clear()
        fields = {"consumerGroup": "g", "clientId": "me", "jstackEnable": "true"}
        _, _, body = await ask(broker, Code.GET_CONSUMER_RUNNING_INFO, **fields)
        assert b'"jstack":"' in body
        assert b"MainThread" in body


@pytest.mark.parametrize("trace", [None, "traces"])
@with_broker()
async def test_listener_calls_are_traced_if_that_is_asked_for(broker, trace):
    broker.routes["traces"] = {"b": 1}
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    async with broker.consumer(**({"trace": trace} if trace else {})):
        await eventually(lambda: broker.seen)
    sent = {request.ext["b"] for _, request in broker.network.sent()}
    assert sent == ({"traces"} if trace else set())


@with_broker()
async def test_no_task_is_left_of_a_closed_consumer(broker, monkeypatch):
    closed = []

    def close(guard):
        closed.append(guard)

    monkeypatch.setattr(NoGuard, "close", close)

    def tasks():
        return {task for task in asyncio.all_tasks() if not task.done()}

    for orderly in (False, True):
        await broker.instance.start()
        before = tasks()
        async with broker.consumer(orderly=orderly, trace="traces") as member:
            await asyncio.sleep(1)
            assert len(tasks()) > len(before)
        await asyncio.sleep(0)
        assert tasks() == before, repr(member)
    assert len(closed) == 2


@with_broker()
async def test_a_start_that_is_collected_undoes_nothing(broker):
    broker.special[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda _: None
    starting = asyncio.ensure_future(broker.consumer().start())
    await broker.until(lambda: broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP))
    starting.get_coro().close()  # as the garbage collector does once the event loop has ended: nothing can be awaited
    starting.cancel()
    with pytest.raises(RuntimeError, match="already awaited"):
        await starting
    assert not broker.asked(Code.UNREGISTER_CLIENT)


async def test_its_stacks_are_those_of_threads_and_of_the_tasks_of_its_listeners():
    member = PushConsumer("g", instance=ClientInstance("ns:9876"))
    assert "MainThread" in member.stacks()
    assert "of a listener" not in member.stacks()
    task = asyncio.create_task(asyncio.sleep(3600), name="of a listener")
    await asyncio.sleep(0)
    member._runtime = SimpleNamespace(dispatcher=SimpleNamespace(tasks=lambda: [task]))
    assert "of a listener" in member.stacks()
    member._runtime = None
    task.cancel()
