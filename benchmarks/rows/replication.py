"""Rows about a master with a slave: the rate of messages stored by both, and the time of a send that waits for both."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.loads import QUEUES, Load
from benchmarks.rows.sides import SENDS, Side, cpu_figure, describe, judge, side_of, warm
from benchmarks.servers import our_and_java_pair
from benchmarks.session import Session
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.command import Command

CPU_FLOOR: Floor = at_most(1.0)
_SECONDS = 60.0
_LOOK_SECONDS = 0.002
_NO_HOUSEKEEPING = {"haHousekeepingInterval": "3600000"}
"""Setting against closed connections: the pair that is not measured is paused for longer than a slave may be silent."""


def replication_async(session: Session) -> list[Figure]:
    """Rate of 1 KiB sends, 64 in flight, to an ASYNC_MASTER until its slave has the last; CPU time of both brokers."""
    count = session.scale.of(160_000, QUEUES)

    def run(side: Side) -> float:
        with side.cpu_counted(count):
            driven = side.generator.drive(side.server.broker, Load("send", 64), count)
            begin = time.perf_counter()
            _await_slave(side)
            took = driven.seconds + time.perf_counter() - begin
        side.account(driven)
        return count / took

    with _pairs(session, "replication-async", "ASYNC_MASTER", {}) as sides:
        figure = judge(session, "replication-async", "msg/s", at_least(1.0), sides, run)
        return [figure, cpu_figure("replication-async-cpu", CPU_FLOOR, sides)]


def replication_sync(session: Session) -> list[Figure]:
    """Median time of 1 KiB sends, one at a time, to a SYNC_MASTER with inSyncReplicas=2; CPU time of both brokers."""
    count = session.scale.of(8_000)

    def run(side: Side) -> float:
        driven = side.send(Load("send"), count)
        side.driven.append(driven)
        side.cpu.append(driven.server_cpu_us_per_message)
        return driven.p50_us

    wait = {"inSyncReplicas": "2", "slaveTimeout": "60000"}
    with _pairs(session, "replication-sync", "SYNC_MASTER", wait) as sides:
        figure = judge(session, "replication-sync", "µs p50", at_most(1.0), sides, run)
        describe(figure, sides)
        return [figure, cpu_figure("replication-sync-cpu", CPU_FLOOR, sides)]


@contextmanager
def _pairs(session: Session, name: str, role: str, settings: dict[str, str]) -> Iterator[tuple[Side, Side]]:
    """Run our master and slave, and Java's, during the block, which begins when all are warmed up and replicated."""
    generator = session.generator
    session.tell(f"{name}: starting both pairs")
    with (
        session.work() as work,
        our_and_java_pair(work, role, {**_NO_HOUSEKEEPING, **settings}) as (ours, java),
        side_of(generator, ours) as one,
        side_of(generator, java) as two,
    ):
        for side in (one, two):
            _await_slave(side)
        warm(session, name, (one, two), SENDS, session.scale.warm // 3)
        yield one, two


def _await_slave(side: Side) -> None:
    """Wait until the slave's log has all that its master's log has now.

    :raises BenchError: it has not within 60 s.
    """
    deadline = time.monotonic() + _SECONDS
    with Control(side.server.slave) as slave:
        end = _status(side.control)["masterCommitLogMaxOffset"]
        while _status(slave)["haClientRuntimeInfo"]["maxOffset"] < end:  # type: ignore[index]
            if time.monotonic() > deadline:
                raise BenchError(f"the slave {side.server.slave} has not got to {end}")
            time.sleep(_LOOK_SECONDS)


def _status(control: Control) -> dict[str, object]:
    answer = control.ask(Command(RequestCode.GET_BROKER_HA_STATUS))
    return dict(json.loads(answer.body))
