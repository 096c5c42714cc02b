"""Reading: partitions of a batch read, and on the executors the Arrow batches of any partition.

Knows PySpark's reader interface. What to read is decided in ``plan``, how in ``fetch`` and ``decode``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketmq_py.spark.cluster import Addresses, Cluster, Queues
from rocketmq_py.spark.decode import Decoder, Piece
from rocketmq_py.spark.fetch import Fetcher, FetchSettings
from rocketmq_py.spark.offsets import Boundary
from rocketmq_py.spark.options import ReadOptions
from rocketmq_py.spark.plan import DataLossError, Plan, QueueRange, batch_plan, resolve

_log = logging.getLogger(__name__)

_DECODE_BYTES = 2 * 1024 * 1024
"""Pull bodies are collected to so many bytes before they are decoded: one batch of many rows costs less than many."""


class QueuePartition(InputPartition):
    """A range of one queue, and where it is served as far as the driver knows."""

    def __init__(self, wanted: QueueRange, addresses: tuple[str, ...]) -> None:
        super().__init__(str(wanted.queue))
        self.range = wanted
        self.addresses = addresses


class QueueRanges:
    """Reads partitions; the part batch and streaming readers share. Travels to the executors.

    :param schema: the Arrow schema to fill.
    """

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self._schema = schema

    def cluster(self) -> Cluster:
        """A view of the cluster, to be closed by the caller."""
        options = self.options
        return Cluster(options.namesrv, options.timeout, options.num_retries, options.security)

    def partitions(self, plan: Plan, queues: Queues) -> list[InputPartition]:
        """The partitions of a plan: one for each queue that has something to read."""
        self.report(plan.losses)
        return [QueuePartition(r, queues.addresses.get(r.queue, Addresses()).all) for r in plan.ranges]

    def report(self, losses: Iterable[str]) -> None:
        """Fail or warn about messages that are gone, as ``failOnDataLoss`` says.

        :raises DataLossError: there are losses, and the query must fail for them.
        """
        if self.options.fail_on_data_loss and losses:
            raise DataLossError(losses)
        for loss in losses:
            _log.warning("%s; going on, since failOnDataLoss is false", loss)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition."""
        if not isinstance(partition, QueuePartition):  # Spark's stand-in for "no partition at all"
            return
        wanted, rows = partition.range, 0
        decoder = Decoder(self._schema, wanted.queue.broker_name)
        fetcher = Fetcher(wanted, partition.addresses, self._settings())
        try:
            for pieces in coalesce(fetcher.pieces(), _DECODE_BYTES):
                for batch in decoder.decode(pieces):
                    rows += batch.num_rows
                    yield batch
        finally:
            fetcher.close()
        if rows < wanted.size:
            self._check_retention(wanted)

    def _check_retention(self, wanted: QueueRange) -> None:
        """Fewer messages than offsets: fine for a compacted topic, but not if they were removed while being read."""
        cluster = self.cluster()
        try:
            queues = cluster.readable([wanted.queue.topic])
            earliest = cluster.earliest(queues).get(wanted.queue, 0)
        finally:
            cluster.close()
        if earliest > wanted.start:
            self.report([f"offsets of {wanted.queue} below {earliest} have been removed by retention while being read"])

    def _settings(self) -> FetchSettings:
        options = self.options
        return FetchSettings(
            namesrv=options.namesrv,
            timeout=options.timeout,
            retries=options.num_retries,
            in_flight=options.pulls_in_flight,
            fail_on_data_loss=options.fail_on_data_loss,
            security=options.security,
        )


def coalesce(pieces: Iterable[list[Piece]], size: int) -> Iterator[list[Piece]]:
    """Adjacent pieces collected into lists of at least ``size`` bytes; the last one may be shorter."""
    collected: list[Piece] = []
    weight = 0
    for more in pieces:
        collected += more
        weight += sum(len(piece.body) for piece in more)
        if weight >= size:
            yield collected
            collected, weight = [], 0
    if collected:
        yield collected


class BatchReader(DataSourceReader):
    """``spark.read.format("rocketmq")``: what lies between two offsets of each queue, fixed when it is planned."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self._ranges = QueueRanges(options, schema)

    def partitions(self) -> list[InputPartition]:
        """One partition for each queue with messages between the starting and the ending offsets."""
        options = self._ranges.options
        cluster = self._ranges.cluster()
        try:
            queues = cluster.readable(options.subscribe)
            bounds = cluster.bounds(queues)
        finally:
            cluster.close()
        start = resolve(options.starting_offsets or Boundary.EARLIEST, bounds, "startingOffsets")
        stop = resolve(options.ending_offsets, bounds, "endingOffsets")
        return self._ranges.partitions(batch_plan(start, stop, bounds), queues)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._ranges.read(partition)
