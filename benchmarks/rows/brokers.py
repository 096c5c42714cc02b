"""Rows that judge the broker: the same requests from the same generator to ours and to Java's, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.ceiling import ceiling
from benchmarks.control import Control
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.frames import Requests, batch_requests, pull_requests, queue_shares, send_requests
from benchmarks.load import Load
from benchmarks.machine import cpu_seconds, settle
from benchmarks.servers import Server, alone, ours_and_java
from benchmarks.session import Session

TOPIC = "bench"
QUEUES = 8
KIB = 1024
BATCH, BATCH_SIZE, BATCH_WINDOW = 32, 128, 16
PULL = 32
WARM_WINDOW = 256
_BACKLOG_QUEUE_MULTIPLE = QUEUES * PULL


@dataclass(slots=True)
class Side:
    """A broker under test, its connection, and what was sent to it so far per queue."""

    server: Server
    load: Load
    control: Control
    sent: list[int] = field(default_factory=lambda: [0] * QUEUES)
    cpu: list[float] = field(default_factory=list)

    def account(self, requests: Requests, count: int) -> None:
        """Remembers ``count`` sent requests and checks that the broker has all of them, in the right queues.

        Every pass over the buffer begins with queue 0, and its length is a multiple of the queues.
        """
        for queue, share in enumerate(queue_shares(count, QUEUES)):
            self.sent[queue] += share * requests.messages_each
        self.control.expect_offsets(TOPIC, self.sent)

    def send(self, requests: Requests, count: int, window: int) -> float:
        """Drives sends and checks where they ended up; messages per second."""
        rate = self.load.drive(requests, count, window)
        self.account(requests, count)
        return rate

    def verified(self, requests: Requests, window: int) -> None:
        """One window with every answer decoded whole."""
        self.account(requests, self.load.verify(requests, window))

    @contextmanager
    def cpu_counted(self, messages: int) -> Iterator[None]:
        """Notes the broker's CPU microseconds per message of the block."""
        before = cpu_seconds(self.server.pid)
        yield
        self.cpu.append((cpu_seconds(self.server.pid) - before) / messages * 1e6)


@contextmanager
def _sides(session: Session, name: str) -> Iterator[tuple[Side, Side]]:
    session.tell(f"{name}: starting both brokers")
    with session.work() as work, ours_and_java(work) as (ours, java), _side(ours) as one, _side(java) as two:
        yield one, two


@contextmanager
def _side(server: Server) -> Iterator[Side]:
    with Load(server.broker) as load, Control(server.broker) as control:
        control.create_topic(TOPIC, QUEUES)
        yield Side(server, load, control)


def _judge(
    session: Session, name: str, unit: str, floor: Floor, sides: tuple[Side, Side], run: Callable[[Side], float]
) -> Figure:
    """Runs in turn, the side that waits being paused."""
    ours, java = sides

    def turn(side: Side, other: Side) -> Callable[[], float]:
        def once() -> float:
            with alone(side.server, other.server):
                return run(side)

        return once

    for side in sides:
        side.cpu.clear()
    values = session.in_turn(name, unit, turn(ours, java), turn(java, ours))
    figure = Figure(name, unit, floor, *values)
    if ours.cpu:
        figure.notes["broker_cpu_us_per_message"] = {s.server.name: round(statistics.median(s.cpu), 2) for s in sides}
    return figure


