"""The streaming readers, which decide the end of the next micro-batch and return its partitions.

:class:`StreamReader` is for PySpark 4.2 and later, where Spark passes the start of a micro-batch and a limit;
:class:`LegacyStreamReader` is for 4.0 and 4.1. Spark passes offsets, and stores them in its checkpoint, as documents
``{topic: {broker: {queue: offset}}}``. The reader lives in a Python process of the driver, which runs as long as the
query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py.arrow.options.offsets import START, Boundary, Offsets, from_document, start_of_document, to_document
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.source.plan import admit, admit_bytes, backlog, carry, repeated_first_plan, stream_plan
from rocketmq_py.arrow.source.planning import STARTING
from rocketmq_py.arrow.source.positions import locate
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.source.group_offsets import GroupFollower
from rocketmq_py.spark.source.queue_ends import StreamEnds
from rocketmq_py.spark.source.reader import QueueRanges

try:  # PySpark 4.2 and later
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    SUPPORTS_ADMISSION = False
else:
    SUPPORTS_ADMISSION = True

_log = logging.getLogger(__name__)


class StreamReaderBase(DataSourceStreamReader):
    """The methods of a streaming reader that are the same for all PySpark versions."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._ranges = QueueRanges(options, schema)
        self._ends_or_none: StreamEnds | None = None
        self._initial: Offsets | None = None
        self._resumed = False
        self._group: GroupFollower | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Drop connections: Spark sends the reader to the executors."""
        return {**self.__dict__, "_ends_or_none": None, "_group": None}

    @property
    def _options(self) -> ReadOptions:
        return self._ranges.options

    @property
    def _ends(self) -> StreamEnds:
        if self._ends_or_none is None:
            self._ends_or_none = StreamEnds(self._ranges.cluster(), self._options)
        return self._ends_or_none

    def initialOffset(self) -> dict[str, Any]:
        """Return the document of the offsets at which a new query starts; the same when Spark calls it again."""
        if self._initial is None:
            queues = self._ends.queues()
            cluster = self._ends.cluster
            position = self._options.start or Boundary.LATEST
            self._initial = locate(position, STARTING, cluster, queues, cluster.bounds(queues))
        return to_document(self._initial)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the document of the latest offsets for progress reports; None if no broker responds."""
        latest = self._ends.latest({})
        return to_document(latest) if latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of the micro-batch from ``start`` to ``end``; small ranges share one."""
        first, last = self._resume(start), self._checked(end)
        # The end of the first micro-batch is the start of the next one, and still has the offsets of its own start.
        recorded = start_of_document(end) if start_of_document(start) is None else None
        if recorded is not None:  # "latest" may have moved since the first micro-batch was planned
            first = self._selected(recorded)
        if first == last:
            return []
        ends = self._ends
        earliest = ends.ask(ends.cluster.earliest)
        is_unrecorded = recorded is None and first == self._initial
        plan = (repeated_first_plan if is_unrecorded else stream_plan)(first, last, earliest)
        return self._ranges.partitions(plan, ends.queues(), ends.cluster)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit ``end`` to the consumer group, if there is one; Spark calls this after its own commit."""
        self._done(self._checked(end))

    def stop(self) -> None:
        """Close connections. Spark does not always call this."""
        if self._ends_or_none is not None:
            self._ends_or_none.cluster.close()

    def _done(self, offsets: Offsets) -> None:
        if self._options.group is None or offsets == self._initial:  # at the start of a query nothing is done yet
            return
        self._follower(self._options.group).done(offsets)

    def _follower(self, group: str) -> GroupFollower:
        if self._group is None:
            ends = self._ends
            self._group = GroupFollower(group, lambda: ends.cluster, ends.queues)
        return self._group

    def _resume(self, document: dict[str, Any]) -> Offsets:
        """Return the offsets of the start document of a micro-batch.

        The first call in a restarted query has the checkpoint's offsets, which are compared with the offsets that the
        consumer group has committed.
        """
        offsets = self._checked(document)
        if not self._resumed:
            self._resumed = True
            if self._initial is None:
                self._ends.resume()
                if self._options.group is not None:
                    self._follower(self._options.group).compare(offsets)
        return offsets

    def _checked(self, document: dict[str, Any]) -> Offsets:
        """Return the offsets of a checkpoint's document, without queues that the options no longer select.

        :raises ConfigError: none of its queues is selected: the checkpoint belongs to a query of other topics.
        """
        offsets = from_document(document, 0, empty=True)
        wanted = self._selected(offsets)
        if offsets and not wanted:
            topics = sorted({queue.topic for queue in offsets})
            raise ConfigError(
                f"the checkpoint is of topics {', '.join(topics)}, {self._options.selection}: use another"
                " checkpointLocation for another query"
            )
        if len(wanted) < len(offsets) and not self._resumed:
            dropped = min(offsets.keys() - wanted.keys())
            _log.warning("%s is in the checkpoint and not selected any more: it is left out from here on", dropped)
        return wanted

    def _selected(self, offsets: Offsets) -> Offsets:
        selection = self._options.selection
        return {queue: offset for queue, offset in offsets.items() if selection.wants(queue)}

    def _end_document(self, first: Offsets, end: Offsets) -> dict[str, Any]:
        """Return the document for the end of a micro-batch that starts at ``first``.

        The document of the first micro-batch also contains the initial offsets: Spark does not store them, and would
        ask for them again when it repeats the micro-batch.
        """
        document: dict[str, Any] = {**to_document(end)}
        if first == self._initial and end != first:
            document[START] = to_document(first)
        return document

    def _remaining(self, first: Offsets, latest: Offsets) -> Offsets:
        """Return ``latest`` without deleted queues, and with ``first`` for queues of brokers that do not respond."""
        gone = self._ends.gone(first.keys() | latest.keys())
        return {queue: offset for queue, offset in carry(first, latest).items() if queue not in gone}


