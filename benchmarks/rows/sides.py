"""What the rows that judge the broker share: both brokers, the same requests from one generator to each in turn.

Knows how a side is started, warmed, measured and checked. Refuses to know the loads.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ceiling import ceiling
from benchmarks.control import Control
from benchmarks.figures import Figure, Floor
from benchmarks.frames import Requests, queue_shares
from benchmarks.load import Load
from benchmarks.machine import cpu_seconds, settle
from benchmarks.program import Program, Runner
from benchmarks.servers import Server, Tls, alone, ours_and_java
from benchmarks.session import Session
from tests.interop.javapeer import options

TOPIC = "bench"
QUEUES = 8
KIB = 1024
WARM_WINDOW = 256


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
def both(
    session: Session, name: str, settings: Mapping[str, str] | None = None, tls: Tls | None = None
) -> Iterator[tuple[Side, Side]]:
    """Our broker and Java's with the topic, both with the same ``settings`` beside the stock ones."""
    session.tell(f"{name}: starting both brokers")
    with (
        session.work() as work,
        ours_and_java(work, settings, tls) as (ours, java),
        side_of(ours) as one,
        side_of(java) as two,
    ):
        yield one, two


@contextmanager
def side_of(server: Server) -> Iterator[Side]:
    """A running broker with the topic."""
    with Load(server.broker) as load, Control(server.broker) as control:
        control.create_topic(TOPIC, QUEUES)
        yield Side(server, load, control)


def judge(
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


def cpu_figure(name: str, floor: Floor, sides: tuple[Side, Side]) -> Figure:
    """The brokers' CPU per message in the runs just judged."""
    ours, java = sides
    return Figure(name, "µs CPU/msg", floor, list(ours.cpu), list(java.cpu))


def warm(session: Session, name: str, sides: tuple[Side, Side], requests: Requests, messages: int, window: int) -> None:
    """The same warm-up for both, verified, and quiet afterwards."""
    for side in sides:
        session.tell(f"{name}: warming {side.server.name} with {messages:,} messages")
        side.verified(requests, window)
        side.send(requests, messages // requests.messages_each, window)
        settle(side.server.pid)


def with_ceiling(session: Session, figure: Figure, requests: Requests, count: int, window: int) -> list[Figure]:
    """The figure, and noted in it what the generator alone reaches with this load."""
    alone_rate = ceiling(requests, count, window)
    session.tell(f"{figure.name}: the generator alone reaches {alone_rate:,.0f} msg/s with this load")
    figure.notes["generator_ceiling_per_s"] = round(alone_rate)
    return [figure]


def judge_with_client(
    session: Session, work: Path, name: str, unit: str, floor: Floor, sides: tuple[Side, Side], client: list[str],
    key: str, count: int,
) -> Figure:  # fmt: skip
    """One of our client programs at both brokers in turn; the figure is what its rows have under ``key``.

    :param client: the module and its words, those of the cluster and the work left out.
    :param count: messages of a run, and before the first one.
    """
    with ExitStack() as stack:
        runners = {}
        for side in sides:
            session.tell(f"{name}: warming {side.server.name} with {count:,} messages")
            flags = options(namesrv=side.server.namesrv, topic=TOPIC, n=count, warm=count)
            command = [sys.executable, "-m", *client, *flags]
            program = stack.enter_context(Program(command, work / f"{name}-{side.server.name}.log"))
            runners[side.server.name] = Runner(program)
        used: dict[str, list[float]] = {side.server.name: [] for side in sides}

        def run(side: Side) -> float:
            with side.cpu_counted(count):
                row = runners[side.server.name].run()
            used[side.server.name].append(row["clientCpu"] / count * 1e6)
            return float(row[key])

        figure = judge(session, name, unit, floor, sides, run)
    figure.notes["client_cpu_us_per_message"] = {who: round(statistics.median(took), 2) for who, took in used.items()}
    return figure
