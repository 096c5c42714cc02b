"""Rows about several brokers of ours on one machine, beside one Java broker: the same sends to each side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.loads import Load, Work
from benchmarks.rows.sides import judge_work, side_of
from benchmarks.servers import Server, start_java, start_our_brokers
from benchmarks.session import Session

_FLOORS = {1: at_least(1.2), 2: at_least(2.0), 4: at_least(2.0)}


def _ours(number: int) -> Callable[[Path], Server]:
    return lambda work: start_our_brokers(work, number)


def row(number: int) -> Callable[[Session], list[Figure]]:
    """Return the row of 1 KiB sends to ``number`` brokers, with 256 in flight and one connection for each broker."""
    work = Work(Load("send", 256 * number, number), 160_000)

    def measure(session: Session) -> list[Figure]:
        name, generator = f"brokers-{number}", session.generator
        session.tell(f"{name}: starting {number} of ours and one of Java's")
        with session.work() as folder, ExitStack() as stack:
            sides = []
            for start in (_ours(number), start_java):
                server = start(folder)
                stack.callback(server.kill)
                sides.append(stack.enter_context(side_of(generator, server)))
            for side in sides:
                session.tell(f"{name}: warming {side.server.name}")
                side.prepare(work, session.scale)
            return judge_work(session, name, _FLOORS[number], at_most(0.6), (sides[0], sides[1]), work)

    return measure
