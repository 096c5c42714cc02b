"""Streaming reads: where a query stands and what the next micro-batch covers.

One base for all PySpark versions; :class:`StreamReader` for 4.2 and later, where Spark passes the start of a
micro-batch and a limit, :class:`LegacyStreamReader` for 4.0 and 4.1, where it does not. Offsets live in Spark's
checkpoint as documents (see ``offsets``). Runs in a process on the driver that lives as long as the query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketmq_py.errors import ConfigError, NoRouteError, RocketMQError
from rocketmq_py.spark.cluster import Cluster, Queues
from rocketmq_py.spark.offsets import Boundary, Offsets, from_document, to_document
from rocketmq_py.spark.options import ReadOptions
from rocketmq_py.spark.plan import admit, carry, resolve, stream_plan
from rocketmq_py.spark.reader import QueueRanges

try:  # PySpark 4.2 and later
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:
    SUPPORTS_ADMISSION = False
else:
    SUPPORTS_ADMISSION = True

_log = logging.getLogger(__name__)

_ROUTE_SECONDS = 30.0
"""A changed number of queues or a moved broker is noticed after so long, as by RocketMQ's own clients."""


class Ends:
    """The latest offset of every queue, asked for no more often than the options say.

    An answer that is a little old is still right: what it names is there. A broker that does not answer leaves its
    queues out; the query waits for it where it stands. Only masters are asked: a slave may lag, and its end would then
    look like a queue that was created anew.
    """

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self.cluster = cluster
        self._topics = options.subscribe
        self._interval = options.offset_lookup_interval_ms / 1000
        self._known: Offsets = {}
        self._known_at = float("-inf")
        self._queues = Queues({})
        self._queues_at = float("-inf")

    def queues(self) -> Queues:
        """The queues of the subscribed topics.

        :raises RocketMQError: they are not known yet, and no name server can tell.
        """
        now = time.monotonic()
        if now - self._queues_at >= _ROUTE_SECONDS:
            try:
                self._queues = self.cluster.readable(self._topics)
                self._queues_at = now
            except RocketMQError as e:
                if not self._queues.addresses:
                    raise
                _log.warning("the queues of %s are not known anew, going on with those known: %s", self._topics, e)
        return self._queues

    def latest(self) -> Offsets:
        """The latest offsets, at most as old as the interval."""
        now = time.monotonic()
        if now - self._known_at >= self._interval:
            self._known = self.ask(self.cluster.latest)
            self._known_at = now
        return self._known

    def latest_of_all(self) -> Offsets:
        """The latest offsets now, of every queue.

        :raises RocketMQError: a broker does not answer, or has no master.
        """
        queues = self.queues()
        without = sorted(queues.addresses.keys() - queues.with_master().addresses.keys())
        if without:
            raise NoRouteError(
                f"where {without[0]} ends is not known: no master of {without[0].broker_name} is registered"
            )
        return self.cluster.latest(queues)

    def ask(self, question: Any) -> Offsets:
        """The answers of all brokers that give one to ``question``, a method of the cluster."""
        answers: Offsets = {}
        for queues in self.queues().with_master().by_broker():
            try:
                answers.update(question(queues))
            except RocketMQError as e:
                if not e.retryable:
                    raise
                self._queues_at = float("-inf")
                _log.warning("a broker of %s does not answer, its queues have to wait: %s", self._topics, e)
        return answers


class StreamReaderBase(DataSourceStreamReader):
    """What the readers of all PySpark versions share."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self._ranges = QueueRanges(options, schema)
        self._ends_or_none: Ends | None = None
        self._initial: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without connections: Spark sends the reader to the executors."""
        return {**self.__dict__, "_ends_or_none": None}

    @property
    def _options(self) -> ReadOptions:
        return self._ranges.options

    @property
    def _ends(self) -> Ends:
        if self._ends_or_none is None:
            self._ends_or_none = Ends(self._ranges.cluster(), self._options)
        return self._ends_or_none

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts; Spark asks twice and must be told the same."""
        if self._initial is None:
            cluster = self._ranges.cluster()
            try:
                bounds = cluster.bounds(cluster.readable(self._options.subscribe))
            finally:
                cluster.close()
            self._initial = resolve(self._options.starting_offsets or Boundary.LATEST, bounds, "startingOffsets")
        return to_document(self._initial)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the queues, for progress reports."""
        latest = self._ends.latest()
        return to_document(latest) if latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One partition for each queue with messages between ``start`` and ``end``."""
        first, last = self._checked(start), self._checked(end)
        if first == last:
            return []
        ends = self._ends
        plan = stream_plan(first, last, ends.ask(ends.cluster.earliest))
        return self._ranges.partitions(plan, ends.queues())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)

    def stop(self) -> None:
        """Close connections, where Spark gets as far as to say so."""
        if self._ends_or_none is not None:
            self._ends_or_none.cluster.close()

    def _checked(self, document: dict[str, Any]) -> Offsets:
        """The offsets of a checkpoint.

        :raises ConfigError: it was written by a query of other topics.
        """
        offsets = from_document(document)
        topics = {queue.topic for queue in offsets}
        if topics.isdisjoint(self._options.subscribe):
            raise ConfigError(
                f"the checkpoint stands in topics {', '.join(sorted(topics))}, option subscribe names"
                f" {', '.join(self._options.subscribe)}: use another checkpointLocation for another query"
            )
        return offsets


class LegacyStreamReader(StreamReaderBase):
    """For PySpark 4.0 and 4.1: every micro-batch reads all there is.

    Spark does not say where the query stands, so the reader keeps what it has heard, for queues whose broker is away.
    """

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        if options.max_offsets_per_trigger is not None:
            raise ConfigError("option maxOffsetsPerTrigger needs PySpark 4.2 or later")
        super().__init__(options, schema)
        self._stands: Offsets = {}

    def initialOffset(self) -> dict[str, Any]:
        document = super().initialOffset()
        self._stands = carry(from_document(document), self._stands)
        return document

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next micro-batch: of everything."""
        self._stands = carry(self._stands, self._ends.latest())
        return to_document(self._stands)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._stands = carry(from_document(end), self._stands)
        return super().partitions(start, end)


if SUPPORTS_ADMISSION:

    class StreamReader(StreamReaderBase, SupportsTriggerAvailableNow):
        """For PySpark 4.2 and later: micro-batches of limited size, Trigger.AvailableNow in several of them."""

        def __init__(self, options: ReadOptions, schema: Any) -> None:
            super().__init__(options, schema)
            self._target: Offsets | None = None

        def prepareForTriggerAvailableNow(self) -> None:
            """Fix the end of the whole run; a run must not seem complete because a broker was away."""
            self._target = self._ends.latest_of_all()

        def getDefaultReadLimit(self) -> ReadLimit:
            limit = self._options.max_offsets_per_trigger
            return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """The end of the micro-batch that starts at ``start``."""
            first = self._checked(start)
            latest = carry(first, self._ends.latest() if self._target is None else self._target)
            if isinstance(limit, ReadMaxRows):
                latest = admit(self._with_newcomers(first, latest), latest, limit.max_rows)
            return to_document(latest)

        def _with_newcomers(self, first: Offsets, latest: Offsets) -> Offsets:
            """``first``, and where queues that are new to the query begin."""
            if latest.keys() <= first.keys():
                return first
            return carry(self._ends.ask(self._ends.cluster.earliest), first)


def stream_reader(options: ReadOptions, schema: Any) -> DataSourceStreamReader:
    """The reader for the PySpark that is installed."""
    return StreamReader(options, schema) if SUPPORTS_ADMISSION else LegacyStreamReader(options, schema)
