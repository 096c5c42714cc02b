"""``kill -9`` in every phase of a micro-batch, again and again: ``python -m tests.spark.crashes --runs 100``.

A stream copies a topic into another, both in one broker, ours or with ``--java`` a stock one. In each run the driver
(JVM and Python), the Python worker that gets there or the broker is killed in a phase of a micro-batch; the query is
started again until it has copied everything, and what is in the other topic is held against what was sent: every row
once (``--guarantee exactly-once``), or at least once. ``CRASHES_CHECKPOINT`` may name a checkpoint elsewhere. Knows
processes and phases; the fault points are in ``crashing``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from rocketmq_py.errors import RocketMQError
from tests.spark.crash_servers import JavaServer, OurServer, Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PHASES = ("latestOffset", "partitions", "read", "write", "stored", "commit")
EXACT_PHASES = (*PHASES, "decided", "ends", "committed")
"""``write``: among the rows of a task; ``stored``: when all of them are, and it has not said so; ``decided``: after the
decision; ``ends``: when the rows of one task are committed; ``committed``: when all are."""
VICTIMS = ("driver", "worker", "broker")
ROWS = 40
ROWS_AT_ONCE = 20
QUEUES = 2
"""And tasks: there is something between the ends of one and those of the other."""
BATCH_BYTES = 300
"""Of a row or two: some are under way while a task writes."""
SECONDS = 600.0
"""Longer than anything takes; only what fails waits for it."""
ATTEMPTS = 10
"""How often the query is started after one crash: on a busy machine Spark may be too impatient with its own workers."""
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
}
"""A driver that is killed soon does not compile its code well, and waits for workers on a busy machine."""
ELSEWHERE = "CRASHES_CHECKPOINT"
"""Names a checkpoint on HDFS or in an object store; what Spark needs for that is in PYSPARK_SUBMIT_ARGS."""
ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """What is killed when."""

    phase: str
    victim: str


class Topics:
    """The topic that is read and the one that is written; what was sent and what has arrived."""

    def __init__(self, namesrv: str, source: str = "in", sink: str = "out") -> None:
        from rocketmq_py import Admin

        self.namesrv, self.source, self.sink = namesrv, source, sink
        self.sent = 0
        with Admin(namesrv) as admin:
            for topic in (source, sink):
                admin.create_topic(topic, QUEUES)
            _eventually(lambda: all(len(admin.queues(topic)) == QUEUES for topic in (source, sink)))

    def send(self, number: int = ROWS) -> None:
        """Send some more numbers."""
        from rocketmq_py import Message, Producer

        with Producer("crashes", self.namesrv, send_timeout=60) as producer:
            for body in range(self.sent, self.sent + number):
                producer.send(Message(self.source, str(body).encode()))
        self.sent += number

    def arrived(self) -> Counter[int]:
        """How often each number is in the other topic."""
        from rocketmq_py import Admin

        with Admin(self.namesrv) as admin:
            return Counter(int(m.body) for queue in admin.queues(self.sink) for m in admin.read(queue))

    def check(self, exactly_once: bool) -> None:
        """:raises AssertionError: a row is missing, or there twice although that must not be."""
        arrived = self.arrived()
        missing = sorted(set(range(self.sent)) - arrived.keys())
        twice = {number: times for number, times in arrived.items() if times > 1}
        assert not missing, f"{len(missing)} of {self.sent} rows are missing: {missing[:20]}"
        assert not (exactly_once and twice), f"{len(twice)} of {self.sent} rows are there more than once: {twice}"


def _eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(RocketMQError):
            if look():
                return
        assert time.monotonic() < deadline
        time.sleep(0.1)


# -- the driver, in a process of its own


def options(namesrv: str, work: Path, guarantee: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of the read and of the write."""
    shared = {"namesrv": namesrv, "faults": str(work / "faults")}
    checkpoint = os.environ.get(ELSEWHERE) or str(work / "checkpoint")
    read = {
        "subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS_AT_ONCE),
        "minPartitions": str(QUEUES),
    }  # fmt: skip
    write = {
        "topic": "out", "deliveryGuarantee": guarantee, "checkpointLocation": checkpoint,
        "maxBatchBytes": str(BATCH_BYTES),
    }  # fmt: skip
    return shared | read, shared | write


def drive(namesrv: str, work: Path, guarantee: str) -> None:
    """Runs the query for every line it is given, and says how that ended."""
    from rocketmq_py.spark import session_builder
    from tests.spark.crashing import CrashingDataSource

    spark = session_builder("crashes", compiled_home=True).master("local[2]").config(map=SHORT_LIVED).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(CrashingDataSource)
    print("READY", spark.sparkContext._gateway.proc.pid, flush=True)
    for _ in sys.stdin:
        print(copy(spark, namesrv, work, guarantee), flush=True)


