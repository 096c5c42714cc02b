"""Receives of a simple consumer: how long they wait, what they ask for, and that no message is lost on the way."""

import asyncio
import contextlib

import pytest

from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.errors import ClosedError, ConfigError, PermissionDenied
from rocketmq_py.model import ConsumeFromWhere, MessageQueue
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import GROUP, TOPIC, eventually, record, with_broker
from tests.unit.client.consumer.simple.test_consumer import consumer, offsets


def pops(brokers):
    return brokers.asked(Code.POP_MESSAGE)


@with_broker()
async def test_a_receive_waits_as_long_as_it_may_and_asks_for_what_it_says(brokers):
    loop = asyncio.get_running_loop()
    async with consumer(brokers, invisible_duration=40.0) as member:
        for options, seconds in (
            ({}, 5.0),
            ({"timeout": 7}, 7.0),
            ({"timeout": 0}, 0.0),
            ({"max_messages": 1024}, 5.0),
        ):
            began = loop.time()
            assert await member.receive(**options) == []
            assert loop.time() - began == pytest.approx(seconds, abs=0.2)
        for wrong in (0, 1025):
            with pytest.raises(ConfigError, match=f"max_messages={wrong} is out of range: 1 to 1024"):
                await member.receive(wrong)
        with pytest.raises(ConfigError, match="timeout=-1 must not be negative"):
            await member.receive(timeout=-1)

        def arrive():
            brokers.has["b"].append([record(3)])
            brokers.reply(Command(0, ext={"hasMsg": "true"}), -1)

        loop.call_later(9, arrive)
        began = loop.time()
        waiting = asyncio.ensure_future(member.receive(1, 5.5, None))
        await asyncio.sleep(0.1)
        assert offsets(await waiting) == [3]
        assert loop.time() - began == pytest.approx(9, abs=1)
        first, last = pops(brokers)[0].ext, pops(brokers)[-1].ext
        assert [(each["maxMsgNums"], each["invisibleTime"]) for each in (first, last)] == [
            ("32", "40000"),
            ("1", "5500"),
        ]
        assert brokers.asked(Code.NOTIFICATION)[0].ext["pollTime"] == "15000"


@with_broker()
async def test_hooks_see_what_is_received_and_tags_that_only_look_alike_are_acked(brokers):
    class Hook:
        def received(self, reception):
            seen.append((reception.group, offsets(reception.messages)))

    seen = []
    brokers.has["b"] = [[record(0, properties=b"TAGS\x01Aa"), record(1, properties=b"TAGS\x01BB")]]
    async with consumer(brokers, tags="Aa", hooks=[Hook()]) as member:
        assert offsets(await member.receive()) == [0]
    assert seen == [(GROUP, [0])]
    assert brokers.acked == [("b", 1)], "the broker compares hashes, which are equal"


@with_broker("a", "b")
async def test_messages_of_a_receive_that_fails_come_with_the_next_one(brokers):
    brokers.has["b"] = [[record(1)]]

    def answer(request):
        refused = request.ext["bname"] == "a"
        return Command(ResponseCode.NO_PERMISSION, remark="no") if refused else brokers._pop("b", request)

    brokers.special[Code.POP_MESSAGE] = answer
    async with consumer(brokers) as member:
        with pytest.raises(PermissionDenied):
            await member.receive()
        del brokers.special[Code.POP_MESSAGE]
        assert offsets(await member.receive()) == [1]
        assert await member.receive(timeout=0) == [], "once"


async def cancelled(brokers, member):
    """A receive whose caller gives up while the broker has its pop; the pop's answer comes later."""
    held = []
    brokers.special[Code.POP_MESSAGE] = held.append
    call = asyncio.ensure_future(member.receive(timeout=None, invisible_duration=30))
    await brokers.until(lambda: held)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    del brokers.special[Code.POP_MESSAGE]
    brokers.held.append(("b", held[0]))
    return held[0]


