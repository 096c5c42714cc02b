"""The row about transactions: our producer's half message and commit, on our broker and on Java's in turn."""

from __future__ import annotations

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.frames import send_requests
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, both, judge_with_client, warm
from benchmarks.session import Session

_OURS = "benchmarks.our_transactions"


def transaction(session: Session) -> list[Figure]:
    """Transactions of 1 KiB messages: one at a time, then 64 in flight."""
    scale = session.scale
    one, many = scale.of(10_000), scale.of(40_000)
    with session.work() as work, both(session, "transaction") as sides:
        # Ordinary messages first: a JVM must have compiled its store before it is judged.
        warm(session, "transaction", sides, send_requests(TOPIC, QUEUES, KIB), scale.warm, WARM_WINDOW)
        return [
            judge_with_client(
                session, work, "transaction-1", "µs p50", at_most(1.0), sides, [_OURS, "sync"], "p50us", one
            ),
            judge_with_client(
                session, work, "transaction-64", "msg/s", at_least(1.0), sides, [_OURS, "async"], "rate", many
            ),
        ]
