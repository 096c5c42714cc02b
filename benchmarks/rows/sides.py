"""Common parts of the rows that compare brokers: starting both, warming them up, and sending each the same requests."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.control import Control
from benchmarks.drive import Driven, Generator
from benchmarks.figures import Figure, Floor, Tails
from benchmarks.loads import CYCLE, QUEUES, TOPIC, Load, Work
from benchmarks.machine import cpu_seconds, settle
from benchmarks.program import Program, Runner
from benchmarks.servers import Server, Tls, alone, ours_and_java
from benchmarks.session import Scale, Session
from tests.interop.javapeer import options

SENDS = Load("send", 256)
"""The load with which brokers are warmed up."""


@dataclass(slots=True)
class Side:
    """The brokers of one side, the messages sent to them, and the measurements of the last runs.

    ``sent`` has the number of messages by broker and queue, ``cpu`` microseconds of CPU time per message for each run,
    ``driven`` the generator's result of each run.
    """

    server: Server
    generator: Generator
    controls: list[Control]
    sent: list[list[int]] = field(init=False)
    cpu: list[float] = field(default_factory=list)
    driven: list[Driven] = field(default_factory=list)
    _groups: int = 0

    def __post_init__(self) -> None:
        self.sent = [[0] * QUEUES for _ in self.controls]

    @property
    def control(self) -> Control:
        """The connection to the first broker."""
        return self.controls[0]

    def send(self, load: Load, count: int) -> Driven:
        """Send messages or transactions, and check that all are in the right queues."""
        names = (f"broker-{chr(ord('a') + number)}@{broker}" for number, broker in enumerate(self.server.masters))
        driven = self.generator.drive(list(names), load, count, pids=self.server.pids)
        self.account(driven)
        return driven

    def account(self, driven: Driven) -> None:
        """Add messages that were sent to ``sent``, and wait until the brokers have all of it, in the right queues."""
        for control, total, more in zip(self.controls, self.sent, driven.sent, strict=True):
            total[:] = map(sum, zip(total, more, strict=True))
            control.expect_offsets(TOPIC, total)

    def prepare(self, work: Work, scale: Scale) -> None:
        """Store the backlog, or more if the warm-up needs more messages; then do the runs that are not measured."""
        each = work.fill.messages_each
        messages = max(int(scale.warm * work.warm), scale.of(work.backlog, CYCLE) if work.backlog else 0)
        self.send(work.fill, -(-messages // (each * CYCLE)) * CYCLE if work.backlog else messages // each)
        for _ in range(work.passes):
            self.run(work, scale)
        self.settle()

    def settle(self) -> None:
        """Wait until the brokers are idle."""
        for pid in self.server.pids:
            settle(pid)

    def run(self, work: Work, scale: Scale) -> Driven:
        """Do one run of a row's work and return the generator's result."""
        load = work.load
        if not work.backlog:
            return self.send(load, scale.of(work.count, QUEUES))
        backlog = scale.of(work.backlog, CYCLE)
        self._groups += 1
        return self.generator.drive(
            self.server.broker, load, backlog // load.each, pids=self.server.pids,
            until=backlog // load.queues, group=f"bench-{self._groups}",
        )  # fmt: skip

    @contextmanager
    def cpu_counted(self, messages: int) -> Iterator[None]:
        """Append the CPU time of the block to ``cpu``, in microseconds per message, for all brokers of this side."""
        before = sum(map(cpu_seconds, self.server.pids))
        yield
        self.cpu.append((sum(map(cpu_seconds, self.server.pids)) - before) / messages * 1e6)


@contextmanager
def both(
    session: Session, name: str, settings: Mapping[str, str] | None = None, tls: Tls | None = None
) -> Iterator[tuple[Side, Side]]:
    """Run our broker and Java's with the topic during the block, both with ``settings`` besides the defaults."""
    generator = session.generator  # first: without it no JVM needs to be started
    session.tell(f"{name}: starting both brokers")
    with (
        session.work() as work,
        ours_and_java(work, settings, tls) as (ours, java),
        side_of(generator, ours) as one,
        side_of(generator, java) as two,
    ):
        yield one, two


