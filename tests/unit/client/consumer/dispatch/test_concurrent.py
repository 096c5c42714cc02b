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
PATIENCE = 120.0


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


def test_messages_of_a_topic_without_a_listener_are_sent_back_and_those_behind_them_consumed(caplog):
    """A queue of retries has messages of all topics that the group had, and some are no longer subscribed to."""
    seen = []

    async def listen(message):
        seen.append(message.queue_offset)

    @scenario(listen, topics=["T"])
    async def _(bench):
        pulled = [*messages(0, topic="T"), *messages(1, 2, topic="U"), *messages(3, topic="T")]
        retries = ProcessQueue(MessageQueue("%RETRY%g", "broker-a", 0), 0.0)
        retries.put(pulled)
        bench.dispatcher.submit(retries, pulled)
        await bench.until(lambda: retries.count == 0)
        assert (sorted(seen), [offset for offset, _ in bench.sent_back]) == ([0, 3], [1, 2])

    assert "no listener for topic U; 2 messages of %RETRY%g@broker-a:0 are sent back" in caplog.messages


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


# -- dropped, expired and failed messages; all listeners are async here, and timers take no time


def holding():
    """A listener whose calls wait until ``let_go`` is set; its offsets are in ``begun``."""
    begun, let_go = [], asyncio.Event()

    async def listen(message):
        begun.append(message.queue_offset)
        await let_go.wait()

    return listen, begun, let_go


async def test_a_dropped_queue_gives_back_what_no_listener_has():
    listen, begun, let_go = holding()
    bench = Bench(listen, threads=1)
    bench.submit(0, 1, 2)
    other = ProcessQueue(QUEUE._replace(queue_id=1), 0.0)
    await asyncio.sleep(0)
    assert bench.dispatcher.drop(other) == []
    assert [message.queue_offset for message in bench.dispatcher.drop(bench.queue)] == [1, 2]
    let_go.set()
    await bench.dispatcher.close()
    assert begun == [0]


async def test_running_calls_are_told_when_a_check_has_seen_them_before():
    listen, begun, let_go = holding()
    bench = Bench(listen, threads=2)
    bench.submit(0, 1)
    await asyncio.sleep(0.05)
    assert begun == [0, 1]
    assert bench.dispatcher.running_calls() == [], "they may have just begun"
    calls = bench.dispatcher.running_calls()
    assert [(call.queue, call.messages[0].queue_offset) for call in calls] == [(bench.queue, 0), (bench.queue, 1)]
    assert all(set(call.workers) == set(bench.dispatcher.tasks()) for call in calls)
    let_go.set()
    await bench.until(lambda: not bench.queue.count)
    await asyncio.sleep(0.05)
    assert bench.dispatcher._ticker is None, "nothing is left to check"
    await bench.dispatcher.close()


async def test_more_listeners_run_after_a_resize():
    listen, begun, let_go = holding()
    bench = Bench(listen, threads=1)
    bench.submit(0, 1, 2, 3)
    await asyncio.sleep(0.05)
    assert begun == [0]
    bench.dispatcher.resize(3)
    await asyncio.sleep(0.1)
    assert begun == [0, 1, 2]
    let_go.set()
    await bench.until(lambda: not bench.queue.count)
    await bench.dispatcher.close()


async def test_expired_messages_are_sent_back_from_the_start_of_the_queue():
    listen, _, let_go = holding()
    bench = Bench(listen, threads=3)
    bench.submit(0, 1, 2)
    await asyncio.sleep(0.05)
    assert await bench.dispatcher.expire(bench.queue, lambda message: message.queue_offset < 2) == 2
    assert bench.sent_back == [(0, 3), (1, 3)]
    assert bench.offsets.get(QUEUE) == 2
    assert await bench.dispatcher.expire(bench.queue, lambda message: False) == 0
    bench.can_send_back = False
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 0
    bench.can_send_back, bench.queue.dropped = True, True
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 0
    assert bench.queue.count == 1
    bench.queue.dropped = False
    let_go.set()
    await bench.until(lambda: not bench.queue.count)
    assert bench.offsets.get(QUEUE) == 3
    await bench.dispatcher.close()


async def test_at_most_16_messages_of_a_queue_expire_at_a_time():
    listen, _, let_go = holding()
    bench = Bench(listen, threads=1)
    bench.submit(*range(20))
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 16
    assert (len(bench.sent_back), bench.offsets.get(QUEUE)) == (16, 16)
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 4
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 0, "there is none any more"
    assert (len(bench.sent_back), bench.offsets.get(QUEUE)) == (20, 20)
    let_go.set()
    await bench.dispatcher.close()


async def test_no_message_of_an_idle_queue_expires():
    bench = Bench(holding()[0])
    assert await bench.dispatcher.expire(bench.queue, lambda message: True) == 0
    await bench.dispatcher.close()


async def test_a_message_that_cannot_be_sent_back_is_consumed_again_after_5_seconds_unless_its_queue_is_gone():
    for is_dropped, tries in ((False, 2), (True, 1)):
        times, began = [], asyncio.get_running_loop().time()

        async def listen(message, times=times, began=began):
            times.append((message.reconsume_times, round(asyncio.get_running_loop().time() - began)))
            if len(times) == 1:
                raise ValueError("on purpose")

        bench = Bench(listen)
        bench.can_send_back = False
        bench.submit(7)
        await asyncio.sleep(1)
        bench.queue.dropped = is_dropped
        await asyncio.sleep(10)
        assert times == [(0, 0), (1, 5)][:tries]
        assert (bench.stats.failed.count, bench.stats.failed_hour.count) == (1, 1)
        await bench.dispatcher.close()


async def test_the_time_of_all_calls_is_added_up():
    async def listen(messages, context):
        await asyncio.sleep(3)

    bench = Bench(listen, batch_size=2)
    bench.submit(0, 1, 2)
    await bench.until(lambda: not bench.queue.count)
    assert bench.stats.consumed.count == 2
    assert bench.queue.consumed_at > 0
    await bench.dispatcher.close()
