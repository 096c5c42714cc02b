"""The push consumer in POP mode against scripted brokers: assignments, pops, acks, invisible times."""

import asyncio
import json
import logging
import threading

import pytest

from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.rebalance import broker_assignment
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, ConsumeResult, MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import (
    GROUP,
    PATIENCE,
    RETRY,
    TOPIC,
    eventually,
    record,
    scenario,
    with_broker,
)
from tests.unit.client.consumer.push.poppush import (
    POP,
    POP_RETRY,
    PULL,
    Listener,
    consumer,
    dead_letters,
    hurry,
    later,
    pops,
    take_sends,
)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    hurry(monkeypatch)


@with_broker()
async def test_it_queries_assignments_and_pops_them(brokers):
    async with consumer(brokers, Listener(), consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
        asked = {request.body for request in brokers.asked(Code.QUERY_ASSIGNMENT)}
        assert any(b'"strategyName":"AVG"' in body and b'"topic":"T"' in body for body in asked)
        assert not brokers.asked(Code.GET_CONSUMER_LIST_BY_GROUP)
        assert member.queues == [MessageQueue(TOPIC, "b", -1)]
        await brokers.until(lambda: pops(brokers))
        wanted = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "32", "exp": "*",
                  "invisibleTime": "60000", "pollTime": "15000", "bornTime": "0", "initMode": "0",
                  "expType": "TAG", "order": "false", "bname": "b"}  # fmt: skip
        assert pops(brokers)[0].ext == wanted


@with_broker()
async def test_consumed_messages_are_acked_while_the_next_pop_is_sent(brokers):
    brokers.has["b"] = [[record(0), record(1, queue_id=1)], [record(2)]]
    listener = Listener()
    async with consumer(brokers, listener):
        await brokers.until(lambda: len(brokers.acked) == 3)
        assert sorted(brokers.acked) == [("b", 0), ("b", 1), ("b", 2)]
        await brokers.until(lambda: len(pops(brokers)) == 3)
    assert not brokers.asked(Code.UPDATE_CONSUMER_OFFSET)


@pytest.mark.parametrize(("properties", "seconds"), [(b"", 10), (b"RECONSUME", 60)])
@with_broker()
async def test_failed_messages_are_redelivered_with_growing_delays(brokers, properties, seconds):
    ck = b"POP_CK\x010 1000000 60000 1 1 b 0 0\x02" if properties else b""
    brokers.has["b"] = [[record(0, properties=ck, times=2 if properties else 0)]]
    async with consumer(brokers, Listener(later)):
        await brokers.until(lambda: brokers.extended)
        assert brokers.extended == [(0, seconds * 1000)]
        if properties:
            assert brokers.asked(Code.CHANGE_MESSAGE_INVISIBLETIME)[0].ext["topic"] == POP_RETRY
    assert not brokers.acked
    assert not brokers.asked(Code.CONSUMER_SEND_MSG_BACK)


@with_broker()
async def test_a_listener_sets_the_delay_and_the_consumed_part_of_a_batch(brokers):
    brokers.has["b"] = [[record(0), record(1), record(2)]]

    async def listen(messages, context):
        context.ack_index, context.delay_level = 0, 2

    async with consumer(brokers, listen, consume_batch_size=10):
        await brokers.until(lambda: len(brokers.extended) == 2 and brokers.acked)
        assert brokers.extended == [(1, 60_000), (2, 60_000)]
        assert brokers.acked == [("b", 0)]


@pytest.mark.parametrize("times", [1, 2])
@with_broker()
async def test_an_exhausted_message_becomes_a_dead_letter_and_is_acked(brokers, times):
    """One that has come too often, as other members let it visible_at, is not even consumed again."""
    take_sends(brokers)
    brokers.has["b"] = [[record(0, times=times)]]
    listener = Listener(later)
    async with consumer(brokers, listener, max_reconsume_times=1):
        await brokers.until(lambda: brokers.acked)
        [sent] = dead_letters(brokers)
        assert (sent.ext["j"], sent.ext["l"]) == (str(times + 1), "1")  # more than allowed: the broker's cue
        assert "POP_CK" not in sent.ext["i"]
        assert listener.seen == ([0] if times == 1 else [])
    assert not brokers.extended


