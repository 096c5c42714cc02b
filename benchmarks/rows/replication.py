"""Rows about a master with a slave: how fast messages get into both logs, and how long a send waits for both."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.frames import Requests, send_requests
from benchmarks.machine import cpu_seconds
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, Side, cpu_figure, judge, side_of, warm
from benchmarks.servers import our_and_java_pair
from benchmarks.session import Session
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.command import Command

CPU_FLOOR: Floor = at_most(1.0)
_SECONDS = 60.0
_LOOK_SECONDS = 0.002
_NO_HOUSEKEEPING = {"haHousekeepingInterval": "3600000"}
"""The pair that waits for its turn is paused for longer than a slave may be silent."""


def replication_async(session: Session) -> list[Figure]:
    """1 KiB sends with 64 in flight to an ASYNC_MASTER, until its slave has the last; CPU of both for each."""
    count = session.scale.of(160_000, QUEUES)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        with _cpu_counted(side, count):
            begin = time.perf_counter()
            side.load.drive(requests, count, 64)
            _await_slave(side)
            took = time.perf_counter() - begin
        side.account(requests, count)
        return count / took

    with _pairs(session, "replication-async", "ASYNC_MASTER", {}, requests) as sides:
        figure = judge(session, "replication-async", "msg/s", at_least(1.0), sides, run)
        return [figure, cpu_figure("replication-async-cpu", CPU_FLOOR, sides)]


def replication_sync(session: Session) -> list[Figure]:
    """1 KiB sends one at a time to a SYNC_MASTER with inSyncReplicas=2: the median time to the answer, CPU of both."""
    count = session.scale.of(8_000)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        with _cpu_counted(side, count):
            took = side.load.one_by_one(requests, count)
        side.account(requests, count)
        return statistics.median(took) * 1e6

    wait = {"inSyncReplicas": "2", "slaveTimeout": "60000"}
    with _pairs(session, "replication-sync", "SYNC_MASTER", wait, requests) as sides:
        figure = judge(session, "replication-sync", "µs p50", at_most(1.0), sides, run)
        return [figure, cpu_figure("replication-sync-cpu", CPU_FLOOR, sides)]


@contextmanager
def _cpu_counted(side: Side, messages: int) -> Iterator[None]:
    """Notes the CPU microseconds per message of master and slave together."""
    before = sum(map(cpu_seconds, side.server.pids))
    yield
    side.cpu.append((sum(map(cpu_seconds, side.server.pids)) - before) / messages * 1e6)


@contextmanager
def _pairs(
    session: Session, name: str, role: str, settings: dict[str, str], requests: Requests
) -> Iterator[tuple[Side, Side]]:
    """Our pair and Java's, warm, each slave with all its master has."""
    session.tell(f"{name}: starting both pairs")
    with (
        session.work() as work,
        our_and_java_pair(work, role, {**_NO_HOUSEKEEPING, **settings}) as (ours, java),
        side_of(ours) as one,
        side_of(java) as two,
    ):
        for side in (one, two):
            _await_slave(side)
        warm(session, name, (one, two), requests, session.scale.warm // 3, WARM_WINDOW)
        yield one, two


def _await_slave(side: Side) -> None:
    """Wait until the slave's log ends where its master's does.

    :raises BenchError: it does not get there.
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
