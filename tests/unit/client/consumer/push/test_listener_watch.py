"""Watching listeners: stuck listeners, a blocked event loop, the consume timeout."""

import asyncio
import logging
import threading
import time

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch.concurrent import ConcurrentDispatcher, Listeners
from rocketmq_py.client.consumer.dispatch.listeners import make_listener
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.push.listener_watch import ListenerWatch, LoopGuard
from rocketmq_py.client.consumer.running_info import health
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.model import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)
PATIENCE = 120.0
STUCK = 0.2
"""Longer than a busy machine lets a listener wait that has nothing to do."""


def messages(*offsets):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"") for i in offsets]


class Bench:
    """A dispatcher and who watches it."""

    def __init__(self, listener, *, orderly=False, **options):
        self.group = ConsumerGroup("g", ClientInstance("ns:1"), PushOptions(orderly=orderly, **options))
        self.queue = self.group.queues[QUEUE] = self.group.make_queue(QUEUE)
        self.sent_back = []
        self.can_send_back = True
        if orderly:
            self.queue.lock(self.group.now())
            self.listener = OrderlyListener(listener, options.get("consume_batch_size", 1))
            self.dispatcher = OrderlyDispatcher(
                Listeners(self.listener, {}), 4, self.group.options, self.group.offsets, self.give, self.group.stats,
                self.nothing, self.nothing, "test",
            )  # fmt: skip
        else:
            self.listener = make_listener(listener, options.get("consume_batch_size", 1))
            self.dispatcher = ConcurrentDispatcher(
                Listeners(self.listener, {}),
                4,
                self.group.offsets,
                self.send_back,
                self.group.stats,
                self.nothing,
                "test",
            )
        self.watch = ListenerWatch(self.group, self.dispatcher, lambda: self.listener.is_async)

    async def send_back(self, queue, message, level):
        return await self.give(message, level)

    async def give(self, message, level=0):
        self.sent_back.append((message.queue_offset, level))
        return self.can_send_back

    def nothing(self, *_):
        pass

    def submit(self, *offsets):
        pulled = messages(*offsets)
        self.queue.put(pulled)
        self.dispatcher.submit(self.queue, pulled)

    def has_noted_calls(self):
        """Whether the watch knows since when the listeners work."""
        since = self.watch._stopwatch.since
        return all(since(call.queue, call.messages[0]) is not None for call in self.dispatcher.running_calls())

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not true():  # noqa: ASYNC110 - the log tells nobody
                await asyncio.sleep(0.005)


def scenario(listener, **options):
    def decorate(function):
        async def run():
            bench = Bench(listener, **{"stuck_after": STUCK, **options})
            await function(bench)
            await bench.watch.close()
            await bench.dispatcher.close()

        asyncio.run(run())

    return decorate


def said(caplog, text):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_stuck_listener_is_logged_once_with_its_stack_and_queue(is_async, orderly, caplog):
    go, ago = threading.Event(), asyncio.Event()

    def where_it_hangs(message):
        if message.queue_offset == 2:
            assert go.wait(PATIENCE)

    async def waits_here():
        await ago.wait()

    async def hangs(message):
        if message.queue_offset == 2:
            await waits_here()

    @scenario(hangs if is_async else where_it_hangs, orderly=orderly)
    async def _(bench):
        bench.submit(*range(1, 7))
        await bench.until(lambda: said(caplog, "has been at work"))
        [stuck] = health(bench.group).stuck
        assert (stuck.queue, stuck.offset) == (QUEUE, 2)
        assert stuck.seconds >= STUCK
        assert not health(bench.group).ok
        await bench.until(lambda: health(bench.group).stuck[0].seconds > stuck.seconds)
        go.set()
        ago.set()
        await bench.until(lambda: said(caplog, "has ended"))
        await bench.until(lambda: bench.group.offsets.get(QUEUE) == 7)
        assert health(bench.group).stuck == []

    [warning] = said(caplog, "has been at work")
    assert f"{QUEUE} at 2" in warning
    assert ("in waits_here" if is_async else "in where_it_hangs") in warning


def test_a_stuck_batch_is_logged_with_its_first_message(caplog):
    go = threading.Event()

    def hangs(batch, context):
        assert go.wait(PATIENCE)

    @scenario(hangs, consume_batch_size=4)
    async def _(bench):
        bench.submit(*range(4))
        await bench.until(lambda: said(caplog, "has been at work"))
        go.set()

    [warning] = said(caplog, "has been at work")
    assert "at 0 (4 messages" in warning


def test_fast_listeners_are_not_logged(caplog):
    count = 0

    async def listen(message):
        nonlocal count
        count += 1
        await asyncio.sleep(0.001)

    @scenario(listen, stuck_after=PATIENCE)
    async def _(bench):
        bench.submit(*range(100))
        await bench.until(lambda: count == 100)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("orderly", [False, True])