@with_broker()
async def test_a_message_that_cannot_become_a_dead_letter_is_delivered_again(brokers):
    brokers.special[Code.SEND_MESSAGE_V2] = lambda request: Command(ResponseCode.NO_PERMISSION, remark="no")
    brokers.has["b"] = [[record(0, times=16)]]
    async with consumer(brokers, Listener(later)):
        await brokers.until(lambda: dead_letters(brokers))
    assert not brokers.acked


def test_a_result_after_the_invisible_time_is_ignored(monkeypatch, caplog):
    async def run(brokers):
        brokers.has["b"] = [[record(0), record(1)]]
        late = asyncio.Event()

        async def listen(message):
            monkeypatch.setattr(member._group, "now", lambda: clock() + 61)
            monkeypatch.setattr("rocketmq_py.client.consumer.dispatch.listeners.monotonic", lambda: clock() + 61)
            late.set()
            return None if message.queue_offset == 0 else ConsumeResult.RECONSUME_LATER

        member = consumer(brokers, listen, consume_threads=1)
        clock = member._group.now
        async with member:
            await late.wait()
            await eventually(lambda: not any(queue.held for queue in member.health().queues))
        assert not brokers.acked
        assert not brokers.extended

    scenario(run)
    assert "after their invisible time" in caplog.text
    assert "ended before their listener was called" in caplog.text


@with_broker()
async def test_it_stops_popping_at_the_limit_of_held_messages(brokers):
    release = asyncio.Event()

    async def listen(message):
        await release.wait()

    brokers.has["b"] = [[record(i) for i in range(at, at + 3)] for at in (0, 3, 6)]
    async with consumer(brokers, listen, pop_threshold_for_queue=4, consume_threads=2) as member:
        await eventually(lambda: member.health().queues[0].held == 6)
        await asyncio.sleep(0.02)
        assert len(pops(brokers)) == 2
        release.set()
        await brokers.until(lambda: len(brokers.acked) == 9)


def batches(*firsts, size=2):
    return [[record(offset) for offset in range(first, first + size)] for first in firsts]


def polls(brokers):
    return [int(request.ext["pollTime"]) for request in pops(brokers)]


async def holds(brokers, *polls):
    """Waits until exactly pops with these poll times are held."""
    await brokers.until(lambda: sorted(int(request.ext["pollTime"]) for _, request in brokers.held) == sorted(polls))


def bring(brokers, records, poll):
    """Answers a held pop with this poll time."""
    at = next(at for at, (_, request) in enumerate(brokers.held) if int(request.ext["pollTime"]) == poll)
    brokers.reply(brokers.popped(records, brokers.held[at][1]), at)


@with_broker()
async def test_each_full_answer_starts_another_pop_and_only_one_is_held(brokers):
    """At most three are in flight; one that is not full starts none."""
    brokers.special[Code.POP_MESSAGE] = lambda request: brokers._hold("b", request)
    async with consumer(brokers, Listener(), pop_batch_size=2, pulls_in_flight=3) as member:
        await holds(brokers, 15_000)
        bring(brokers, *batches(0), poll=15_000)
        await holds(brokers, 15_000, 0)
        bring(brokers, *batches(2), poll=0)
        await brokers.until(lambda: len(pops(brokers)) == 4)
        await holds(brokers, 15_000, 0)
        bring(brokers, *batches(4), poll=15_000)
        await holds(brokers, 15_000, 0, 0)
        bring(brokers, *batches(6), poll=15_000)
        await brokers.until(lambda: len(pops(brokers)) == 7)
        await holds(brokers, 15_000, 0, 0)
        bring(brokers, *batches(8, size=1), poll=0)
        bring(brokers, *batches(9, size=1), poll=0)
        await brokers.until(lambda: len(brokers.acked) == 10)
        await holds(brokers, 15_000)
        assert member.health().queues[0].held == 0
    assert len(pops(brokers)) == 7


