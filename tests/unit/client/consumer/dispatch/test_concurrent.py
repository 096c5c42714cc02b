"""The dispatcher with listeners that wait for each other instead of for the clock."""

import asyncio
import threading

import pytest

from rocketmq_py.client.consumer.dispatch import concurrent
from rocketmq_py.client.consumer.dispatch.concurrent import ConcurrentDispatcher, Listeners
from rocketmq_py.client.consumer.dispatch.listeners import make_listener
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.offset_table import OffsetTable
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)
PATIENCE = 30.0


def messages(*offsets, topic="T"):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), topic, b"x", b"") for i in offsets]


class Bench:
    """A dispatcher with its surroundings."""

    def __init__(self, listener, threads=4, batch_size=1, topics=None):
        self.offsets = OffsetTable()
        self.queue = ProcessQueue(QUEUE, 0.0)
        self.stats = ConsumeStats.starting(0.0)
        self.sent_back = []
        self.can_send_back = True
        self.changed = asyncio.Event()
        made = make_listener(listener, batch_size)
        listeners = Listeners(None, dict.fromkeys(topics, made)) if topics else Listeners(made, {})
        self.dispatcher = ConcurrentDispatcher(
            listeners, threads, self.offsets, self.send_back, lambda _: self.stats, lambda _: self.changed.set(), "test"
        )

    async def send_back(self, queue, message, level):
        self.sent_back.append((message.queue_offset, level))
        self.changed.set()
        return self.can_send_back

    def submit(self, *offsets, topic="T"):
        pulled = messages(*offsets, topic=topic)
        self.queue.put(pulled)
        self.dispatcher.submit(self.queue, pulled)

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not true():
                await self.changed.wait()
                self.changed.clear()


def scenario(listener, **options):
    """Runs an async function of a bench and closes its dispatcher."""

    def decorate(function):
        async def run():
            bench = Bench(listener, **options)
            await function(bench)
            await bench.dispatcher.close()

        asyncio.run(run())

    return decorate


@pytest.mark.parametrize("is_async", [False, True])
def test_consumed_messages_move_the_offset(is_async):
    seen = []

    async def listen(message):
        seen.append(message.queue_offset)

    @scenario(listen if is_async else lambda m: seen.append(m.queue_offset))
    async def _(bench):
        bench.submit(*range(32))
        bench.submit(*range(32, 40))
        await bench.until(lambda: bench.queue.count == 0)
        assert seen == list(range(40))
        assert bench.offsets.get(QUEUE) == 40
        assert bench.stats.ok.count == 40
        assert bench.stats.consumed.count == 40


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_of_one_slice_spread_over_all_workers_when_listeners_are_slow(is_async):
    together = threading.Barrier(8)
    present, all_here = [], asyncio.Event()

    def listen(message):
        together.wait(PATIENCE)

    async def listen_async(message):
        present.append(message)
        if len(present) == 8:
            all_here.set()
        await all_here.wait()

    @scenario(listen_async if is_async else listen, threads=8)
    async def _(bench):
        bench.submit(*range(8))
        await bench.until(lambda: bench.queue.count == 0)
        assert not bench.sent_back


def test_a_stuck_message_delays_no_other_messages_or_results():
    release = threading.Event()

    def listen(message):
        if message.queue_offset == 3:
            release.wait(PATIENCE)
        if message.queue_offset == 5:
            return ConsumeResult.RECONSUME_LATER
        return None

    @scenario(listen)
    async def _(bench):
        bench.submit(*range(10))
        await bench.until(lambda: bench.queue.count == 1)
        assert bench.sent_back == [(5, 0)]
        assert bench.offsets.get(QUEUE) == 3
        release.set()
        await bench.until(lambda: bench.queue.count == 0)
        assert bench.offsets.get(QUEUE) == 10
        assert (bench.stats.ok.count, bench.stats.failed.count) == (9, 1)


def test_a_message_that_cannot_be_sent_back_is_consumed_again_locally(monkeypatch):
    monkeypatch.setattr(concurrent, "RESUBMIT_DELAY", 0.0)
    times = []

    def listen(message):
        times.append(message.reconsume_times)
        if not message.reconsume_times:
            raise ValueError("first time")

    @scenario(listen)
    async def _(bench):
        bench.can_send_back = False
        bench.submit(7)
        await bench.until(lambda: bench.queue.count == 0)
        assert times == [0, 1]
        assert bench.sent_back == [(7, 0)]
        assert bench.offsets.get(QUEUE) == 8


def test_results_for_a_dropped_queue_are_ignored():
    begun, release, seen = threading.Event(), threading.Event(), []

    def listen(message):
        seen.append(message.queue_offset)
        begun.set()
        release.wait(PATIENCE)

    @scenario(listen, threads=1)
    async def _(bench):
        bench.submit(0, 1, 2)
        await asyncio.to_thread(begun.wait, PATIENCE)
        bench.queue.dropped = True
        bench.dispatcher.drop(bench.queue)
        release.set()
        await bench.dispatcher.close()
        assert seen == [0], "nothing more of the queue begins"
        assert bench.offsets.get(QUEUE) is None
        assert bench.queue.count == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_close_waits_for_running_listeners_and_starts_no_others(is_async):
    begun, release, finished = threading.Event(), threading.Event(), []

    def listen(message):
        begun.set()
        release.wait(PATIENCE)
        finished.append(message.queue_offset)

    async def listen_async(message):
        begun.set()
        await asyncio.to_thread(release.wait, PATIENCE)
        finished.append(message.queue_offset)
        raise ValueError("sent back even now")

    @scenario(listen_async if is_async else listen, threads=1)
    async def _(bench):
        bench.submit(0, 1, 2)
        await asyncio.to_thread(begun.wait, PATIENCE)
        closing = asyncio.ensure_future(bench.dispatcher.close())
        await asyncio.sleep(0)
        assert not closing.done()
        release.set()
        await closing
        assert finished == [0]
        assert bench.offsets.get(QUEUE) == 1
        assert bench.sent_back == ([(0, 0)] if is_async else [])


def test_close_of_an_idle_dispatcher_returns():
    @scenario(lambda m: None)
    async def _(bench):
        assert not bench.dispatcher.threads.owns(threading.current_thread())


def test_a_retry_queue_serves_several_topics_and_sends_back_unsubscribed_ones():
    seen = []

    @scenario(lambda m: seen.append(m.topic), topics=["A", "B"])
    async def _(bench):
        pulled = [*messages(0, 1, topic="A"), *messages(2, topic="B"), *messages(3, topic="gone")]
        bench.queue = ProcessQueue(MessageQueue("%RETRY%g", "broker-a", 0), 0.0)
        bench.queue.put(pulled)
        bench.dispatcher.submit(bench.queue, pulled)
        await bench.until(lambda: bench.queue.count == 0)
        assert sorted(seen) == ["A", "A", "B"]
        assert bench.sent_back == [(3, 0)]


def test_idle_threads_are_reused():
    names = set()

    @scenario(lambda m: names.add(threading.current_thread().name))
    async def _(bench):
        for offset in range(20):
            bench.submit(offset)
            await bench.until(lambda: bench.queue.count == 0)
        assert len(names) < 4
        assert all(name.startswith("test-") for name in names)
