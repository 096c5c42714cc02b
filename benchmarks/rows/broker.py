"""Rows that compare our broker with Java's by the loads of :mod:`benchmarks.loads`: the same work in turn."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.loads import WORKS
from benchmarks.rows.sides import both, judge_work
from benchmarks.session import Session

_SEND_CPU, _OTHER_CPU = at_most(0.35, pure=0.6), at_most(0.6)
FLOORS: dict[str, Floor] = {
    "send-1": at_most(0.5, pure=0.65),
    "send-64": at_least(2.0, pure=1.2),
    "send-256": at_least(2.0, pure=1.2),
    "send-256-c16": at_least(2.0, pure=1.2),
    "send-1024-c64": at_least(2.0, pure=1.2),
    "send-256-rocketmq": at_least(2.0),
    "batch": at_least(1.5, pure=0.9),
    "sync-flush": at_least(2.0),
    "pull-32": at_least(1.5, pure=1.1),
    "pull-1024": at_least(1.5, pure=1.0),
    "pull-contiguous": at_least(3.0, pure=1.5),
    "pop": at_least(2.0, pure=1.3),
    "transaction-1": at_most(1.0),
    "transaction-64": at_least(2.0, pure=1.3),
}


def row(name: str) -> Callable[[Session], list[Figure]]:
    """Return the row of a load, which measures its rate, or the median time with one request in flight, and CPU time.

    CPU time is that of the broker per message.
    """
    work = WORKS[name]
    cpu_floor = _SEND_CPU if work.load.kind == "send" else _OTHER_CPU

    def measure(session: Session) -> list[Figure]:
        with both(session, name, work.settings) as sides:
            for side in sides:
                session.tell(f"{name}: warming {side.server.name}")
                side.prepare(work, session.scale)
            return judge_work(session, name, FLOORS[name], cpu_floor, sides, work)

    return measure