@pytest.mark.parametrize(
    "options", [{}, {"pulls_in_flight": 4, "orderly": True}, {"pulls_in_flight": 4, "pull_interval": 0.001}]
)
@with_broker()
async def test_one_pop_is_in_flight_unless_more_are_asked_for(brokers, options):
    brokers.has["b"] = batches(0, 2, 4, 6)
    async with consumer(brokers, Listener(), pop_batch_size=2, **options):
        await brokers.until(lambda: len(brokers.acked) == 8)
        await brokers.until(lambda: len(pops(brokers)) == 5)
        assert set(polls(brokers)) == {15_000}


@with_broker()
async def test_pops_in_flight_count_for_flow_control(brokers):
    release = asyncio.Event()

    async def listen(message):
        await release.wait()

    brokers.special[Code.POP_MESSAGE] = lambda request: brokers._hold("b", request)
    async with consumer(brokers, listen, pop_batch_size=2, pulls_in_flight=8, pop_threshold_for_queue=4) as member:
        await holds(brokers, 15_000)
        bring(brokers, *batches(0), poll=15_000)
        await holds(brokers, 15_000, 0)  # two messages are held, and two more may come
        bring(brokers, [], poll=0)
        bring(brokers, *batches(2), poll=15_000)
        await eventually(lambda: member.health().queues[0].held == 4)
        await holds(brokers, 0)  # this pop is at the limit, the next one would be over it
        bring(brokers, *batches(4), poll=0)
        await eventually(lambda: member.health().queues[0].held == 6)
        assert sorted(polls(brokers)) == [0, 0, 15_000, 15_000]
        release.set()
        await brokers.until(lambda: len(brokers.acked) == 6)


@with_broker()
async def test_a_pop_ahead_that_fails_ends_and_the_first_goes_on(brokers, caplog):
    brokers.special[Code.POP_MESSAGE] = lambda request: brokers._hold("b", request)
    async with consumer(brokers, Listener(), pop_batch_size=2, pulls_in_flight=2):
        await holds(brokers, 15_000)
        bring(brokers, *batches(0), poll=15_000)
        await holds(brokers, 15_000, 0)
        ahead = next(at for at, (_, request) in enumerate(brokers.held) if request.ext["pollTime"] == "0")
        brokers.reply(Command(ResponseCode.SYSTEM_BUSY, remark="later"), ahead)
        await eventually(lambda: "popping T@b:-1 failed" in caplog.text)
        bring(brokers, *batches(2), poll=15_000)
        await brokers.until(lambda: len(brokers.acked) == 4)
        await holds(brokers, 15_000, 0)
    assert len(pops(brokers)) == 5


@with_broker()
async def test_messages_that_a_pop_ahead_brings_after_close_are_returned(brokers):
    brokers.special[Code.POP_MESSAGE] = lambda request: brokers._hold("b", request)
    async with consumer(brokers, Listener(), pop_batch_size=2, pulls_in_flight=2) as member:
        await holds(brokers, 15_000)
        bring(brokers, *batches(0), poll=15_000)
        await holds(brokers, 15_000, 0)
        member.unsubscribe(TOPIC)
        await eventually(lambda: not member.queues)
        bring(brokers, [record(7)], poll=0)
        await brokers.until(lambda: brokers.extended)
        assert brokers.extended == [(7, 1000)]


@with_broker()
async def test_failed_acks_are_retried(brokers):
    answers = [Command(ResponseCode.SYSTEM_BUSY, remark="later"), None]

    def ack(request):
        refused = answers.pop(0) if answers else None
        return refused or brokers._ack("b", request)

    brokers.special[Code.ACK_MESSAGE] = ack
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers, Listener()):
        await brokers.until(lambda: brokers.acked)
        assert len(brokers.asked(Code.ACK_MESSAGE)) == 2