@contextmanager
def side_of(generator: Generator, server: Server) -> Iterator[Side]:
    """Connect to the masters of a running server, and create the topic on each."""
    with ExitStack() as stack:
        controls = [stack.enter_context(Control(broker)) for broker in server.masters]
        for control in controls:
            control.create_topic(TOPIC, QUEUES)
        yield Side(server, generator, controls)


def judge(
    session: Session, name: str, unit: str, floor: Floor, sides: tuple[Side, Side], run: Callable[[Side], float]
) -> Figure:
    """Do runs of both sides in turn, with the other side paused; return the figure of the values.

    :param run: does a run of a side and returns its value.
    """
    ours, java = sides

    def turn(side: Side, other: Side) -> Callable[[], float]:
        def once() -> float:
            with alone(side.server, other.server):
                return run(side)

        return once

    for side in sides:
        side.cpu.clear()
        side.driven.clear()
    values = session.in_turn(name, unit, turn(ours, java), turn(java, ours))
    figure = Figure(name, unit, floor, *values)
    if ours.cpu:
        figure.notes["broker_cpu_us_per_message"] = {s.server.name: round(statistics.median(s.cpu), 2) for s in sides}
    return figure


def judge_work(
    session: Session, name: str, floor: Floor, cpu_floor: Floor, sides: tuple[Side, Side], work: Work
) -> list[Figure]:
    """Measure a load on both sides; figures as of :func:`judge_driven`."""
    run = partial(Side.run, work=work, scale=session.scale)
    return judge_driven(session, name, floor, cpu_floor, sides, run, inflight=work.load.inflight)


def judge_driven(
    session: Session, name: str, floor: Floor, cpu_floor: Floor, sides: tuple[Side, Side],
    drive: Callable[[Side], Driven], *, inflight: int,
) -> list[Figure]:  # fmt: skip
    """Do runs of a generator on both sides; return the figure of the rate, and that of CPU time per message.

    With one request in flight, the first figure is the median time of a request.
    """
    alone_in_flight = inflight == 1

    def run(side: Side) -> float:
        driven = drive(side)
        side.driven.append(driven)
        side.cpu.append(driven.server_cpu_us_per_message)
        return driven.p50_us if alone_in_flight else driven.rate

    figure = judge(session, name, "µs p50" if alone_in_flight else "msg/s", floor, sides, run)
    describe(figure, sides)
    session.tell(f"{name}: the generator took {figure.notes['generator_cores']} cores")
    return [figure, cpu_figure(f"{name}-cpu", cpu_floor, sides)]


def describe(figure: Figure, sides: tuple[Side, Side]) -> None:
    """Add to a figure the cores used, percentiles of times, and the cores used by the generator."""
    ours, peer = sides
    figure.cores = (_median(ours, "server_cores"), _median(peer, "server_cores"))
    figure.tails = (_tails(ours), _tails(peer))
    figure.notes["generator_cores"] = {s.server.name: round(_median(s, "own_cores"), 3) for s in sides}


def _tails(side: Side) -> Tails:
    return Tails(*(_median(side, name) for name in ("p50_us", "p99_us", "p999_us")))


def _median(side: Side, name: str) -> float:
    return float(statistics.median(getattr(driven, name) for driven in side.driven))


def cpu_figure(name: str, floor: Floor, sides: tuple[Side, Side]) -> Figure:
    """Return the figure of the brokers' CPU time per message in the last runs."""
    ours, java = sides
    return Figure(name, "µs CPU/msg", floor, list(ours.cpu), list(java.cpu))


def warm(session: Session, name: str, sides: tuple[Side, Side], load: Load, messages: int) -> None:
    """Send the messages of the warm-up to both sides, and wait until both are idle."""
    for side in sides:
        session.tell(f"{name}: warming {side.server.name} with {messages:,} messages")
        side.send(load, messages // load.messages_each)
        side.settle()


def judge_with_client(
    session: Session, work: Path, name: str, unit: str, floor: Floor, sides: tuple[Side, Side], client: list[str],
    key: str, count: int,
) -> Figure:  # fmt: skip
    """Run one of our client programs with both brokers in turn; the figure has the values of its rows under ``key``.

    :param client: module and arguments of the program, without those for name server, topic and number of messages.
    :param count: messages of each run, and of the warm-up.
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