def _warm(
    session: Session, name: str, sides: tuple[Side, Side], requests: Requests, messages: int, window: int
) -> None:
    """The same warm-up for both, verified, and quiet afterwards."""
    for side in sides:
        session.tell(f"{name}: warming {side.server.name} with {messages:,} messages")
        side.verified(requests, window)
        side.send(requests, messages // requests.messages_each, window)
        settle(side.server.pid)


def _with_ceiling(session: Session, figure: Figure, requests: Requests, count: int, window: int) -> list[Figure]:
    alone_rate = ceiling(requests, count, window)
    session.tell(f"{figure.name}: the generator alone reaches {alone_rate:,.0f} msg/s with this load")
    figure.notes["generator_ceiling_per_s"] = round(alone_rate)
    return [figure]


def send_1(session: Session) -> list[Figure]:
    """1 KiB sends one at a time: the median time from send to answer."""
    count = session.scale.of(20_000)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        took = side.load.one_by_one(requests, count)
        side.account(requests, count)
        return statistics.median(took) * 1e6

    with _sides(session, "send-1") as sides:
        _warm(session, "send-1", sides, requests, session.scale.warm, WARM_WINDOW)
        for side in sides:
            with alone(side.server, sides[side is sides[0]].server):
                run(side)
        figure = _judge(session, "send-1", "µs p50", at_most(0.7), sides, run)
    return _with_ceiling(session, figure, requests, count, 1)


def send_256(session: Session) -> list[Figure]:
    """1 KiB sends with 256 in flight."""
    count = session.scale.of(160_000, QUEUES)
    requests = send_requests(TOPIC, QUEUES, KIB)

    def run(side: Side) -> float:
        with side.cpu_counted(count):
            return side.send(requests, count, 256)

    with _sides(session, "send-256") as sides:
        _warm(session, "send-256", sides, requests, session.scale.warm, WARM_WINDOW)
        figure = _judge(session, "send-256", "msg/s", at_least(1.2), sides, run)
    return _with_ceiling(session, figure, requests, count, 256)


def batch(session: Session) -> list[Figure]:
    """Batches of 32 messages of 128 bytes, 16 in flight."""
    count = session.scale.of(20_000, QUEUES)
    requests = batch_requests(TOPIC, QUEUES, BATCH_SIZE, BATCH)

    def run(side: Side) -> float:
        with side.cpu_counted(count * BATCH):
            return side.send(requests, count, BATCH_WINDOW)

    with _sides(session, "batch") as sides:
        # Three times as many messages as elsewhere: a JIT counts calls, and here one call takes 32.
        _warm(session, "batch", sides, requests, 3 * session.scale.warm, BATCH_WINDOW)
        figure = _judge(session, "batch", "msg/s", at_least(0.6), sides, run)
    return _with_ceiling(session, figure, requests, count, BATCH_WINDOW)


def pull_32(session: Session) -> list[Figure]:
    """Pulls of 32 messages of 1 KiB from 8 queues whose messages lie interleaved, one in flight per queue."""
    backlog = session.scale.of(320_000, _BACKLOG_QUEUE_MULTIPLE)
    sends = send_requests(TOPIC, QUEUES, KIB)
    passes = 4

    with _sides(session, "pull-32") as sides:
        _fill(session, sides, sends, backlog)
        pulls = {side.server.name: _pulls(side, backlog) for side in sides}

        def run(side: Side) -> float:
            requests = pulls[side.server.name]
            with side.cpu_counted(requests.count * PULL):
                return side.load.drive(requests, requests.count, QUEUES)

        for side in sides:
            session.tell(f"pull-32: warming {side.server.name} with {passes} passes over {backlog:,} messages")
            side.load.verify(pulls[side.server.name], QUEUES)
            for _ in range(passes):
                run(side)
            settle(side.server.pid)
        figure = _judge(session, "pull-32", "msg/s", at_least(1.0), sides, run)
    requests = pulls["ours"]
    return _with_ceiling(session, figure, requests, requests.count, QUEUES)


def _fill(session: Session, sides: tuple[Side, Side], sends: Requests, backlog: int) -> None:
    """Stores the backlog; the Java broker takes at least the warm-up's messages, so that its pulls run compiled."""
    for side in sides:
        session.tell(f"pull-32: storing {backlog:,} messages in {side.server.name}")
        side.send(sends, max(backlog, session.scale.warm // QUEUES * QUEUES), WARM_WINDOW)


def _pulls(side: Side, backlog: int) -> Requests:
    """One pass over the backlog. The size of a full answer is taken from the first one: all messages are alike."""
    first = pull_requests(TOPIC, QUEUES, PULL, PULL, answer_body=0)
    size = side.load.body_size(first)
    return pull_requests(TOPIC, QUEUES, PULL, backlog, answer_body=size)
