"""The row of a long run: whether the times of sends stay what they are in the first minutes.

Log files are small and removed as soon as they are full, and delayed messages become due all the time, so that the run
contains flushes, clean-ups, timers and garbage collections. The generator waits in whole milliseconds, so that sends
are due in groups of ten.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.drive import Driven
from benchmarks.figures import Figure, Tails, at_most
from benchmarks.loads import QUEUES, Load
from benchmarks.rows.sides import SENDS, side_of
from benchmarks.servers import Server, start_java, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import JavaPeer

MINUTES = 10
RATE = 10_000
"""Sends per second: a quarter of what the slower broker can do on two cores."""
SECONDS = 60
_THIRD = 3
_LOAD = Load("send", 256, 16)
_DELAYED = Load("send", 64, topic="bench-delayed", properties={"DELAY": "2"})
_DELAYED_RATE = 200
_SETTINGS = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "fileReservedTime": "0",
}


def hold(session: Session) -> list[Figure]:
    """Sends at a steady rate for ten minutes to our broker, then to Java's; percentiles of each minute."""
    minutes = max(2, session.scale.of(MINUTES))
    JavaPeer.build()
    return figures(*(measure(session, start, minutes) for start in (start_ours, start_java)))


def figures(ours: Sequence[Driven], java: Sequence[Driven]) -> list[Figure]:
    """Return the figures of both sides, whose values are of each minute, and of the last minutes beside the first."""
    tails, cores = (_tails(ours), _tails(java)), (_cores(ours), _cores(java))
    found = []
    for name, member in (("hold-p99", "p99_us"), ("hold-p999", "p999_us")):
        mine, theirs = ([float(getattr(one, member)) for one in side] for side in (ours, java))
        found.append(Figure(name, "µs", at_most(1.0), mine, theirs, cores=cores, tails=tails))
    part = max(1, len(ours) // _THIRD)
    for figure in list(found):
        every = list(figure.ours)
        found.append(Figure(f"{figure.name}-drift", "µs", at_most(1.3), every[-part:], every[:part]))
    return found


def _cores(side: Sequence[Driven]) -> float:
    return statistics.median(one.server_cores for one in side)


def _tails(side: Sequence[Driven]) -> Tails:
    return Tails(*(statistics.median(getattr(one, name) for one in side) for name in ("p50_us", "p99_us", "p999_us")))


def measure(session: Session, start: Callable[[Path, Mapping[str, str]], Server], minutes: int) -> list[Driven]:
    """Start a broker, send to it, and return the result of each minute.

    :raises BenchError: an answer is missing or not a success, or a message is not in its queue.
    """
    generator, found = session.generator, list[Driven]()
    with session.work() as folder, ExitStack() as stack:
        server = start(folder, _SETTINGS)
        stack.callback(server.kill)
        side = stack.enter_context(side_of(generator, server))
        session.tell(f"hold: warming {server.name}")
        side.send(SENDS, session.scale.warm)
        side.settle()
        side.control.create_topic(_DELAYED.topic, QUEUES)
        stack.enter_context(generator.steadily(server.broker, _DELAYED, _DELAYED_RATE))
        for number in range(minutes):
            driven = generator.drive(server.broker, _LOAD, RATE * SECONDS, pids=server.pids, rate=RATE)
            side.account(driven)
            found.append(driven)
            session.tell(
                f"hold: {server.name}, minute {number + 1} of {minutes}: p99 {driven.p99_us:.0f} µs, "
                f"p99.9 {driven.p999_us:.0f} µs, longest {driven.max_us / 1000:.1f} ms"
            )
    return found
