"""Workers of orderly runs: how many run at a time, in what order, and what becomes of jobs that fail."""

import asyncio
import threading

import pytest

from rocketmq_py.client.consumer.dispatch.run_workers import RunTasks, RunThreads
from tests.unit.client.consumer.popbroker import eventually

PATIENCE = 120.0


class Jobs:
    """Jobs of threads that end when they are told to; ``log`` says what happened, by name of the job."""

    def __init__(self, size):
        self.pool = RunThreads(size, "run")
        self.log = []
        self.threads = {}
        self._gates = {}
        self._begun = {}

    def submit(self, *names, fails=False):
        for name in names:
            self._gates[name], self._begun[name] = threading.Event(), threading.Event()
            self.pool.submit(name, lambda name=name: self._job(name, fails), lambda name=name: self.log.append(name))

    def _job(self, name, fails):
        self.threads[name] = threading.current_thread()
        self._begun[name].set()
        self._gates[name].wait(PATIENCE)
        if fails:
            raise SystemExit  # ends the thread in silence

    async def begun(self, *names):
        for name in names:
            assert await asyncio.to_thread(self._begun[name].wait, PATIENCE), name

    async def end(self, *names):
        for name in names:
            self._gates[name].set()
            await eventually(lambda name=name: name in self.log)

    def running(self):
        return [name for name in self._begun if self.pool.workers_on(name)]


async def test_threads_run_jobs_in_order_as_many_as_there_may_be():
    jobs = Jobs(2)
    jobs.submit("a", "b", "c")
    await jobs.begun("a", "b")
    assert jobs.running() == ["a", "b"]
    assert [jobs.threads[name].name for name in "ab"] == ["run-1", "run-2"]
    assert jobs.pool.workers_on("a") == [jobs.threads["a"]]
    assert jobs.pool.owns(jobs.threads["b"])
    assert not jobs.pool.owns(threading.current_thread())
    await jobs.end("b")
    await jobs.begun("c")
    assert jobs.threads["c"] is jobs.threads["b"], "an idle thread is used again"
    await jobs.end("a", "c")
    assert jobs.running() == []
    jobs.submit("d")
    await jobs.begun("d")
    await jobs.end("d")
    assert len(set(jobs.threads.values())) == 2
    jobs.pool.close()
    for thread in jobs.threads.values():
        thread.join(PATIENCE)
        assert not thread.is_alive()


async def test_more_threads_take_what_waits_and_surplus_ones_end_after_their_job():
    jobs = Jobs(1)
    jobs.submit("a", "b", "c")
    await jobs.begun("a")
    assert jobs.running() == ["a"]
    jobs.pool.resize(3)
    await jobs.begun("b", "c")
    jobs.pool.resize(1)
    surplus = [jobs.threads[name] for name in "bc"]
    assert all(jobs.pool.owns(thread) for thread in surplus), "they still run a listener"
    await jobs.end("b", "c")
    for thread in surplus:
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not jobs.pool.owns(thread)
    jobs.submit("d")
    await jobs.end("a")
    await jobs.begun("d")
    assert jobs.threads["d"] is jobs.threads["a"]
    await jobs.end("d")
    jobs.pool.close()


async def test_no_thread_is_started_for_jobs_that_are_done():
    jobs = Jobs(3)
    for name in "abc":
        jobs.submit(name)
        await jobs.begun(name)
        await jobs.end(name)
    assert len(jobs.pool._threads) == 1
    jobs.pool.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_another_thread_replaces_one_that_a_job_has_ended():
    jobs = Jobs(1)
    jobs.submit("a", fails=True)
    jobs.submit("b")
    await jobs.begun("a")
    await jobs.end("a")
    await asyncio.to_thread(jobs.threads["a"].join, PATIENCE)  # its exception belongs to this test
    assert not jobs.pool.owns(jobs.threads["a"])
    await jobs.begun("b")
    assert jobs.threads["b"].name == "run-2"
    await jobs.end("b")
    jobs.submit("c")
    await jobs.begun("c")
    assert jobs.threads["c"] is jobs.threads["b"]
    await jobs.end("c")
    jobs.pool.close()


class Tasks:
    """Jobs of tasks; as :class:`Jobs`."""

    def __init__(self, size):
        self.pool = RunTasks(size)
        self.log = []
        self.began = []
        self._gates = {}
        self.tasks = {}

    def submit(self, *names):
        for name in names:
            self._gates[name] = asyncio.Event()
            self.tasks[name] = self.pool.submit(
                lambda name=name: self._job(name), lambda name=name: self.log.append(name)
            )

    async def _job(self, name):
        self.began.append(name)
        await self._gates[name].wait()

    async def end(self, *names):
        for name in names:
            self._gates[name].set()
        await settled()


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_tasks_run_in_order_as_many_as_there_may_be():
    jobs = Tasks(2)
    jobs.submit(*"abcd")
    await settled()
    assert jobs.began == ["a", "b"]
    assert set(jobs.pool.tasks) == set(jobs.tasks.values())
    await jobs.end("b")
    assert (jobs.began, jobs.log) == (["a", "b", "c"], ["b"])
    jobs.pool.resize(3)
    await settled()
    assert jobs.began == ["a", "b", "c", "d"]
    jobs.pool.resize(1)
    jobs.submit("e")
    await jobs.end("a", "c")
    assert jobs.began == ["a", "b", "c", "d"], "one still runs"
    await jobs.end("d")
    await jobs.end("e")
    assert (jobs.log, jobs.pool.tasks) == ([*"bacde"], [])


async def test_a_cancelled_task_is_over_and_the_next_one_takes_its_place():
    jobs = Tasks(1)
    jobs.submit(*"abc")
    await settled()
    jobs.tasks["b"].cancel()
    await settled()
    assert (jobs.began, jobs.log) == (["a"], ["b"]), "it never began"
    jobs.tasks["a"].cancel()
    await settled()
    assert (jobs.began, jobs.log) == (["a", "c"], ["b", "a"])
    jobs.submit("d")
    await settled()
    assert jobs.began == ["a", "c"], "still one at a time"
    await jobs.end("c", "d")
    assert jobs.began == ["a", "c", "d"]
    await settled()
