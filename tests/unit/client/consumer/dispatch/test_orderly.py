"""The orderly dispatcher with listeners that wait for each other instead of for the clock."""

import asyncio
import threading

import pytest

from rocketmq_py.client.consumer.dispatch.concurrent import Listeners
from rocketmq_py.client.consumer.dispatch.orderly import OrderlyDispatcher
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.core.consumer import orderly
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.offset_table import OffsetTable
from rocketmq_py.core.consumer.orderly import OrderedQueue
from rocketmq_py.model import MessageExt, MessageQueue, OrderlyResult
from tests.unit.client.consumer.popbroker import eventually

PATIENCE = 30.0


def messages(*offsets, topic="T"):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), topic, b"x", b"") for i in offsets]


class Bench:
    """A dispatcher with its surroundings."""

    def __init__(self, listener, topics=("T",), **options):
        self.options = PushOptions(orderly=True, **{"suspend_seconds": 0.01, **options})
        self.offsets = OffsetTable()
        self.stats = ConsumeStats.starting(0.0)
        self.dead_lettered = []
        self.can_dead_letter = True
        self.unlocked = 0
        self.changed = asyncio.Event()
        made = OrderlyListener(listener, self.options.consume_batch_size)
        self.dispatcher = OrderlyDispatcher(
            Listeners(None, dict.fromkeys(topics, made)), self.options.consume_threads, self.options, self.offsets,
            self.dead_letter, lambda _: self.stats, lambda _: self.changed.set(), self.is_unlocked, "test",
        )  # fmt: skip

    def queue(self, queue_id=0, topic="T"):
        return OrderedQueue(MessageQueue(topic, "broker-a", queue_id), 0.0, needs_lock=False)

    def is_unlocked(self):
        self.unlocked += 1
        self.changed.set()

    async def dead_letter(self, message):
        self.dead_lettered.append(message.queue_offset)
        self.changed.set()
        return self.can_dead_letter

    def submit(self, queue, *offsets, topic="T"):
        pulled = messages(*offsets, topic=topic)
        queue.put(pulled)
        self.dispatcher.submit(queue, pulled)

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
def test_messages_that_arrive_meanwhile_follow_in_order(is_async):
    seen = []

    async def listen(message):
        await asyncio.sleep(0)
        seen.append(message.queue_offset)

    @scenario(listen if is_async else lambda m: seen.append(m.queue_offset))
    async def _(bench):
        queue = bench.queue()
        for start in range(0, 100, 10):
            bench.submit(queue, *range(start, start + 10))
        await bench.until(lambda: queue.count == 0)
        assert seen == list(range(100))
        assert bench.offsets.get(queue.queue) == 100
        assert bench.stats.ok.count == 100
        await eventually(lambda: bench.stats.consumed.count == 100)  # added at the end of each run


@pytest.mark.parametrize("is_async", [False, True])
def test_queues_are_consumed_concurrently(is_async):
    together = threading.Barrier(3)
    present, all_here = [], asyncio.Event()

    def listen(message):
        together.wait(PATIENCE)

    async def listen_async(message):
        present.append(message)
        if len(present) == 3:
            all_here.set()
        await all_here.wait()

    @scenario(listen_async if is_async else listen, consume_threads=3)
    async def _(bench):
        queues = [bench.queue(i) for i in range(3)]
        for queue in queues:
            bench.submit(queue, 0)
        await bench.until(lambda: not any(queue.count for queue in queues))


def test_more_queues_than_threads_take_turns():
    @scenario(lambda m: None, consume_threads=1)
    async def _(bench):
        queues = [bench.queue(i) for i in range(10)]
        for queue in queues:
            bench.submit(queue, *range(5))
        await bench.until(lambda: not any(queue.count for queue in queues))
        assert bench.stats.ok.count == 50


def test_results_of_a_slow_listener_are_committed_before_its_run_ends():
    release = threading.Event()

    def listen(message):
        if message.queue_offset == 3:
            release.wait(PATIENCE)

    @scenario(listen)
    async def _(bench):
        queue = bench.queue()
        bench.submit(queue, *range(5))
        await bench.until(lambda: bench.offsets.get(queue.queue) == 3)
        assert queue.count == 2
        release.set()
        await bench.until(lambda: queue.count == 0)


def test_a_message_that_cannot_become_a_dead_letter_is_consumed_again():
    tries = []

    def listen(message):
        tries.append(message.reconsume_times)
        raise ValueError("on purpose")

    @scenario(listen, max_reconsume_times=1)
    async def _(bench):
        bench.can_dead_letter = False
        queue = bench.queue()
        bench.submit(queue, 7)
        await bench.until(lambda: len(bench.dead_lettered) == 2)
        bench.can_dead_letter = True
        await bench.until(lambda: queue.count == 0)
        assert tries[:3] == [0, 1, 2]
        assert bench.offsets.get(queue.queue) == 8
        assert bench.stats.failed.count == len(tries)


