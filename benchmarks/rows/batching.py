"""Rows about producers that gather single sends in batches: ours, Java's ``autoBatch`` and Kafka's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.kafka_server import kafka
from benchmarks.loads import QUEUES, TOPIC
from benchmarks.machine import paused
from benchmarks.rows.clients import WINDOW, judge, programs, warm_broker
from benchmarks.servers import Server, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import PEER, options

Row = Callable[[Session], list[Figure]]
Options = dict[str, str | int]

OWN = ("natural", "linger", "one", "threads")
_SIZE = 128
_THREADS = 20
_LINGER_MS = 5


def own(mode: str) -> Row:
    """Return a row: our producer with batches beside itself without, at our broker.

    :param mode: ``natural`` and ``linger`` (5 ms) have 256 sends in flight; ``one`` sends one at a time, and
        ``threads`` from 20 threads, both with natural batches.
    """
    single = mode in {"one", "threads"}

    def row(session: Session) -> list[Figure]:
        name = f"batching-{mode}"
        with session.work() as work, _our_broker(work) as broker:
            count = session.scale.of(20_000 if mode == "one" else 200_000)
            shape = {"threads": _THREADS if mode == "threads" else 1} if single else {"inflight": WINDOW}
            program = _ours("sync" if single else "async", _named(broker, count) | shape)
            with programs(work, [*program, "--linger", _seconds(mode)], program) as pair:
                if mode == "one":
                    return [judge(session, name, "µs p50", at_most(1.05), pair, "p50us")]
                floor = at_least(2.0 if mode == "threads" else 2.5)
                return [judge(session, name, "msg/s", floor, pair, "rate")]

    return row


def java(session: Session) -> list[Figure]:
    """256 sends in flight at a Java broker: our asyncio producer with natural batches beside Java's ``autoBatch``."""
    name = "batching-java"
    with session.work() as work, warm_broker(session, name, work) as broker:
        named = _named(broker, session.scale.of(200_000)) | {"inflight": WINDOW}
        ours = [*_ours("async", named), "--linger", _seconds("natural")]
        flags = ["--mode", "async", "--auto-batch", str(_LINGER_MS), "--runs", str(session.scale.runs), "--step"]
        peer = [str(PEER), "bench", "produce", *flags, *options(**named)]
        with programs(work, ours, peer) as pair:
            return [judge(session, name, "msg/s", at_least(1.5), pair, "rate")]


def beside_kafka(session: Session) -> list[Figure]:
    """256 sends in flight: our producer with natural batches and our broker beside confluent-kafka and Kafka.

    Kafka is paused while ours runs, and the reverse.
    """
    name = "batching-kafka"
    with session.work() as work, _our_broker(work) as broker, kafka(work, QUEUES) as (address, pid):
        count = session.scale.of(200_000)
        shape: Options = {"n": count, "warm": count // 10, "size": _SIZE, "inflight": WINDOW, "topic": TOPIC}
        ours = [*_ours("async", _named(broker, count) | {"inflight": WINDOW}), "--linger", _seconds("natural")]
        peer = [sys.executable, "-m", "benchmarks.kafka_client", "send", *options(**shape, bootstrap=address)]
        peer += ["--linger-ms", str(_LINGER_MS)]
        with programs(work, ours, peer) as (first, second):

            def run(side: int) -> float:
                with paused((pid, broker.pid)[side]):
                    return float((first, second)[side].run()["rate"])

            values = session.in_turn(name, "msg/s", lambda: run(0), lambda: run(1))
    return [Figure(name, "msg/s", at_least(0.7), *values)]


def _named(broker: Server, count: int) -> Options:
    return {"namesrv": broker.namesrv, "topic": TOPIC, "n": count, "warm": count // 10, "size": _SIZE}


def _ours(verb: str, named: Options) -> list[str]:
    return [sys.executable, "-m", "benchmarks.our_client", verb, *options(**named)]


def _seconds(mode: str) -> str:
    return str(_LINGER_MS / 1000) if mode == "linger" else "natural"


@contextmanager
def _our_broker(work: Path) -> Iterator[Server]:
    broker = start_ours(work)
    try:
        with Control(broker.broker) as control:
            control.create_topic(TOPIC, QUEUES)
        yield broker
    finally:
        broker.kill()
