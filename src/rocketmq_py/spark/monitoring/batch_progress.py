"""Show the progress of a batch read on a terminal: rows, rows per second, tasks, remaining time.

The rows that running stages have read come from Spark's status store; the total is computed by planning the read once
more. Module ``terminal`` writes the line.
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
    """The progress of the stage that reads from the source: rows read, all tasks, completed tasks."""

    rows: int
    tasks: int
    tasks_done: int


@contextmanager
def show_batch_reads(
    spark: SparkSession, options: Mapping[str, str], stream: TextIO | None = None, every: float = 5.0
) -> Iterator[None]:
    """Context manager that shows the progress of a batch read with ``options``, run by Spark actions inside the block.

    It covers actions that the thread of the block starts.

    ::

        orders = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}
        with show_batch_reads(spark, orders):
            spark.read.format("rocketmq").options(**orders).load().write.parquet("orders")

    The number of rows is updated when a task ends and with each heartbeat of an executor
    (``spark.executor.heartbeatInterval``, 10 s).

    :param options: options of the read, from which the total number of rows is computed.
    :param stream: the output; default standard error. On a terminal one line is updated in place, otherwise plain lines
        are written.
    :param every: minimum number of seconds between two plain lines.
    :raises ConfigError: the options are invalid, or the session is one of Spark Connect, which has
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
    """Describe a batch read in one line: rows read and total, rows per second, tasks, remaining time.

    :param total: the number of rows that the read covers.
    :param seconds: time since the read began.
    """
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
    """Return a function that asks Spark for the progress of the latest stage that has read rows.

    If no stage has read rows yet, the function returns the progress of the first stage; None if none has started.

    :param group: id of the Spark job group whose stages are considered.

    :raises ConfigError: the session is one of Spark Connect.
    """
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
