"""The rows of the table, one module per kind of work. A row is a function from a session to its figures."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figure
from benchmarks.rows import brokers, clients, spark_read, starting
from benchmarks.session import Session

Row = Callable[[Session], list[Figure]]

ROWS: dict[str, Row] = {
    "start": starting.start,
    "memory": starting.memory,
    "send-1": brokers.send_1,
    "send-256": brokers.send_256,
    "batch": brokers.batch,
    "pull-32": brokers.pull_32,
    "producer": clients.producer,
    "push": clients.push,
    "spark-read": spark_read.spark_read,
}
"""All rows, in the order they run and are printed."""