@with_broker()
async def test_a_pop_of_an_unreachable_broker_is_retried(brokers):
    answers = [Command(1, remark="broken"), Command(ResponseCode.POLLING_FULL), Command(ResponseCode.FLOW_CONTROL)]
    brokers.special[Code.POP_MESSAGE] = lambda request: answers.pop(0) if answers else brokers._pop("b", request)
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers, Listener()):
        await brokers.until(lambda: brokers.acked)


@with_broker()
async def test_a_corrupt_pop_answer_loses_no_message(brokers, caplog):
    answers = [Command(0, ext={"popTime": "1"}), Command(0, ext={"popTime": "x"}, body=b"garbage")]
    brokers.special[Code.POP_MESSAGE] = lambda request: answers.pop(0) if answers else brokers._pop("b", request)
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers, Listener()):
        await brokers.until(lambda: brokers.acked)


@with_broker()
async def test_close_acks_consumed_messages_and_returns_the_others(brokers):
    begun, release = threading.Event(), threading.Event()

    def listen(message):
        begun.set()
        release.wait(PATIENCE)

    brokers.has["b"] = [[record(0), record(1), record(2)]]
    async with consumer(brokers, listen, consume_threads=1) as member:
        await asyncio.to_thread(begun.wait, PATIENCE)
        closing = asyncio.ensure_future(member.close())
        await brokers.until(lambda: len(brokers.extended) == 2)
        release.set()
        await closing
    assert brokers.acked == [("b", 0)]
    assert sorted(brokers.extended) == [(1, 1000), (2, 1000)]


@with_broker()
async def test_messages_popped_after_close_are_returned(brokers):
    async with consumer(brokers, Listener()) as member:
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        member.unsubscribe(TOPIC)
        await eventually(lambda: not member.queues)
        brokers.reply(brokers.popped([record(7)], brokers.held[0][1]))
        await brokers.until(lambda: brokers.extended)
        assert brokers.extended == [(7, 1000)]


@pytest.mark.parametrize("code", [Code.CHANGE_MESSAGE_INVISIBLETIME, Code.ACK_MESSAGE])
@with_broker()
async def test_messages_whose_ack_fails_are_delivered_again(brokers, code, caplog):
    brokers.special[code] = lambda _: Command(ResponseCode.NO_MESSAGE, remark="unknown")
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers, Listener(later if code is Code.CHANGE_MESSAGE_INVISIBLETIME else lambda _: None)):
        await brokers.until(lambda: brokers.asked(code))
        await eventually(lambda: "unknown" in caplog.text)
        await brokers.until(lambda: len(pops(brokers)) == 2)
    assert len(brokers.asked(code)) == 1


def test_messages_that_cannot_be_returned_are_redelivered_after_their_invisible_time(caplog):
    async def run(brokers):
        begun, release = asyncio.Event(), asyncio.Event()

        async def listen(message):
            begun.set()
            await release.wait()

        brokers.special[Code.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: Command(1, remark="broken")
        brokers.has["b"] = [[record(0), record(1)]]
        async with consumer(brokers, listen, consume_threads=1) as member:
            await begun.wait()
            closing = asyncio.ensure_future(member.close())
            await eventually(lambda: "only after its invisible time" in caplog.text)
            release.set()
            await closing
        assert brokers.acked == [("b", 0)]

    with caplog.at_level(logging.INFO):
        scenario(run)


@with_broker()
async def test_a_broker_without_a_master_is_retried(brokers, caplog):
    async with consumer(brokers, Listener()) as member:
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        brokers.master_id = 1
        await member._instance.routes.refresh(TOPIC)
        await member._instance.routes.refresh(RETRY)
        brokers.reply(Command(ResponseCode.POLLING_TIMEOUT))
        await eventually(lambda: "has no master now" in caplog.text)
        brokers.master_id = 0
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))


