"""The row about transactions: our producer's half message and commit, on our broker and on Java's in turn."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.frames import send_requests
from benchmarks.program import Program, Runner
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, Side, both, judge, warm
from benchmarks.session import Session
from tests.interop.javapeer import options

_IN_FLIGHT = 64


def transaction(session: Session) -> list[Figure]:
    """Transactions of 1 KiB messages: one at a time, then 64 in flight."""
    scale = session.scale
    one, many = scale.of(10_000), scale.of(40_000)
    with session.work() as work, both(session, "transaction") as sides:
        # Ordinary messages first: a JVM must have compiled its store before it is judged.
        warm(session, "transaction", sides, send_requests(TOPIC, QUEUES, KIB), scale.warm, WARM_WINDOW)
        return [
            _judge(session, work, sides, "transaction-1", "µs p50", at_most(1.0), "sync", "p50us", one),
            _judge(session, work, sides, "transaction-64", "msg/s", at_least(1.0), "async", "rate", many),
        ]


def _judge(
    session: Session, work: Path, sides: tuple[Side, Side], name: str, unit: str, floor: Floor, verb: str, key: str,
    count: int,
) -> Figure:  # fmt: skip
    with ExitStack() as stack:
        clients = {}
        for side in sides:
            session.tell(f"{name}: warming {side.server.name} with {count:,} transactions")
            flags = options(namesrv=side.server.namesrv, topic=TOPIC, n=count, warm=count, inflight=_IN_FLIGHT)
            command = [sys.executable, "-m", "benchmarks.our_transactions", verb, *flags]
            program = stack.enter_context(Program(command, work / f"{name}-{side.server.name}.log"))
            clients[side.server.name] = Runner(program)

        def run(side: Side) -> float:
            with side.cpu_counted(count):
                return float(clients[side.server.name].run()[key])

        return judge(session, name, unit, floor, sides, run)
