"""Many schedules, each few of them in a process of their own, which ends without letting go of anything."""

from __future__ import annotations

import gc
import os
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.simulation.run import Outcome, play
from tests.simulation.scenarios import SCENARIOS

PER_PROCESS = 256
"""Schedules of one process. After a fork each page that the process touches is copied, a thirtieth of the time of 64
schedules; each schedule leaves about 1 MiB."""
_LENGTH = struct.Struct("!I")


class Plan(NamedTuple):
    """What to play.

    :ivar seeds: of the schedules, in this order.
    :ivar scenario: plays this one only; None: the one of each seed.
    """

    seeds: range
    scenario: str | None = None
    keep_trace: bool = False


def play_all(plan: Plan) -> Iterator[Outcome]:
    """Play schedules one after the other.

    :raises RuntimeError: a process ended without its outcomes.
    """
    for name in SCENARIOS if plan.scenario is None else [plan.scenario]:
        play(0, name)  # what is made once, by the first schedule of a scenario, is made before the processes begin
    gc.freeze()  # uncollected, as the coroutines of killed processes would clean up (see ``play``)
    for begin in range(0, len(plan.seeds), PER_PROCESS):
        yield from _in_a_process(plan._replace(seeds=plan.seeds[begin : begin + PER_PROCESS]))


def _in_a_process(plan: Plan) -> Iterator[Outcome]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _play_and_exit(plan, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            for _ in plan.seeds:
                yield _received(pipe.read)
    finally:  # whoever wants no more outcomes has closed the pipe, and the process ends with its next one
        os.waitpid(child, 0)


def _received(read: Callable[[int], bytes]) -> Outcome:
    head = read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise RuntimeError("a process that plays schedules has ended before its time")
    outcome = pickle.loads(read(*_LENGTH.unpack(head)))
    assert isinstance(outcome, Outcome)
    return outcome


def _play_and_exit(plan: Plan, writing: int) -> None:
    status = 1
    try:
        with os.fdopen(writing, "wb") as pipe:
            for seed in plan.seeds:
                data = pickle.dumps(play(seed, plan.scenario, keep_trace=plan.keep_trace))
                pipe.write(_LENGTH.pack(len(data)) + data)
                pipe.flush()
        status = 0
    except BrokenPipeError:
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)
