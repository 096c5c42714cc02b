"""Rows about the Spark data source: one Spark session reads, streams and writes, with our format and with Kafka's.

This module starts and fills the servers that a row needs; ``spark_client`` does the runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM

from benchmarks.control import Control
from benchmarks.figures import Figure, Floor, at_least, at_most
from benchmarks.kafka_server import kafka, packages
from benchmarks.loads import Load
from benchmarks.machine import end, keep_to, paused, settle
from benchmarks.program import Program, Runner
from benchmarks.rows.clients import store
from benchmarks.rows.distance import FAR, delayed
from benchmarks.servers import Server, start_java, start_ours
from benchmarks.session import Session

TOPIC = "bench"
QUEUES = 4
BATCH = 32
_EACH, _FEW = 5, 8
"""Messages of a batch, and queues of the smaller topic, where topics have different numbers of queues."""
KIB = 1024
_FAR_MS = "10"
"""The delay of far brokers one way, in milliseconds."""
_WARM_READS = 4
_WARM_SECONDS = 900.0
_GUARANTEES = "exactly-once,at-least-once"

Start = Callable[[Path], Server]


def spark_read(session: Session) -> list[Figure]:
    """A batch read of 1M messages of 100 bytes in 4 queues, against Spark's Kafka source and a Kafka broker."""
    return [_read(session, "spark-read", start_ours, 1_000_000, 100)]


def spark_read_1k(session: Session) -> list[Figure]:
    """As spark-read, with 300,000 messages of 1 KiB."""
    return [_read(session, "spark-read-1k", start_ours, 300_000, KIB)]


def spark_read_java(session: Session) -> list[Figure]:
    """As spark-read, our source reading from a stock Java broker."""
    return [_read(session, "spark-read-java", start_java, 1_000_000, 100)]


def spark_read_java_1k(session: Session) -> list[Figure]:
    """As spark-read-1k, our source reading from a stock Java broker."""
    return [_read(session, "spark-read-java-1k", start_java, 300_000, KIB)]


def spark_store_read(session: Session) -> list[Figure]:
    """As spark-read, from the files of the store, whose broker has ended."""
    name, count = "spark-store-read", session.scale.of(1_000_000, BATCH * QUEUES)
    with session.work() as work:
        with _filled(session, name, start_ours, work, count, 100) as server:
            end(server.pid, SIGTERM)
        session.tell(f"{name}: starting Kafka")
        flags = {"store": str(work / "ours"), "warm": ",".join(["read"] * _WARM_READS)}
        with (
            kafka(work, QUEUES) as (address, pid),
            _client(session, name, None, count, 100, {**flags, "kafka": address}) as runner,
        ):

            def run(side: str) -> float:
                settle(pid)
                return float(runner.run(f"read {side}")["rate"])

            values = session.in_turn(name, "rows/s", lambda: run("store"), lambda: run("kafka"))
    return [Figure(name, "rows/s", at_least(3.0), *values)]


def _read(session: Session, name: str, start: Start, full: int, size: int) -> Figure:
    count = session.scale.of(full, BATCH * QUEUES)
    with _beside_kafka(session, name, start, count, size) as (ours, address, pid):
        flags = {"kafka": address, "warm": ",".join(["read"] * _WARM_READS)}
        with _client(session, name, ours, count, size, flags) as runner:
            return _judge(session, name, "rows/s", at_least(1.5), runner, ("read", "rate"), (ours.pid, pid))


def spark_trigger(session: Session) -> list[Figure]:
    """Micro-batches: with next to no rows, and with 10,000 rows a second; the median time of a trigger."""
    count = 640_000  # more than all runs take: a stream must never come to an end
    triggers = session.scale.of(40)
    with _beside_kafka(session, "spark-trigger", start_ours, count, 100) as (ours, address, pid):
        flags = {"kafka": address, "warm": "read,idle,stream", "triggers": str(triggers)}
        with _client(session, "spark-trigger", ours, count, 100, flags) as runner:
            pids = ours.pid, pid
            return [
                _judge(session, "spark-trigger-idle", "ms", at_most(1.2), runner, ("idle", "ms"), pids),
                _judge(session, "spark-trigger-10k", "ms", at_most(1.2), runner, ("stream", "ms"), pids),
            ]


def spark_sink(session: Session) -> list[Figure]:
    """A batch write of 500,000 rows of 100 bytes, against Spark's Kafka sink."""
    count = session.scale.of(500_000, QUEUES)
    with _beside_kafka(session, "spark-sink", start_ours, 0, 100) as (ours, address, pid):
        flags = {"kafka": address, "warm": "write,write", "fill": ""}
        with _client(session, "spark-sink", ours, count, 100, flags) as runner:
            return [_judge(session, "spark-sink", "rows/s", at_least(1.0), runner, ("write", "rate"), (ours.pid, pid))]


