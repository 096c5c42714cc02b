"""The push consumer in POP mode against scripted brokers: what it is assigned, pops, acks and keeps invisible."""

import asyncio
import contextlib
import json
import logging
import threading

import pytest

from rocketmq_py.client import push_assign, push_pop, push_popper
from rocketmq_py.client.push import PushConsumer
from rocketmq_py.core import flow, rebalance
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, ConsumeResult, MessageQueue, OrderlyResult
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.client.popbroker import GROUP, PATIENCE, RETRY, TOPIC, PopBrokers, eventually, record, scenario

POP = [("b", -1, "POP")]
PULL = [("b", 0, "PULL")]
POP_RETRY = f"{RETRY}_{TOPIC}"


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)
    monkeypatch.setattr(flow, "STATE_DELAY", 0.001)
    monkeypatch.setattr(push_popper, "STATE_DELAY", 0.001)
    monkeypatch.setattr(push_pop, "ACK_AGAIN", 0.001)


class Listener:
    """Takes messages and remembers them; ``fails`` says of a message what to return for it."""

    def __init__(self, fails=lambda message: None):
        self.seen = []
        self.fails = fails
        self._changed = asyncio.Event()

    async def __call__(self, message):
        self.seen.append(message.queue_offset)
        self._changed.set()
        return self.fails(message)

    async def count(self, number):
        async with asyncio.timeout(PATIENCE):
            while len(self.seen) < number:
                self._changed.clear()
                await self._changed.wait()


def consumer(brokers: PopBrokers, listener, assigned=POP, **options):
    brokers.assigned = {TOPIC: assigned, RETRY: []}
    brokers.topics.add(RETRY)
    made = PushConsumer(GROUP, instance=brokers.instance, client_rebalance=False, **options)
    made.subscribe(TOPIC, listener=listener)
    return made


def later(message):
    return ConsumeResult.RECONSUME_LATER


def pops(brokers):
    return brokers.asked(Code.POP_MESSAGE)


def test_it_asks_what_is_assigned_and_pops_there():
    async def run(brokers):
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

    scenario(run)


def test_done_messages_are_acked_and_the_next_pop_is_under_way():
    async def run(brokers):
        brokers.has["b"] = [[record(0), record(1, queue_id=1)], [record(2)]]
        listener = Listener()
        async with consumer(brokers, listener):
            await brokers.until(lambda: len(brokers.acked) == 3)
            assert sorted(brokers.acked) == [("b", 0), ("b", 1), ("b", 2)]
            await brokers.until(lambda: len(pops(brokers)) == 3)
        assert not brokers.asked(Code.UPDATE_CONSUMER_OFFSET)

    scenario(run)


@pytest.mark.parametrize(("properties", "seconds"), [(b"", 10), (b"RECONSUME", 60)])
def test_failed_messages_come_again_later_each_time(properties, seconds):
    async def run(brokers):
        ck = b"POP_CK\x010 1000000 60000 1 1 b 0 0\x02" if properties else b""
        brokers.has["b"] = [[record(0, properties=ck, times=2 if properties else 0)]]
        async with consumer(brokers, Listener(later)):
            await brokers.until(lambda: brokers.extended)
            assert brokers.extended == [(0, seconds * 1000)]
            if properties:
                assert brokers.asked(Code.CHANGE_MESSAGE_INVISIBLETIME)[0].ext["topic"] == POP_RETRY
        assert not brokers.acked
        assert not brokers.asked(Code.CONSUMER_SEND_MSG_BACK)

    scenario(run)


def test_a_listener_says_when_a_batch_comes_again_and_which_of_it_is_done():
    async def run(brokers):
        brokers.has["b"] = [[record(0), record(1), record(2)]]

        async def listen(messages, context):
            context.ack_index, context.delay_level = 0, 2

        async with consumer(brokers, listen, consume_batch_size=10):
            await brokers.until(lambda: len(brokers.extended) == 2 and brokers.acked)
            assert brokers.extended == [(1, 60_000), (2, 60_000)]
            assert brokers.acked == [("b", 0)]

    scenario(run)


