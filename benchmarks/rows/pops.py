"""The row about POP: a backlog popped 32 messages at a time, each pop acknowledged with one request."""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.frames import send_requests
from benchmarks.machine import settle
from benchmarks.pops import Pops
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, Side, both, cpu_figure, judge
from benchmarks.session import Session

_EACH = 32
_BACKLOG = 163_840
_CYCLE = 8192
_PASSES = 2


def pop(session: Session) -> list[Figure]:
    """Pops and batch acks of a backlog of 1 KiB messages in 8 queues; a group of its own for every run."""
    backlog = session.scale.of(_BACKLOG, _CYCLE)
    sends = send_requests(TOPIC, QUEUES, KIB, _CYCLE)
    with both(session, "pop") as sides, ExitStack() as stack:
        loads = {s.server.name: stack.enter_context(Pops(s.server.broker, TOPIC, QUEUES, _EACH)) for s in sides}
        runs = dict.fromkeys(loads, 0)

        def run(side: Side) -> float:
            name = side.server.name
            runs[name] += 1
            with side.cpu_counted(backlog):
                return loads[name].drive(f"bench-pop-{runs[name]}", backlog)

        for side in sides:
            session.tell(f"pop: storing {backlog:,} messages in {side.server.name}, and {_PASSES} passes over them")
            side.send(sends, max(backlog, session.scale.warm // _CYCLE * _CYCLE), WARM_WINDOW)
            for _ in range(_PASSES):
                run(side)
            settle(side.server.pid)
        own_before = {name: load.cpu_seconds for name, load in loads.items()}
        figure = judge(session, "pop", "msg/s", at_least(1.0), sides, run)
        own = [(load.cpu_seconds - own_before[name]) / backlog for name, load in loads.items()]
        figure.notes["generator_cpu_us_per_message"] = round(statistics.mean(own) / len(figure.ours) * 1e6, 2)
        return [figure, cpu_figure("pop-cpu", at_most(1.0), sides)]
