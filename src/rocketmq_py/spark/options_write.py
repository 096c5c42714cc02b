"""The options of writes. Pure, as ``options``."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.protocol.names import check_group, check_topic
from rocketmq_py.spark.option_values import Parse, positive
from rocketmq_py.spark.options_shared import SHARED, ClusterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(ClusterOptions):
    """Options of ``df.write`` and ``df.writeStream``; a row that is not bound to a queue is tried on another broker.

    :ivar topic: the topic of every row; without it each row needs a column ``topic``.
    :ivar producer_group: the group the messages are sent under (default ``spark_sink``).
    :ivar max_batch_bytes: rows of one queue are sent together up to so many bytes (default 262144).
    :ivar sends_in_flight: sends under way at once from one task (default 8).
    """

    topic: str | None = None
    producer_group: str = "spark_sink"
    max_batch_bytes: int = 256 * 1024
    sends_in_flight: int = 8


WRITE: dict[str, Parse] = SHARED | {
    "topic": check_topic,
    "producerGroup": check_group,
    "maxBatchBytes": positive,
    "sendsInFlight": positive,
}