def test_only_exhausted_messages_of_a_batch_become_dead_letters():
    calls = []

    def listen(batch, context):
        calls.append([message.queue_offset for message in batch])
        return OrderlyResult.SUSPEND if len(calls) < 3 else None

    @scenario(listen, consume_batch_size=2, max_reconsume_times=1)
    async def _(bench):
        queue = bench.queue()
        pulled = messages(0, 1)
        pulled[1].reconsume_times = 1
        queue.put(pulled)
        bench.dispatcher.submit(queue, pulled)
        await bench.until(lambda: queue.count == 0)
        assert bench.dead_lettered == [1, 0]
        assert calls == [[0, 1], [0]]


def test_without_auto_commit_a_dead_letter_moves_no_offset():
    def listen(batch, context):
        context.auto_commit = False
        return OrderlyResult.SUSPEND if batch[0].queue_offset == 1 else OrderlyResult.SUCCESS

    @scenario(listen, max_reconsume_times=0)
    async def _(bench):
        queue = bench.queue()
        bench.submit(queue, 0, 1, 2)
        await bench.until(lambda: [m.queue_offset for m in queue.kept] == [0, 2])
        assert bench.dead_lettered == [1]
        assert bench.offsets.get(queue.queue) is None


def test_an_expired_lock_is_reported_and_consumption_resumes_with_a_new_lock():
    seen = []

    @scenario(lambda m: seen.append(m.queue_offset))
    async def _(bench):
        queue = OrderedQueue(MessageQueue("T", "broker-a", 0), 0.0)
        bench.submit(queue, 0, 1)
        await bench.until(lambda: bench.unlocked)
        assert not seen
        queue.lock(asyncio.get_running_loop().time())
        bench.dispatcher.wake(queue)
        await bench.until(lambda: queue.count == 0)
        assert seen == [0, 1]


def test_a_queue_yields_its_worker_after_a_minute(monkeypatch):
    monkeypatch.setattr(orderly, "MAX_CONTINUOUS", -1.0)
    seen = []

    @scenario(lambda m: seen.append(m.queue_offset))
    async def _(bench):
        queue = bench.queue()
        bench.submit(queue, 0)
        monkeypatch.setattr(orderly, "MAX_CONTINUOUS", 60.0)
        await bench.until(lambda: queue.count == 0)
        assert seen == [0]


def test_a_dropped_queue_is_idle_after_its_listener_and_keeps_its_result():
    begun, release, seen = threading.Event(), threading.Event(), []

    def listen(message):
        begun.set()
        release.wait(PATIENCE)
        seen.append(message.queue_offset)

    @scenario(listen)
    async def _(bench):
        queue = OrderedQueue(MessageQueue("T", "broker-a", 0), 0.0)
        queue.lock(asyncio.get_running_loop().time())
        bench.submit(queue, 0, 1)
        await asyncio.to_thread(begun.wait, PATIENCE)
        queue.dropped = True
        bench.dispatcher.drop(queue)
        assert not bench.dispatcher.is_idle(queue)
        waiting = asyncio.ensure_future(bench.dispatcher.wait_idle(queue))
        await asyncio.sleep(0)
        assert not waiting.done()
        release.set()
        await waiting
        assert seen == [0]
        assert bench.offsets.get(queue.queue) == 1
        assert bench.dispatcher.is_idle(queue)


def test_a_dropped_queue_in_a_pause_starts_no_listener():
    tries = []

    def listen(message):
        tries.append(message)
        raise ValueError("on purpose")

    @scenario(listen, suspend_seconds=30)
    async def _(bench):
        queue = bench.queue()
        bench.submit(queue, 0)
        await _failed(bench)
        queue.dropped = True
        bench.dispatcher.drop(queue)
        await bench.dispatcher.wait_idle(queue)
        assert len(tries) == 1


async def _failed(bench):
    async with asyncio.timeout(PATIENCE):
        while not bench.stats.failed.count:  # noqa: ASYNC110 - a pause is not announced
            await asyncio.sleep(0.001)


def test_retried_messages_go_to_the_listener_of_their_topic_or_are_sent_back():
    seen = []

    @scenario(lambda m: seen.append((m.topic, m.queue_offset)), topics=("A", "B"))
    async def _(bench):
        queue = bench.queue(topic="%RETRY%g")
        for offset, topic in enumerate("AABXA"):
            queue.put(messages(offset, topic=topic))
        bench.dispatcher.submit(queue, [])
        await bench.until(lambda: queue.count == 0)
        assert seen == [("A", 0), ("A", 1), ("B", 2), ("A", 4)]
        assert bench.dead_lettered == [3]


def test_close_starts_no_further_batch():
    begun, release, seen = threading.Event(), threading.Event(), []

    def listen(message):
        seen.append(message.queue_offset)
        begun.set()
        release.wait(PATIENCE)

    async def run():
        bench = Bench(listen)
        queue = bench.queue()
        bench.submit(queue, 0, 1)
        await asyncio.to_thread(begun.wait, PATIENCE)
        closing = asyncio.ensure_future(bench.dispatcher.close())
        await asyncio.sleep(0)
        release.set()
        await closing
        assert seen == [0]
        assert bench.offsets.get(queue.queue) == 1
        bench.submit(queue, 2)
        assert bench.dispatcher.is_idle(queue)

    asyncio.run(run())
