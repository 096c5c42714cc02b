"""Stops and continues (SIGSTOP, SIGCONT) the processes of a stream, and counts rows: ``python -m tests.spark.stops``.

A stream copies a topic into Parquet files while a producer sends. In each round some processes are stopped at once:
Spark's JVM, its Python workers, all of Spark, the master, the slave, the name server, or everything; after a random
time they continue. Then the producer pauses, the stream catches up, and the files must hold every offset of every queue
once and every acknowledged message. In a round called ``replaced`` another driver takes the query over while the first
one is stopped, and both run for a while when that continues.

Servers are ours, or with ``--java`` stock ones. With ``--slave`` the master suggests its slave to readers, so that most
messages are read there. With ``--acting`` the slave acts for a master that is away, and the master waits for its slave
before it acknowledges a message. All timeouts of Spark, clients and servers are a tenth of their defaults, and so are
the stops: 0.5 to 25 s stand for 5 to 250 s. With ``STOPS_FULL_TIME=1`` in the environment nothing is shortened.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow.parquet as pq

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.errors import RocketMQError
from tests.interop.ours import first_line
from tests.spark.stop_servers import FULL_TIME, QUEUES, TOPIC, Servers, eventually, java_servers, our_servers

ROOT = Path(__file__).parents[2]
PAUSES = (5.0, 250.0) if FULL_TIME else (0.5, 25.0)
"""Seconds: the shortest and the longest time processes are stopped."""
SEND_SECONDS = 180.0
"""In this time after a stop a producer must be able to send again."""
VICTIMS = ("jvm", "workers", "spark", "master", "slave", "brokers", "namesrv", "all", "replaced")
MESSAGES_AT_ONCE = 20
SPARK = {
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.fileSink.log.compactInterval": "7",
}
"""Small logs of the sink, so that some are compacted."""
QUICK = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "12s",
    "spark.network.timeoutInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "12s",
    "spark.rpc.askTimeout": "12s",
}
"""A tenth of the defaults."""


class Entry(NamedTuple):
    """Where a row was read."""

    queue: int
    offset: int


# -- the producer


class Load:
    """A thread that sends numbers; knows which were acknowledged."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: set[int] = set()
        self.last_error: RocketMQError | None = None
        self._namesrv = namesrv
        self._next = 0
        self._may_send = threading.Event()
        self._paused = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        self._paused.clear()
        self._may_send.set()

    def pause(self) -> None:
        """Returns when nothing is being sent any more."""
        self._may_send.clear()
        self._paused.wait()

    def stop(self) -> None:
        self._over = True
        self._may_send.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer("stops", self._namesrv, send_timeout=2, retries=0) as producer:
            while not self._over:
                if not self._may_send.is_set():
                    self._paused.set()
                    self._may_send.wait()
                    continue
                self._send(producer)
                time.sleep(0.02)  # about a thousand messages a second

    def _send(self, producer: Producer) -> None:
        numbers = range(self._next, self._next + MESSAGES_AT_ONCE)
        self._next += MESSAGES_AT_ONCE
        try:
            producer.send_batch([Message(TOPIC, b"%d" % number) for number in numbers])
        except RocketMQError as e:
            self.last_error = e
            return  # they may be stored, or not
        self.acknowledged.update(numbers)


# -- the driver


