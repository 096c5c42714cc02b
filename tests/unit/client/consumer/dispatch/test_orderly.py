"""The orderly dispatcher with listeners that wait for each other instead of for the clock."""

import asyncio
import threading
from time import monotonic

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

PATIENCE = 120.0
LONG = 1000.0
"""Seconds for what waits for timers, which take no time here."""


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
        self.freed = []
        made = OrderlyListener(listener, self.options.consume_batch_size)
        self.dispatcher = OrderlyDispatcher(
            Listeners(None, dict.fromkeys(topics, made)), self.options.consume_threads, self.options, self.offsets,
            self.dead_letter, lambda _: self.stats, self.capacity_freed, self.is_unlocked, "test",
        )  # fmt: skip

    def queue(self, queue_id=0, topic="T"):
        return OrderedQueue(MessageQueue(topic, "broker-a", queue_id), 0.0, needs_lock=False)

    def capacity_freed(self, queue):
        self.freed.append((queue, queue.count))
        self.changed.set()

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
        async with asyncio.timeout(LONG):
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
        assert bench.dispatcher._states[queue].pause is None
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
        assert bench.freed == [(queue, 1), (queue, 0)]
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


def test_a_message_without_a_listener_is_sent_back_and_committed():
    @scenario(lambda _: None, topics=("A",))
    async def _(bench):
        queue = bench.queue(topic="%RETRY%g")
        queue.put(messages(7, topic="X"))
        bench.dispatcher.submit(queue, [])
        await bench.until(lambda: queue.count == 0)
        assert bench.dead_lettered == [7]
        assert bench.offsets.get(queue.queue) == 8


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


# -- why a run ends


async def times_of(listener, *offsets, **options):
    """When a new queue's messages are passed to ``listener``, which gets a batch and a context: offsets and seconds."""
    seen, loop = [], asyncio.get_running_loop()
    began = loop.time()

    async def listen(batch, context):
        seen.append(([message.queue_offset for message in batch], round(loop.time() - began, 1)))
        return listener(len(seen), context)

    bench = Bench(listen, **options)
    queue = bench.queue()
    bench.submit(queue, *offsets)
    await bench.until(lambda: not queue.count)
    await bench.dispatcher.close()
    return seen


async def test_a_failed_batch_comes_again_after_the_pause_that_its_listener_asked_for():
    def fails_once(result, asked):
        def listen(call, context):
            context.auto_commit = result is OrderlyResult.SUSPEND
            context.suspend_seconds = asked
            return result if call == 1 else OrderlyResult.COMMIT

        return listen

    pauses = {None: 2.5, 7.0: 7.0, 31.0: 30.0, 0.0: 0.0}
    for result in (OrderlyResult.SUSPEND, OrderlyResult.ROLLBACK):
        seen = [await times_of(fails_once(result, asked), 0, suspend_seconds=2.5) for asked in pauses]
        assert seen == [[([0], 0.0), ([0], pause)] for pause in pauses.values()], result


async def test_a_rollback_repeats_all_messages_since_the_last_commit():
    def roll_back_at_two(call, context):
        context.auto_commit = False
        results = {1: OrderlyResult.COMMIT, 2: OrderlyResult.SUCCESS, 3: OrderlyResult.ROLLBACK}
        return results.get(call, OrderlyResult.COMMIT)

    seen = await times_of(roll_back_at_two, 0, 1, 2, suspend_seconds=2.0)
    assert seen == [([0], 0.0), ([1], 0.0), ([2], 0.0), ([1], 2.0), ([2], 2.0)]


async def test_a_listener_that_ends_its_worker_is_called_again_after_the_pause():
    class Abort(BaseException):
        pass

    def abort(call, context):
        if call == 1:
            raise Abort

    assert await times_of(abort, 0, suspend_seconds=2.0) == [([0], 0.0), ([0], 2.0)]


async def test_queues_that_share_a_worker_take_turns_when_each_has_had_its_time(monkeypatch):
    """The time for which a queue waits for the worker does not count, or it would wait again and again."""
    monkeypatch.setattr(orderly, "MAX_CONTINUOUS", 0.6)
    seen = []

    async def listen(batch, context):
        seen.append((context.queue.queue_id, batch[0].queue_offset))
        await asyncio.sleep(0.4)

    bench = Bench(listen, consume_threads=1)
    queues = [bench.queue(number) for number in range(2)]
    for queue in queues:
        bench.submit(queue, 0, 1, 2)
    await bench.until(lambda: not any(queue.count for queue in queues))
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    await bench.dispatcher.close()


