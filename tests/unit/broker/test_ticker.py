"""Periodic jobs: when they run, and that one that fails does not stop the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from rocketmq_py.broker import ticker as module
from rocketmq_py.broker.ticker import Job, Ticker
from rocketmq_py.errors import StoreError
from rocketmq_py.server.slow_turns import SlowTurns


class Runs:
    """Notes when jobs run, in tenths of a second since the start."""

    def __init__(self) -> None:
        self.at: dict[str, list[int]] = {}
        self.began = 0.0

    def job(self, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
        def run() -> object:
            self.at.setdefault(name, []).append(round((asyncio.get_running_loop().time() - self.began) * 10))
            return then()

        return run

    def live(self, seconds: float, *jobs: Job, slow_turns: SlowTurns | None = None) -> None:
        async def run() -> None:
            ticker = Ticker(jobs, slow_turns)
            self.began = asyncio.get_running_loop().time()
            ticker.start()
            await asyncio.sleep(seconds)
            await ticker.stop()
            await asyncio.sleep(10)
            await ticker.stop()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(run())


def test_each_job_has_its_interval_and_its_first_time() -> None:
    runs = Runs()
    runs.live(
        3.2, Job(1_000, runs.job("a")), Job(500, runs.job("b"), 2_000), Job(10_000, runs.job("c"), 0),
        Job(60_000, runs.job("d")),
    )  # fmt: skip
    assert runs.at == {"a": [10, 20, 30], "b": [20, 25, 30], "c": [0]}


@pytest.mark.parametrize(("answers", "count"), [([True, True, False], 3), ([1, 0], 1), ([None], 1)])
def test_a_job_with_more_to_do_runs_again_at_once(answers: list[object], count: int) -> None:
    runs, left = Runs(), list(answers)
    runs.live(1.5, Job(1_000, runs.job("a", lambda: left.pop(0))))
    assert runs.at == {"a": [10] * count}


@pytest.mark.parametrize(
    ("error", "has_traceback"), [(ValueError("odd"), True), (OSError("full"), False), (StoreError("bad"), False)]
)
def test_a_job_that_fails_is_logged_once_until_it_works_again(
    error: Exception, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    runs, failing = Runs(), [True, True, False, False, True]

    def then() -> None:
        if failing.pop(0):
            raise error

    runs.live(5.2, Job(1_000, runs.job("a", then)), Job(1_000, runs.job("b")))
    assert runs.at == {"a": [10, 20, 30, 40, 50], "b": [10, 20, 30, 40, 50]}
    name = "Runs.job.<locals>.run"
    failed = f"the periodic job {name} failed and is tried again: {error}"
    # On a busy machine slow turns are logged, too.
    records = [record for record in caplog.records if record.name == "rocketmq_py.broker.ticker"]
    assert [(record.levelno, record.getMessage()) for record in records] == [
        (logging.ERROR, failed), (logging.WARNING, f"the periodic job {name} works again"), (logging.ERROR, failed)
    ]  # fmt: skip
    assert (records[0].exc_info is not None and records[0].exc_info[1] is error) is has_traceback


def test_the_duration_of_a_run_is_noted() -> None:
    noted: list[tuple[str, float]] = []

    class Turns(SlowTurns):
        def note(self, what: str, seconds: float) -> None:
            noted.append((what, seconds))

    runs = Runs()
    runs.live(1.2, Job(1_000, runs.job("a")), slow_turns=Turns())
    [(what, seconds)] = noted
    assert what == "the periodic job Runs.job.<locals>.run"
    assert 0 <= seconds < 1


@pytest.mark.parametrize(("took", "turns"), [(0.0, [0, 0, 0]), (0.006, [0, 0, 1]), (0.01, [0, 1, 2])])
def test_jobs_that_take_long_together_run_in_several_turns(
    took: float, turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, turn, ran = [100.0], [0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def run() -> None:
        ran.append(turn[0])
        now[0] += took

    async def live() -> None:
        ticker = Ticker([Job(60_000, run, 0)] * 3)
        ticker.start()
        await asyncio.sleep(0)
        for _ in range(100):  # the first time is due after no time, which takes a turn of its own
            await asyncio.sleep(0)
            turn[0] += bool(ran)
        await ticker.stop()

    asyncio.run(live())
    assert ran == turns
