"""Rows about brokers that are far away, behind a compiled proxy that only delays, and about batches of single sends.

The Java broker advertises 127.0.0.2 and listens at 127.0.0.1; the proxy listens at 127.0.0.2, so both clients go
through it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.loads import QUEUES, TOPIC, Load
from benchmarks.program import Program, Runner
from benchmarks.rows.clients import WINDOW, judge, store
from benchmarks.servers import Server, start_java, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import PEER, free_port_block, options

Row = Callable[[Session], list[Figure]]

ONE_WAY_MS = ("0", "0.5", "2.5", "10", "40")
CONSUMERS = {"push": ["push"], "lite": ["pull"]}
"""The verbs of both client programs, by kind of consumer."""
BATCHING = ("natural", "linger", "one")
_SIZE = 128
_EACH = 32
_BACKLOG = 100_000
_FLOORS = {"0": 1.0, "0.5": 1.0, "2.5": 2.0, "10": 6.0, "40": 6.0}


def consuming(kind: str, delay: str) -> Row:
    """Return a row: our consumer with ``pulls_in_flight="auto"`` and Java's read a backlog over the same delay.

    :param delay: one way, in milliseconds.
    """

    def row(session: Session) -> list[Figure]:
        name = f"distance-{kind}-{delay}ms"
        with session.work() as work, _far_backlog(session, name, work, delay) as (broker, count, _):
            named = {"namesrv": broker.namesrv, "topic": "backlog", "n": count, "warm": count // 10}
            verb, runs = CONSUMERS[kind], str(session.scale.runs)
            ours = [sys.executable, "-m", "benchmarks.our_consumer", *verb, *options(**named), "--in-flight", "auto"]
            java = [str(PEER), "bench", *verb, *options(**named), "--runs", runs, "--step"]
            with _programs(work, ours, java) as pair:
                return [judge(session, name, "msg/s", at_least(_FLOORS[delay]), pair, "rate")]

    return row


def own(kind: str) -> Row:
    """Return a row: our consumer with ``pulls_in_flight="auto"`` at a round trip of 20 ms, beside itself at none."""

    def row(session: Session) -> list[Figure]:
        name = f"distance-{kind}-own"
        with session.work() as work, _far_backlog(session, name, work, "10") as (broker, count, direct):
            named = {"namesrv": broker.namesrv, "topic": "backlog", "n": count, "warm": count // 10}
            program = [sys.executable, "-m", "benchmarks.our_consumer", *CONSUMERS[kind], *options(**named)]
            program += ["--in-flight", "auto"]
            with _programs(work, program, [*program, "--map", f"{broker.broker}={direct}"]) as pair:
                return [judge(session, name, "msg/s", at_least(0.6), pair, "rate")]

    return row


def batching(mode: str) -> Row:
    """Return a row: our asyncio producer with batches beside itself without, at our broker.

    :param mode: ``natural`` and ``linger`` (5 ms) have 256 sends in flight; ``one`` sends one at a time, with
        natural batches.
    """

    def row(session: Session) -> list[Figure]:
        name = f"batching-{mode}"
        with session.work() as work, ExitStack() as stack:
            broker = start_ours(work)
            stack.callback(broker.kill)
            with Control(broker.broker) as control:
                control.create_topic(TOPIC, QUEUES)
            inflight = 1 if mode == "one" else WINDOW
            count = session.scale.of(20_000 if mode == "one" else 200_000)
            named = {"namesrv": broker.namesrv, "topic": TOPIC, "n": count, "warm": count // 10, "size": _SIZE}
            verb = "sync" if mode == "one" else "async"
            program = [sys.executable, "-m", "benchmarks.our_client", verb, *options(**named, inflight=inflight)]
            linger = "0.005" if mode == "linger" else "natural"
            with _programs(work, [*program, "--linger", linger], program) as pair:
                if mode == "one":
                    return [judge(session, name, "µs p50", at_most(1.05), pair, "p50us")]
                return [judge(session, name, "msg/s", at_least(2.5), pair, "rate")]

    return row


@contextmanager
def _far_backlog(session: Session, name: str, work: Path, delay: str) -> Iterator[tuple[Server, int, str]]:
    """Run a Java broker with a backlog behind a delay; yields it, the number of messages, and its own address."""
    count = session.scale.of(_BACKLOG, _EACH * QUEUES)
    port = free_port_block()
    far, direct = f"127.0.0.2:{port}", f"127.0.0.1:{port}"
    micros = str(round(float(delay) * 1000))
    proxy = [str(session.generator.delay), far, direct, micros]
    with ExitStack() as stack:
        session.tell(f"{name}: starting the Java broker behind {delay} ms")
        stack.enter_context(Program(proxy, work / "delay.log")).ready()
        settings = {"brokerIP1": "127.0.0.2", "bindAddress": "127.0.0.1"}
        broker = start_java(work, settings, port=port)
        stack.callback(broker.kill)
        session.tell(f"{name}: storing {count:,} messages")
        near = Server(broker.name, broker.namesrv, direct, broker.pid, broker.kill)
        store(session, near, Load("batch", 16, topic="backlog", queues=QUEUES, size=_SIZE, each=_EACH), count)
        yield broker, count, direct


@contextmanager
def _programs(work: Path, *commands: list[str]) -> Iterator[tuple[Runner, Runner]]:
    with ExitStack() as stack:
        first, second = [
            Runner(stack.enter_context(Program(command, work / f"client-{number}.log")))
            for number, command in enumerate(commands)
        ]
        yield first, second