def test_a_queue_whose_lock_was_renewed_while_its_run_ended_goes_on():
    """No other renewal would wake it: the lock is not due for another 20 seconds."""
    seen = []

    @scenario(lambda m: seen.append(m.queue_offset))
    async def _(bench):
        queue = OrderedQueue(MessageQueue("T", "broker-a", 0), 0.0)
        queue.lock(monotonic() - 31)
        bench.submit(queue, 0, 1)
        run = bench.dispatcher._states[queue].run
        while run.end is None or bench.dispatcher.threads.workers_on(run):
            pass  # the thread has ended the run; the loop does not know it yet
        queue.lock(monotonic())
        bench.dispatcher.wake(queue)
        await bench.until(lambda: not queue.count)
        assert seen == [0, 1]
        assert not bench.unlocked, "nobody has to renew it"


# -- locks, dropped queues and the end


async def test_results_of_a_listener_that_outlives_the_lock_move_no_offset():
    """Another member may have the queue by then."""
    queue = OrderedQueue(MessageQueue("T", "broker-a", 0), 0.0)

    async def listen(message):
        if message.queue_offset == 1:
            queue.unlock()

    bench = Bench(listen)
    queue.lock(monotonic())
    bench.submit(queue, 0, 1, 2)
    await bench.until(lambda: bench.unlocked)
    assert [message.queue_offset for message in queue.waiting()] == [2]
    assert bench.offsets.get(queue.queue) is None
    assert (bench.stats.ok.count, bench.unlocked) == (2, 1)
    await bench.dispatcher.close()


async def test_nothing_is_kept_of_a_dropped_queue_and_its_pause_ends():
    async def listen(message):
        await hold.wait()
        return OrderlyResult.SUSPEND

    hold = asyncio.Event()
    bench = Bench(listen, suspend_seconds=30)
    busy, paused, idle = (bench.queue(number) for number in range(3))
    hold.set()
    for queue in (paused, idle):
        bench.submit(queue, *([0] if queue is paused else []))
    await eventually(lambda: bench.stats.failed.count)
    hold.clear()
    bench.submit(busy, 0)
    await asyncio.sleep(0.001)
    assert not bench.dispatcher.is_idle(busy)
    timer = bench.dispatcher._states[paused].pause
    assert bench.dispatcher.drop(bench.queue(9)) == (), "it never had a message"
    for queue in (busy, paused, idle):
        queue.dropped = True
        assert bench.dispatcher.drop(queue) == ()
    assert set(bench.dispatcher._states) == {busy}
    assert timer.cancelled()
    hold.set()
    await bench.dispatcher.wait_idle(busy)
    assert not bench.dispatcher._states
    began = asyncio.get_running_loop().time()
    await bench.dispatcher.close()
    assert asyncio.get_running_loop().time() - began < 1
    assert (bench.stats.failed.count, bench.unlocked) == (2, 0), "no queue was tried again"


async def test_running_calls_are_those_of_listeners_and_their_tasks():
    hold = asyncio.Event()

    async def listen(batch, context):
        await hold.wait()

    bench = Bench(listen, consume_batch_size=2, consume_threads=1)
    first, second = bench.queue(0), bench.queue(1)
    for queue in (first, second):
        bench.submit(queue, 0, 1, 2)
    await asyncio.sleep(0)
    [call] = bench.dispatcher.running_calls()
    assert (call.queue, [message.queue_offset for message in call.messages]) == (first, [0, 1])
    [worker] = call.workers
    assert worker in bench.dispatcher.tasks()
    bench.dispatcher.resize(2)
    await asyncio.sleep(0)
    assert [call.queue for call in bench.dispatcher.running_calls()] == [first, second]
    hold.set()
    await bench.until(lambda: not second.count and not first.count)
    await eventually(lambda: not bench.dispatcher.tasks())
    assert bench.dispatcher.running_calls() == []
    await bench.dispatcher.close()


async def test_an_async_listener_may_close_its_consumer():
    async def listen(message):
        await bench.dispatcher.close()

    bench = Bench(listen)
    queue = bench.queue()
    bench.submit(queue, 0, 1)
    await bench.until(lambda: queue.count == 1)
    assert bench.offsets.get(queue.queue) == 1
    bench.submit(queue, 2)
    assert bench.dispatcher.running_calls() == []


async def test_after_a_timeout_of_close_the_results_that_are_known_are_committed():
    hold = asyncio.Event()

    async def listen(message):
        if message.queue_offset == 2:
            await hold.wait()

    bench = Bench(listen)
    queue = bench.queue()
    bench.submit(queue, 0, 1, 2, 3)
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await bench.dispatcher.close()
    assert (bench.offsets.get(queue.queue), bench.stats.ok.count) == (2, 2)
    hold.set()
    await eventually(lambda: bench.dispatcher.is_idle(queue))
    assert bench.offsets.get(queue.queue) == 3


async def test_a_message_in_a_pause_waits_although_others_arrive():
    calls = []

    async def listen(message):
        calls.append(message.queue_offset)
        return OrderlyResult.SUSPEND if len(calls) == 1 else None

    bench = Bench(listen, suspend_seconds=5)
    queue = bench.queue()
    bench.submit(queue, 0)
    await eventually(lambda: bench.stats.failed.count)
    bench.submit(queue, 1)
    bench.dispatcher.wake(queue)
    await asyncio.sleep(1)
    assert calls == [0]
    await bench.until(lambda: not queue.count)
    assert calls == [0, 0, 1]
    await bench.dispatcher.close()


