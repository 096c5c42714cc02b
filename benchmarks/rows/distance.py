"""Rows about brokers that are far away, behind a compiled proxy that only delays.

The Java broker advertises 127.0.0.2 and listens at 127.0.0.1; the proxy listens at 127.0.0.2, so both clients go
through it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.figures import Figure, at_least
from benchmarks.kafka_server import kafka
from benchmarks.loads import QUEUES, Load
from benchmarks.machine import paused
from benchmarks.program import Program
from benchmarks.rows.clients import judge, programs, store
from benchmarks.servers import Server, start_java
from benchmarks.session import Session
from tests.interop.javapeer import PEER, free_port_block, options

Row = Callable[[Session], list[Figure]]

ONE_WAY_MS = ("0", "0.5", "2.5", "10", "40")
CONSUMERS = {"push": ["push"], "lite": ["pull"]}
"""The verbs of both client programs, by kind of consumer."""
FAR = "127.0.0.2"
"""Where the proxies listen, and what the brokers advertise."""
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
            with programs(work, ours, java) as pair:
                return [judge(session, name, "msg/s", at_least(_FLOORS[delay]), pair, "rate")]

    return row


def beside_kafka(delay: str) -> Row:
    """Return a row: our push consumer with ``pulls_in_flight="auto"``, and confluent-kafka's consumer at Kafka.

    Both brokers are behind the same delay; the one that is not measured is paused.

    :param delay: one way, in milliseconds.
    """

    def row(session: Session) -> list[Figure]:
        name = f"distance-kafka-{delay}ms"
        with ExitStack() as stack:
            work = stack.enter_context(session.work())
            broker, count, _ = stack.enter_context(_far_backlog(session, name, work, delay))
            session.tell(f"{name}: starting Kafka behind {delay} ms")
            direct, pid = stack.enter_context(kafka(work, QUEUES, FAR))
            far = f"{FAR}:{direct.rpartition(':')[2]}"
            stack.enter_context(delayed(session, work, far, direct, delay))
            named: dict[str, str | int] = {"topic": "backlog", "n": count, "warm": count // 10}
            filled = [sys.executable, "-m", "benchmarks.kafka_client", "fill", *options(**named, bootstrap=far)]
            subprocess.run(filled, check=True, stdout=subprocess.DEVNULL)
            ours = [sys.executable, "-m", "benchmarks.our_consumer", "push", "--in-flight", "auto"]
            peer = [sys.executable, "-m", "benchmarks.kafka_client", "consume", *options(**named, bootstrap=far)]
            ours += options(**named, namesrv=broker.namesrv)
            first, second = stack.enter_context(programs(work, ours, peer))

            def run(side: int) -> float:
                with paused((pid, broker.pid)[side]):
                    return float((first, second)[side].run()["rate"])

            values = session.in_turn(name, "msg/s", lambda: run(0), lambda: run(1))
        return [Figure(name, "msg/s", at_least(1.0), *values)]

    return row


def own(kind: str) -> Row:
    """Return a row: our consumer with ``pulls_in_flight="auto"`` at a round trip of 20 ms, beside itself at none."""

    def row(session: Session) -> list[Figure]:
        name = f"distance-{kind}-own"
        with session.work() as work, _far_backlog(session, name, work, "10") as (broker, count, direct):
            named = {"namesrv": broker.namesrv, "topic": "backlog", "n": count, "warm": count // 10}
            program = [sys.executable, "-m", "benchmarks.our_consumer", *CONSUMERS[kind], *options(**named)]
            program += ["--in-flight", "auto"]
            with programs(work, program, [*program, "--map", f"{broker.broker}={direct}"]) as pair:
                return [judge(session, name, "msg/s", at_least(0.6), pair, "rate")]

    return row


@contextmanager
def _far_backlog(session: Session, name: str, work: Path, delay: str) -> Iterator[tuple[Server, int, str]]:
    """Run a Java broker with a backlog behind a delay; yields it, the number of messages, and its own address."""
    count = session.scale.of(_BACKLOG, _EACH * QUEUES)
    port = free_port_block()
    far, direct = f"{FAR}:{port}", f"127.0.0.1:{port}"
    with ExitStack() as stack:
        session.tell(f"{name}: starting the Java broker behind {delay} ms")
        stack.enter_context(delayed(session, work, far, direct, delay))
        settings = {"brokerIP1": FAR, "bindAddress": "127.0.0.1"}
        broker = start_java(work, settings, port=port)
        stack.callback(broker.kill)
        session.tell(f"{name}: storing {count:,} messages")
        near = Server(broker.name, broker.namesrv, direct, broker.pid, broker.kill)
        store(session, near, Load("batch", 16, topic="backlog", queues=QUEUES, size=_SIZE, each=_EACH), count)
        yield broker, count, direct


@contextmanager
def delayed(session: Session, work: Path, far: str, direct: str, delay: str) -> Iterator[None]:
    """Run a proxy that passes on what comes to ``far`` to ``direct`` and back, each ``delay`` ms later."""
    command = [str(session.generator.delay), far, direct, str(round(float(delay) * 1000))]
    with Program(command, work / f"delay-{far.rpartition(':')[2]}.log") as proxy:
        proxy.ready()
        yield
