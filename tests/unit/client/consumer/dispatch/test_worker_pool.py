"""Pools of threads and of tasks that run consume requests: how many work, on what, and how they end."""

import asyncio
import threading

import pytest

from rocketmq_py.client.consumer.dispatch.listeners import ConsumeRequest, make_listener
from rocketmq_py.client.consumer.dispatch.worker_pool import TaskPool, ThreadPool, post
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt, MessageQueue
from tests.unit.client.consumer.popbroker import eventually

PATIENCE = 120.0
CLOSED_WITHIN = 30.0
"""Seconds after which a pool that does not close fails a test; otherwise it would hang."""
QUEUE = MessageQueue("T", "b", 0)


def messages(count):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"") for i in range(count)]


class InThreads:
    """A pool of threads whose listener waits until it is let go; ``running`` are the offsets of its calls."""

    def __init__(self, size, *, hold=True):
        self.running = []
        self.threads = set()
        self.completed = []
        self._let_go = threading.Event()
        if not hold:
            self._let_go.set()
        self._listener = make_listener(self._listen, 1)
        self.pool = ThreadPool(size, self.completed.append, "worker")

    def _listen(self, message):
        self.threads.add(threading.current_thread())
        self.running.append(message.queue_offset)
        self._let_go.wait(PATIENCE)

    def let_go(self):
        self._let_go.set()

    def submit(self, count=1):
        request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(count), self._listener)
        self.pool.submit(request)
        return request

    async def close(self):
        async with asyncio.timeout(CLOSED_WITHIN):
            await self.pool.close()

    async def until_running(self, calls):
        await eventually(lambda: len(self.running) == calls)


class InTasks(InThreads):
    """The same with tasks."""

    def __init__(self, size, *, hold=True):
        super().__init__(size, hold=hold)
        self._let_go = asyncio.Event()
        if not hold:
            self._let_go.set()

        async def listen(message):
            self.running.append(message.queue_offset)
            await self._let_go.wait()

        self._listener = make_listener(listen, 1)
        self.pool = TaskPool(size, self.completed.append)


BOTH = (InThreads, InTasks)


async def test_workers_are_added_at_each_check_without_progress_up_to_the_limit():
    """One starts with the request: a quick listener needs no more."""
    for kind in BOTH:
        bench = kind(4)
        request = bench.submit(9)
        await bench.until_running(1)
        bench.pool.add_workers_if_stalled()
        await asyncio.sleep(0.001)
        assert len(bench.running) == 1, "the first check has nothing to compare with"
        bench.pool.add_workers_if_stalled()
        await bench.until_running(3)
        bench.pool.add_workers_if_stalled()
        await bench.until_running(4)
        bench.pool.add_workers_if_stalled()
        await asyncio.sleep(0.001)
        assert bench.running == [0, 1, 2, 3], "no more than the limit"
        assert len(bench.pool.workers_on(request)) == 4
        assert not request.is_complete
        bench.let_go()
        await eventually(lambda request=request: request.is_complete)
        assert sorted(bench.running) == list(range(9))
        await eventually(lambda bench=bench: bench.completed)
        await bench.close()


async def test_no_worker_is_added_without_requests_or_with_progress():
    for kind in BOTH:
        idle, bench = kind(4), kind(4)
        for _ in range(3):
            idle.pool.add_workers_if_stalled()
        assert len(idle.pool._threads if kind is InThreads else idle.pool.tasks) == 0
        request = bench.submit(2)
        await bench.until_running(1)
        bench.pool.add_workers_if_stalled()
        request.done.append(object())
        bench.pool.add_workers_if_stalled()
        await asyncio.sleep(0.001)
        assert bench.running == [0]
        request.done.pop()
        bench.let_go()
        await bench.close()


async def test_requests_are_run_in_order_and_each_is_reported_once_when_complete():
    for kind in BOTH:
        bench = kind(1, hold=False)
        requests = [bench.submit(2) for _ in range(3)]
        await eventually(lambda bench=bench: len(bench.completed) == 3)
        assert bench.completed == requests
        assert bench.running == [0, 1] * 3
        assert all(request.seconds > 0 for request in requests)
        await eventually(lambda bench=bench, requests=requests: not bench.pool.workers_on(requests[-1]))
        await bench.close()


