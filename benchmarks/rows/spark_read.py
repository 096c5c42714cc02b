"""The row that judges the data source: Spark reads the same backlog from our broker and from Kafka's, in turn."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.control import Control
from benchmarks.figures import Figure, at_least
from benchmarks.frames import batch_requests, queue_shares
from benchmarks.kafka_server import kafka, packages
from benchmarks.load import Load
from benchmarks.machine import paused, settle
from benchmarks.program import Program, Runner
from benchmarks.servers import Server, start_ours
from benchmarks.session import Session

TOPIC = "bench"
QUEUES = 4
SIZE = 100
BATCH = 32
_MESSAGES = 1_000_000
_WARM_READS = 4


def spark_read(session: Session) -> list[Figure]:
    """A batch read of 1M messages of 100 bytes in 4 queues, against Spark's Kafka source and a Kafka broker."""
    count = session.scale.of(_MESSAGES, BATCH * QUEUES)
    session.tell("spark-read: starting our broker and Kafka")
    with session.work() as work:
        ours = start_ours(work)
        try:
            _fill(ours, count)
            with kafka(work, QUEUES) as (address, pid):
                return [_judge(session, work, ours, address, pid, count)]
        finally:
            ours.kill()


def _fill(server: Server, count: int) -> None:
    with Load(server.broker) as load, Control(server.broker) as control:
        control.create_topic(TOPIC, QUEUES)
        requests = batch_requests(TOPIC, QUEUES, SIZE, BATCH)
        load.drive(requests, count // BATCH, 16)
        control.expect_offsets(TOPIC, [share * BATCH for share in queue_shares(count // BATCH, QUEUES)])


def _judge(session: Session, work: Path, ours: Server, kafka_address: str, kafka_pid: int, count: int) -> Figure:
    session.tell(f"spark-read: filling Kafka with {count:,} messages, warming Spark with {_WARM_READS} reads of each")
    jars = ",".join(str(jar) for jar in sorted((packages() / "spark").glob("*.jar")))
    command = [
        sys.executable, "-m", "benchmarks.spark_client", "--ours", ours.namesrv, "--kafka", kafka_address,
        "--topic", TOPIC, "--jars", jars, "--n", str(count), "--size", str(SIZE), "--partitions", str(QUEUES),
        "--warm", str(_WARM_READS),
    ]  # fmt: skip
    with Program(command, work / "spark.log") as program:
        runner = Runner(program, warm_timeout=600)

        def read(side: str, server: int, idle: int) -> float:
            with paused(idle):
                settle(server)
                return float(runner.run(side)["rate"])

        values = session.in_turn(
            "spark-read",
            "rows/s",
            lambda: read("ours", ours.pid, kafka_pid),
            lambda: read("kafka", kafka_pid, ours.pid),
        )
    return Figure("spark-read", "rows/s", at_least(1.0), *values)
