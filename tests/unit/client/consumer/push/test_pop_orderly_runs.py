"""Runs of popped messages in order: with a dispatcher, calls and acks in the hands of the test."""

import asyncio

import pytest

from rocketmq_py.client.consumer.push.pop_orderly import OrderlyPopDelivery
from rocketmq_py.core.pop.receipts import PoppedMessage, PopQueue
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.pop_handle import NORMAL, ExtraInfo
from tests.unit.client.consumer.scripted_group import TOPIC, ScriptedGroup
from tests.unit.client.scripted import made_by

INVISIBLE = 60.0
OWNER = MessageQueue(TOPIC, "b", -1)


def popped(*offsets):
    def one(offset):
        message = MessageExt((0, 0, 0, 0, 0, offset, offset, 0, 0, b"", 0, b"", 0, 0, 1), TOPIC, b"x", b"")
        message.broker_name = "b"
        return PoppedMessage(message, ExtraInfo(offsets[0], 1, 60_000, 0, NORMAL, "b", 0, offset))

    return [one(offset) for offset in offsets]


class Bench:
    """The surroundings of a delivery, which it calls; ``busy`` are runs whose listener has not ended."""

    def __init__(self):
        self.scripted = ScriptedGroup(pop_invisible_time=INVISIBLE, orderly=True)
        self.scripted.clock = None
        self.group = self.scripted.group
        self.owner = PopQueue(OWNER, 0.0)
        self.submitted, self.dropped, self.acked, self.given_back, self.extended = [], [], [], [], []
        self.busy = {}
        self.delivery = OrderlyPopDelivery(self.group, self, self, self)

    def take(self, *offsets):
        self.delivery.take(self.owner, popped(*offsets), self.group.now() + INVISIBLE)

    def consume(self, run, count):
        """The listener has taken so many messages."""
        run.discard(run.waiting()[:count])
        assert self.delivery.settled(run) is self.owner

    # -- the dispatcher

    def submit(self, run, messages):
        self.submitted.append((run, [message.queue_offset for message in messages]))

    def drop(self, run):
        self.dropped.append(run)
        return ()

    async def wait_idle(self, run):
        if run in self.busy:
            await self.busy[run].wait()

    # -- calls and acks

    async def extend(self, one, seconds):
        self.extended.append((one.message.queue_offset, seconds))
        return one.receipt

    def done(self, messages):
        self.acked += [one.message.queue_offset for one, _ in messages]

    def give_back(self, messages):
        self.given_back += [one.message.queue_offset for one in messages]


def scenario(function):
    async def run():
        bench = Bench()
        await function(bench)
        for event in bench.busy.values():
            event.set()
        await bench.delivery.close()
        await bench.scripted.instance.stop()

    asyncio.run(run())


with_bench = made_by(scenario)
"""Decorates a test whose first argument is the bench."""


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


@with_bench()
async def test_a_run_ends_when_its_last_message_is_consumed(bench):
    bench.take(0, 1)
    await turns()
    [(run, offsets)] = bench.submitted
    assert offsets == [0, 1]
    bench.consume(run, 1)
    await turns()
    assert not bench.dropped
    bench.consume(run, 1)
    await turns()
    assert (bench.dropped, bench.acked, bench.given_back, bench.extended) == ([run], [0, 1], [], [])
    assert not bench.delivery._over
    assert not bench.delivery._latest
    assert not bench.delivery._running


@with_bench()
async def test_a_close_returns_what_is_not_consumed_at_once(bench):
    bench.take(0, 1, 2)
    await turns()
    [(run, _)] = bench.submitted
    bench.consume(run, 1)
    began = asyncio.get_running_loop().time()
    await bench.delivery.close()
    assert asyncio.get_running_loop().time() - began < 0.5
    assert (bench.dropped, bench.acked, bench.given_back) == ([run], [0], [1, 2])


@with_bench()
async def test_the_next_run_of_a_queue_waits_for_the_listener_of_the_last_one(bench):
    bench.take(0)
    await turns()
    [(first, _)] = bench.submitted
    bench.busy[first] = asyncio.Event()
    bench.delivery.drop(bench.owner)
    await turns()
    assert bench.dropped == [first]
    bench.take(1)
    await turns()
    assert len(bench.submitted) == 1
    bench.busy[first].set()
    await turns()
    assert [offsets for _, offsets in bench.submitted] == [[0], [1]]


@with_bench()
async def test_what_a_listener_finishes_after_the_run_was_dropped_is_acked(bench):
    bench.take(0, 1)
    await turns()
    [(run, _)] = bench.submitted
    bench.busy[run] = asyncio.Event()
    bench.delivery.drop(bench.owner)
    await turns()
    run.discard(run.waiting()[:1])
    bench.busy[run].set()
    await turns()
    assert (bench.acked, bench.given_back) == ([0], [1])


@with_bench()
async def test_the_messages_of_a_run_are_kept_invisible_while_its_listener_works(bench):
    bench.take(0, 1)
    await asyncio.sleep(INVISIBLE * 1.9)
    assert set(bench.extended) == {(0, INVISIBLE), (1, INVISIBLE)}
    [(run, _)] = bench.submitted
    assert run.visible_at == pytest.approx(bench.group.now() + INVISIBLE, abs=INVISIBLE)
    assert not bench.dropped