def test_an_async_listener_that_blocks_the_loop_is_logged_meanwhile(orderly, caplog):
    seen = []

    def waits_for_the_warning():
        deadline = time.monotonic() + PATIENCE
        while not said(caplog, "has blocked the event loop"):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    async def blocks(message):
        waits_for_the_warning()
        seen.append(message.queue_offset)

    @scenario(blocks, orderly=orderly)
    async def _(bench):
        await bench.until(lambda: bench.watch._loop_guard is not None)
        bench.submit(0)
        await bench.until(lambda: seen)
        await bench.until(lambda: said(caplog, "runs again"))

    [warning] = said(caplog, "has blocked the event loop")
    assert "in waits_for_the_warning" in warning
    assert "asyncio.to_thread" in warning


def test_a_loop_blocked_by_other_code_is_not_logged_as_a_listener(caplog):
    async def run():
        guard = LoopGuard("g", 0.001, 0.001)
        checked = threading.Event()
        warn = guard._warn

        def warned(last):
            found = warn(last)
            checked.set()
            return found

        guard._warn = warned
        assert checked.wait(PATIENCE), "the loop is blocked here"
        guard.close()

    asyncio.run(run())
    assert not said(caplog, "blocked")


def test_a_message_that_exceeds_the_consume_timeout_is_sent_back(caplog, virtual_clock):
    go, ended = threading.Event(), threading.Event()

    def hangs(message):
        if message.queue_offset in (0, 1):
            assert go.wait(PATIENCE)
            ended.set()
            if message.queue_offset == 1:
                raise ValueError("on purpose")

    @scenario(hangs, stuck_after=PATIENCE, consume_timeout=60.0)
    async def _(bench):
        bench.submit(*range(4))
        await bench.until(lambda: bench.queue.count == 2)
        virtual_clock.skip(1.0)
        await bench.until(bench.has_noted_calls)
        virtual_clock.skip(61.0)
        await bench.until(lambda: len(bench.sent_back) == 2)
        assert bench.sent_back == [(0, 3), (1, 3)]
        await bench.until(lambda: bench.group.offsets.get(QUEUE) == 4)
        go.set()
        await asyncio.to_thread(ended.wait, PATIENCE)
        bench.submit(4)
        await bench.until(lambda: bench.group.offsets.get(QUEUE) == 5)
        assert len(bench.sent_back) == 2, "what the listener says afterwards does not count"

    assert said(caplog, "consume_timeout=60")


def test_the_consume_timeout_is_not_for_popped_messages_but_for_all_others(virtual_clock):
    """Brokers deliver popped messages again by themselves. Both kinds of queues may be there at the same time."""
    go, asked = threading.Event(), []

    @scenario(lambda _: go.wait(PATIENCE), stuck_after=PATIENCE, consume_timeout=60.0)
    async def _(bench):
        popped, pulled = PopQueue(MessageQueue("T", "broker-a", 1), 0.0), bench.queue
        bench.group.queues = {popped.queue: popped, QUEUE: pulled}

        async def expire(queue, _):
            asked.append(queue)
            return 0

        bench.dispatcher.expire = expire
        await bench.watch._expire(bench.group.now())
        assert asked == [pulled]
        go.set()


def test_only_the_head_of_a_queue_is_sent_back_and_sixteen_messages_at_most():
    go = threading.Event()

    @scenario(lambda _: go.wait(PATIENCE), stuck_after=PATIENCE)
    async def _(bench):
        bench.submit(*range(40))
        old = set(range(3)) | set(range(4, 40))
        assert await bench.dispatcher.expire(bench.queue, lambda m: m.queue_offset in old) == 3
        assert [offset for offset, _ in bench.sent_back] == [0, 1, 2]
        assert await bench.dispatcher.expire(bench.queue, lambda _: True) == 16
        assert bench.queue.min_offset == 19
        bench.can_send_back = False
        assert await bench.dispatcher.expire(bench.queue, lambda _: True) == 0
        assert bench.queue.min_offset == 19, "what could not be sent back stays"
        go.set()


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_number_of_workers_can_be_changed_while_they_work(is_async, orderly):
    busy = most = done = 0
    gate = asyncio.Event()
    guard = threading.Lock()
    open_, count = threading.Event(), 60

    def enter(change):
        nonlocal busy, most, done
        with guard:
            busy += change
            most = max(most, busy)
            done += change < 0

    def listen(message):
        enter(1)
        assert open_.wait(PATIENCE)
        enter(-1)

    async def alisten(message):
        enter(1)
        await gate.wait()
        enter(-1)

    @scenario(alisten if is_async else listen, orderly=orderly, stuck_after=PATIENCE)
    async def _(bench):
        nonlocal most
        queues = [bench.queue]
        if orderly:
            queues = [bench.group.make_queue(MessageQueue("T", "broker-a", i)) for i in range(count)]

        def submit():
            for i in range(count):
                queue = queues[i % len(queues)]
                pulled = messages(queue.max_offset + 1)
                if orderly:
                    queue.lock(bench.group.now())
                queue.put(pulled)
                bench.dispatcher.submit(queue, pulled)

        submit()
        await bench.until(lambda: busy == 4)
        bench.dispatcher.resize(9)
        await bench.until(lambda: busy == 9)
        bench.dispatcher.resize(2)
        gate.set()
        open_.set()
        await bench.until(lambda: done == count)
        gate.clear()
        open_.clear()
        most = 0
        submit()
        await bench.until(lambda: busy == 2)
        gate.set()
        open_.set()
        await bench.until(lambda: done == 2 * count)
        assert most == 2
