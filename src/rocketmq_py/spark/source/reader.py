"""The batch reader, and the reading of any partition into Arrow record batches on the executors.

``rocketmq_py.arrow`` plans, fetches and decodes; this module divides a plan into Spark's partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange, report_losses
from rocketmq_py.arrow.remoting.broker_origin import BrokerOrigin, broker_origin
from rocketmq_py.arrow.remoting.fetch import READ_GROUP
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange, QueueRoutes
from rocketmq_py.arrow.source.origin import Origin
from rocketmq_py.arrow.source.origins import origin_of
from rocketmq_py.arrow.source.plan import SourcePlan, split
from rocketmq_py.arrow.source.planning import plan_read
from rocketmq_py.arrow.source.pruning import Pruning, prune
from rocketmq_py.spark.runtime.workers import keep_imports
from rocketmq_py.spark.source.packing import estimated, next_messages, pack, parts_of_topics, probes, scanned
from rocketmq_py.spark.source.partitions import members, partition


class QueueRanges:
    """Plans and reads partitions, for batch and streaming readers. Pickled and sent to executors.

    :param schema: the columns to return.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.row_bytes: dict[str, float] = {}
        """Average bytes of a message, by topic; a cache of the planner's lookups."""
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the message sizes, which only the planner uses, when Spark sends the reader to executors."""
        return {**self.__dict__, "row_bytes": {}}

    def cluster(self) -> BrokerOrigin:
        """Return a new client of the cluster, which the caller must close."""
        return broker_origin(self.options)

    def partitions(self, plan: SourcePlan, queues: QueueRoutes, origin: Origin) -> list[InputPartition]:
        """Return the partitions for a plan: small ranges share one, and large ranges are split as the options say.

        :raises DataLossError: the plan has losses, and ``failOnDataLoss`` is true.
        """
        options = self.options
        report_losses(plan.losses, options.fail_on_data_loss)
        ranges = split(plan.ranges, options.min_partitions, options.max_records_per_partition)
        group = options.group or READ_GROUP
        self.row_bytes.update(origin.message_bytes(probes(ranges, self.row_bytes), queues, group))
        sizes = estimated({one.queue.topic for one in ranges}, self.row_bytes)
        located = origin.located(ranges, queues)
        scans = [one for one in located if one.span is not None]
        found = {one.range: one for one in located if one.span is None}
        limits = options.min_partitions, options.max_records_per_partition
        topics = parts_of_topics(found, sizes, *limits) if options.stores else []
        parts = self._log_parts(topics, origin)
        cut = {one.queue for together in parts for one in together}
        tasks = pack([one for one in found if one.queue not in cut], sizes, *limits)
        return (
            [partition([LocatedRange(one, Addresses()) for one in together]) for together in parts]
            + [partition([found[one] for one in together]) for together in tasks]
            + list(map(partition, scanned(scans)))
        )

    def _log_parts(self, topics: Iterable[tuple[list[QueueRange], int]], origin: Origin) -> list[list[QueueRange]]:
        """Cut topics of several tasks where the log of a store is; those of which no task may be that large stay."""
        most = self.options.max_records_per_partition
        found = []
        for ranges, number in topics:
            parts = origin.log_parts(ranges, number)
            if most is None or all(sum(one.size for one in part) <= most for part in parts):
                found += parts
        return found

    def message_bytes(self, start: Offsets, end: Offsets, queues: QueueRoutes, origin: Origin) -> Mapping[str, float]:
        """Return the average bytes of the next messages of each topic with messages between two offsets.

        Topics whose messages cannot be pulled now have the average of their earlier messages, or of the other topics.
        """
        group = self.options.group or READ_GROUP
        self.row_bytes.update(origin.message_bytes(next_messages(start, end), queues, group))
        return estimated({queue.topic for queue in end}, self.row_bytes)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow record batches of a partition; see :func:`~rocketmq_py.arrow.source.reading.read_ranges`."""
        ranges = members(partition)
        # imported here, since planners do not need Arrow and NumPy, which take long to import
        from rocketmq_py.arrow.source.reading import read_ranges
        from rocketmq_py.spark.schema import arrow_schema

        keep_imports()
        yield from read_ranges(ranges, self.options, arrow_schema(self._schema), _stamp)


def _stamp() -> dict[str, str]:
    from rocketmq_py.spark.sink.sink import task_stamp  # imported here: hardly any read needs it

    return task_stamp().properties


class BatchReader(DataSourceReader):
    """Reader of ``spark.read.format("rocketmq")``: planning fixes the start and end offset of each queue."""

    _pruning: Pruning | None = None

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._ranges = QueueRanges(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Look up the start and end offset of each queue, and return the partitions that cover these messages."""
        with closing(origin_of(self._ranges.options)) as origin:
            planned = plan_read(self._ranges.options, origin, self._pruning)
            return self._ranges.partitions(planned.plan, planned.queues, origin)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)


class PruningReader(BatchReader):
    """A :class:`BatchReader` that accepts pushed-down filters to read less (option ``pushFilters``).

    A separate class, since Spark refuses a reader that has ``pushFilters`` unless its setting for push-down is on.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow the read by ``filters``; return all of them, so that Spark also applies them to each row."""
        pruning = self._pruning = prune(filters)
        options = self._ranges.options
        if pruning.tags and not options.tags and options.sql is None:
            self._ranges.options = replace(options, tags=pruning.tags)
        return filters