@with_broker()
async def test_a_pop_that_finds_no_broker_refreshes_the_route(brokers):
    async with consumer(brokers, Listener()):
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        asked = len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC))
        brokers.reply(Command(ResponseCode.TOPIC_NOT_EXIST, remark="moved"))
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        routes = brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC)[asked:]
        assert [request.ext["topic"] for request in routes] == [TOPIC]


@with_broker()
async def test_a_pop_that_is_refused_leaves_the_route(brokers):
    async with consumer(brokers, Listener()):
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        asked = len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC))
        brokers.reply(Command(ResponseCode.NO_PERMISSION, remark="no"))
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        assert len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC)) == asked


@with_broker()
async def test_an_unassigned_topic_removes_its_retry_topic(brokers):
    brokers.topics |= {POP_RETRY, "U"}
    async with consumer(brokers, Listener(), assigned=PULL) as member:
        brokers.assigned |= {POP_RETRY: PULL, "U": []}
        await member.on_ids_changed()
        await brokers.until(lambda: len(brokers.asked(Code.PULL_MESSAGE)) == 2)
        member.subscribe("U", listener=Listener())
        member.unsubscribe(TOPIC)
        await eventually(lambda: not member.queues)
        assert member.topics() == {"U", RETRY}


@pytest.mark.parametrize("answer", [Command(1, remark="broken"), Command(ResponseCode.SYSTEM_BUSY, remark="broken")])
@with_broker()
async def test_a_failed_assignment_query_is_retried(brokers, answer, caplog):
    brokers.special[Code.QUERY_ASSIGNMENT] = lambda _: answer
    async with consumer(brokers, Listener()) as member:
        await eventually(lambda: "broken" in caplog.text)
        del brokers.special[Code.QUERY_ASSIGNMENT]
        await eventually(lambda: member.queues)


@with_broker()
async def test_a_suspended_consumer_does_not_pop(brokers):
    listener = Listener()
    async with consumer(brokers, listener) as member:
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        member.suspend()
        brokers.reply(Command(ResponseCode.POLLING_TIMEOUT))
        await asyncio.sleep(0.02)
        assert len(pops(brokers)) == 1
        member.resume()
        await brokers.until(lambda: len(pops(brokers)) == 2)


@with_broker()
async def test_its_state_is_visible_to_brokers_and_applications(brokers):
    release = asyncio.Event()

    async def listen(message):
        await release.wait()

    brokers.has["b"] = [[record(0), record(1)]]
    async with consumer(brokers, listen) as member:
        await eventually(lambda: member.health().queues[0].held == 2)
        brokers.ask(Code.GET_CONSUMER_RUNNING_INFO, consumerGroup=GROUP, clientId="x", jstackEnable="false")
        answer = await brokers.until(brokers.answers)
        info = fastjson.loads(answer[0].body)
        [(queue, state)] = info["mqPopTable"].items()
        assert json.loads(queue) == {"brokerName": "b", "queueId": -1, "topic": TOPIC}
        assert (state["waitAckCount"], state["droped"]) == (2, False)
        assert info["mqTable"] == {}
        brokers.special[Code.GET_MAX_OFFSET] = lambda _: Command(0, ext={"offset": "7"})
        assert await member.lag() == {MessageQueue(TOPIC, "b", 0): 7}
        release.set()


# -- assignments


@with_broker()
async def test_a_broker_can_switch_between_pop_and_pull(brokers):
    listener = Listener()
    brokers.topics.add(POP_RETRY)
    async with consumer(brokers, listener) as member:
        brokers.assigned = {TOPIC: PULL, RETRY: [], POP_RETRY: PULL}
        await member.on_ids_changed()
        await brokers.until(lambda: len(brokers.asked(Code.PULL_MESSAGE)) == 2)
        assert member.queues == [MessageQueue(POP_RETRY, "b", 0), MessageQueue(TOPIC, "b", 0)]
        assert POP_RETRY in {each.topic for each in member.heartbeat().subscription_data_set}
        brokers.assigned[TOPIC] = POP
        count = len(pops(brokers))
        await member.on_ids_changed()
        await brokers.until(lambda: len(pops(brokers)) > count)
        await eventually(lambda: member.queues == [MessageQueue(TOPIC, "b", -1)])
        assert POP_RETRY not in member.topics()