async def test_the_time_that_calls_take_is_averaged():
    for kind in BOTH:
        bench = kind(4, hold=False)
        bench.submit(3)
        await eventually(lambda bench=bench: bench.pool._work_queue.width.cost > 0)
        await bench.close()


async def test_close_waits_for_running_calls_and_starts_no_waiting_request():
    for kind in BOTH:
        bench = kind(1)
        first, second = bench.submit(), bench.submit()
        await bench.until_running(1)
        closing = asyncio.ensure_future(bench.close())
        await asyncio.sleep(0.001)
        assert not closing.done()
        bench.let_go()
        await closing
        assert (bench.completed, bench.running) == ([first], [0])
        assert not second.is_complete
        assert not bench.pool.workers_on(first)


async def test_close_ends_sleeping_threads():
    bench = InThreads(2, hold=False)
    bench.submit()
    await eventually(lambda: len(bench.pool._asleep) == 1)
    [thread] = bench.threads
    assert thread.name == "worker-1"
    await bench.close()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    await InThreads(2).close()  # without a thread


async def test_the_last_thread_to_sleep_wakes_first():
    bench = InThreads(3)
    bench.submit(3)
    await bench.until_running(1)
    for _ in range(2):
        bench.pool.add_workers_if_stalled()
    await bench.until_running(3)
    bench.let_go()
    await eventually(lambda: len(bench.pool._asleep) == 3)
    last = bench.pool._asleep[-1]
    bench._let_go.clear()
    bench.submit()
    await bench.until_running(4)
    assert last not in bench.pool._asleep
    assert len(bench.pool._asleep) == 2
    assert len(bench.threads) == 3, "no thread is started while others sleep"
    bench.let_go()
    await bench.close()


async def test_fewer_workers_finish_the_request_they_are_at():
    for kind in BOTH:
        bench = kind(2)
        first = bench.submit(2)
        await bench.until_running(1)
        for _ in range(2):
            bench.pool.add_workers_if_stalled()
        await bench.until_running(2)
        bench.pool.resize(1)
        second = bench.submit(2)
        bench.let_go()
        await eventually(lambda bench=bench: len(bench.completed) == 2)
        assert bench.completed == [first, second]
        await eventually(lambda bench=bench: bench.pool._work_queue.awake <= 1)
        bench.pool.resize(3)
        bench.submit(2)
        await eventually(lambda bench=bench: len(bench.completed) == 3)
        await bench.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_a_listener_has_ended_is_replaced_and_close_does_not_wait_for_it():
    class Abort(BaseException):
        pass

    def listen(message):
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise Abort

    threads, completed = [], []
    pool = ThreadPool(1, completed.append, "worker")
    pool.submit(ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(1), make_listener(listen, 1)))
    await eventually(lambda: threads and not threads[0].is_alive())
    assert not pool.owns(threads[0])
    later = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(1), make_listener(listen, 1))
    pool.submit(later)
    await eventually(lambda: completed == [later])
    assert [thread.name for thread in threads] == ["worker-1", "worker-2"]
    async with asyncio.timeout(CLOSED_WITHIN):
        await pool.close()


async def test_the_task_of_a_listener_may_close_its_pool():
    async def listen(message):
        await pool.close()

    completed = []
    pool = TaskPool(2, completed.append)
    request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(1), make_listener(listen, 1))
    pool.submit(request)
    await eventually(lambda: completed == [request])
    await eventually(lambda: not pool.tasks)


async def test_tasks_let_others_run_between_calls_that_never_wait():
    turns = []

    async def listen(message):
        turns.append(message.queue_offset)

    async def other():
        for _ in range(4):
            turns.append("other")
            await asyncio.sleep(0)

    pool = TaskPool(1, lambda _: None)
    for _ in range(3):
        pool.submit(ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(1), make_listener(listen, 1)))
    await other()
    assert turns == ["other", 0, "other", 0, "other", 0, "other"]


def test_what_threads_report_to_a_closed_loop_is_dropped():
    loop = asyncio.new_event_loop()
    loop.close()
    post(loop, lambda: None)


async def test_another_failure_of_the_loop_is_raised():
    class Broken:
        def call_soon_threadsafe(self, callback):
            raise RuntimeError("on purpose")

        def is_closed(self):
            return False

    with pytest.raises(RuntimeError, match="on purpose"):
        post(Broken(), lambda: None)
