"""The batch reader, and the reading of any partition into Arrow record batches on the executors.

Module ``plan`` decides which offsets to read; ``fetch`` pulls them and ``decode`` decodes them.
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
"""Pull responses are collected up to this many bytes and decoded together: few large batches cost less than many."""

_AT_ONCE = 4
"""Number of ranges that a task fetches at the same time: brokers read the next ones while one is decoded."""


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

    def cluster(self) -> Cluster:
        """Return a new client of the cluster, which the caller must close."""
        options = self.options
        return Cluster(options.namesrv, options.timeout, options.num_retries, options.security)

    def partitions(self, plan: SourcePlan, queues: QueueRoutes, cluster: Cluster) -> list[InputPartition]:
        """Return the partitions for a plan: small ranges share one, and large ranges are split as the options say.

        :raises DataLossError: the plan has losses, and ``failOnDataLoss`` is true.
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
        """Raise an error or log warnings for losses, depending on ``failOnDataLoss``.

        :raises DataLossError: there are losses, and ``failOnDataLoss`` is true.
        """
        if self.options.fail_on_data_loss and losses:
            raise DataLossError(losses)
        for loss in losses:
            _log.warning("%s; going on, since failOnDataLoss is false", loss)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the Arrow record batches of a partition, range after range; small batches are merged.

        The next ranges are fetched while one is decoded.
        """
        together = members(partition)
        batches = self._read(together)
        if len(together) < 2:
            return batches
        from rocketmq_py.spark.decode.arrays import merged

        return merged(batches, _DECODE_BYTES)

    def _read(self, ranges: Sequence[QueuePartition]) -> Iterator[Any]:
        # imported here, since planners do not need Arrow and NumPy, which take long to import
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
        """Decode small ranges of one topic and broker into one record batch, or each by itself if that fails."""
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
        """Decode one range into record batches, and check that no messages are missing.

        :param more: the pull responses after those in ``fetched``.
        :raises DataLossError: messages are missing, and ``failOnDataLoss`` is true.
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
        """Report ``missing`` messages of an unfiltered range, unless the topic is compacted and may have gaps.

        :raises DataLossError: the topic is not compacted, and ``failOnDataLoss`` is true.
        """
        if not fetcher.is_compacted():
            offsets = f"offsets {wanted.start} to {wanted.stop - 1} of {wanted.queue}"
            self.report([f"{missing} of {offsets} hold no messages: a file of the broker's log is missing"])

    def _check_retention(self, short: Sequence[QueueRange]) -> None:
        """Report messages that retention may have removed from filtered ranges while they were read.

        :param short: ranges that returned fewer messages than offsets: filtered out, or removed.
        :raises DataLossError: retention removed offsets of a range, and ``failOnDataLoss`` is true.
        :raises NoRouteError: the earliest offset of a queue cannot be looked up.
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
        """Return the settings with which a task fetches its ranges."""
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
    """The pull responses of one range: all of them, or the first 2 MiB."""

    partition: QueuePartition
    fetcher: Fetcher
    chunks: Sequence[FetchedChunk]

    @property
    def weight(self) -> int:
        """The total size of the response bodies in bytes."""
        return sum(len(chunk.body) for chunk in self.chunks)

    def may_join(self, others: Sequence[Gathered], most: int) -> bool:
        """Return whether this range can be decoded into one record batch with ``others``.

        That requires the same topic and broker, and at most ``most`` bytes in total.

        :param others: at least one; all of one topic and broker.
        """
        queue, other = self.partition.range.queue, others[0].partition.range.queue
        is_alike = queue[:2] == other[:2]
        return is_alike and sum(one.weight for one in others) + self.weight <= most


@dataclass
class Task:
    """State that the ranges of one task share.

    :ivar short: filtered ranges that returned fewer messages than they have offsets.
    """

    settings: FetchSettings
    decoders: Decoders
    short: list[QueueRange] = field(default_factory=list)


def coalesce(chunks: Iterable[list[FetchedChunk]], size: int) -> Iterator[list[FetchedChunk]]:
    """Combine consecutive lists of chunks into lists of at least ``size`` bytes; the last one may have less."""
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
    """Reader of ``spark.read.format("rocketmq")``: planning fixes the start and end offset of each queue."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._ranges = QueueRanges(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Look up the start and end offset of each queue, and return the partitions that cover these messages."""
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
        """Return the start and end offsets to read: unchanged here, a hook for subclasses that read less."""
        return start, stop

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)


class PruningReader(BatchReader):
    """A :class:`BatchReader` that accepts pushed-down filters to read less (option ``pushFilters``).

    A separate class, since Spark refuses a reader that has ``pushFilters`` unless its setting for push-down is on.
    """

    _pruning = Pruning()

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow the read by ``filters``; return all of them, so that Spark also applies them to each row."""
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
