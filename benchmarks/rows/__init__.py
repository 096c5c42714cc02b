"""The rows of the table, one module per kind of work. A row is a function from a session to its figures."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figure
from benchmarks.rows import (
    clients,
    consumers,
    delayed,
    failover,
    guarded,
    pops,
    pulls,
    replication,
    sends,
    spark,
    starting,
    storing,
    transactions,
)
from benchmarks.session import Session

Row = Callable[[Session], list[Figure]]

ROWS: dict[str, Row] = {
    "start": starting.start,
    "memory": starting.memory,
    "recovery": storing.recovery,
    "topics": storing.topics,
    "send-1": sends.send_1,
    "send-64": sends.send_64,
    "send-256": sends.send_256,
    "batch": sends.batch,
    "sync-flush": sends.sync_flush,
    "replication-async": replication.replication_async,
    "replication-sync": replication.replication_sync,
    "failover-read": failover.failover_read,
    "pull-32": pulls.pull_32,
    "pull-1024": pulls.pull_1024,
    "pull-contiguous": pulls.pull_contiguous,
    "pop": pops.pop,
    "producer": clients.producer,
    "transaction": transactions.transaction,
    "delayed": delayed.delayed,
    "tls": guarded.tls,
    "signing": guarded.signing,
    "push": consumers.push,
    "push-32": consumers.push_32,
    "orderly": consumers.orderly,
    "lite-pull": consumers.lite_pull,
    "latency": consumers.latency,
    "first": consumers.first,
    "queues": consumers.queues,
    "rebalance": consumers.rebalance,
    "spark-read": spark.spark_read,
    "spark-read-1k": spark.spark_read_1k,
    "spark-read-java": spark.spark_read_java,
    "spark-read-java-1k": spark.spark_read_java_1k,
    "spark-cores": spark.spark_cores,
    "spark-memory": spark.spark_memory,
    "spark-trigger": spark.spark_trigger,
    "spark-sink": spark.spark_sink,
    "spark-exactly-once": spark.spark_exactly_once,
}
"""All rows, in the order they run and are printed."""