def spark_exactly_once(session: Session) -> list[Figure]:
    """A stream of 200,000 rows from a topic into a topic: exactly once (ours), and at least once (peer)."""
    count = session.scale.of(200_000, BATCH * QUEUES)
    with (
        session.work() as work,
        _filled(session, "spark-exactly-once", start_ours, work, count, 100) as ours,
        _client(session, "spark-exactly-once", ours, count, 100, {"warm": "deliver", "sides": _GUARANTEES}) as runner,
    ):
        runs = [lambda g=g: float(runner.run(f"deliver {g}")["rate"]) for g in _GUARANTEES.split(",")]
        values = session.in_turn("spark-exactly-once", "rows/s", *runs)
    return [Figure("spark-exactly-once", "rows/s", at_least(0.5), *values)]


def spark_cores(session: Session) -> list[Figure]:
    """A batch read of 4M messages of 100 bytes with two cores for broker and Spark (ours), and with one (peer)."""
    count = session.scale.of(4_000_000, BATCH * QUEUES)
    warm = {"warm": ",".join(["read"] * _WARM_READS)}
    with (
        session.work() as work,
        _filled(session, "spark-cores", start_ours, work, count, 100) as ours,
        _client(session, "spark-cores", ours, count, 100, {**warm, "cores": "2"}) as two,
        _client(session, "spark-cores", ours, count, 100, {**warm, "cores": "1"}) as one,
    ):

        def run(cores: int, runner: Runner) -> float:
            keep_to(cores, ours.pid)
            return float(runner.run("read ours")["rate"])

        values = session.in_turn("spark-cores", "rows/s", lambda: run(2, two), lambda: run(1, one))
    return [Figure("spark-cores", "rows/s", at_least(1.6), *values)]


def spark_memory(session: Session) -> list[Figure]:
    """Private memory of a Python worker after a read of 20M messages of 100 bytes (ours), and of 1M (peer)."""
    most = session.scale.of(20_000_000, BATCH * QUEUES)
    few = most // 20 // (BATCH * QUEUES) * (BATCH * QUEUES)

    def run(count: int) -> float:
        with (
            session.work() as work,
            _filled(session, "spark-memory", start_ours, work, count, 100) as ours,
            _client(session, "spark-memory", ours, count, 100, {"warm": ""}) as runner,
        ):
            return float(runner.run("memory ours")["mib"])

    values = session.in_turn("spark-memory", "MiB", lambda: run(most), lambda: run(few))
    return [Figure("spark-memory", "MiB", at_most(1.1), *values)]


def spark_queues(number: int) -> Callable[[Session], list[Figure]]:
    """Return the row about batch reads of a topic with many queues."""

    def row(session: Session) -> list[Figure]:
        """Batch reads of 1M messages of 100 bytes: in 1,000 or 8,000 queues (ours), and in 8 (peer)."""
        name = f"spark-queues-{number}"
        load = Load("batch", 16, queues=number, size=100, each=_EACH)
        count = session.scale.of(1_000_000, _EACH * number)
        flags = {"warm": "read,read"}
        with session.work() as work, _filled(session, name, start_ours, work, 0, 100) as server:
            for one in (load, replace(load, topic=f"{TOPIC}-few", queues=_FEW)):
                store(session, server, one, count)
            with (
                _client(session, name, server, count, 100, flags) as many,
                _client(session, name, server, count, 100, {**flags, "topic": f"{TOPIC}-few"}) as few,
            ):
                runs = [lambda r=runner: float(r.run("read ours")["seconds"]) for runner in (many, few)]
                values = session.in_turn(name, "s", *runs)
        return [Figure(name, "s", at_most(1.5), *values)]

    return row