def dead_letters(brokers):
    return [request for _, request in brokers.network.sent() if request.ext["b"] == RETRY]


def take_sends(brokers):
    brokers.special[Code.SEND_MESSAGE_V2] = lambda request: Command(
        0, ext={"msgId": "OFF", "queueId": "0", "queueOffset": "5"}
    )


@pytest.mark.parametrize("times", [1, 2])
def test_a_message_whose_deliveries_are_used_up_goes_to_the_dead_letters_and_is_acked(times):
    """One that has come too often, as other members let it lapse, is not even consumed again."""

    async def run(brokers):
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

    scenario(run)


def test_a_message_that_cannot_be_buried_is_delivered_again():
    async def run(brokers):
        brokers.special[Code.SEND_MESSAGE_V2] = lambda request: Command(ResponseCode.NO_PERMISSION, remark="no")
        brokers.has["b"] = [[record(0, times=16)]]
        async with consumer(brokers, Listener(later)):
            await brokers.until(lambda: dead_letters(brokers))
        assert not brokers.acked

    scenario(run)


def test_what_takes_too_long_counts_for_nothing(monkeypatch, caplog):
    async def run(brokers):
        brokers.has["b"] = [[record(0), record(1)]]
        late = asyncio.Event()

        async def listen(message):
            monkeypatch.setattr(member._group, "now", lambda: clock() + 61)
            monkeypatch.setattr("rocketmq_py.client.dispatch_listener.monotonic", lambda: clock() + 61)
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
    assert "after their time was over" in caplog.text
    assert "were not begun before their time was over" in caplog.text


def test_too_much_held_keeps_it_from_popping():
    async def run(brokers):
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

    scenario(run)


def test_acks_a_broker_did_not_take_are_sent_again():
    async def run(brokers):
        answers = [Command(ResponseCode.SYSTEM_BUSY, remark="later"), None]

        def ack(request):
            refused = answers.pop(0) if answers else None
            return refused or brokers._ack("b", request)

        brokers.special[Code.ACK_MESSAGE] = ack
        brokers.has["b"] = [[record(0)]]
        async with consumer(brokers, Listener()):
            await brokers.until(lambda: brokers.acked)
            assert len(brokers.asked(Code.ACK_MESSAGE)) == 2

    scenario(run)


def test_a_broker_that_cannot_be_asked_is_asked_again():
    async def run(brokers):
        answers = [Command(1, remark="broken"), Command(ResponseCode.POLLING_FULL), Command(ResponseCode.FLOW_CONTROL)]
        brokers.special[Code.POP_MESSAGE] = lambda request: answers.pop(0) if answers else brokers._pop("b", request)
        brokers.has["b"] = [[record(0)]]
        async with consumer(brokers, Listener()):
            await brokers.until(lambda: brokers.acked)

    scenario(run)


def test_garbage_in_an_answer_costs_no_message(caplog):
    async def run(brokers):
        answers = [Command(0, ext={"popTime": "1"}), Command(0, ext={"popTime": "x"}, body=b"garbage")]
        brokers.special[Code.POP_MESSAGE] = lambda request: answers.pop(0) if answers else brokers._pop("b", request)
        brokers.has["b"] = [[record(0)]]
        async with consumer(brokers, Listener()):
            await brokers.until(lambda: brokers.acked)

    scenario(run)


def test_closing_acks_what_is_done_and_gives_back_what_was_not_begun():
    async def run(brokers):
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

    scenario(run)


def test_what_a_pop_brings_after_the_end_is_given_back():
    async def run(brokers):
        async with consumer(brokers, Listener()) as member:
            await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
            member.unsubscribe(TOPIC)
            await eventually(lambda: not member.queues)
            brokers.reply(brokers.popped([record(7)], brokers.held[0][1]))
            await brokers.until(lambda: brokers.extended)
            assert brokers.extended == [(7, 1000)]

    scenario(run)


