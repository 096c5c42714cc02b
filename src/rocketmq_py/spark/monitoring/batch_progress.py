"""Shows the progress of a batch read on a terminal: rows, rows per second, tasks, time left.

Spark's status store has the rows that a running stage has read; the plan of the read has their total. ``terminal``
writes the line.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import NamedTuple, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.monitoring.terminal import Line, duration
from rocketmq_py.spark.options.options import Use, read_options
from rocketmq_py.spark.source.partitions import members
from rocketmq_py.spark.source.reader import BatchReader

_POLL_SECONDS = 0.5


class Reading(NamedTuple):
    """The progress of the stages of a job that read from a source."""

    rows: int
    tasks: int
    tasks_done: int


@contextmanager
def show_batch_reads(
    spark: SparkSession, options: Mapping[str, str], stream: TextIO | None = None, every: float = 5.0
) -> Iterator[None]:
    """Shows the actions of the block, started in its thread, while they read what ``options`` say.

    ::

        orders = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}
        with show_batch_reads(spark, orders):
            spark.read.format("rocketmq").options(**orders).load().write.parquet("orders")

    Spark learns how many rows a task has read when it ends, and before that with each heartbeat of the executor
    (``spark.executor.heartbeatInterval``, 10 s).

    :param options: options of the read, from which the total number of rows is computed.
    :param stream: where to; standard error if not given. On a terminal one line changes in place, elsewhere there is a
        plain line every ``every`` seconds at most.
    :raises ConfigError: the options are wrong, or the session is one of Spark Connect, which has
        ``spark.registerProgressHandler`` for this.
    """
    group = f"rocketmq-read-{uuid.uuid4().hex}"
    look = _looker(spark, group)
    total = rows_to_read(options)
    spark.sparkContext.setJobGroup(group, f"{total:,} rows of {options.get('subscribe', 'rocketmq')}")
    line, over = Line(stream, every), Event()
    watching = Thread(target=_watch, args=(look, total, line, over), name="rocketmq-batch-reads", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        line.finish()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def rows_to_read(options: Mapping[str, str]) -> int:
    """Return the number of offsets that a batch read with these options covers now.

    :raises RocketMQError: as the read itself would.
    """
    partitions = BatchReader(read_options(options, Use.READ), StructType()).partitions()
    return sum(one.range.size for partition in partitions for one in members(partition))


def describe_reading(reading: Reading, total: int, seconds: float) -> str:
    """One line: rows of all, rows a second, tasks, and the time left at this pace."""
    share = f" ({reading.rows / total:.0%})" if total else ""
    rate = reading.rows / seconds if seconds > 0 else 0.0
    left = max(total - reading.rows, 0)
    parts = [
        f"{reading.rows:,} of {total:,} rows{share}",
        f"{rate:,.0f} rows/s",
        f"{reading.tasks_done} of {reading.tasks} tasks",
        *([f"{duration(left / rate)} left"] if left and rate else [duration(seconds)]),
    ]
    return " | ".join(parts)


def _watch(look: Callable[[], Reading | None], total: int, line: Line, over: Event) -> None:
    began = time.monotonic()
    while True:
        last = over.wait(_POLL_SECONDS)
        reading = look()
        if reading is not None:
            line.show(describe_reading(reading, total, time.monotonic() - began))
        if last:
            return


def _looker(spark: SparkSession, group: str) -> Callable[[], Reading | None]:
    """Asks Spark for the stages of a job group; of those that read rows, the one that began last counts."""
    try:
        context = spark.sparkContext
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()  # noqa: SLF001
    except (PySparkException, AttributeError) as e:
        raise ConfigError(
            "a session of Spark Connect does not show its stages; spark.registerProgressHandler() is for that"
        ) from e

    def look() -> Reading | None:
        found = None
        for job in sorted(tracker.getJobIdsForGroup(group)):
            info = tracker.getJobInfo(job)
            for stage in sorted(info.stageIds) if info else []:
                data = tracker.getStageInfo(stage) and store.lastStageAttempt(stage)
                if data is not None and (data.inputRecords() or found is None):
                    found = Reading(data.inputRecords(), data.numTasks(), data.numCompleteTasks())
        return found

    return look
