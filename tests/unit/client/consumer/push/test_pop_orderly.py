"""The push consumer popping in order, against scripted brokers."""

import asyncio
import contextlib
import threading

import pytest

from rocketmq_py.client.consumer.push import listener_watch
from rocketmq_py.model import OrderlyResult
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import PATIENCE, eventually, record, scenario, with_broker
from tests.unit.client.consumer.push.poppush import Listener, consumer, dead_letters, hurry, pops, take_sends
from tests.unit.client.consumer.push.test_consumer_life import NoGuard


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    hurry(monkeypatch)


def in_order(brokers, listener, **options):
    return consumer(brokers, listener, orderly=True, **{"suspend_seconds": 0.01, **options})


@with_broker()
async def test_each_queue_is_consumed_and_acked_message_by_message(brokers):
    brokers.has["b"] = [[record(0), record(5, queue_id=1), record(1), record(6, queue_id=1)]]
    listener = Listener()
    async with in_order(brokers, listener):
        await brokers.until(lambda: len(brokers.acked) == 4)
        assert pops(brokers)[0].ext["order"] == "true"
        assert [offset for offset in listener.seen if offset < 5] == [0, 1]
        assert [offset for offset in listener.seen if offset >= 5] == [5, 6]
    assert not brokers.asked(Code.LOCK_BATCH_MQ)
    assert not brokers.asked(Code.UPDATE_CONSUMER_OFFSET)


@with_broker()
async def test_a_failed_message_is_retried_before_the_rest_of_its_queue(brokers):
    failing = [OrderlyResult.SUSPEND, OrderlyResult.SUSPEND]
    brokers.has["b"] = [[record(0), record(1), record(2)]]
    listener = Listener(lambda m: failing.pop() if m.queue_offset == 1 and failing else None)
    async with in_order(brokers, listener):
        await brokers.until(lambda: len(brokers.acked) == 3)
        assert listener.seen == [0, 1, 1, 1, 2]


def test_messages_of_a_slow_listener_are_kept_invisible(monkeypatch):
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

    monkeypatch.setattr("rocketmq_py.client.consumer.push.pop_orderly.RENEW_AT", 0.002)
    scenario(run)


@with_broker()
async def test_unconsumed_messages_are_returned_at_close(brokers):
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


def test_close_does_not_wait_for_a_listener_that_does_not_end(monkeypatch):
    monkeypatch.setattr("rocketmq_py.client.consumer.push.pop_orderly.CLOSE_TIMEOUT", 0.01)

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


@with_broker()
async def test_a_pop_with_a_lost_answer_is_repeated_with_its_attempt_id(brokers):
    async with consumer(brokers, Listener(), orderly=True):
        await brokers.until(lambda: brokers.waits(Code.POP_MESSAGE))
        brokers.has["b"] = [[record(0)], [record(1)]]
        brokers.network.transports["b:1"].close()
        await brokers.until(lambda: len(brokers.acked) == 2 and len(pops(brokers)) == 4)
        lost, again, other, last = [request.ext["attemptId"] for request in pops(brokers)]
        assert lost == again
        assert len({again, other, last}) == 3


def test_messages_that_cannot_be_kept_invisible_are_dropped(monkeypatch, caplog):
    async def run(brokers):
        seen, release = [], asyncio.Event()

        async def listen(message):
            seen.append(message.queue_offset)
            await release.wait()

        brokers.special[Code.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: Command(1, remark="broken")
        brokers.has["b"] = [[record(0), record(1)]]
        async with consumer(brokers, listen, orderly=True) as member:
            clock = member._group.now
            await eventually(lambda: "cannot be extended" in caplog.text)
            monkeypatch.setattr(member._group, "now", lambda: clock() + 61)
            await eventually(lambda: "are delivered again: their invisible time is over" in caplog.text)
            release.set()
        assert seen == [0]
        assert not brokers.acked

    monkeypatch.setattr("rocketmq_py.client.consumer.push.pop_orderly.RENEW_AT", 0.0001)
    scenario(run)


@with_broker()
async def test_a_success_cannot_be_rolled_back(brokers):
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


@with_broker()
async def test_exhausted_messages_become_dead_letters(brokers):
    take_sends(brokers)
    brokers.has["b"] = [[record(0), record(1)]]
    listener = Listener(lambda m: OrderlyResult.SUSPEND if m.queue_offset == 0 else None)
    async with in_order(brokers, listener, max_reconsume_times=1):
        await brokers.until(lambda: len(brokers.acked) == 2)
        assert listener.seen == [0, 0, 1]
        assert len(dead_letters(brokers)) == 1


@with_broker()
async def test_a_slow_listener_keeps_its_messages_and_gets_the_next_one(brokers, monkeypatch):
    monkeypatch.setattr(listener_watch, "LoopGuard", NoGuard)
    seen, loop = [], asyncio.get_running_loop()

    async def listen(message):
        seen.append(message.queue_offset)
        if message.queue_offset == 0:
            await asyncio.sleep(20)

    brokers.has["b"] = [[record(0), record(1)]]
    async with in_order(brokers, listen, pop_invisible_time=10):
        began = loop.time()
        await brokers.until(lambda: len(brokers.acked) == 2)
        assert loop.time() - began == pytest.approx(20, abs=1)
    assert seen == [0, 1]
    assert brokers.extended == [(0, 10000), (1, 10000)] * (len(brokers.extended) // 2)
    assert len(brokers.extended) >= 6


@with_broker()
async def test_messages_of_a_queue_that_is_given_up_are_returned(brokers, monkeypatch):
    monkeypatch.setattr(listener_watch, "LoopGuard", NoGuard)
    hold = asyncio.Event()

    async def listen(message):
        await hold.wait()

    brokers.has["b"] = [[record(0), record(1), record(2)]]
    async with in_order(brokers, listen) as member:
        await asyncio.sleep(0.1)
        member.unsubscribe("T")
        await asyncio.sleep(1.5)
        assert member.queues == []
        assert brokers.extended == []
        hold.set()
        await asyncio.sleep(0.1)
        assert brokers.acked == [("b", 0)]
        assert sorted(brokers.extended) == [(1, 1000), (2, 1000)]