def test_suspended_it_does_not_pop():
    async def run(brokers):
        listener = Listener()
        async with consumer(brokers, listener) as member:
            await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
            member.suspend()
            brokers.reply(Command(ResponseCode.POLLING_TIMEOUT))
            await asyncio.sleep(0.02)
            assert len(pops(brokers)) == 1
            member.resume()
            await brokers.until(lambda: len(pops(brokers)) == 2)

    scenario(run)


def test_brokers_and_people_can_look_at_it():
    async def run(brokers):
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

    scenario(run)


# -- assignments


def test_a_broker_may_change_from_pop_to_pull_and_back():
    async def run(brokers):
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

    scenario(run)


def test_what_was_popped_before_the_change_is_acked_after_it():
    async def run(brokers):
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

    scenario(run)


def test_no_answer_keeps_what_there_is_and_an_empty_one_drops_it():
    async def run(brokers):
        async with consumer(brokers, Listener()) as member:
            brokers.assigned[TOPIC] = None
            asked = len(brokers.asked(Code.QUERY_ASSIGNMENT))
            await member.on_ids_changed()
            await brokers.until(lambda: len(brokers.asked(Code.QUERY_ASSIGNMENT)) > asked + 4)
            assert member.queues == [MessageQueue(TOPIC, "b", -1)]
            brokers.assigned[TOPIC] = []
            await member.on_ids_changed()
            await eventually(lambda: not member.queues)

    scenario(run)


def test_a_broker_that_has_forgotten_us_hears_from_us(monkeypatch):
    async def run(brokers):
        async with consumer(brokers, Listener()) as member:
            beats = len(brokers.asked(Code.HEART_BEAT))
            known = brokers._assign
            monkeypatch.setattr(push_assign, "ANNOUNCE_AGAIN", 0.0)

            def assign(request):
                return known("b", request) if len(brokers.asked(Code.HEART_BEAT)) > beats else empty

            empty = Command(0, body=b'{"messageQueueAssignments":[]}')
            brokers.special[Code.QUERY_ASSIGNMENT] = assign
            asked = len(brokers.asked(Code.QUERY_ASSIGNMENT))
            await member.on_ids_changed()
            await brokers.until(lambda: len(brokers.asked(Code.QUERY_ASSIGNMENT)) > asked + 1)
            await eventually(lambda: member.queues == [MessageQueue(TOPIC, "b", -1)])
            assert len(pops(brokers)) == 1  # its queue was never let go

    scenario(run)


def test_a_queue_that_is_assigned_twice_is_one_queue():
    async def run(brokers):
        async with consumer(brokers, Listener(), assigned=[*POP, *POP]) as member:
            await brokers.until(lambda: pops(brokers))
            assert member.queues == [MessageQueue(TOPIC, "b", -1)]
            await asyncio.sleep(0.02)
            assert len(pops(brokers)) == 1

    scenario(run)


def test_a_broker_that_assigns_nothing_is_complained_about(caplog):
    async def run(brokers):
        brokers.special[Code.QUERY_ASSIGNMENT] = lambda _: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        async with consumer(brokers, Listener()) as member:
            assert not member.queues

    with caplog.at_level(logging.ERROR):
        scenario(run)
    assert "leave client_rebalance on" in caplog.text


@pytest.mark.parametrize("options", [{"pop_invisible_time": 4}, {"pop_batch_size": 33}, {"pop_threshold_for_queue": 0}])
def test_options_that_can_never_work_are_refused(options):
    with pytest.raises(ConfigError):
        PushConsumer(GROUP, "ns:1", **options)


# -- in order


def in_order(brokers, listener, **options):
    return consumer(brokers, listener, orderly=True, **{"suspend_seconds": 0.01, **options})


