"""The batch reader, and reading the Arrow batches of any partition on the executors.

Which offsets to read is decided in ``plan``; ``fetch`` and ``decode`` read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py.errors import NoRouteError
from rocketmq_py.spark.fetched import FetchedChunk
from rocketmq_py.spark.options.offsets import Boundary, Offsets
from rocketmq_py.spark.options.options import ReadOptions
from rocketmq_py.spark.ranges import DataLossError, QueueRange
from rocketmq_py.spark.remoting.cluster import Cluster
from rocketmq_py.spark.remoting.connection import IdleConnections
from rocketmq_py.spark.remoting.fetch import READ_GROUP, Fetcher, FetchSettings, prefetched
from rocketmq_py.spark.remoting.filters import message_filter
from rocketmq_py.spark.remoting.message_sizes import message_sizes
from rocketmq_py.spark.remoting.queues import QueueRoutes
from rocketmq_py.spark.runtime.workers import keep_imports
from rocketmq_py.spark.source.packing import estimated, pack, probes
from rocketmq_py.spark.source.partitions import QueuePartition, members, partition
from rocketmq_py.spark.source.plan import SourcePlan, batch_plan, beyond_the_end, split
from rocketmq_py.spark.source.positions import locate
from rocketmq_py.spark.source.pruning import Pruning, prune

if TYPE_CHECKING:
    from rocketmq_py.spark.source.decoders import Decoders

_log = logging.getLogger(__name__)

STARTING, ENDING = "startingOffsets", "endingOffsets"

_DECODE_BYTES = 2 * 1024 * 1024
"""Bodies of answers are collected up to so many bytes and decoded together: few large batches cost less."""

_AT_ONCE = 4
"""Ranges that a task fetches at once: the broker reads one while another is decoded."""


class QueueRanges:
    """Plans and reads partitions, for batch and streaming readers. Pickled and sent to executors.

    :param schema: the columns to fill.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.row_bytes: dict[str, float] = {}
        """Bytes of a message of each topic, as far as they are known."""
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the planner uses: readers are sent to the executors."""
        return {**self.__dict__, "row_bytes": {}}

    def cluster(self) -> Cluster:
        """Connect to the cluster; the caller closes it."""
        options = self.options
        return Cluster(options.namesrv, options.timeout, options.num_retries, options.security)

    def partitions(self, plan: SourcePlan, queues: QueueRoutes, cluster: Cluster) -> list[InputPartition]:
        """The partitions of a plan: small ranges share one, and large ones are cut as the options say.

        :raises DataLossError: as :meth:`report`.
        """
        self.report(plan.losses)
        options = self.options
        ranges = split(plan.ranges, options.min_partitions, options.max_records_per_partition)
        group = options.group or READ_GROUP
        self.row_bytes.update(message_sizes(cluster, probes(ranges, self.row_bytes), queues, group))
        sizes = estimated({one.queue.topic for one in ranges}, self.row_bytes)
        tasks = pack(ranges, sizes, options.min_partitions, options.max_records_per_partition)
        return [partition(together, queues) for together in tasks]

    def report(self, losses: Iterable[str]) -> None:
        """Raise or log losses, as ``failOnDataLoss`` says.

        :raises DataLossError: there are losses, and ``failOnDataLoss`` is true.
        """
        if self.options.fail_on_data_loss and losses:
            raise DataLossError(losses)
        for loss in losses:
            _log.warning("%s; going on, since failOnDataLoss is false", loss)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition; of ranges that share it, one after the other, in few batches.

        The next ranges are fetched while one is decoded.
        """
        together = members(partition)
        batches = self._read(together)
        if len(together) < 2:
            return batches
        from rocketmq_py.spark.decode.arrays import merged

        return merged(batches, _DECODE_BYTES)

    def _read(self, ranges: Sequence[QueuePartition]) -> Iterator[Any]:
        # Arrow and NumPy take long to import, and planners do without.
        from rocketmq_py.spark.source.decoders import Decoders

        keep_imports()
        settings = self._settings()
        with (
            closing(IdleConnections()) as idle,
            closing(
                prefetched([Fetcher(one.range, one.addresses, settings, idle) for one in ranges], _AT_ONCE)
            ) as fetchers,
        ):
            task = Task(settings, Decoders(self.options, self._schema))
            gathered: list[Gathered] = []
            for one, fetcher in zip(ranges, fetchers, strict=True):
                parts = coalesce(fetcher.chunks(), _DECODE_BYTES)
                fetched = Gathered(one, fetcher, next(parts, []))
                more = next(parts, None)
                if gathered and not fetched.may_join(gathered, _DECODE_BYTES):
                    yield from self._decode_all(gathered, task)
                    gathered = []
                if more is None and fetched.chunks:
                    gathered.append(fetched)
                else:
                    yield from self._decode_range(fetched, chain([more] if more else [], parts), task)
            yield from self._decode_all(gathered, task)
        if task.short:
            self._check_retention(task.short)

    def _decode_all(self, gathered: Sequence[Gathered], task: Task) -> Iterator[Any]:
        """The record batches of small ranges of one topic and broker: one batch if all is as it should be."""
        batch = None
        if len(gathered) > 1:
            name = gathered[0].partition.range.queue.broker_name
            batch = task.decoders.of(name).decode_together([one.chunks for one in gathered])
        if batch is not None:
            yield batch
            return
        for one in gathered:
            try:
                yield from self._decode_range(one, (), task)
            finally:
                one.fetcher.close()

    def _decode_range(self, fetched: Gathered, more: Iterable[Sequence[FetchedChunk]], task: Task) -> Iterator[Any]:
        """The record batches of one range.

        :raises DataLossError: messages are missing, and the query must fail for them.
        """
        from rocketmq_py.spark.source.corrupt_records import CorruptRecords

        partition, fetcher, first = fetched
        wanted, rows = partition.range, 0
        decoder = task.decoders.of(wanted.queue.broker_name)
        corrupt = CorruptRecords(
            wanted.queue, partition.addresses, task.settings, decoder, task.decoders.schema, self.options
        )
        for chunks in chain([first] if first else [], more):
            for batch in decoder.decode(chunks, corrupt.rescue):
                rows += batch.num_rows
                yield batch
        missing = wanted.size - rows - corrupt.left_out - fetcher.skipped - fetcher.between
        if missing and task.settings.wanted.takes_all:
            self._check_whole(wanted, fetcher, missing)
        elif missing:
            task.short.append(wanted)

    def _check_whole(self, wanted: QueueRange, fetcher: Fetcher, missing: int) -> None:
        """Without a filter every offset holds a message, except in a compacted topic.

        :raises DataLossError: messages are missing, and the query must fail for them.
        """
        if not fetcher.is_compacted():
            offsets = f"offsets {wanted.start} to {wanted.stop - 1} of {wanted.queue}"
            self.report([f"{missing} of {offsets} hold no messages: a file of the broker's log is missing"])

    def _check_retention(self, short: Sequence[QueueRange]) -> None:
        """Fewer messages than offsets: as a filter wants it, unless some were removed meanwhile.

        :raises DataLossError: some were, and the query must fail for them.
        :raises NoRouteError: no broker says where one of the queues begins.
        """
        with closing(self.cluster()) as cluster:
            queues = cluster.readable(sorted({one.queue.topic for one in short}))
            earliest = cluster.earliest(queues.only(one.queue for one in short))
        unknown = [one.queue for one in short if one.queue not in earliest]
        if unknown:
            raise NoRouteError(f"no broker serves {unknown[0]} now, so whether retention removed messages is not known")
        self.report(
            [
                f"offsets of {one.queue} below {earliest[one.queue]} have been removed by retention while being read"
                for one in short
                if earliest[one.queue] > one.start
            ]
        )

    def _settings(self) -> FetchSettings:
        """The settings of all ranges of a task."""
        options = self.options
        return FetchSettings(
            namesrv=options.namesrv,
            timeout=options.timeout,
            retries=options.num_retries,
            in_flight=options.pulls_in_flight,
            fail_on_data_loss=options.fail_on_data_loss,
            group=options.group or READ_GROUP,
            wanted=message_filter(options.tags, options.sql),
            security=options.security.loaded(),
        )


