"""The row about timed messages: how fast very many are delivered that are due at the same time."""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, at_least
from benchmarks.loads import QUEUES, TOPIC
from benchmarks.rows.sides import SENDS, Side, both, judge, warm
from benchmarks.session import Session

_SENT_PER_SECOND = 5_000
"""A rate that every broker reaches; it determines how long before their delivery time messages begin to be sent."""
_LOOK_SECONDS = 0.01
_LAST_SECONDS = 120.0


def delayed(session: Session) -> list[Figure]:
    """Rate at which 1 KiB messages that are all due at the same time are stored in their topic, from the first on."""
    scale = session.scale
    count = scale.of(80_000, QUEUES)

    def run(side: Side) -> float:
        with side.cpu_counted(count):
            return _delivered(side, count)

    with both(session, "delayed") as sides:
        warm(session, "delayed", sides, SENDS, scale.warm)
        for side in sides:
            session.tell(f"delayed: warming {side.server.name} with {count:,} timed messages")
            _delivered(side, count)
        return [judge(session, "delayed", "msg/s", at_least(1.0), sides, run)]


def _delivered(side: Side, count: int) -> float:
    """Send timed messages, wait until all are delivered, and return the rate of their delivery per second.

    The time is from the first one in the topic to the last, because Java's broker starts a second's slot at its end.
    """
    due = round(time.time() + 2 + count / _SENT_PER_SECOND) * 1000
    load = replace(SENDS, properties={"TIMER_DELIVER_MS": str(due)})
    before = sum(side.sent[0])
    driven = side.generator.drive(side.server.broker, load, count)
    late = time.time() - due / 1000
    if late > 0:
        raise BenchError(f"{side.server.name}: the last message was sent {late:.1f} s after they were due")
    time.sleep(-late)
    begin, first = _when_more(side, before + 1)
    end, _ = _when_more(side, before + count)
    side.account(driven)
    return (count - (first - before)) / (end - begin)


def _when_more(side: Side, wanted: int) -> tuple[float, int]:
    """Wait until the topic has at least ``wanted`` messages; return the time (monotonic) and their number."""
    deadline = time.monotonic() + _LAST_SECONDS
    while (found := sum(side.control.max_offsets(TOPIC, QUEUES))) < wanted:
        if time.monotonic() > deadline:
            raise BenchError(f"{side.server.name}: {wanted - found} timed messages were not delivered")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic(), found