def test_in_order_each_queue_is_consumed_and_acked_message_by_message():
    async def run(brokers):
        brokers.has["b"] = [[record(0), record(5, queue_id=1), record(1), record(6, queue_id=1)]]
        listener = Listener()
        async with in_order(brokers, listener):
            await brokers.until(lambda: len(brokers.acked) == 4)
            assert pops(brokers)[0].ext["order"] == "true"
            assert [offset for offset in listener.seen if offset < 5] == [0, 1]
            assert [offset for offset in listener.seen if offset >= 5] == [5, 6]
        assert not brokers.asked(Code.LOCK_BATCH_MQ)
        assert not brokers.asked(Code.UPDATE_CONSUMER_OFFSET)

    scenario(run)


def test_in_order_a_message_that_fails_comes_again_here_and_nothing_of_its_queue_before():
    async def run(brokers):
        failing = [OrderlyResult.SUSPEND, OrderlyResult.SUSPEND]
        brokers.has["b"] = [[record(0), record(1), record(2)]]
        listener = Listener(lambda m: failing.pop() if m.queue_offset == 1 and failing else None)
        async with in_order(brokers, listener):
            await brokers.until(lambda: len(brokers.acked) == 3)
            assert listener.seen == [0, 1, 1, 1, 2]

    scenario(run)


def test_in_order_what_takes_long_is_kept_invisible(monkeypatch):
    async def run(brokers):
        release = asyncio.Event()

        async def listen(message):
            await release.wait()

        brokers.has["b"] = [[record(0), record(1)]]
        async with in_order(brokers, listen, pop_invisible_time=5):
            await brokers.until(lambda: len(brokers.extended) == 4)
            release.set()
            await brokers.until(lambda: len(brokers.acked) == 2)
            assert {milliseconds for _, milliseconds in brokers.extended} == {5000}

    monkeypatch.setattr("rocketmq_py.client.push_pop_orderly.RENEW_AT", 0.002)
    scenario(run)


def test_in_order_what_is_not_begun_at_the_end_is_given_back():
    async def run(brokers):
        begun, release = threading.Event(), threading.Event()

        def listen(message):
            begun.set()
            release.wait(PATIENCE)

        brokers.has["b"] = [[record(0), record(1), record(2)]]
        async with in_order(brokers, listen) as member:
            await asyncio.to_thread(begun.wait, PATIENCE)
            closing = asyncio.ensure_future(member.close())
            await asyncio.sleep(0.01)
            release.set()
            await closing
        assert brokers.acked == [("b", 0)]
        assert sorted(brokers.extended) == [(1, 1000), (2, 1000)]

    scenario(run)


def test_in_order_a_listener_that_does_not_end_holds_up_no_end():
    async def run(brokers):
        begun, release = threading.Event(), threading.Event()

        def listen(message):
            begun.set()
            release.wait(PATIENCE)

        brokers.has["b"] = [[record(0), record(1)]]
        member = in_order(brokers, listen)
        await member.start()
        await asyncio.to_thread(begun.wait, PATIENCE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(member.close(timeout=0.01), PATIENCE)
        release.set()
        assert not brokers.acked

    scenario(run)


def test_in_order_success_is_final():
    async def run(brokers):
        results = [OrderlyResult.SUCCESS, OrderlyResult.ROLLBACK, OrderlyResult.SUCCESS]
        seen = []

        async def listen(messages, context):
            context.auto_commit = False
            seen.append(messages[0].queue_offset)
            return results.pop(0)

        brokers.has["b"] = [[record(0), record(1)]]
        async with in_order(brokers, listen):
            await brokers.until(lambda: len(brokers.acked) == 2)
            assert seen == [0, 1, 1]

    scenario(run)


def test_in_order_what_is_given_up_goes_to_the_dead_letters():
    async def run(brokers):
        take_sends(brokers)
        brokers.has["b"] = [[record(0), record(1)]]
        listener = Listener(lambda m: OrderlyResult.SUSPEND if m.queue_offset == 0 else None)
        async with in_order(brokers, listener, max_reconsume_times=1):
            await brokers.until(lambda: len(brokers.acked) == 2)
            assert listener.seen == [0, 0, 1]
            assert len(dead_letters(brokers)) == 1

    scenario(run)