def spark_far(work: str, peer: str) -> Callable[[Session], list[Figure]]:
    """Return a row: batch reads or writes at a round trip of 20 ms.

    :param work: ``read`` or ``write``.
    :param peer: ``near``, our source or sink at a broker without a delay; or ``kafka``, Kafka's behind the same one.
    """

    def row(session: Session) -> list[Figure]:
        name = f"distance-spark-{work}" + ("-kafka" if peer == "kafka" else "")
        count = session.scale.of({"read": 1_000_000, "write": 500_000}[work], BATCH * QUEUES)
        stored = count if work == "read" else 0
        with ExitStack() as stack:
            place = stack.enter_context(session.work())
            ours = stack.enter_context(_far(session, name, place, stored))
            if peer == "kafka":
                direct, pid = stack.enter_context(kafka(place, QUEUES, FAR))
                other = f"{FAR}:{direct.rpartition(':')[2]}"
                stack.enter_context(delayed(session, place, other, direct, _FAR_MS))
            else:
                (place / "near").mkdir()
                near = stack.enter_context(_filled(session, name, start_ours, place / "near", stored, 100))
                other, pid = near.namesrv, near.pid
            flags = {peer: other, "warm": f"{work},{work}"} | ({} if stored else {"fill": ""})
            runner = stack.enter_context(_client(session, name, ours, count, 100, flags))
            floor = at_least(2.0 if peer == "kafka" else 0.8)
            return [_judge(session, name, "rows/s", floor, runner, (work, "rate"), (ours.pid, pid), peer)]

    return row


@contextmanager
def _far(session: Session, name: str, work: Path, count: int) -> Iterator[Server]:
    """Run our broker behind a delay, filled with ``count`` messages of 100 bytes without it."""

    def start(place: Path) -> Server:
        server = start_ours(place, {"brokerIP1": FAR, "bindAddress": "127.0.0.1"})
        return replace(server, broker=f"127.0.0.1:{server.broker.rpartition(':')[2]}")

    with _filled(session, name, start, work, count, 100) as server:
        far = f"{FAR}:{server.broker.rpartition(':')[2]}"
        with delayed(session, work, far, server.broker, _FAR_MS):
            yield server


@contextmanager
def _beside_kafka(
    session: Session, name: str, start: Start, count: int, size: int
) -> Iterator[tuple[Server, str, int]]:
    """Run a filled RocketMQ broker and a Kafka broker during the block.

    The block gets the first one's server, and Kafka's address and process id.
    """
    with session.work() as work, _filled(session, name, start, work, count, size) as ours:
        session.tell(f"{name}: starting Kafka")
        with kafka(work, QUEUES) as (address, pid):
            yield ours, address, pid


@contextmanager
def _filled(session: Session, name: str, start: Start, work: Path, count: int, size: int) -> Iterator[Server]:
    session.tell(f"{name}: starting a broker, filling it with {count:,} messages of {size} bytes")
    server = start(work)
    try:
        with Control(server.broker) as control:
            control.create_topic(TOPIC, QUEUES)
            control.create_topic(f"{TOPIC}-out", QUEUES)
        if count:
            store(session, server, Load("batch", 16, queues=QUEUES, size=size, each=BATCH), count)
        yield server
    finally:
        server.kill()


@contextmanager
def _client(
    session: Session, name: str, ours: Server | None, count: int, size: int, flags: dict[str, str]
) -> Iterator[Runner]:
    """Run a warmed up ``spark_client`` during the block.

    :param ours: our server; None if only other sides are measured.
    :param flags: options of ``spark_client`` besides those that all rows share.
    """
    session.tell(f"{name}: starting Spark, warming it")
    jars = ",".join(str(jar) for jar in sorted((packages() / "spark").glob("*.jar"))) if "kafka" in flags else ""
    shared = {"topic": TOPIC, "jars": jars, "n": count, "size": size, "partitions": QUEUES}
    if ours is not None:
        shared["ours"] = ours.namesrv
    no_fill = ["--no-fill"] if flags.pop("fill", None) == "" else []
    words = [word for key, value in {**shared, **flags}.items() for word in (f"--{key}", str(value))]
    with session.work() as work:
        command = [sys.executable, "-m", "benchmarks.spark_client", *words, *no_fill]
        with Program(command, work / "spark.log") as program:
            yield Runner(program, warm_timeout=_WARM_SECONDS, run_timeout=_WARM_SECONDS)


def _judge(
    session: Session,
    name: str,
    unit: str,
    floor: Floor,
    runner: Runner,
    what: tuple[str, str],
    pids: tuple[int, int],
    peer: str = "kafka",
) -> Figure:
    """Do runs of both sides in turn, with the server of the other side paused; return the figure of the values.

    :param what: the work to do, and the key of the value in its row.
    :param pids: process ids of our server and of the peer's.
    :param peer: the other side.
    """
    work, key = what

    def run(side: str, server: int, idle: int) -> float:
        with paused(idle):
            settle(server)
            return float(runner.run(f"{work} {side}")[key])

    ours, other = pids
    values = session.in_turn(name, unit, lambda: run("ours", ours, other), lambda: run(peer, other, ours))
    return Figure(name, unit, floor, *values)
