"""Rows that compare consumers: reading a backlog, latency, time to start, many queues, changes of a group."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.loads import QUEUES, Load
from benchmarks.machine import settle
from benchmarks.program import Program, Runner
from benchmarks.rows.clients import judge, runners, store, warm_broker
from benchmarks.servers import Server, alone, ours_and_java, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import PEER, options

SIZE = 128
BATCH = 32
RATE = 1000
MANY = 1000
_OURS = "benchmarks.our_consumer"
_BACKLOG = 400_000
_LATENCY_SECONDS = 10


def push(session: Session) -> list[Figure]:
    """The push consumers, one message per listener call, 20 threads."""
    return _read(session, "push", ["push"], at_least(1.5, pure=1.1))


def push_32(session: Session) -> list[Figure]:
    """The push consumers, up to 32 messages per listener call, 20 threads."""
    return _read(session, "push-32", ["push"], at_least(1.5, pure=1.1), batch=BATCH)


def orderly(session: Session) -> list[Figure]:
    """The push consumers with an orderly listener, one message per call."""
    return _read(session, "orderly", ["push"], at_least(1.5, pure=0.76), listener="orderly")


def lite_pull(session: Session) -> list[Figure]:
    """The lite pull consumers, one caller polls."""
    return _read(session, "lite-pull", ["pull"], at_least(1.5, pure=1.1))


def _read(session: Session, name: str, verb: list[str], floor: Floor, **named: int | str) -> list[Figure]:
    """Measure the rate at which our consumer and Java's read the same backlog from the same Java broker.

    :param verb: verb of both client programs, as in Bench.java.
    """
    with (
        session.work() as work,
        _backlog(session, name, work) as (broker, what),
        runners(session, work, broker, [_OURS, *verb], verb, {**what, **named}) as pair,
    ):
        return [judge(session, name, "msg/s", floor, pair, "rate")]


def latency(session: Session) -> list[Figure]:
    """1,000 messages per second end to end: our producer, broker and push consumer, and Java's three."""
    count = session.scale.of(RATE * _LATENCY_SECONDS)
    with session.work() as work, ours_and_java(work) as (ours, java), ExitStack() as stack:
        for server in (ours, java):
            with Control(server.broker) as control:
                control.create_topic("latency", QUEUES)
        session.tell("latency: warming both")
        pair = []
        for server in (ours, java):
            command = _latency_command(server, count, session)
            pair.append(Runner(stack.enter_context(Program(command, work / f"{server.name}-clients.log"))))
        tails: tuple[list[float], list[float]] = ([], [])

        def run(side: int) -> float:
            servers = (ours, java)
            with alone(servers[side], servers[1 - side]):
                row = pair[side].run()
            tails[side].append(float(row["p99us"]) / 1000)
            return float(row["p50us"]) / 1000

        values = session.in_turn("latency", "ms p50", lambda: run(0), lambda: run(1))
    return [
        Figure("latency-p50", "ms", at_most(0.2), *values),
        Figure("latency-p99", "ms", at_most(0.2), *tails),
    ]


def _latency_command(server: Server, count: int, session: Session) -> list[str]:
    named: dict[str, int | str] = {"namesrv": server.namesrv, "topic": "latency", "rate": RATE, "size": SIZE}
    if server.name == "ours":
        return [sys.executable, "-m", _OURS, "latency", *options(**named, n=count, warm=2 * RATE)]
    seconds = {"seconds": count // RATE, "warm": 5, "runs": session.scale.runs + 1}
    return [str(PEER), "bench", "latency", *options(**named, **seconds), "--step"]


def first(session: Session) -> list[Figure]:
    """Time from start() of a push consumer in a new group to its first message of a backlog; a new process each run."""
    with session.work() as work, _backlog(session, "first", work) as (broker, named):
        where = {"namesrv": broker.namesrv, "topic": named["topic"]}
        commands = (
            [sys.executable, "-m", _OURS, "first", *options(**where)],
            [str(PEER), "bench", "first", *options(**where)],
        )

        def run(side: int) -> float:
            with Program(commands[side], work / f"first-{side}.log") as program:
                row = json.loads(program.line(120.0))
                return float(row["startToFirstMs"]) / 1000

        values = session.in_turn("first", "s", lambda: run(0), lambda: run(1))
    return [Figure("first", "s", at_most(0.5), *values)]


def queues(session: Session) -> list[Figure]:
    """Our push consumer's CPU per message with 64 and 512 queues, beside that with 4."""
    count = session.scale.of(_BACKLOG, BATCH * 512)
    with session.work() as work, warm_broker(session, "queues", work) as broker, ExitStack() as stack:
        pairs: dict[int, Runner] = {}
        for number in (4, 64, 512):
            topic = f"queues-{number}"
            store(session, broker, _batches(topic, number), count)
            named = {"namesrv": broker.namesrv, "topic": topic, "n": count, "warm": count // 10}
            command = [sys.executable, "-m", _OURS, "push", *options(**named)]
            pairs[number] = Runner(stack.enter_context(Program(command, work / f"{topic}.log")))

        def run(number: int) -> float:
            settle(broker.pid)
            row = pairs[number].run()
            return float(row["clientCpu"]) / int(row["n"]) * 1e6

        figures = []
        for number in (64, 512):
            name = f"queues-{number}"
            values = session.in_turn(name, "µs CPU/msg", lambda n=number: run(n), lambda: run(4))
            figures.append(Figure(name, "µs CPU/msg", at_most(1.5), *values))
    return figures


def rebalance(session: Session) -> list[Figure]:
    """Time in which a group of 20 members shares 1,000 queues again after one leaves or joins, the longer of the two.

    There is no peer: the limit, one second, is used as its value.
    """
    with session.work() as work:
        server = start_ours(work)
        try:
            with Control(server.broker) as control:
                control.create_topic("many", MANY)
            command = [sys.executable, "-m", _OURS, "rebalance",
                       *options(namesrv=server.namesrv, topic="many", queues=MANY)]  # fmt: skip
            session.tell(f"rebalance: {MANY} queues, 20 members start")
            with Program(command, work / "rebalance.log") as program:
                runner = Runner(program)
                values = session.in_turn("rebalance", "s", lambda: float(runner.run()["seconds"]), lambda: 1.0)
        finally:
            server.kill()
    return [Figure("rebalance", "s", at_most(1.0), *values)]


@contextmanager
def _backlog(session: Session, name: str, work: Path) -> Iterator[tuple[Server, dict[str, int | str]]]:
    """Run a warm Java broker with a backlog during the block, which gets it and the options for programs to read it."""
    count = session.scale.of(_BACKLOG, BATCH * QUEUES)
    with warm_broker(session, name, work) as broker:
        session.tell(f"{name}: storing {count:,} messages")
        store(session, broker, _batches("backlog", QUEUES), count)
        yield broker, {"topic": "backlog", "n": count, "warm": min(count, session.scale.warm)}


def _batches(topic: str, queues: int) -> Load:
    return Load("batch", 16, topic=topic, queues=queues, size=SIZE, each=BATCH)