@with_broker()
async def test_messages_that_nobody_received_are_visible_again_after_their_time(brokers):
    for wait, found in ((29, [7, 8, 9]), (31, [])):
        brokers.held.clear()
        async with consumer(brokers) as member:
            request = await cancelled(brokers, member)
            at = next(i for i, (_, each) in enumerate(brokers.held) if each is request)
            brokers.reply(brokers.popped([record(7), record(8), record(9)], request), at)
            await asyncio.sleep(wait)
            got = [*offsets(await member.receive(2, timeout=0)), *offsets(await member.receive(2, timeout=0))]
            assert got == found, wait
        await asyncio.sleep(0)


@with_broker()
async def test_messages_whose_answer_comes_while_it_closes_are_given_back(brokers):
    member = consumer(brokers)
    await member.start()
    request = await cancelled(brokers, member)
    closing = asyncio.ensure_future(member.close())
    brokers.reply(brokers.popped([record(7)], request))
    await closing
    await asyncio.sleep(0.01)
    assert brokers.extended == [(7, 1000)]


@with_broker()
async def test_a_close_waits_for_acks_in_flight(brokers):
    """The broker answers no request of a group's member that has left."""
    brokers.has["b"] = [[record(0, properties=b"TAGS\x01BB")]]
    brokers.special[Code.ACK_MESSAGE] = lambda request: brokers._hold("b", request)
    member = consumer(brokers, tags="Aa")
    await member.start()
    assert await member.receive(timeout=0) == []
    await brokers.until(lambda: brokers.waits(Code.ACK_MESSAGE))
    closing = asyncio.ensure_future(member.close())
    await asyncio.sleep(0.1)
    assert not closing.done()
    assert not brokers.asked(Code.UNREGISTER_CLIENT)
    brokers.reply(Command(0), next(at for at, (_, each) in enumerate(brokers.held) if each.code == Code.ACK_MESSAGE))
    await closing
    assert brokers.asked(Code.UNREGISTER_CLIENT)


@with_broker()
async def test_a_fault_beside_a_receive_does_not_keep_a_consumer_from_leaving(brokers, monkeypatch):
    released = asyncio.Event()

    async def ack(_):
        await released.wait()
        raise ValueError("a bug")

    brokers.has["b"] = [[record(0, properties=b"TAGS\x01BB")]]
    member = consumer(brokers, tags="Aa")
    await member.start()
    monkeypatch.setattr(member._calls, "ack", ack)
    assert await member.receive(timeout=0) == []
    closing = asyncio.ensure_future(member.close())
    await asyncio.sleep(0)
    released.set()
    await closing
    assert brokers.asked(Code.UNREGISTER_CLIENT)


@with_broker()
async def test_an_extended_message_has_a_new_receipt(brokers):
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers) as member:
        [message] = await member.receive()
        before = message.properties["POP_CK"]
        for seconds in (12.5, 259200, 0):
            receipt = await member.extend(message, seconds)
            assert message.properties["POP_CK"] == receipt != before
        assert [milliseconds for _, milliseconds in brokers.extended] == [12500, 259200000, 0]
        for seconds in (-0.1, 259200.1):
            with pytest.raises(ConfigError, match="is out of range: 0 to 259200 seconds is allowed"):
                await member.extend(message, seconds)
    for call in (lambda: member.extend(message, 1), lambda: member.ack(message), member.lag):
        with pytest.raises(ClosedError):
            await call()
    with pytest.raises(ClosedError, match="not started"):
        await SimpleConsumer("other", instance=brokers.instance).next()