@with_broker()
async def test_messages_popped_before_the_switch_are_acked_after_it(brokers):
    begun, release = asyncio.Event(), asyncio.Event()

    async def listen(message):
        begun.set()
        await release.wait()

    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers, listen) as member:
        await begun.wait()
        brokers.assigned[TOPIC] = PULL
        await member.on_ids_changed()
        await brokers.until(lambda: brokers.asked(Code.PULL_MESSAGE))
        release.set()
        await brokers.until(lambda: brokers.acked)


@with_broker()
async def test_messages_popped_after_the_switch_are_consumed(brokers):
    listener = Listener()
    async with consumer(brokers, listener) as member:
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        brokers.assigned[TOPIC] = PULL
        await member.on_ids_changed()
        await brokers.until(lambda: brokers.asked(Code.PULL_MESSAGE))
        brokers.reply(brokers.popped([record(7)], brokers.held[0][1]))
        await brokers.until(lambda: brokers.acked)
        assert listener.seen == [7]
    assert not brokers.extended


@with_broker()
async def test_a_missing_assignment_keeps_queues_and_an_empty_one_drops_them(brokers):
    async with consumer(brokers, Listener()) as member:
        brokers.assigned[TOPIC] = None
        asked = len(brokers.asked(Code.QUERY_ASSIGNMENT))
        await member.on_ids_changed()
        await brokers.until(lambda: len(brokers.asked(Code.QUERY_ASSIGNMENT)) > asked + 4)
        assert member.queues == [MessageQueue(TOPIC, "b", -1)]
        brokers.assigned[TOPIC] = []
        await member.on_ids_changed()
        await eventually(lambda: not member.queues)


@with_broker()
async def test_a_broker_without_our_subscription_gets_a_heartbeat(brokers, monkeypatch):
    async with consumer(brokers, Listener()) as member:
        beats = len(brokers.asked(Code.HEART_BEAT))
        known = brokers._assign
        monkeypatch.setattr(broker_assignment, "ANNOUNCE_AGAIN", 0.0)

        def assign(request):
            return known("b", request) if len(brokers.asked(Code.HEART_BEAT)) > beats else empty

        empty = Command(0, body=b'{"messageQueueAssignments":[]}')
        brokers.special[Code.QUERY_ASSIGNMENT] = assign
        asked = len(brokers.asked(Code.QUERY_ASSIGNMENT))
        await member.on_ids_changed()
        await brokers.until(lambda: len(brokers.asked(Code.QUERY_ASSIGNMENT)) > asked + 1)
        await eventually(lambda: member.queues == [MessageQueue(TOPIC, "b", -1)])
        assert len(pops(brokers)) == 1  # its queue was never let go


@with_broker()
async def test_a_queue_that_is_assigned_twice_is_one_queue(brokers):
    async with consumer(brokers, Listener(), assigned=[*POP, *POP]) as member:
        await brokers.until(lambda: pops(brokers))
        assert member.queues == [MessageQueue(TOPIC, "b", -1)]
        await asyncio.sleep(0.02)
        assert len(pops(brokers)) == 1


def test_a_broker_that_assigns_nothing_is_logged(caplog):
    async def run(brokers):
        brokers.special[Code.QUERY_ASSIGNMENT] = lambda _: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        async with consumer(brokers, Listener()) as member:
            assert not member.queues

    with caplog.at_level(logging.ERROR):
        scenario(run)
    assert "do not set client_rebalance=False" in caplog.text


@pytest.mark.parametrize("options", [{"pop_invisible_time": 4}, {"pop_batch_size": 33}, {"pop_threshold_for_queue": 0}])
def test_invalid_options_are_refused(options):
    with pytest.raises(ConfigError):
        PushConsumer(GROUP, "ns:1", **options)
