"""Common parts of the rows that compare our clients with Java's: both in turn with the same Java broker.

They warm the broker up, start both programs and compare their runs. The rows of the producers are here, too.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.loads import KIB, TOPIC, Load
from benchmarks.machine import settle
from benchmarks.program import Program, Runner
from benchmarks.servers import Server, start_java
from benchmarks.session import Session
from tests.interop.javapeer import PEER, options

WINDOW = 256
_OURS = "benchmarks.our_client"


def producer(session: Session) -> list[Figure]:
    """1 KiB sends through the producers: one at a time, then 256 in flight."""
    scale = session.scale
    with session.work() as work, warm_broker(session, "producer", work) as broker:
        slow = {"n": scale.of(20_000), "warm": scale.warm, "size": KIB}
        fast = {"n": scale.of(100_000), "warm": scale.warm, "size": KIB, "inflight": WINDOW}
        with runners(session, work, broker, [_OURS, "sync"], ["produce", "--mode", "sync"], slow) as pair:
            one = judge(session, "producer-1", "µs p50", at_most(0.6), pair, "p50us")
        with runners(session, work, broker, [_OURS, "async"], ["produce", "--mode", "async"], fast) as pair:
            many = judge(session, "producer-256", "msg/s", at_least(2.5), pair, "rate")
    return [one, many]


@contextmanager
def warm_broker(session: Session, name: str, work: Path) -> Iterator[Server]:
    """Run a Java broker during the block, which begins when the broker has the messages of the warm-up and is idle."""
    session.tell(f"{name}: starting the Java broker and warming it with {session.scale.warm:,} messages")
    server = start_java(work)
    try:
        store(session, server, Load("send", WINDOW), session.scale.warm)
        settle(server.pid)
        yield server
    finally:
        server.kill()


def store(session: Session, server: Server, load: Load, messages: int) -> None:
    """Create a topic, send ``messages`` messages to it, and wait until all of them are readable."""
    generator = session.generator  # built first: the broker closes a connection that is idle for two minutes
    with Control(server.broker) as control:
        control.create_topic(load.topic, load.queues)
        driven = generator.drive(server.broker, load, messages // load.messages_each)
        control.expect_offsets(load.topic, driven.sent[0])


@contextmanager
def runners(
    session: Session, work: Path, broker: Server, ours: list[str], java: list[str], named: Mapping[str, int | str]
) -> Iterator[tuple[Runner, Runner]]:
    """Run our client program and Java's during the block, which begins when both are warmed up.

    Ours, without a JIT compiler, gets a tenth of the messages for that.

    :param ours: module and verb of our program; ``java`` those of Bench.java.
    :param named: options for both programs.
    """
    named = {"namesrv": broker.namesrv, "topic": TOPIC, **named}
    warm = int(named["warm"])
    runs = str(session.scale.runs)
    commands = {
        "ours": [sys.executable, "-m", *ours, *options(**{**named, "warm": warm // 10})],
        "java": [str(PEER), "bench", *java, *options(**named), "--runs", runs, "--step"],
    }
    with ExitStack() as stack:
        pair = []
        for name, command in commands.items():
            session.tell(f"{' '.join(java)}: warming the client of {name}")
            program = stack.enter_context(Program(command, work / f"{name}-client.log"))
            pair.append(Runner(program))
            settle(program.pid)
        yield pair[0], pair[1]


@contextmanager
def programs(work: Path, *commands: list[str]) -> Iterator[tuple[Runner, Runner]]:
    """Run two client programs during the block, which begins when both are warmed up."""
    with ExitStack() as stack:
        first, second = [
            Runner(stack.enter_context(Program(command, work / f"client-{number}.log")))
            for number, command in enumerate(commands)
        ]
        yield first, second


def judge(session: Session, name: str, unit: str, floor: Floor, pair: tuple[Runner, Runner], key: str) -> Figure:
    """Do runs of both programs in turn; return the figure of the values that their rows have under ``key``."""
    cpu: tuple[list[float], list[float]] = ([], [])

    def run(side: int) -> float:
        row = pair[side].run()
        cpu[side].append(row["clientCpu"] / row["n"] * 1e6)
        return float(row[key])

    values = session.in_turn(name, unit, lambda: run(0), lambda: run(1))
    used = {name: round(statistics.median(values), 2) for name, values in zip(("ours", "java"), cpu, strict=True)}
    return Figure(name, unit, floor, *values, notes={"client_cpu_us_per_message": used})
