"""Playing one schedule, and what came of it."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.simulation.loop import Stuck
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import World

_MIX = [*SCENARIOS, *(name for name, kind in SCENARIOS.items() if not kind.is_long)]
"""The scenarios of consecutive seeds; long ones come half as often."""


class Outcome(NamedTuple):
    """What came of a schedule.

    :ivar findings: rules that were broken; empty if all is well.
    :ivar trace: a number that is the same for the same seed.
    :ivar events: what the trace was made of, if it was kept.
    """

    scenario: str
    seed: int
    findings: list[str]
    trace: int
    seconds: float
    notes: list[str]
    events: list[str]


class _Tracebacks(logging.Handler):
    """Log records with a traceback are faults of the code: expected failures are logged without.

    Warnings are judged also where none are shown, so the logger gets a level of its own.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Judge what the package logs in the block."""
        logger = logging.getLogger("rocketmq_py")
        level = logger.level
        wanted = min(logging.WARNING, logger.getEffectiveLevel())
        if level != wanted:  # to set it makes all loggers forget what they know
            logger.setLevel(wanted)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            if level != wanted:
                logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


def scenario_of(seed: int, name: str | None = None) -> str:
    """The scenario that a seed plays."""
    return name or _MIX[seed % len(_MIX)]


def play(seed: int, scenario: str | None = None, *, keep_trace: bool = False) -> Outcome:
    """Play the schedule of a seed.

    Its objects refer to each other in circles and stay in memory: collecting them takes a sixth of the time, and they
    would end coroutines, whose cleaning up is of no interest. About 1 MiB a schedule; see :mod:`tests.simulation.many`.
    """
    gc.disable()  # what is collected when must not depend on what was played before
    return _play(seed, scenario, keep_trace=keep_trace)


def _play(seed: int, scenario: str | None, *, keep_trace: bool) -> Outcome:
    name = scenario_of(seed, scenario)
    chance = random.Random(f"{name} {seed}")
    state = random.getstate()
    random.seed(seed)
    world = World(seed, keep_trace=keep_trace)
    tracebacks = _Tracebacks()
    try:
        play = SCENARIOS[name](world, chance)
        try:
            with tracebacks.judging():
                world.loop.run(play.play())
        except Stuck as e:
            play.ledger.find(str(e))
        findings = [*play.ledger.findings, *tracebacks.found, *world.loop.faults, *world.loop.unretrieved()]
        return Outcome(
            name, seed, findings, world.network.trace.hash, world.loop.time(), world.notes,
            world.network.trace.lines or [],
        )  # fmt: skip
    finally:
        world.end()
        random.setstate(state)