class LegacyStreamReader(StreamReaderBase):
    """The streaming reader for PySpark 4.0 and 4.1: every micro-batch reads up to the latest offsets.

    Spark does not pass the start of a micro-batch, so the reader remembers the last offsets of queues whose broker does
    not respond. When Spark asks for the next micro-batch, the previous one is complete, and its offsets are committed
    to the consumer group.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        for given, name in (
            (options.max_offsets_per_trigger, "maxOffsetsPerTrigger"),
            (options.max_bytes_per_trigger, "maxBytesPerTrigger"),
            (options.min_offsets_per_trigger, "minOffsetsPerTrigger"),
        ):
            if given is not None:
                raise ConfigError(f"option {name} needs PySpark 4.2 or later")
        super().__init__(options, schema)
        self._current: Offsets = {}
        self._planned: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        document = super().initialOffset()
        self._current = carry(from_document(document, empty=True), self._current)
        return document

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the document with the end offsets of the next micro-batch, which are the latest offsets."""
        if self._planned is not None:
            self._done(self._checked(self._planned))
        self._current = self._remaining(self._current, self._ends.latest(self._current))
        if self._planned is not None:
            same = self._checked(self._planned) == self._current  # Spark compares documents
            return self._planned if same else to_document(self._current)
        return to_document(self._current) if self._initial is None else self._end_document(self._initial, self._current)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._planned = end
        self._current = carry(self._checked(end), self._current)
        return super().partitions(start, end)


if SUPPORTS_ADMISSION:

    class StreamReader(StreamReaderBase, SupportsTriggerAvailableNow):
        """The streaming reader for PySpark 4.2 and later: limits micro-batches, and supports Trigger.AvailableNow.

        When Spark asks for the next micro-batch, which it also does after the last one, the previous one is complete,
        and its offsets are committed to the consumer group.
        """

        def __init__(self, options: ReadOptions, schema: StructType) -> None:
            super().__init__(options, schema)
            self._target: Offsets | None = None
            self._batch_at = float("-inf")

        def prepareForTriggerAvailableNow(self) -> None:
            """Fix the end of the run at the latest offsets now. Every broker must respond, so that none is left out.

            :raises RocketMQError: a broker does not respond.
            """
            self._target = self._ends.latest_of_all()

        def getDefaultReadLimit(self) -> ReadLimit:
            rows, size = self._options.max_offsets_per_trigger, self._options.max_bytes_per_trigger
            if rows is not None:
                return ReadMaxRows(rows)  # Spark takes one limit; latestOffset applies the other one, too
            return ReadAllAvailable() if size is None else ReadMaxBytes(size)

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """Return the document with the end offsets of the next micro-batch; ``start`` if no micro-batch is due.

            :param start: the end of the previous micro-batch.
            """
            first = self._resume(start)
            self._done(first)
            end = self._ends.latest(first) if self._target is None else self._target
            latest = self._remaining(first, end)
            if latest == first:
                return start
            begin = self._with_newcomers(first, latest)
            if self._target is None and self._wait(backlog(begin, latest)):
                return start
            self._batch_at = time.monotonic()
            return self._end_document(first, self._limited(begin, latest, limit))

        def _limited(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
            """Return the end offsets of a micro-batch within ``limit`` and the options."""
            if isinstance(limit, ReadMaxRows):
                latest = admit(begin, latest, limit.max_rows)
            size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes_per_trigger
            if size is None or isinstance(limit, ReadAllAvailable):
                return latest
            ends = self._ends
            return admit_bytes(
                begin, latest, size, self._ranges.message_bytes(begin, latest, ends.queues(), ends.cluster)
            )

        def _wait(self, there: int) -> bool:
            """Return True if the next micro-batch must wait for more messages (option ``minOffsetsPerTrigger``).

            :param there: number of messages that are available now.
            """
            least = self._options.min_offsets_per_trigger
            if least is None or there >= least:
                return False
            return time.monotonic() - self._batch_at < self._options.max_trigger_delay

        def _with_newcomers(self, first: Offsets, latest: Offsets) -> Offsets:
            """Return ``first``, completed by the earliest offsets of queues that are new to the query."""
            if latest.keys() <= first.keys():
                return first
            return carry(self._ends.ask(self._ends.cluster.earliest), first)


def stream_reader(options: ReadOptions, schema: StructType) -> DataSourceStreamReader:
    """Return the streaming reader that fits the installed PySpark version."""
    return StreamReader(options, schema) if SUPPORTS_ADMISSION else LegacyStreamReader(options, schema)
