"""``python -m benchmarks.spark_client``: a Spark session that reads, streams or writes on demand, with ours or Kafka's.

Both sources and both sinks run in one warm JVM; rows have all columns that their source has by default. The program
prints ``{"type": "waiting"}``; a line ``<work> <side>`` on stdin (``read ours``, ``stream kafka``, ``deliver
exactly-once``) starts one run, which prints one row.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from benchmarks.machine import anonymous_mib, keep_to
from benchmarks.spark_floor import FloorDataSource
from rocketmq_py.spark import session_builder

_FORMAT = {"ours": "rocketmq", "near": "rocketmq", "store": "rocketmq", "kafka": "kafka", "floor": "floor"}
_ADDRESS = {"ours": "namesrv", "near": "namesrv", "store": "storePath", "kafka": "kafka.bootstrap.servers",
            "floor": "size"}  # fmt: skip
_ROWS_PER_SECOND = 10_000
_WARM_TRIGGERS = 5
_ROWS_PER_BATCH = 25_000


def session(jars: str, cores: int) -> SparkSession:
    """Return a session with ``cores`` task slots and the packages of the Kafka source."""
    spark: SparkSession = (
        session_builder(compiled_home=True).master(f"local[{cores}]").appName("benchmarks")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FloorDataSource)
    return spark


@dataclass
class Client:
    """The session and settings that all runs share.

    ``addresses`` has the address of our name server (``ours``) or a directory (``store``), and if used of another name
    server of ours, whose broker is not behind a delay (``near``), and of Kafka's bootstrap server (``kafka``). Side
    ``floor`` has the bytes of a body.
    """

    spark: SparkSession
    addresses: dict[str, str]
    topic: str
    n: int
    size: int
    partitions: int
    triggers: int

    def read(self, side: str) -> dict[str, Any]:
        """Read the topic in one batch query, into the noop sink."""
        begin = time.perf_counter()
        self.source(side).write.format("noop").mode("overwrite").save()
        return self._rate(begin)

    def write(self, side: str, **options: str) -> dict[str, Any]:
        """Write ``n`` rows of ``size`` bytes in one batch query, by as many tasks as there are queues."""
        rows = self._values("value" if side == "kafka" else "body")
        begin = time.perf_counter()
        self._writer(rows, side).options(**options).option("topic", f"{self.topic}-out").save()
        return self._rate(begin)

    def deliver(self, guarantee: str) -> dict[str, Any]:
        """Stream the topic into another one of our broker, in micro-batches of ``_ROWS_PER_BATCH``."""
        with tempfile.TemporaryDirectory(prefix="rocketmq-bench-checkpoint-") as checkpoint:
            stream = self._options(self.spark.readStream, "ours").option("startingOffsets", "earliest")
            rows = stream.option("maxOffsetsPerTrigger", str(_ROWS_PER_BATCH)).schema("body binary").load()
            writer = rows.writeStream.format("rocketmq").option("namesrv", self.addresses["ours"])
            begin = time.perf_counter()
            (
                writer.option("topic", f"{self.topic}-out").option("checkpointLocation", checkpoint)
                .option("deliveryGuarantee", guarantee)
                .trigger(availableNow=True).start().awaitTermination()
            )  # fmt: skip
            return self._rate(begin)

    def idle(self, side: str) -> dict[str, Any]:
        """Stream without pauses with ten rows per trigger; return the median time of these almost empty triggers."""
        return self._stream(side, 10, "0 seconds")

    def stream(self, side: str) -> dict[str, Any]:
        """Stream with a trigger per second of 10,000 rows each; return the median time of a trigger."""
        return self._stream(side, _ROWS_PER_SECOND, "1 second")

    def memory(self, side: str) -> dict[str, Any]:
        """Return the private memory in MiB of the largest Python worker after a read of the topic."""
        self.read(side)
        workers = [pid for pid in _descendants(os.getpid()) if b"pyspark.daemon" in _command_line(pid)]
        return {"mib": round(max(map(anonymous_mib, workers)), 1), "workers": len(workers)}

    def source(self, side: str) -> DataFrame:
        """Return a data frame of the topic."""
        return self._options(self.spark.read, side).load()

    def fill(self) -> None:
        """Write ``n`` values to Kafka, equally to all partitions, and check that each side has ``n`` rows."""
        if "kafka" in self.addresses:
            rows = self._values("value", f"cast(id % {self.partitions} as int) partition")
            self._writer(rows, "kafka").option("topic", self.topic).save()
        for side in self.addresses.keys() - {"floor"}:
            if (found := self.source(side).count()) != self.n:
                raise click.ClickException(f"{side} has {found} of {self.n} rows")

    def _values(self, name: str, *more: str) -> DataFrame:
        rows = self.spark.range(0, self.n, 1, self.partitions)
        return rows.selectExpr(f"cast(rpad(cast(id as string), {self.size}, 'x') as binary) {name}", *more)

    def _writer(self, rows: DataFrame, side: str) -> DataFrameWriter:
        return rows.write.format(_FORMAT[side]).option(_ADDRESS[side], self.addresses[side]).mode("append")

    def _options(self, reader: Any, side: str) -> Any:
        found = reader.format(_FORMAT[side]).option(_ADDRESS[side], self.addresses[side])
        if side == "floor":
            return found.options(n=self.n, partitions=self.partitions)
        return found.option("subscribe", self.topic)

    def _stream(self, side: str, rows: int, every: str) -> dict[str, Any]:
        """Stream into the noop sink with settings recommended for both sources; return the median time of a trigger."""
        stream = self._options(self.spark.readStream, side).option("startingOffsets", "earliest")
        with tempfile.TemporaryDirectory(prefix="rocketmq-bench-checkpoint-") as checkpoint:
            query = (
                stream.option("maxOffsetsPerTrigger", str(rows)).load().writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .option("asyncProgressTrackingEnabled", "true")
                .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
                .trigger(processingTime=every).start()
            )  # fmt: skip
            try:
                seen = _await_triggers(query, rows, _WARM_TRIGGERS + self.triggers)
            finally:
                query.stop()
        times = [progress["durationMs"]["triggerExecution"] for progress in seen[_WARM_TRIGGERS:]]
        return {"ms": statistics.median(times), "triggers": len(times)}

    def _rate(self, begin: float) -> dict[str, Any]:
        seconds = time.perf_counter() - begin
        return {"n": self.n, "seconds": round(seconds, 3), "rate": round(self.n / seconds)}


def _await_triggers(query: Any, rows: int, number: int) -> list[Any]:
    """Wait for ``number`` triggers with at least half of ``rows``, and return their progress.

    Kafka rounds the number of rows for each partition.
    """
    while True:
        if (error := query.exception()) is not None:
            raise error
        seen = [progress for progress in query.recentProgress if progress["numInputRows"] >= rows // 2]
        if len(seen) >= number:
            return seen[:number]
        time.sleep(0.05)


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _say(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


@click.command()
@click.option("--ours", help="Name server.")
@click.option("--near", help="Another name server of ours, whose broker is not behind a delay.")
@click.option("--store", help="Directory of a store, which is read instead of the broker.")
@click.option("--kafka", help="Bootstrap server; without it there is only one side.")
@click.option("--floor", is_flag=True, help="Also a Python data source that does nothing: side floor.")
@click.option("--topic", required=True)
@click.option("--jars", default="")
@click.option("--n", required=True, type=int, help="Messages in the topic, or rows to write.")
@click.option("--size", required=True, type=int)
@click.option("--partitions", required=True, type=int)
@click.option("--cores", default=2, type=int, help="What Spark may use: task slots, and cores of the machine.")
@click.option("--triggers", default=30, type=int, help="Triggers of a run of a stream.")
@click.option("--fill/--no-fill", default=True, help="Whether the topics hold n messages; Kafka's is filled first.")
@click.option("--sides", help="What works are told before the first run [default: ours, and kafka if it is there].")
@click.option("--warm", required=True, help="Works of each side before the first run, separated by commas.")
def main(jars: str, cores: int, fill: bool, floor: bool, warm: str, sides: str | None, **given: Any) -> None:
    """Measure reads, writes and streams of Spark on demand."""
    addresses = {
        side: address for side in ("ours", "near", "store", "kafka") if (address := given.pop(side)) is not None
    }
    keep_to(cores, os.getpid())  # its JVM and Spark's Python workers, too: local[1] alone keeps two busy
    if floor:
        addresses["floor"] = str(given["size"])
    client = Client(session(jars, cores), addresses, **given)
    if fill:
        client.fill()
    works: dict[str, Callable[[str], dict[str, Any]]] = {
        name: getattr(client, name) for name in ("read", "write", "deliver", "idle", "stream", "memory")
    }
    for side in sides.split(",") if sides else addresses:
        for work in filter(None, warm.split(",")):
            works[work](side)
    _say({"type": "waiting"})
    for line in sys.stdin:
        work, side = line.split()
        _say({"type": "run", "side": side, **works[work](side)})
        _say({"type": "waiting"})
    client.spark.stop()


if __name__ == "__main__":
    main()
