"""The options of reads. Pure, as ``options``."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.spark.offsets import Boundary, Offsets
from rocketmq_py.spark.option_values import Parse, boolean, ending, natural, offsets, positive, topics
from rocketmq_py.spark.options_shared import SHARED, ClusterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(ClusterOptions):
    """Options of ``spark.read`` and ``spark.readStream``.

    :ivar subscribe: topics to read, separated by commas. Required.
    :ivar starting_offsets: ``earliest``, ``latest`` (not in a batch read) or JSON
        ``{topic: {broker: {queue: offset}}}`` naming every queue, where -2 is earliest and -1 latest. Default: earliest
        for a batch read, latest for a stream. A stream looks at it once; a restart goes on from its checkpoint.
    :ivar ending_offsets: ``latest`` (default) or JSON as above; batch read only.
    :ivar fail_on_data_loss: fail when messages asked for are no longer there (default true); otherwise warn and skip.
    :ivar max_offsets_per_trigger: at most so many messages in one micro-batch, shared out by the lag of the queues.
        Default: no limit. PySpark 4.2 or later.
    :ivar include_properties: add the column ``properties`` (default false).
    :ivar offset_lookup_interval_ms: ask the brokers for new ends at most once in so many milliseconds (default 100);
        Spark asks an idle stream's source every 12 ms.
    :ivar pulls_in_flight: pulls under way at once for one queue (default 32).
    """

    subscribe: tuple[str, ...]
    starting_offsets: Boundary | Offsets | None = None
    ending_offsets: Boundary | Offsets = Boundary.LATEST
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    include_properties: bool = False
    offset_lookup_interval_ms: int = 100
    pulls_in_flight: int = 32


READ: dict[str, Parse] = SHARED | {
    "subscribe": topics,
    "startingOffsets": offsets,
    "endingOffsets": ending,
    "failOnDataLoss": boolean,
    "maxOffsetsPerTrigger": positive,
    "includeProperties": boolean,
    "offsetLookupIntervalMs": natural,
    "pullsInFlight": positive,
}
