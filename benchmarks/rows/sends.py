"""Rows about sends: single ones at several depths, batches, and what SYNC_FLUSH costs."""

from __future__ import annotations

import statistics

from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.frames import batch_requests, send_requests
from benchmarks.machine import settle
from benchmarks.rows.sides import KIB, QUEUES, TOPIC, WARM_WINDOW, Side, both, cpu_figure, judge, warm, with_ceiling
from benchmarks.servers import alone
from benchmarks.session import Session

BATCH, BATCH_SIZE, BATCH_WINDOW = 32, 128, 16
CPU_FLOOR = at_most(0.6)


def send_1(session: Session) -> list[Figure]:
    """1 KiB sends one at a time: the median time from send to answer."""
    count = session.scale.of(20_000)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        took = side.load.one_by_one(requests, count)
        side.account(requests, count)
        return statistics.median(took) * 1e6

    with both(session, "send-1") as sides:
        warm(session, "send-1", sides, requests, session.scale.warm, WARM_WINDOW)
        for side in sides:
            with alone(side.server, sides[side is sides[0]].server):
                run(side)
        figure = judge(session, "send-1", "µs p50", at_most(0.7), sides, run)
    return with_ceiling(session, figure, requests, count, 1)


def send_64(session: Session) -> list[Figure]:
    """1 KiB sends with 64 in flight, and the broker's CPU for each."""
    return _window(session, "send-64", 64)


def send_256(session: Session) -> list[Figure]:
    """1 KiB sends with 256 in flight, and the broker's CPU for each."""
    return _window(session, "send-256", 256)


def _window(session: Session, name: str, window: int) -> list[Figure]:
    count = session.scale.of(160_000, QUEUES)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        with side.cpu_counted(count):
            return side.send(requests, count, window)

    with both(session, name) as sides:
        warm(session, name, sides, requests, session.scale.warm, WARM_WINDOW)
        figure = judge(session, name, "msg/s", at_least(1.3), sides, run)
        cpu = cpu_figure(f"{name}-cpu", CPU_FLOOR, sides)
    return [*with_ceiling(session, figure, requests, count, window), cpu]


def batch(session: Session) -> list[Figure]:
    """Batches of 32 messages of 128 bytes, 16 in flight."""
    count = session.scale.of(20_000, QUEUES)
    requests = batch_requests(TOPIC, QUEUES, BATCH_SIZE, BATCH)

    def run(side: Side) -> float:
        with side.cpu_counted(count * BATCH):
            return side.send(requests, count, BATCH_WINDOW)

    with both(session, "batch") as sides:
        # Three times as many messages as elsewhere: a JIT counts calls, and here one call takes 32.
        warm(session, "batch", sides, requests, 3 * session.scale.warm, BATCH_WINDOW)
        figure = judge(session, "batch", "msg/s", at_least(0.8), sides, run)
    return with_ceiling(session, figure, requests, count, BATCH_WINDOW)


def sync_flush(session: Session) -> list[Figure]:
    """1 KiB sends with 64 in flight, each answered when it is on disk (flushDiskType=SYNC_FLUSH)."""
    count = session.scale.of(40_000, QUEUES)
    requests = send_requests(TOPIC, QUEUES, KIB)
    floor: Floor = at_least(1.0)

    def run(side: Side) -> float:
        with side.cpu_counted(count):
            return side.send(requests, count, 64)

    with both(session, "sync-flush", {"flushDiskType": "SYNC_FLUSH"}) as sides:
        warm(session, "sync-flush", sides, requests, session.scale.warm // 3, WARM_WINDOW)
        for side in sides:
            settle(side.server.pid)
        return [judge(session, "sync-flush", "msg/s", floor, sides, run)]
