"""What a micro-batch did, out of the progress report Spark gives for it: rows, rates, and every queue's lag and share.

Pure: no Spark, no files. A report covers all sources of a query; those whose offsets are
not RocketMQ's (Kafka's, files) count in rows and rates and have no queues here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.options.offsets import Offsets, from_document

TOTAL = "triggerExecution"
"""The phase that holds all others."""


class QueueProgress(NamedTuple):
    """One queue in one micro-batch.

    :ivar messages: offsets the micro-batch went over; more than its rows where a filter left messages out.
    :ivar lag: messages in the queue behind the end of the micro-batch; None if Spark does not report it.
    """

    queue: MessageQueue
    messages: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One micro-batch.

    :ivar query: the query's name, or its id where it has none.
    :ivar query_id: stays the same over restarts from one checkpoint.
    :ivar at: when the trigger fired, seconds since 1970.
    :ivar input_rate: rows a second that came in since the trigger before.
    :ivar processed_rate: rows a second while the micro-batch ran.
    :ivar durations: seconds by phase, as Spark names them; see :data:`TOTAL`.
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
        """How long the whole trigger took."""
        return self.durations.get(TOTAL, 0.0)

    @property
    def lag(self) -> dict[str, int]:
        """Messages not read yet, by topic; without topics of which nothing is known."""
        lag: dict[str, int] = {}
        for queue, _, behind in self.queues:
            if behind is not None:
                lag[queue.topic] = lag.get(queue.topic, 0) + behind
        return lag

    @property
    def skew(self) -> float | None:
        """The fullest queue's share against an even one: 1 is even, the number of queues is all in one queue."""
        messages = [queue.messages for queue in self.queues]
        return max(messages) * len(messages) / sum(messages) if any(messages) else None


def batch_progress(report: Mapping[str, Any]) -> BatchProgress:
    """The micro-batch of a progress report.

    :param report: ``StreamingQueryProgress.json``, decoded.
    :raises ConfigError: it is no progress report.
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
    """The sum of all sources' rates; Spark leaves a rate out where it would be infinite or not a number."""
    return float(report.get(name) or sum(source.get(name) or 0.0 for source in report["sources"]))


def _queues(source: Mapping[str, Any]) -> Iterator[QueueProgress]:
    start, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    yield from queue_progress(start, end, latest)


def queue_progress(start: Offsets, end: Offsets, latest: Offsets) -> Iterator[QueueProgress]:
    """What a micro-batch from ``start`` to ``end`` was for each queue.

    A queue that was new in it counts with all it had. Without any start, as in a query's first report, it is not known
    how much of each queue was read: nothing is claimed.
    """
    for queue, reached in end.items():
        behind = max(latest[queue] - reached, 0) if queue in latest else None
        messages = max(reached - start.get(queue, 0), 0) if start else 0
        yield QueueProgress(queue, messages, behind)


def _offsets(document: Any) -> Offsets:
    """The offsets of a document, none if it is another source's; Spark gives it decoded or as text."""
    try:
        return from_document(json.loads(document) if isinstance(document, str) else document)
    except (ConfigError, ValueError):
        return {}