class Gathered(NamedTuple):
    """What was fetched of a range: all of it, or its beginning."""

    partition: QueuePartition
    fetcher: Fetcher
    chunks: Sequence[FetchedChunk]

    @property
    def weight(self) -> int:
        """Bytes."""
        return sum(len(chunk.body) for chunk in self.chunks)

    def may_join(self, others: Sequence[Gathered], most: int) -> bool:
        """Whether it may be decoded with ``others``, which are of one topic and broker, in at most so many bytes."""
        queue, other = self.partition.range.queue, others[0].partition.range.queue
        is_alike = queue[:2] == other[:2]
        return is_alike and sum(one.weight for one in others) + self.weight <= most


@dataclass
class Task:
    """What the ranges of a task share. ``short``: ranges with fewer messages than offsets."""

    settings: FetchSettings
    decoders: Decoders
    short: list[QueueRange] = field(default_factory=list)


def coalesce(chunks: Iterable[list[FetchedChunk]], size: int) -> Iterator[list[FetchedChunk]]:
    """Collect adjacent chunks into lists of at least ``size`` bytes; the last list may be shorter."""
    collected: list[FetchedChunk] = []
    weight = 0
    for more in chunks:
        collected += more
        weight += sum(len(chunk.body) for chunk in more)
        if weight >= size:
            yield collected
            collected, weight = [], 0
    if collected:
        yield collected