def copy(spark: SparkSession, namesrv: str, work: Path, guarantee: str) -> str:
    """Run the query until it has copied what there is, or fails; ``DONE``, or ``FAILED`` and why."""
    from pyspark.errors import PySparkException

    from tests.spark.crashing import FORMAT

    read, write = options(namesrv, work, guarantee)
    frame = spark.readStream.format(FORMAT).options(**read).load().select("body")
    query = frame.writeStream.format(FORMAT).options(**write).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except PySparkException as e:
        return "FAILED " + str(e).replace("\n", " ")[:3000]
    return "DONE"


class Drives(Protocol):
    """A driver: what the runs ask of it."""

    pids: tuple[int, ...]

    def run(self) -> str:
        """Run the query; ``DONE``, ``FAILED`` and why, or nothing when the driver has died."""
        ...

    def stop(self) -> None: ...


class Driver:
    """The driver's processes: this module's ``--drive``, and its JVM."""

    def __init__(self, server: Server, work: Path, guarantee: str) -> None:
        command = [sys.executable, "-m", "tests.spark.crashes", "--drive", server.namesrv, str(work), guarantee]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        with (work / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        words = self._line().split()
        assert words[:1] == ["READY"], (work / "driver.log").read_text()[-3000:]
        self.pids: tuple[int, ...] = (self.process.pid, int(words[1]))

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def run(self) -> str:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("run\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._line().strip()

    def stop(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


# -- the runs


class Runs:
    """Server, driver and topics of many runs."""

    def __init__(
        self, work: Path, guarantee: str, drive: Callable[[Server, Path, str], Drives] = Driver,
        serve: Callable[[Path], Server] = OurServer,
    ) -> None:  # fmt: skip
        from tests.spark.crashing import Faults

        self._work, self._guarantee, self._new_driver = work, guarantee, drive
        (work / "faults").mkdir(parents=True)
        self.faults = Faults(work / "faults")
        self.server = serve(work)
        self.topics = Topics(self.server.namesrv)
        self._driver: Drives | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.stop()
        self.server.stop()

    def driver(self) -> Drives:
        """The one that lives."""
        if self._driver is None:
            self._driver = self._new_driver(self.server, self._work, self._guarantee)
        return self._driver

    def run(self, case: Case) -> bool:
        """One crash, and what follows; whether the phase was reached."""
        self.topics.send()
        driver = self.driver()
        victims = {"driver": driver.pids[::-1], "worker": ("self",), "broker": (self.server.pid,)}[case.victim]
        self.faults.arm(case.phase, *victims)
        guard = self._guard() if case.victim == "broker" else contextlib.nullcontext()
        with guard:
            said = driver.run()
            for _ in range(ATTEMPTS):
                if said == "DONE" and self.topics.arrived().keys() >= set(range(self.topics.sent)):
                    break
                if not said:
                    driver.stop()
                    self._driver = None
                    driver = self.driver()
                said = driver.run()
            else:
                raise AssertionError(f"{case}, and {ATTEMPTS} attempts later: {said}")
            left = self.faults.disarm()
        self.topics.check(exactly_once=self._guarantee == "exactly-once")
        return not left

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Starts the broker again as soon as it is dead."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.05):
                if self.server.is_dead():
                    self.server.begin_again()
                    return

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def cases(guarantee: str, chance: random.Random) -> Iterator[Case]:
    """Every phase with every victim, in another order each time round, without end."""
    phases = EXACT_PHASES if guarantee == "exactly-once" else PHASES
    every = [Case(phase, victim) for phase in phases for victim in VICTIMS]
    while True:
        chance.shuffle(every)
        yield from every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--guarantee", choices=("exactly-once", "at-least-once"), default="exactly-once")
    parser.add_argument("--java", action="store_true", help="a broker and a name server of Apache RocketMQ")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--first", type=int, default=1, help="go on with this run of the order the seed gives")
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(given.drive[0], Path(given.drive[1]), given.drive[2])
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and what was started, too
    serve: Callable[[Path], Server] = JavaServer if given.java else OurServer
    print(f"{given.runs} runs, {given.guarantee}, {serve.__name__}, --seed {given.seed}", flush=True)
    numbers = range(given.first, given.first + given.runs)
    order = islice(cases(given.guarantee, random.Random(given.seed)), given.first - 1, None)
    with tempfile.TemporaryDirectory(prefix="crashes-") as work, Runs(Path(work), given.guarantee, serve=serve) as runs:
        for number, case in zip(numbers, order, strict=False):
            begun = time.monotonic()
            reached = runs.run(case)
            note = "" if reached else ", a phase that was not reached"
            print(f"{number}: {case.victim} in {case.phase}{note}, {time.monotonic() - begun:.0f} s", flush=True)
        print(f"{runs.topics.sent} rows, {sum(runs.topics.arrived().values())} messages", flush=True)


if __name__ == "__main__":
    main()
