"""The requests of POP and what becomes of their answers."""

import logging

import pytest

from rocketmq_py.client.consumer.calls import pop_calls
from rocketmq_py.client.consumer.calls.pop_calls import AttemptIds, PopCalls
from rocketmq_py.client.consumer.calls.single_pull import SinglePulls
from rocketmq_py.client.consumer.filters import make_subscription
from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.errors import BadHeader, BrokerError, ConnectError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.pop_handle import InitMode, pop_retry_topic
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import DEFAULT_RULES
from tests.unit.client.consumer.popbroker import GROUP, POP_TIME, TOPIC, record, with_broker

QUEUE = MessageQueue(TOPIC, "b", 0)
ALL = make_subscription(TOPIC, "*", None, 0)


async def calls(brokers, on_damaged=None):
    await brokers.instance.routes.get(TOPIC)
    skipped = SkippedMessages(GROUP, on_damaged)
    return PopCalls(
        brokers.instance, GROUP, DEFAULT_RULES, skipped, SinglePulls(brokers.instance, GROUP, DEFAULT_RULES, skipped)
    )


async def popped(brokers, *, order=None, subscription=ALL):
    return await (await calls(brokers)).pop(
        QUEUE, subscription, most=8, invisible=60, poll=15, start=InitMode.MIN, order=order
    )


def answered(brokers, **ext):
    fields = {"popTime": str(POP_TIME), "invisibleTime": "60000", "reviveQid": "3", "restNum": "0", **ext}
    brokers.special[Code.POP_MESSAGE] = lambda _: Command(0, ext=fields, body=record(5) + record(6))


@pytest.mark.parametrize(("in_order", "times"), [(True, [2, 1]), (False, [0, 0])])
@with_broker()
async def test_only_a_pop_in_order_takes_the_number_of_deliveries_from_the_answer(brokers, in_order, times):
    answered(brokers, startOffsetInfo="0 0 5", msgOffsetInfo="0 0 5,6", orderCountInfo="0 0 1;0 qo0%5 2")
    answer = await popped(brokers, order=AttemptIds() if in_order else None)
    assert [one.message.reconsume_times for one in answer.popped] == times
    assert [one.receipt.start_offset for one in answer.popped] == [5, 5]
    [asked] = brokers.asked(Code.POP_MESSAGE)
    wanted = {"pollTime": "15000", "invisibleTime": "60000", "maxMsgNums": "8", "initMode": "0", "bname": "b"}
    assert wanted.items() <= asked.ext.items()
    assert asked.ext["order"] == str(in_order).lower()
    assert ("attemptId" in asked.ext) == in_order


@with_broker()
async def test_an_answer_is_messages_nothing_or_an_error(brokers):
    answered(brokers)
    tagged = make_subscription(TOPIC, "a", None, 0)
    answer = await popped(brokers, subscription=tagged)
    assert (answer.popped, [one.message.queue_offset for one in answer.unwanted]) == ([], [5, 6])
    assert answer.pop_time_ms == POP_TIME
    for code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND):
        brokers.special[Code.POP_MESSAGE] = lambda _, code=code: Command(code)
        assert await popped(brokers) is None
    brokers.special[Code.POP_MESSAGE] = lambda _: Command(1, remark="no")
    with pytest.raises(BrokerError, match="no"):
        await popped(brokers)


@with_broker()
async def test_damaged_messages_that_a_broker_leaves_out_are_told_once(brokers, monkeypatch):
    monkeypatch.setattr(pop_calls, "_MOST_LEFT_OUT", 3)
    told = []
    made = await calls(brokers, told.append)

    async def pop_again():
        return await made.pop(QUEUE, ALL, most=8, invisible=60, poll=15, start=InitMode.MIN, order=None)

    answered(brokers, startOffsetInfo="0 0 4", msgOffsetInfo="0 0 5,6", damaged="0 0 4,7;1 3 4")
    for _ in range(2):  # an orderly pop that is repeated
        assert [one.message.queue_offset for one in (await pop_again()).popped] == [5, 6]
    retry = MessageQueue(pop_retry_topic(TOPIC, GROUP), "b", 3)
    places = [(one.queue, one.offset) for one in told]
    assert places == [(QUEUE, 4), (QUEUE, 7), (retry, 4)]
    assert told[0].reason == "broker b:1 has left it out"
    told.clear()
    for code, offset in ((ResponseCode.POLLING_TIMEOUT, 8), (ResponseCode.PULL_NOT_FOUND, 9)):
        brokers.special[Code.POP_MESSAGE] = lambda _, code=code, at=offset: Command(code, ext={"damaged": f"0 0 {at}"})
        assert await pop_again() is None
    assert [one.offset for one in told] == [8, 9]
    told.clear()
    answered(brokers, startOffsetInfo="0 0 4", msgOffsetInfo="0 0 5,6", damaged="0 0 9,7")
    await pop_again()
    assert [one.offset for one in told] == [7], "forgotten, for the number of places is bounded"
    answered(brokers, damaged="x")
    with pytest.raises(BadHeader, match="'x' is wrong"):
        await pop_again()


@with_broker()
async def test_messages_that_cannot_be_given_back_are_logged_and_a_fault_is_raised(brokers, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    answered(brokers)
    made = await calls(brokers)
    answer = await popped(brokers)
    failures = [ConnectError("gone"), None]

    async def extend(one, seconds):
        failure = failures.pop()
        if failure is not None:
            raise failure

    monkeypatch.setattr(made, "extend", extend)
    await made.give_back(answer.popped, 1)
    [logged] = [one.getMessage() for one in caplog.records if "comes again" in one.getMessage()]
    assert logged.endswith("only after its invisible time: gone")
    failures += [None, ValueError("a fault")]
    with pytest.raises(ValueError, match="a fault"):
        await made.give_back(answer.popped, 1)


@with_broker()
async def test_a_master_that_is_not_known_is_looked_up_once(brokers):
    made = await calls(brokers)
    assert await made.master("b", TOPIC) == "b:1"
    brokers.network.requests.clear()
    with pytest.raises(NoRouteError, match="broker 'c' of topic 'T' has no master now"):
        await made.master("c", TOPIC)
    assert len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC)) == 1