class BatchReader(DataSourceReader):
    """``spark.read.format("rocketmq")``: messages between two offsets of each queue, which are fixed by planning."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._ranges = QueueRanges(options, schema)

    def partitions(self) -> list[InputPartition]:
        """The messages between the starting and the ending offsets, cut as the options say."""
        options = self._ranges.options
        cluster = self._ranges.cluster()
        try:
            queues = cluster.selected(options.selection)
            bounds = cluster.bounds(queues)
            start = locate(options.start or Boundary.EARLIEST, STARTING, cluster, queues, bounds)
            stop = locate(options.end, ENDING, cluster, queues, bounds)
            self._ranges.report(beyond_the_end(start, bounds))
            start, stop = self._narrow(start, stop, cluster, queues)
            return self._ranges.partitions(batch_plan(start, stop, bounds), queues, cluster)
        finally:
            cluster.close()

    def _narrow(self, start: Offsets, stop: Offsets, cluster: Cluster, queues: QueueRoutes) -> tuple[Offsets, Offsets]:  # noqa: ARG002
        """Hook for subclasses: read less than the options say."""
        return start, stop

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)


class PruningReader(BatchReader):
    """A :class:`BatchReader` that uses the conditions of the query to read less (option ``pushFilters``).

    A class of its own, since Spark refuses a reader with this method unless its setting for push-down is on.
    """

    _pruning = Pruning()

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow the read by the conditions; returns all of them, so that Spark checks each row itself."""
        self._pruning = prune(filters)
        options = self._ranges.options
        if self._pruning.tags and not options.tags and options.sql is None:
            self._ranges.options = replace(options, tags=self._pruning.tags)
        return filters

    def _narrow(self, start: Offsets, stop: Offsets, cluster: Cluster, queues: QueueRoutes) -> tuple[Offsets, Offsets]:
        pruning = self._pruning
        chosen = QueueRoutes({queue: at for queue, at in queues.addresses.items() if pruning.wants(queue)})
        since, before = (
            {} if not pruning.by_time else cluster.since(chosen, dict.fromkeys(chosen.addresses, time))
            for time in pruning.times
        )
        first, last = ({queue: offsets[queue] for queue in chosen.addresses} for offsets in (start, stop))
        return pruning.narrow(first, last, since, before)
