"""A short run of ``make simulate``, and that a seed always plays the same schedule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_SCHEDULES = 200
_TWICE = """
from tests.simulation.run import play
traces = [[play(seed).trace for seed in seeds] for seeds in (range(24), range(23, -1, -1))]
assert traces[0] == traces[1][::-1], traces
assert len(set(traces[0])) == 24
"""
_LOGGED = """
import logging
from tests.simulation import run
class Faulty(run.SCENARIOS["concurrent"]):
    async def play(self):
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("rocketmq_py.broker").exception("a job failed")
logging.basicConfig(level=logging.CRITICAL + 1)
run.SCENARIOS["faulty"] = Faulty
assert run.play(1, "faulty").findings == ["rocketmq_py.broker: a job failed: ValueError('broken')"]
"""
_KILLED = """
import asyncio
from tests.simulation.loop import Process, SimLoop
loop = SimLoop()
async def fail():
    raise ValueError("broken")
async def scenario():
    for name in ("alive", "killed"):
        process = Process(loop, name, "10.0.0.1")
        process.start(fail())
        await asyncio.sleep(1)
        if name == "killed":
            process.kill()
loop.run(scenario())
assert len(loop.tasks) == 3, loop.tasks
[found] = loop.unretrieved()
assert "broken" in found
loop.abandon()
"""


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter: time, ids and sockets of its process are simulated."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True,
        text=True, check=False, timeout=570,
    )  # fmt: skip


def test_no_schedule_breaks_a_rule() -> None:
    done = simulate("-m", "tests.simulation", "--schedules", str(_SCHEDULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SCHEDULES} schedules" in done.stdout
    assert done.stderr == "", "killed processes clean nothing up"


def test_a_quiet_cluster_warns_of_nothing() -> None:
    """For longer than the consume timeout and the intervals of checks and clean-up."""
    done = simulate("-m", "tests.simulation.quiet", "--hours", "0.3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0.3 hours, 54 messages"), done.stdout


def test_a_seed_plays_the_same_schedule_again() -> None:
    done = simulate("-c", _TWICE)
    assert done.returncode == 0, done.stderr


def test_a_traceback_in_the_log_is_a_finding_even_if_nothing_is_logged() -> None:
    done = simulate("-c", _LOGGED)
    assert done.returncode == 0, done.stderr


def test_a_failed_task_is_a_finding_unless_its_process_was_killed() -> None:
    subprocess.run(
        [sys.executable, "-c", _KILLED], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, check=True, timeout=60
    )