# -- dead letters


async def test_dead_letters_end_with_the_lock_and_the_rest_comes_again():
    queue = OrderedQueue(MessageQueue("T", "broker-a", 0), 0.0)
    calls = []

    async def listen(batch, context):
        calls.append([(message.queue_offset, message.reconsume_times) for message in batch])
        return OrderlyResult.SUSPEND if len(calls) == 1 else None

    bench = Bench(listen, consume_batch_size=3, max_reconsume_times=0, suspend_seconds=2)

    async def dead_letter(message):
        bench.dead_lettered.append(message.queue_offset)
        if message.queue_offset == 1:
            queue.unlock()
        return True

    bench.dispatcher._dead_letter = dead_letter
    queue.lock(monotonic())
    bench.submit(queue, 0, 1, 2)
    await eventually(lambda: len(bench.dead_lettered) == 2)
    assert bench.offsets.get(queue.queue) is None, "the lock is lost"
    queue.lock(monotonic())
    began = asyncio.get_running_loop().time()
    bench.changed.clear()
    await bench.until(lambda: len(calls) == 2)
    assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.2)
    assert calls[1][-1] == (2, 1)
    await bench.dispatcher.close()


async def test_the_next_message_follows_a_dead_letter_without_a_pause():
    def fail_first(call, context):
        return OrderlyResult.SUSPEND if call == 1 else None

    assert await times_of(fail_first, 0, 1, max_reconsume_times=0, suspend_seconds=30) == [([0], 0.0), ([1], 0.0)]


async def test_a_run_counts_its_calls_its_failures_and_the_seconds_that_it_took():
    async def listen(message):
        await asyncio.sleep(3)
        return OrderlyResult.SUSPEND if message.queue_offset == 1 and not message.reconsume_times else None

    bench = Bench(listen, suspend_seconds=0.01)
    queue = bench.queue()
    bench.submit(queue, 0, 1)
    await bench.until(lambda: not queue.count)
    await eventually(lambda: bench.stats.consumed.count == 3)
    stats = bench.stats
    assert (stats.ok.count, stats.failed.count, stats.failed_hour.count) == (2, 1, 1)
    assert stats.consumed.seconds == pytest.approx(9, abs=0.5)
    assert queue.consumed_at == pytest.approx(monotonic(), abs=1)
    await bench.dispatcher.close()


async def test_timers_run_only_while_they_are_needed():
    await Bench(print).dispatcher.close()

    async def listen(message):
        await asyncio.sleep(0.1)
        return OrderlyResult.SUSPEND if message.queue_offset == 1 else None

    bench = Bench(listen, suspend_seconds=30)
    queue = bench.queue()
    bench.submit(queue, 0)
    assert bench.dispatcher._ticker is not None
    await asyncio.sleep(0.5)
    assert bench.dispatcher._ticker is None
    bench.submit(queue, 1)
    await eventually(lambda: bench.stats.failed.count)
    pause = bench.dispatcher._states[queue].pause
    busy = bench.queue(1)
    bench.submit(busy, 0)
    await asyncio.sleep(0.001)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await bench.dispatcher.close()
    assert (pause.cancelled(), bench.dispatcher._ticker.cancelled()) == (True, True)


async def test_results_are_handled_again_and_again_while_a_listener_goes_on():
    first, second = asyncio.Event(), asyncio.Event()

    async def listen(message):
        await {1: first, 3: second}.get(message.queue_offset, never_waits).wait()

    never_waits = asyncio.Event()
    never_waits.set()
    bench = Bench(listen)
    queue = bench.queue()
    bench.submit(queue, 0, 1, 2, 3)
    await bench.until(lambda: queue.count == 3)
    first.set()
    await bench.until(lambda: queue.count == 1)
    second.set()
    await bench.until(lambda: not queue.count)
    await bench.dispatcher.close()


def test_more_threads_run_listeners_of_more_queues():
    together = threading.Barrier(2)

    def listen(message):
        together.wait(PATIENCE)

    @scenario(listen, consume_threads=1)
    async def _(bench):
        queues = [bench.queue(number) for number in range(2)]
        for queue in queues:
            bench.submit(queue, 0)
        bench.dispatcher.resize(2)
        await bench.until(lambda: not any(queue.count for queue in queues))


async def test_a_commit_may_go_back():
    """The offset in memory may be that of messages that a filter removed, behind ones that are consumed again."""

    async def listen(message): ...

    bench = Bench(listen)
    queue = bench.queue()
    bench.offsets.update(queue.queue, 50)
    bench.submit(queue, 3)
    await bench.until(lambda: not queue.count)
    assert bench.offsets.get(queue.queue) == 4
    await bench.dispatcher.close()
