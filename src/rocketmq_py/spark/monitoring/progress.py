"""Parse Spark's progress report of a micro-batch: rows, rates, durations, and the messages and lag of each queue.

No IO, and no import of Spark. A report covers all sources of a query; sources of other kinds (Kafka, files) count in
rows and rates, but have no queues here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from rocketmq_py.arrow.options.offsets import Offsets, from_document
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue

TOTAL = "triggerExecution"
"""Spark's name for the duration of the whole trigger, which includes all other phases."""


class QueueProgress(NamedTuple):
    """The progress of one queue in one micro-batch.

    :ivar messages: number of offsets that the micro-batch read; with a filter, it returned fewer rows.
    :ivar lag: number of messages in the queue after the end of the micro-batch; None if Spark does not report it.
    """

    queue: MessageQueue
    messages: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """The progress of one micro-batch, from Spark's report.

    :ivar query: the query's name, or its id if it has no name.
    :ivar query_id: the query's id, which stays the same when it restarts from its checkpoint.
    :ivar at: when the trigger fired, in seconds since 1970.
    :ivar rows: number of rows that the micro-batch read.
    :ivar input_rate: rows per second that arrived since the previous trigger.
    :ivar processed_rate: rows per second while the micro-batch ran.
    :ivar durations: seconds by phase, under Spark's names; ``triggerExecution`` is the whole trigger.
    :ivar queues: the progress of each queue.
    """

    query: str
    query_id: str
    batch_id: int
    at: float
    rows: int
    input_rate: float = 0.0
    processed_rate: float = 0.0
    durations: Mapping[str, float] = field(default_factory=dict)
    queues: tuple[QueueProgress, ...] = ()

    @property
    def seconds(self) -> float:
        """The duration of the whole trigger in seconds; 0 if Spark does not report it."""
        return self.durations.get(TOTAL, 0.0)

    @property
    def lag(self) -> dict[str, int]:
        """The number of messages not read yet, by topic; topics whose lag Spark does not report are left out."""
        lag: dict[str, int] = {}
        for queue, _, behind in self.queues:
            if behind is not None:
                lag[queue.topic] = lag.get(queue.topic, 0) + behind
        return lag

    @property
    def skew(self) -> float | None:
        """The messages of the queue with most, divided by the average of all queues; None without messages.

        1 means evenly distributed; the number of queues means that all messages are in one queue.
        """
        messages = [queue.messages for queue in self.queues]
        return max(messages) * len(messages) / sum(messages) if any(messages) else None


def batch_progress(report: Mapping[str, Any]) -> BatchProgress:
    """Return the progress of a micro-batch from Spark's report.

    :param report: the decoded JSON of ``StreamingQueryProgress.json``.
    :raises ConfigError: ``report`` is no progress report.
    """
    try:
        query_id = str(report["id"])
        return BatchProgress(
            query=report.get("name") or query_id,
            query_id=query_id,
            batch_id=int(report["batchId"]),
            at=datetime.fromisoformat(report["timestamp"]).timestamp(),
            # Spark Connect leaves the sum out.
            rows=int(report.get("numInputRows", sum(int(source["numInputRows"]) for source in report["sources"]))),
            input_rate=_rate(report, "inputRowsPerSecond"),
            processed_rate=_rate(report, "processedRowsPerSecond"),
            durations={phase: millis / 1000 for phase, millis in report["durationMs"].items()},
            queues=tuple(queue for source in report["sources"] for queue in _queues(source)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ConfigError(f"this is no progress report of a streaming query: {e!r}") from e


def _rate(report: Mapping[str, Any], name: str) -> float:
    """Return the query's rate, or the sum of its sources' rates if that is missing; 0 if Spark reports none.

    Spark leaves out a rate that would be infinite or not a number.
    """
    return float(report.get(name) or sum(source.get(name) or 0.0 for source in report["sources"]))


def _queues(source: Mapping[str, Any]) -> Iterator[QueueProgress]:
    start, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    yield from queue_progress(start, end, latest)


def queue_progress(start: Offsets, end: Offsets, latest: Offsets) -> Iterator[QueueProgress]:
    """Yield the progress of each queue in a micro-batch from ``start`` to ``end``.

    A queue that is not in ``start`` is new and counts from offset 0. If ``start`` is empty, as in a query's first
    report, it is unknown how much was read: ``messages`` is 0 for every queue.

    :param latest: latest offsets, for the lag; may lack queues.
    """
    for queue, reached in end.items():
        behind = max(latest[queue] - reached, 0) if queue in latest else None
        messages = max(reached - start.get(queue, 0), 0) if start else 0
        yield QueueProgress(queue, messages, behind)


def _offsets(document: Any) -> Offsets:
    """Return the offsets of a report's document; empty if it belongs to a source of another kind.

    :param document: JSON as text or decoded: Spark's reports have either.
    """
    try:
        return from_document(json.loads(document) if isinstance(document, str) else document)
    except (ConfigError, ValueError):
        return {}
