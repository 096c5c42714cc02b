"""Work in slices: bounded per turn, fair between jobs, complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator

import pytest

from rocketmq_py.server.sliced_work import PeriodicSlicedJob, ReadTurns, SlicedWork, SpareTime, in_slices


class Loop:
    """Turns of an event loop in which each step of a job takes one second."""

    def __init__(self, budget: float) -> None:
        self.now = 0.0
        self.callbacks: list[Callable[[], None]] = []
        self.work = SlicedWork(self.callbacks.append, budget, lambda: self.now)
        self.done: list[str] = []

    def job(self, name: str, steps: int) -> Iterator[None]:
        for number in range(steps):
            self.now += 1
            self.done.append(f"{name}{number}")
            yield

    def turn(self) -> list[str]:
        """Run the callbacks of one turn; the steps that were done."""
        before = len(self.done)
        callbacks, self.callbacks[:] = self.callbacks[:], []
        for callback in callbacks:
            callback()
        return self.done[before:]


def test_a_turn_ends_when_its_budget_is_used_up() -> None:
    loop = Loop(budget=3)
    loop.work.add(loop.job("a", 5))
    assert loop.turn() == ["a0", "a1", "a2"]
    assert loop.turn() == ["a3", "a4"]
    assert loop.turn() == []
    assert len(loop.work) == 0


def test_all_jobs_share_the_budget_and_a_long_one_does_not_delay_a_short_one() -> None:
    loop = Loop(budget=2)
    loop.work.add(loop.job("long", 5))
    loop.work.add(loop.job("short", 1))
    assert loop.turn() == ["long0", "long1"]
    assert loop.turn() == ["short0", "long2"]
    assert loop.turn() == ["long3", "long4"]


def test_a_job_that_fails_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(budget=10)

    def failing() -> Iterator[None]:
        yield
        raise ValueError("broken")

    loop.work.add(failing())
    loop.work.add(loop.job("a", 1))
    assert loop.turn() == ["a0"]
    assert "a job in slices failed" in caplog.text


def test_jobs_added_by_a_job_run_too() -> None:
    loop = Loop(budget=10)

    def adding() -> Iterator[None]:
        loop.work.add(loop.job("a", 1))
        yield

    loop.work.add(adding())
    loop.turn()
    loop.turn()
    assert loop.done == ["a0"]
    assert not loop.callbacks


def test_a_periodic_job_is_not_started_while_it_runs() -> None:
    loop = Loop(budget=2)
    job = PeriodicSlicedJob(loop.work, lambda: loop.job("a", 3))
    job.start()
    assert loop.turn() == ["a0", "a1"]
    job.start()
    assert loop.turn() == ["a2"]
    assert loop.turn() == []
    job.start()
    assert loop.turn() == ["a0", "a1"]


def test_a_periodic_job_that_failed_is_started_again() -> None:
    loop = Loop(budget=2)

    def failing() -> Iterator[None]:
        yield from loop.job("a", 1)
        raise ValueError("broken")

    job = PeriodicSlicedJob(loop.work, failing)
    for _ in range(2):
        job.start()
        assert loop.turn() == ["a0"]
    assert len(loop.work) == 0


def test_finishing_runs_everything_at_once() -> None:
    loop = Loop(budget=1)
    loop.work.add(loop.job("a", 3))
    loop.work.finish()
    assert loop.done == ["a0", "a1", "a2"]
    assert loop.turn() == []


async def test_a_coroutine_awaits_what_a_job_yields_or_raises() -> None:
    work = SlicedWork(asyncio.get_running_loop().call_soon, budget_seconds=0)
    assert await work.run(iter(range(100))) == list(range(100))
    with pytest.raises(ZeroDivisionError):
        await work.run(1 // number for number in (1, 0))


def test_a_cancelled_coroutine_ends_its_job() -> None:
    steps = 0

    def endless() -> Iterator[None]:
        nonlocal steps
        while True:
            steps += 1
            yield

    async def scenario() -> None:
        work = SlicedWork(asyncio.get_running_loop().call_soon, budget_seconds=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await work.run(endless())
        await asyncio.sleep(0.01)
        assert len(work) == 0

    asyncio.run(scenario())
    assert steps


class Work:
    """Work that takes some seconds of a clock of its own."""

    def __init__(self) -> None:
        self.now = 100.0

    def take(self, seconds: float) -> str:
        self.now += seconds
        return "done"

    def fail(self) -> None:
        self.now += 5
        raise ValueError("broken")


def test_work_is_done_at_once_until_the_spare_time_is_used_up() -> None:
    work = Work()
    spare = SpareTime(3.0, lambda: work.now)
    assert spare.use(lambda: work.take(4)) == "done"
    assert spare  # four seconds have added two
    spare.use(lambda: work.take(2))
    assert not spare
    work.now += 0.5
    assert spare


def test_spare_time_has_a_limit_however_long_nothing_is_done() -> None:
    work = Work()
    spare = SpareTime(3.0, lambda: work.now)
    work.now += 1_000
    assert spare
    spare.use(lambda: work.take(8))
    assert not spare, "3 - 8 + 4"


def test_work_that_fails_takes_time_too() -> None:
    work = Work()
    spare = SpareTime(2.0, lambda: work.now)
    with pytest.raises(ValueError, match="broken"):
        spare.use(work.fail)
    assert not spare


@pytest.mark.parametrize(("steps", "milliseconds", "turns"), [(2, 4, 0), (3, 4, 1), (6, 4, 2), (5, 5, 2), (2, 50, 2)])
async def test_steps_are_done_for_ten_milliseconds_in_each_turn(steps: int, milliseconds: int, turns: int) -> None:
    now, waited = 0, 0

    def work() -> Generator[None, None, str]:
        nonlocal now
        for _ in range(steps):
            now += milliseconds
            yield
        return "result"

    async def count() -> None:
        nonlocal waited
        while True:
            await asyncio.sleep(0)
            waited += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    assert await in_slices(work(), lambda: now / 1000) == "result"
    counting.cancel()
    assert waited == turns


async def test_steps_that_fail_fail_their_caller() -> None:
    def work() -> Generator[None, None, None]:
        yield
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await in_slices(work())


def test_spare_time_begins_with_ten_milliseconds() -> None:
    work = Work()
    for seconds, left in ((0.0195, True), (0.0205, False)):
        spare = SpareTime(clock=lambda: work.now)
        spare.use(lambda seconds=seconds: work.take(seconds))  # type: ignore[misc]
        assert bool(spare) is left, "half of the time that passed is added"


class Reads:
    """Turns of an event loop that delivers data of connections; serving each takes one second."""

    def __init__(self, budget: float) -> None:
        self.now = 5.0
        self.callbacks: list[Callable[[], None]] = []
        self.turns = ReadTurns(budget, lambda: self.now, self.callbacks.append)
        self.served: list[str] = []

    def serve(self, name: str) -> None:
        self.now += 1
        self.served.append(name)

    def turn(self, *names: str) -> list[str]:
        """Run the callbacks, then deliver data of connections; return those that were served."""
        before = len(self.served)
        callbacks, self.callbacks[:] = self.callbacks[:], []
        for callback in callbacks:
            callback()
        for name in names:
            if self.turns.admits():
                self.serve(name)
            else:
                self.turns.wait(lambda name=name: self.serve(name))  # type: ignore[misc]
        return self.served[before:]


def test_what_a_turn_has_no_time_for_waits_for_the_next_ones_in_order() -> None:
    reads = Reads(budget=3)
    assert reads.turn(*"abcdefghi") == ["a", "b", "c"]
    assert reads.turn("x") == ["d", "e", "f"], "x comes after those that wait"
    assert reads.turn("y", "z") == ["g", "h", "i"]
    assert reads.turn() == ["x", "y", "z"]
    assert reads.turn() == []
    assert reads.callbacks == [], "nothing is scheduled once nobody waits"
    reads.now += 100
    assert reads.turn(*"abcd") == ["a", "b", "c"], "each turn has a budget of its own"


def test_those_that_wait_and_new_ones_share_the_budget_of_a_turn() -> None:
    reads = Reads(budget=3)
    assert reads.turn(*"abcd") == ["a", "b", "c"]
    assert reads.turn(*"efg") == ["d", "e", "f"]
    assert reads.turn() == ["g"]


def test_what_waits_without_a_read_before_it_is_served_in_the_next_turn() -> None:
    reads = Reads(budget=2)
    for name in "abc":
        reads.turns.wait(lambda name=name: reads.serve(name))  # type: ignore[misc]
    assert len(reads.callbacks) == 1
    assert [reads.turn(), reads.turn(), reads.turn()] == [["a", "b"], ["c"], []]


def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    reads = Reads(budget=3)

    def fail() -> None:
        raise ValueError("broken")

    reads.turns.wait(fail)
    reads.turns.wait(lambda: reads.serve("b"))
    with pytest.raises(ValueError, match="broken"):
        reads.turn()
    assert reads.turn() == ["b"]


async def test_without_arguments_the_running_event_loop_serves_those_that_wait() -> None:
    served: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ReadTurns().wait(lambda: served.set_result("a"))
    assert await served == "a"