def drive(namesrv: str, work: Path) -> None:
    """Runs the query for ever: started again in the same session when it fails; says why on standard output."""
    from pyspark.errors import PySparkException

    from rocketmq_py.spark import session_builder

    settings = SPARK if FULL_TIME else SPARK | QUICK
    spark = session_builder("stops", compiled_home=True).master("local[3]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print("READY", spark.sparkContext._gateway.proc.pid, flush=True)
    options = {
        "namesrv": namesrv, "subscribe": TOPIC, "startingOffsets": "earliest",
        "requestTimeoutMs": "10000" if FULL_TIME else "1000",
        "pollNameServerIntervalMs": "3000", "columns": "queueId,queueOffset,body",
    }  # fmt: skip
    while True:
        frame = spark.readStream.format("rocketmq").options(**options).load()
        query = (
            frame.writeStream.format("parquet").option("path", str(work / "rows"))
            .option("checkpointLocation", str(work / "checkpoint")).trigger(processingTime="300 milliseconds").start()
        )  # fmt: skip
        try:
            query.awaitTermination()
        except PySparkException as e:
            print("FAILED", reason(str(e)), flush=True)
        if spark.sparkContext._jsc.sc().isStopped():
            return


def reason(text: str) -> str:
    """What a failure of Spark's says in one line: the error of ours in it, if there is one."""
    ours = re.findall(r"rocketmq_py\.\S+(?:Error|Exception|Loss|Lag|Lost|Timeout|Closed): .*", text)
    return " ".join((ours[-1] if ours else text).split())[:400]


class Driver:
    """The process of :func:`drive`, started again when it ends; ``failures`` are those of the query."""

    def __init__(self, namesrv: str, work: Path) -> None:
        self._namesrv, self._work = namesrv, work
        self.failures: list[str] = []
        self.starts = 0
        self._over = False
        self._begin()

    def _begin(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.starts += 1
        with (self._work / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.stops", "--drive", self._namesrv, str(self._work)],
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        words = first_line(self._process).split()
        assert words[:1] == ["READY"], (self._work / "driver.log").read_text()[-3000:]
        self._jvm = int(words[1])
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.failures.append(line.strip())

    def ensure(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            self._close()
            self._begin()

    def pids(self, which: str) -> list[int]:
        """Its processes: the JVM, the Python processes of the JVM, or all."""
        workers = descendants(self._jvm)
        return {"jvm": [self._jvm], "workers": workers, "spark": [self._process.pid, self._jvm, *workers]}[which]

    def stop(self) -> None:
        pids = self.pids("spark")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def descendants(pid: int) -> list[int]:
    """The processes a process has started, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        new = children.get(left.pop(), [])
        found += new
        left += new
    return found


# -- what is in the files


class Rows:
    """The rows of the Parquet files that Spark's sink has committed."""

    def __init__(self, work: Path) -> None:
        self._log = work / "rows" / "_spark_metadata"
        self._checkpoint = work / "checkpoint"
        self._read: dict[str, list[tuple[Entry, int]]] = {}

    def ends(self) -> dict[int, int]:
        """Where the last micro-batch that was committed ends in each queue."""
        commits = [int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")]
        if not commits:
            return {}
        lines = (self._checkpoint / "offsets" / str(max(commits))).read_text().split("\n")
        return {int(queue): end for queue, end in json.loads(lines[2])[TOPIC]["broker-a"].items()}

    def found(self) -> tuple[Counter[Entry], set[int]]:
        """How often each offset is there, and the numbers sent."""
        entries: Counter[Entry] = Counter()
        bodies: set[int] = set()
        for path in self._files():
            if path not in self._read:
                table = pq.read_table(path, partitioning=None).to_pydict()
                places = map(Entry, table["queueId"], table["queueOffset"])
                self._read[path] = [(place, int(body)) for place, body in zip(places, table["body"], strict=True)]
            entries.update(entry for entry, _ in self._read[path])
            bodies.update(body for _, body in self._read[path])
        return entries, bodies

    def _files(self) -> set[str]:
        """What the log of the sink names: the last compact file, and everything later."""
        numbers = {int(path.name.partition(".")[0]): path for path in self._log.glob("[0-9]*")}
        numbers |= {int(path.name.partition(".")[0]): path for path in self._log.glob("*.compact")}
        compact = max((number for number, path in numbers.items() if path.suffix), default=0)
        lines = [
            line for number in numbers if number >= compact for line in numbers[number].read_text().split("\n")[1:]
        ]
        return {json.loads(line)["path"].removeprefix("file://") for line in lines if line}


# -- the rounds


class Rounds:
    """A cluster, a stream and a producer through many rounds."""

    def __init__(
        self, work: Path, servers: Servers, seed: int, longest: float = PAUSES[1], victims: Sequence[str] = VICTIMS
    ) -> None:
        self._servers, self._chance, self._longest = servers, random.Random(seed), longest
        self._victims = victims
        self._work = work
        self._load = Load(servers.namesrv)
        self._driver = Driver(servers.namesrv, work)
        self._rows = Rows(work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._load.stop()
        self._driver.stop()

    def round(self) -> str:
        """One stop, and what follows; says what it was.

        :raises AssertionError: a row is missing or there twice, or the stream does not go on.
        """
        victim = self._chance.choice(self._victims)
        seconds = self._chance.uniform(PAUSES[0] ** 0.5, self._longest**0.5) ** 2
        driver = self._driver
        failures, starts = len(driver.failures), driver.starts
        self._load.resume()
        time.sleep(self._chance.uniform(0.2, 2.5))  # a random moment of a micro-batch
        if victim == "replaced":
            self._replace(seconds)
        else:
            with stopped(self._pids(victim)):
                time.sleep(seconds)
        time.sleep(self._chance.uniform(0, 2))
        self._wait_for_sends()
        self._load.pause()
        count = self.check()
        failed = [*driver.failures[failures:], *["driver started again"] * (driver.starts - starts)]
        return f"{victim} for {seconds:.1f} s, {count} rows" + "".join(f"\n    {line[:220]}" for line in failed)

    def _replace(self, seconds: float) -> None:
        """Start another driver while the first one is stopped; both run for a few seconds after that."""
        first = self._driver
        with stopped(first.pids("spark")):
            self._driver = Driver(self._servers.namesrv, self._work)
            time.sleep(seconds)
        time.sleep(self._chance.uniform(1, 8))
        first.stop()

    def _wait_for_sends(self) -> None:
        """:raises AssertionError: the producer does not get anything stored any more."""
        before, deadline = len(self._load.acknowledged), time.monotonic() + SEND_SECONDS
        while len(self._load.acknowledged) == before:
            assert time.monotonic() < deadline, f"nothing is sent any more: {self._load.last_error}"
            time.sleep(0.05)

    def _pids(self, victim: str) -> list[int]:
        pids = self._servers.pids
        spark = self._driver.pids(victim if victim in ("jvm", "workers") else "spark")
        servers = {"brokers": ["master", "slave"], "all": list(pids)}.get(victim, [victim] if victim in pids else [])
        return [*(spark if victim in ("jvm", "workers", "spark", "all") else []), *(pids[name] for name in servers)]

    def check(self) -> int:
        """Wait until the stream has read everything, and count."""
        ends = self._ends_of_master()
        eventually(lambda: self._has_reached(ends))
        entries, bodies = self._rows.found()
        expected = {Entry(queue, offset) for queue, end in self._rows.ends().items() for offset in range(end)}
        missing, twice = sorted(expected - entries.keys()), [entry for entry, n in entries.items() if n > 1]
        assert not missing, f"{len(missing)} of {len(expected)} rows are missing: {_ranges(missing)}"
        assert not twice, f"{len(twice)} of {len(expected)} rows are there more than once: {_ranges(sorted(twice))}"
        lost = self._load.acknowledged - bodies
        assert not lost, f"{len(lost)} acknowledged messages are in no row: {sorted(lost)[:20]}"
        return len(entries)

    def _ends_of_master(self) -> dict[int, int]:
        found: dict[int, int] = {}

        def ask() -> bool:
            with Admin(self._servers.namesrv) as admin:
                found.update({queue.queue_id: admin.max_offset(queue) for queue in admin.queues(TOPIC)})
                return len(found) == QUEUES

        eventually(ask)
        return found

    def _has_reached(self, ends: dict[int, int]) -> bool:
        self._driver.ensure()
        reached = self._rows.ends()
        return all(reached.get(queue, 0) >= end for queue, end in ends.items())


def _ranges(entries: list[Entry]) -> str:
    """Offsets as ranges, by queue; the first ones."""
    found: list[list[int]] = []
    for queue, offset in entries:
        if found and found[-1][0] == queue and found[-1][2] == offset:
            found[-1][2] += 1
        else:
            found.append([queue, offset, offset + 1])
    return ", ".join(f"queue {queue} [{start}, {stop})" for queue, start, stop in found[:10])


@contextlib.contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes stand still for the time of the block."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--java", action="store_true", help="brokers and name server of Apache RocketMQ")
    parser.add_argument("--slave", action="store_true", help="the master suggests its slave to readers")
    parser.add_argument("--acting", action="store_true", help="the slave acts for a master that is away")
    parser.add_argument("--longest", type=float, default=PAUSES[1], help="seconds of the longest stop")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS, help="what is stopped")
    parser.add_argument("--keep", type=Path, help="a folder for logs and rows that stays")
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(given.drive[0], Path(given.drive[1]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and what was started, too
    with contextlib.ExitStack() as stack:
        work = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stops-")))
        work.mkdir(parents=True, exist_ok=True)
        make: Any = java_servers if given.java else our_servers
        print(f"{given.runs} runs, --seed {given.seed}", flush=True)
        servers = stack.enter_context(make(work, slave_reads=given.slave, acting=given.acting))
        rounds = stack.enter_context(Rounds(work, servers, given.seed, given.longest, given.victims))
        for number in range(1, given.runs + 1):
            begun = time.monotonic()
            print(f"{number}: {rounds.round()}, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