@with_broker()
async def test_its_state_names_what_each_broker_has(brokers):
    for code, offset in ((Code.GET_MAX_OFFSET, 9), (Code.QUERY_CONSUMER_OFFSET, 4)):
        brokers.special[code] = lambda request, offset=offset: Command(0, ext={"offset": str(offset)})
    async with consumer(brokers, consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
        assert repr(member) == "SimpleConsumer(group='g', running, topics=['T'])"
        [source] = member.health().sources
        assert (source.topic, source.broker_name, source.has_messages, source.trouble) == (TOPIC, "b", True, None)
        await member.receive(timeout=0)
        await asyncio.sleep(3)
        [source] = member.health().sources
        assert source.has_messages is False
        assert source.since_asked == pytest.approx(3, abs=0.2)
        assert await member.lag() == {MessageQueue(TOPIC, "b", 0): 5}
        await member.on_ids_changed()
        [beat] = HeartbeatData.decode(brokers.asked(Code.HEART_BEAT)[-1].body).consumer_data_set
        assert (beat.consume_type, beat.consume_from_where) == ("CONSUME_POP", "CONSUME_FROM_FIRST_OFFSET")
        assert pops(brokers)[-1].ext["initMode"] == "0"
    assert not member.health().ok


def asked(brokers):
    return [int(request.ext["maxMsgNums"]) for request in pops(brokers)]


def full(first, size=32):
    return [record(offset) for offset in range(first, first + size)]


@with_broker()
async def test_pops_in_flight_double_while_answers_are_full(brokers):
    held = []
    brokers.special[Code.POP_MESSAGE] = held.append

    async def answer(count, sizes):
        await brokers.until(lambda: len(held) == count)
        for first, size in enumerate(sizes, len(asked(brokers))):
            brokers.held.append(("b", held.pop(0)))
            brokers.reply(brokers.popped(full(first * 32, size), brokers.held[0][1]))

    async with consumer(brokers) as member:
        call = asyncio.ensure_future(member.receive(200))
        await answer(1, [32])
        await answer(2, [32, 32])
        assert asked(brokers) == [32, 32, 32]
        await brokers.until(lambda: len(held) == 4)
        assert asked(brokers)[3:] == [32, 32, 32, 8], "together no more than are wanted"
        await answer(4, [32, 32, 3, 8])
        assert len(await call) == 3 * 32 + 32 + 32 + 3 + 8
        assert len(asked(brokers)) == 7, "an answer that is not full ends the round"


@pytest.mark.parametrize(
    ("options", "most"), [({"orderly": True}, 1), ({"pops_in_flight": 1}, 1), ({"pops_in_flight": 3}, 3)]
)
@with_broker()
async def test_an_option_limits_the_pops_in_flight(brokers, options, most):
    held, seen = [], []
    brokers.special[Code.POP_MESSAGE] = held.append
    async with consumer(brokers, **options) as member:
        call = asyncio.ensure_future(member.receive(13 * 32))
        for expected in [1, 2, 3, 3, 3, 1] if most == 3 else [1] * 13:
            await brokers.until(lambda wanted=expected: len(held) == wanted)
            seen.append(len(held))
            for _ in range(expected):
                brokers.held.append(("b", held.pop(0)))
                brokers.reply(brokers.popped(full(len(asked(brokers)) * 100), brokers.held[0][1]))
        assert len(await call) == 13 * 32
    assert max(seen) == most


@with_broker()
async def test_messages_of_pops_beside_one_that_fails_come_with_the_next_receive(brokers):
    member = consumer(brokers)
    await member.start()
    answers = [None, None, Command(ResponseCode.NO_PERMISSION, remark="no")]

    def answer(request):
        refused = answers.pop(0) if answers else None
        return refused or brokers._pop("b", request)

    brokers.has["b"] = [full(0), full(32)]
    brokers.special[Code.POP_MESSAGE] = answer
    with pytest.raises(PermissionDenied):
        await member.receive(96)
    assert offsets(await member.receive(64, timeout=0)) == list(range(64))
    await member.close()


@with_broker()
async def test_messages_of_pops_beside_a_cancelled_one_come_with_the_next_receive(brokers):
    """One of three pops has answered, the answers of two come after the call is cancelled."""
    held = []
    brokers.has["b"] = [full(0)]
    brokers.special[Code.POP_MESSAGE] = lambda request: (
        brokers._pop("b", request) if brokers.has["b"] else held.append(request)
    )
    async with consumer(brokers) as member:
        call = asyncio.ensure_future(member.receive(96, invisible_duration=30))
        await brokers.until(lambda: len(held) == 2)
        brokers.held.append(("b", held.pop(0)))
        brokers.reply(brokers.popped(full(32), brokers.held[0][1]))
        await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        del brokers.special[Code.POP_MESSAGE]
        brokers.held.append(("b", held.pop(0)))
        brokers.reply(brokers.popped(full(64), brokers.held[0][1]))
        await eventually(lambda: len(member._spare) == 96)
        assert sorted(offsets(await member.receive(96, timeout=0))) == list(range(96))
